//! Scans of an index by a prefix and by bounds, compared with the rows sorted by their keys.

use braiddb::futures::OwnedIndexRows;
use braiddb::{Database, Index, Key, KeyAs, Options, Table, Value};
use proptest::prelude::*;
use std::fmt::Debug;
use std::ops::Bound;
use std::time::Duration;

/// A source of keys with the bytes that matter for escaping and for the ends of ranges.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        u64::from(super::random(&mut self.0)) % end
    }

    fn byte(&mut self) -> u8 {
        [0, 1, 254, 255][self.below(4) as usize]
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        [(); N].map(|()| self.byte())
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.below(4)).map(|_| self.byte()).collect()
    }

    fn text(&mut self) -> String {
        (0..self.below(4)).map(|_| ['\0', '\u{1}', 'é', '\u{10ffff}'][self.below(4) as usize]).collect()
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Random) -> T) -> Option<T> {
        (self.below(3) > 0).then(|| make(self))
    }
}

/// A key with an encoding of its own, which the engine does not know.
#[derive(Clone, Debug)]
struct Word(String);

impl Key for Word {
    const NAME: &'static str = "word";
    fn encode(&self, last: bool, out: &mut Vec<u8>) {
        self.0.encode(last, out);
    }
    fn decode(last: bool, bytes: &mut &[u8]) -> Option<Word> {
        Key::decode(last, bytes).map(Word)
    }
}

/// A key that stands for some keys of another type, but not for all.
#[derive(Clone, Debug)]
struct Even(u16);

impl KeyAs for Even {
    type As = u16;
    fn to_key(&self) -> u16 {
        self.0
    }
    fn from_key(key: u16) -> Option<Even> {
        key.is_multiple_of(2).then_some(Even(key))
    }
}

#[derive(Key, Clone, Debug)]
struct Seat {
    row: Vec<u8>,
    number: u8,
    name: String,
}

#[derive(Key, Clone, Debug)]
#[repr(u16)]
enum Shape {
    Nothing = 0,
    Name(String) = 1,
    Two { word: Word, text: Vec<u8> } = 255,
    Number(u16) = 256,
}

#[derive(Value, Clone, Debug)]
#[braid(name = "columns")]
struct Row {
    number: u16,
    text: String,
    array: [u8; 2],
    maybe: Option<Vec<u8>>,
    bytes: Vec<u8>,
}

fn encoded<I: Key>(key: &I) -> Vec<u8> {
    let mut bytes = vec![];
    key.encode(true, &mut bytes);
    bytes
}

/// Prefixes of the keys, and others that differ from them in one byte.
fn prefixes(random: &mut Random, keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all = vec![vec![], vec![0; 1024], vec![255; 1025], vec![1; 5000]];
    for key in keys {
        for end in 0..=key.len() {
            let mut prefix = key[..end].to_vec();
            all.push(prefix.clone());
            prefix.push(random.byte());
            all.push(prefix);
        }
    }
    all.extend((0..4).map(|_| random.bytes()));
    all
}

/// The contents of an index, in order: each index key, encoded with nothing behind it, and the key of its row.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn found<I: Key, V: Value + ?Sized>(mut rows: OwnedIndexRows<'_, I, Vec<u8>, V>) -> Entries {
    let mut found = vec![];
    while let Some((key, row, _)) = rows.next().unwrap() {
        found.push((encoded(&key), row));
    }
    found
}

/// Checks that a scan finds this, also with a limit, and backwards.
fn check_scan<'t, I: Key, V: Value + ?Sized>(
    scan: &dyn Fn() -> OwnedIndexRows<'t, I, Vec<u8>, V>,
    mut expected: Entries,
    of: &dyn Debug,
) {
    assert_eq!(found(scan()), expected, "{} {of:?}", I::type_name());
    assert_eq!(found(scan().limit(2)), expected[..expected.len().min(2)], "{} {of:?}", I::type_name());
    expected.reverse();
    assert_eq!(found(scan().reverse()), expected, "{} {of:?}, reversed", I::type_name());
}

