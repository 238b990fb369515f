//! The fuzzer's call for keys and scans. Bytes become operations on a table with byte-string keys and a table with
//! tuple keys, which are compared with a `BTreeMap`. No input may make the engine panic or differ.

use braiddb::{AsKey, Database, Key, Options, Table, Transaction};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;

/// Takes numbers and byte strings from the input. At its end, it gives zeros.
struct Input<'b>(&'b [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first
    }

    /// Takes bytes. Short strings are used as they are. Long strings are made by repetition, so that layers of the
    /// index come about.
    fn bytes(&mut self) -> Vec<u8> {
        let length = usize::from(self.byte() % 12);
        let repeats = [1, 1, 1, 2, 3, 8, 40][usize::from(self.byte() % 7)];
        (0..length).map(|_| self.byte()).collect::<Vec<_>>().repeat(repeats)
    }

    fn pair(&mut self) -> (Vec<u8>, i32) {
        (self.bytes(), i32::from(self.byte() as i8) << (self.byte() % 3 * 8))
    }

    fn bound<K>(&mut self, key: impl FnOnce(&mut Self) -> K) -> Bound<K> {
        match self.byte() % 3 {
            0 => Bound::Unbounded,
            1 => Bound::Included(key(self)),
            _ => Bound::Excluded(key(self)),
        }
    }
}

/// A table, and its expected contents.
struct Checked<K> {
    table: Table<K, [u8]>,
    rows: BTreeMap<K, Vec<u8>>,
}

impl<K: Key + AsKey<K> + Ord + Clone + Debug> Checked<K> {
    fn new(db: &Database, name: &str) -> Self {
        Checked { table: db.table(name).expect("memory"), rows: BTreeMap::new() }
    }

    fn act(&mut self, tx: &Transaction, input: &mut Input<'_>, key: fn(&mut Input<'_>) -> K) {
        match input.byte() % 8 {
            0..=2 => {
                let (key, value) = (key(input), input.bytes());
                tx.put(self.table, &key, &value).expect("nothing is in its way");
                self.rows.insert(key, value);
            }
            3 => {
                let key = key(input);
                let found = tx.delete(self.table, &key).expect("nothing is in its way");
                assert_eq!(found, self.rows.remove(&key).is_some(), "{key:?}");
            }
            4 => {
                let key = key(input);
                let found = tx.get(self.table, &key).expect("it reads");
                assert_eq!(found, self.rows.get(&key).map(Vec::as_slice), "{key:?}");
            }
            5 => {
                let prefix: Vec<u8> = (0..input.byte() % 10).map(|_| input.byte()).collect();
                let encoded = |key: &K| {
                    let mut bytes = vec![];
                    key.encode(true, &mut bytes);
                    bytes
                };
                let mut found = tx.scan_prefix(self.table, &prefix);
                for (key, value) in self.rows.iter().filter(|(key, _)| encoded(key).starts_with(&prefix)) {
                    assert_eq!(found.next().expect("it reads"), Some((key.clone(), value.as_slice())));
                }
                assert_eq!(found.next().expect("it reads"), None, "after all with {prefix:?}");
            }
            _ => self.scan(tx, input, key),
        }
    }

    fn scan(&self, tx: &Transaction, input: &mut Input<'_>, key: fn(&mut Input<'_>) -> K) {
        let (from, to, reverse) = (input.bound(key), input.bound(key), input.byte() & 1 == 1);
        let is_inside = |key: &K| {
            let starts = match &from {
                Bound::Included(from) => key >= from,
                Bound::Excluded(from) => key > from,
                Bound::Unbounded => true,
            };
            starts
                && match &to {
                    Bound::Included(to) => key <= to,
                    Bound::Excluded(to) => key < to,
                    Bound::Unbounded => true,
                }
        };
        let mut expected: Vec<_> = self.rows.iter().filter(|(key, _)| is_inside(key)).collect();
        let mut found = tx.scan(self.table, (from.clone(), to.clone()));
        if reverse {
            expected.reverse();
            found = found.reverse();
        }
        for (key, value) in expected {
            assert_eq!(found.next().expect("it reads"), Some((key.clone(), value.as_slice())));
        }
        assert_eq!(found.next().expect("it reads"), None, "{from:?} {to:?} reverse: {reverse}");
    }
}

/// Runs the operations that `bytes` stand for.
pub fn run(bytes: &[u8]) {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() }).expect("memory");
    let mut strings: Checked<Vec<u8>> = Checked::new(&db, "strings");
    let mut pairs: Checked<(Vec<u8>, i32)> = Checked::new(&db, "pairs");
    let mut input = Input(bytes);
    while !input.0.is_empty() {
        let tx = db.begin().expect("room");
        for _ in 0..1 + input.byte() % 16 {
            match input.byte() & 1 {
                0 => strings.act(&tx, &mut input, |input| input.bytes()),
                _ => pairs.act(&tx, &mut input, |input| input.pair()),
            }
        }
        tx.commit().expect("nothing is in its way");
    }
}
