//! Compares random transactions with savepoints with a `BTreeMap`, two of them open at a time, and then what is on
//! disk.

use super::{
    AnyScheme, Arc, Database, Error, IndexKind, MemoryStorage, Result, Savepoint, SchemeName, Table,
};
use super::{TableOptions, Transaction, key, on_disk};
use braiddb::Index;
use std::collections::BTreeMap;

/// The number of keys of each of the two open transactions. They share the index's nodes, but no row.
const KEYS: u64 = 12;
const STEPS: usize = 400;
const SEEDS: u64 = 2;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % end
    }
}

/// A table with numbers as keys, and a table with long keys and indexes.
#[derive(Clone, Copy)]
struct Tables {
    numbers: Table<u64, u64>,
    indexed: Table<String, u64>,
    /// By the last digit of the value.
    by_digit: Index<u64, String, u64>,
    /// By the value, without rows whose value is 0.
    unique: Index<u64, String, u64>,
    is_ordered: bool,
}

impl Tables {
    fn new(db: &Database<AnyScheme>, kind: IndexKind) -> Tables {
        let options = TableOptions { index: kind, ..TableOptions::default() };
        let indexed = db.table_with("indexed", options).unwrap();
        Tables {
            numbers: db.table_with("numbers", options).unwrap(),
            indexed,
            by_digit: db.index(indexed, "by digit", |_, value| Some(value % 10)).unwrap(),
            unique: db.unique_index(indexed, "unique", |_, value| (value > 0).then_some(value)).unwrap(),
            is_ordered: kind.is_ordered(),
        }
    }
}

/// What a transaction must see, and what it has left for its commit.
#[derive(Clone, Default)]
struct State {
    numbers: BTreeMap<u64, u64>,
    indexed: BTreeMap<String, u64>,
    added: Vec<(u64, u64)>,
}

impl State {
    fn committed(mut self) -> State {
        for (key, amount) in self.added.drain(..) {
            *self.numbers.entry(key).or_default() += amount;
        }
        self
    }
}

/// An open transaction, on every second key.
struct Open {
    tx: Transaction<AnyScheme>,
    part: u64,
    state: State,
    /// The savepoints to which the transaction can be rolled back, with the state at each.
    points: Vec<(Savepoint, State)>,
    gone: Vec<Savepoint>,
}

impl Open {
    fn key(&self, random: &mut Random) -> u64 {
        2 * random.below(KEYS) + self.part
    }

    /// A value of an indexed row that the other transaction does not have.
    fn value(&self, random: &mut Random) -> u64 {
        match random.below(4) {
            0 => 0,
            _ => 2 * random.below(KEYS) + 2 + self.part,
        }
    }

    fn step(&mut self, t: Tables, random: &mut Random) -> Result<()> {
        let (tx, n) = (&self.tx, self.key(random));
        let there = self.state.numbers.get(&n).copied();
        match random.below(16) {
            0 | 1 => {
                let value = random.below(1000);
                tx.put(t.numbers, n, value)?;
                self.state.numbers.insert(n, value);
            }
            2 => match tx.insert(t.numbers, n, 7) {
                Err(Error::KeyExists) => assert!(there.is_some()),
                inserted => {
                    inserted?;
                    assert_eq!(self.state.numbers.insert(n, 7), None);
                }
            },
            3 => {
                assert_eq!(tx.update(t.numbers, n, 9)?, there.is_some());
                self.state.numbers.entry(n).and_modify(|value| *value = 9);
            }
            4 => assert_eq!(tx.delete(t.numbers, n)?, self.state.numbers.remove(&n).is_some()),
            5 => assert_eq!(tx.get(t.numbers, n)?, there),
            6 => assert_eq!(tx.get_for_update(t.numbers, n)?, there),
            7 => {
                tx.add(t.numbers, n, 1000)?;
                self.state.added.push((n, 1000));
            }
            8 | 9 => {
                let (key, value) = (key(n), self.value(random));
                let mut others = self.state.indexed.iter().filter(|(other, _)| **other != key);
                let is_taken = value > 0 && others.any(|(_, there)| *there == value);
                match tx.put(t.indexed, &key, value) {
                    Err(Error::UniqueViolation { .. }) => assert!(is_taken),
                    made => {
                        made?;
                        assert!(!is_taken);
                        self.state.indexed.insert(key, value);
                    }
                }
            }
            10 => {
                let key = key(n);
                assert_eq!(tx.delete(t.indexed, &key)?, self.state.indexed.remove(&key).is_some());
            }
            11 | 12 => self.points.push((tx.savepoint(), self.state.clone())),
            13 | 14 => self.go_back(random)?,
            _ => self.compare(t)?,
        }
        Ok(())
    }