/// Checks that the scans of an index by these prefixes, and with the keys as bounds, find what the sorted entries
/// have.
fn check_scans<I: Key + Debug, V: Value + ?Sized>(
    db: &Database,
    index: Index<I, Vec<u8>, V>,
    entries: &Entries,
    bounds: &[I],
    prefixes: &[Vec<u8>],
) {
    let tx = db.begin().unwrap();
    for prefix in prefixes {
        let expected = entries.iter().filter(|entry| entry.0.starts_with(prefix)).cloned().collect();
        check_scan(&|| tx.scan_by_prefix(index, prefix), expected, prefix);
    }
    let both = |key| [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded];
    for from in bounds.iter().flat_map(both) {
        for to in bounds.iter().flat_map(both) {
            let range = (from.map(encoded), to.map(encoded));
            let within = |entry: &&(Vec<u8>, Vec<u8>)| std::ops::RangeBounds::contains(&range, &entry.0);
            let expected = entries.iter().filter(within).cloned().collect();
            check_scan(&|| tx.scan_by::<I, _, V, &I>(index, (from, to)), expected, &(from, to));
        }
    }
}

/// Checks both kinds of index by a function, with keys that `make` makes.
fn check<I: Key + Debug>(seed: u64, make: impl Fn(&mut Random) -> I) {
    let (db, mut random) =
        (Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap(), Random(seed));
    let extract = |_: &Vec<u8>, mut value: &[u8]| I::decode(true, &mut value);
    let rows: Table<Vec<u8>, [u8]> = db.table("rows").unwrap();
    let by_key = db.index(rows, "by key", extract).unwrap();
    let unique_rows: Table<Vec<u8>, [u8]> = db.table("unique rows").unwrap();
    let by_unique_key = db.unique_index(unique_rows, "by key", extract).unwrap();
    let (mut entries, mut unique) = (Entries::new(), Entries::new());
    let tx = db.begin().unwrap();
    for number in 0..10 {
        let key = encoded(&make(&mut random));
        let mut row = random.bytes();
        row.push(number);
        tx.put(rows, &row, &key).unwrap();
        if unique.iter().all(|entry| entry.0 != key) {
            tx.put(unique_rows, &row, &key).unwrap();
            unique.push((key.clone(), row.clone()));
        }
        entries.push((key, row));
    }
    tx.commit().unwrap();
    entries.sort();
    unique.sort();
    let keys: Vec<Vec<u8>> = (0..3).map(|at| entries[at * 4].0.clone()).collect();
    let prefixes = prefixes(&mut random, &keys);
    let bounds: Vec<I> = (0..3).map(|_| make(&mut random)).collect();
    check_scans(&db, by_key, &entries, &bounds, &prefixes);
    check_scans(&db, by_unique_key, &unique, &bounds, &prefixes);
}