    fn go_back(&mut self, random: &mut Random) -> Result<()> {
        for gone in &self.gone {
            assert!(matches!(self.tx.rollback_to(gone), Err(Error::NoSavepoint)));
        }
        if self.points.is_empty() {
            return Ok(());
        }
        let at = random.below(self.points.len() as u64) as usize;
        let (point, state) = self.points[at].clone();
        self.tx.rollback_to(&point)?;
        // Later savepoints that were made at the same point of the transaction stay valid.
        let later = self.points.drain(at + 1..).map(|(point, _)| point);
        self.gone.extend(later.filter(|later| self.tx.rollback_to(later).is_err()));
        self.state = state;
        Ok(())
    }

    /// Checks that the transaction sees its part of the tables as expected, in every way of reading.
    fn compare(&self, t: Tables) -> Result<()> {
        let (tx, part) = (&self.tx, self.part);
        for n in (0..KEYS).map(|n| 2 * n + part) {
            assert_eq!(tx.get(t.numbers, n)?, self.state.numbers.get(&n).copied(), "{n}");
            assert_eq!(tx.get(t.indexed, key(n))?, self.state.indexed.get(&key(n)).copied(), "{n}");
            let value = n + 2;
            let holder = self.state.indexed.iter().find(|(_, there)| **there == value);
            let found = tx.get_by(t.unique, value)?;
            assert_eq!(found, holder.map(|(key, value)| (key.clone(), *value)));
        }
        if t.is_ordered {
            let mut rows = tx.scan(t.numbers, 0..);
            let mut found = BTreeMap::new();
            while let Some((key, value)) = rows.next()? {
                found.extend((key % 2 == part).then_some((key, value)));
            }
            assert_eq!(found, self.state.numbers);
        }
        let mut rows = tx.scan_by(t.by_digit, 0..);
        let mut found = BTreeMap::new();
        while let Some((digit, key, value)) = rows.next()? {
            assert_eq!(digit, value % 10);
            let is_own = key.rsplit(' ').next().is_some_and(|n| n.parse::<u64>().unwrap() % 2 == part);
            found.extend(is_own.then_some((key, value)));
        }
        assert_eq!(found, self.state.indexed);
        Ok(())
    }
}

/// Returns true for an error of a transaction that must abort, or could not run because of another transaction.
fn gives_way(error: &Error) -> bool {
    matches!(error, Error::Conflict | Error::Deadlock(_) | Error::LockTimeout(_))
}

fn begin(db: &Database<AnyScheme>, part: u64, committed: &[State; 2]) -> Open {
    let state = committed[part as usize].clone();
    Open { tx: db.begin().unwrap(), part, state, points: Vec::new(), gone: Vec::new() }
}

/// `in_turn`: one transaction is open at a time.
fn run(scheme: SchemeName, kind: IndexKind, seed: u64, in_turn: bool) -> u64 {
    let disk = Arc::new(MemoryStorage::new(1 << 30));
    let db = on_disk(scheme, &disk);
    let t = Tables::new(&db, kind);
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut committed = [State::default(), State::default()];
    let mut open: [Option<Open>; 2] = [None, None];
    let mut commits = 0;
    for _ in 0..STEPS {
        let mut part = random.below(2);
        if in_turn && open[1 - part as usize].is_some() {
            part = 1 - part;
        }
        let place = &mut open[part as usize];
        let one = place.get_or_insert_with(|| begin(&db, part, &committed));
        let ends = random.below(20);
        if ends > 1 {
            match one.step(t, &mut random) {
                Ok(()) => continue,
                Err(error) => assert!(gives_way(&error), "{error}"),
            }
        }
        let Open { tx, state, .. } = place.take().expect("there");
        if ends != 0 {
            continue; // undone
        }
        match tx.commit() {
            Ok(()) => {
                committed[part as usize] = state.committed();
                commits += 1;
            }
            Err(error) => assert!(gives_way(&error), "{error}"),
        }
    }
    open = [None, None];
    drop(open);
    drop(db);
    for _ in 0..2 {
        let db = on_disk(scheme, &disk);
        let t = Tables::new(&db, kind);
        for part in [0, 1] {
            begin(&db, part, &committed).compare(t).unwrap();
        }
        if seed.is_multiple_of(2) {
            db.checkpoint().unwrap();
        }
    }
    commits
}

/// Proves that each of two transactions sees exactly what it has not undone, whatever the two do and undo, and that
/// the same is committed, and on disk.
pub fn check(scheme: SchemeName) {
    let in_turn = scheme == SchemeName::HStore; // the first transaction has all partitions
    let mut commits = 0;
    for &kind in IndexKind::ALL {
        for seed in 1..=SEEDS {
            let outcome = std::panic::catch_unwind(|| run(scheme, kind, seed, in_turn));
            commits += outcome.unwrap_or_else(|_| panic!("{scheme}, {}, seed {seed}", kind.name()));
        }
    }
    assert!(commits > 50, "{commits} commits");
}