/// Checks both kinds of index by columns, in a table of these rows.
fn check_columns<I: Key + Debug>(rows: &[Row], seed: u64, columns: &[&str], of: impl Fn(&Row) -> I) {
    let (db, mut random) =
        (Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap(), Random(seed));
    let table: Table<Vec<u8>, Row> = db.table("rows").unwrap();
    let unique_table: Table<Vec<u8>, Row> = db.table("unique rows").unwrap();
    let by_columns: Index<I, _, _> = db.index_on(table, "by columns", columns).unwrap();
    let by_unique_columns: Index<I, _, _> = db.unique_index_on(unique_table, "by columns", columns).unwrap();
    let (mut entries, mut unique) = (Entries::new(), Entries::new());
    let tx = db.begin().unwrap();
    for (number, row) in (0..).zip(rows) {
        let (id, key) = ([random.byte(), number].to_vec(), encoded(&of(row)));
        tx.put(table, &id, row).unwrap();
        if unique.iter().all(|entry| entry.0 != key) {
            tx.put(unique_table, &id, row).unwrap();
            unique.push((key.clone(), id.clone()));
        }
        entries.push((key, id));
    }
    tx.commit().unwrap();
    entries.sort();
    unique.sort();
    let keys: Vec<Vec<u8>> = entries.iter().step_by(3).map(|entry| entry.0.clone()).collect();
    let prefixes = prefixes(&mut random, &keys);
    let bounds: Vec<I> = rows.iter().step_by(4).map(of).collect();
    check_scans(&db, by_columns, &entries, &bounds, &prefixes);
    check_scans(&db, by_unique_columns, &unique, &bounds, &prefixes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Proves that an index by a function finds the rows that a sorted list has, by a prefix and by bounds, forwards
    /// and backwards, unique or not, for keys of every kind.
    #[test]
    fn indexes_by_functions(seed in any::<u64>()) {
        check(seed, |r| r.byte());
        check(seed, |r| r.byte().is_multiple_of(2));
        check(seed, |r| i32::from_be_bytes(r.array()));
        check(seed, |r| u64::from_be_bytes(r.array()));
        check(seed, |r| u128::from_be_bytes(r.array()));
        check(seed, |r| r.text().chars().next().unwrap_or('x'));
        check(seed, |r| Duration::from_secs(u64::from_be_bytes(r.array())));
        check(seed, Random::text);
        check(seed, Random::bytes);
        check(seed, Random::array::<0>);
        check(seed, Random::array::<3>);
        check(seed, |r| [u16::from_be_bytes(r.array()), u16::from(r.byte())]);
        check(seed, |r| [r.text(), r.text()]);
        check(seed, |r| r.maybe(Random::text));
        check(seed, |r| r.maybe(Random::byte));
        check(seed, |r| (r.text(), r.byte()));
        check(seed, |r| (r.byte(), r.text()));
        check(seed, |r| (r.bytes(), r.bytes()));
        check(seed, |r| (r.maybe(Random::bytes), u16::from(r.byte()), (r.text(), r.maybe(Random::bytes))));
    }

    /// Proves the same of a program's own types: derived, standing for others, and with encodings that the engine does
    /// not know.
    #[test]
    fn indexes_by_keys_of_a_program(seed in any::<u64>()) {
        check(seed, |r| Even(u16::from_be_bytes(r.array()) & !1));
        check(seed, |r| (Even(u16::from(r.byte()) & !1), r.bytes()));
        check(seed, |r| Seat { row: r.bytes(), number: r.byte(), name: r.text() });
        check(seed, |r| match r.below(4) {
            0 => Shape::Nothing,
            1 => Shape::Name(r.text()),
            2 => Shape::Two { word: Word(r.text()), text: r.bytes() },
            _ => Shape::Number(u16::from_be_bytes(r.array())),
        });
        check(seed, |r| Word(r.text()));
        check(seed, |r| r.maybe(|r| Word(r.text())));
        check(seed, |r| (Word(r.text()), r.byte()));
        check(seed, |r| (r.bytes(), Word(r.text())));
        check(seed, |r| [Word(r.text()), Word(r.text())]);
    }

    /// Proves the same of indexes by columns.
    #[test]
    fn indexes_by_columns(seed in any::<u64>()) {
        let mut random = Random(seed);
        let row = |r: &mut Random| Row {
            number: u16::from_be_bytes(r.array()),
            text: r.text(),
            array: r.array(),
            maybe: r.maybe(Random::bytes),
            bytes: r.bytes(),
        };
        let rows: Vec<Row> = (0..12).map(|_| row(&mut random)).collect();
        check_columns(&rows, seed, &["number"], |row| row.number);
        check_columns(&rows, seed, &["text"], |row| row.text.clone());
        check_columns(&rows, seed, &["array"], |row| row.array);
        check_columns(&rows, seed, &["maybe"], |row| row.maybe.clone());
        check_columns(&rows, seed, &["bytes"], |row| row.bytes.clone());
        check_columns(&rows, seed, &["bytes", "number"], |row| (row.bytes.clone(), row.number));
        check_columns(&rows, seed, &["array", "bytes", "text"], |row| (row.array, row.bytes.clone(), row.text.clone()));
        check_columns(&rows, seed, &["text", "maybe"], |row| (row.text.clone(), row.maybe.clone()));
    }
}

/// Proves that the first bytes of a string find exactly the strings that begin with them, also if some have NULs.
#[test]
fn strings_with_nuls() {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
    let names: Table<u64, str> = db.table("names").unwrap();
    let by_name = db.index(names, "by name", |_, name: &str| Some(name.to_string())).unwrap();
    let tx = db.begin().unwrap();
    for (key, name) in [(1, "a"), (2, "a\0b"), (3, "ab")] {
        tx.put(names, key, name).unwrap();
    }
    for (prefix, expected) in
        [("a", &[1, 2, 3][..]), ("a\0", &[2]), ("a\0b", &[2]), ("a\0\0", &[]), ("ab", &[3])]
    {
        let (mut rows, mut found) = (tx.scan_by_prefix(by_name, prefix.as_bytes()), vec![]);
        while let Some((_, key, _)) = rows.next().unwrap() {
            found.push(key);
        }
        assert_eq!(found, expected, "{prefix:?}");
    }
}
