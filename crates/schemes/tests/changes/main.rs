//! Following the commits of a database: a consumer that applies its changes has what the database has, and never has
//! what a crash takes back.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod limits;
mod lossy;
mod positions;
mod reading;
mod replica;
mod tables;

use braiddb::changes::{ChangeKind, ChangePosition, ChangedTransaction, Changes};
use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, Storage};
use braiddb::{AnyScheme, Database, Durability, Options, Plain, Result, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

fn options() -> Options {
    Options { workers: 0, log_segment_bytes: 1 << 14, ..Options::default() }
}

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new(1 << 28))
}

fn open_as(storage: &Arc<dyn Storage>, options: Options) -> Result<Database<AnyScheme>> {
    Database::open_with(storage.clone(), options, Arc::new(SystemClock::default()), &mut |_| {})
}

fn open(storage: &Arc<dyn Storage>) -> Database<AnyScheme> {
    open_as(storage, options()).unwrap()
}

/// Opens a database that does not wait for the disk at each commit.
fn open_async(storage: &Arc<dyn Storage>) -> Database<AnyScheme> {
    open_as(storage, Options { durability: Durability::Async, ..options() }).unwrap()
}

fn put(db: &Database<AnyScheme>, table: Table<u64, u64>, key: u64, value: u64) {
    db.transact(|tx| tx.put(table, key, value)).unwrap();
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A consumer's state: its tables by number, and its position.
#[derive(Clone, Debug, PartialEq)]
struct Replica {
    tables: BTreeMap<u32, (String, Rows)>,
    position: ChangePosition,
    /// The time at which each row was last written.
    times: BTreeMap<(u32, Vec<u8>), u64>,
}

impl Replica {
    /// Makes an empty replica at the beginning of a new database.
    fn from_oldest(db: &Database<AnyScheme>) -> Replica {
        Replica::new(db.oldest_change_position().unwrap())
    }

    /// Makes an empty replica at a position.
    fn new(position: ChangePosition) -> Replica {
        Replica { tables: BTreeMap::new(), position, times: BTreeMap::new() }
    }

    fn apply(&mut self, transaction: &ChangedTransaction) {
        assert!(transaction.position() > self.position, "readers go forward");
        for change in transaction {
            let (number, name) = (change.table.number, &change.table.name);
            let (known, rows) = self.tables.entry(number).or_insert_with(|| {
                assert!(
                    !matches!(change.kind, ChangeKind::Put { .. }),
                    "a table is described before its rows"
                );
                (name.clone(), Rows::new())
            });
            if let ChangeKind::Put { key, .. } | ChangeKind::Delete { key } = change.kind {
                let at = transaction.commit_timestamp().unwrap();
                let before = self.times.insert((number, key.to_vec()), at);
                assert!(before.is_none_or(|before| before <= at), "commits of a row come in their order");
            }
            match change.kind {
                ChangeKind::Put { key, value } => drop(rows.insert(key.to_vec(), value.to_vec())),
                ChangeKind::Delete { key } => drop(rows.remove(key)),
                ChangeKind::Described => known.clone_from(name),
                ChangeKind::Cleared => rows.clear(),
                ChangeKind::Dropped => drop(self.tables.remove(&number)),
                other => panic!("{other:?}"),
            }
        }
        self.position = transaction.position();
    }

    /// Reads with a new reader until it has all that has committed by now.
    fn catch_up(&mut self, db: &Database<AnyScheme>) -> Result<()> {
        let mut changes = db.changes(self.position)?;
        self.catch_up_with(db, &mut changes)
    }

    fn catch_up_with(&mut self, db: &Database<AnyScheme>, changes: &mut Changes) -> Result<()> {
        let reached = db.change_position()?;
        while let Some(transaction) = changes.next_before(reached)? {
            self.apply(&transaction);
        }
        assert!(changes.position() >= reached);
        self.position = changes.position();
        Ok(())
    }

    /// Checks that the replica has what the database has.
    fn check(&self, db: &Database<AnyScheme>) {
        let mut found: BTreeMap<String, Rows> = BTreeMap::new();
        for (name, rows) in self.tables.values() {
            assert!(found.insert(name.clone(), rows.clone()).is_none(), "two tables {name:?}");
        }
        assert_eq!(found, contents(db));
    }
}

/// Returns all rows of all tables.
fn contents(db: &Database<AnyScheme>) -> BTreeMap<String, Rows> {
    let rows = |name: &str| {
        let raw = db.raw_table(name).unwrap();
        db.transact(|tx| {
            let (mut rows, mut found) = (raw.scan(tx), Rows::new());
            while let Some((key, value)) = rows.next()? {
                found.insert(key, value.to_vec());
            }
            Ok(found)
        })
        .unwrap()
    };
    db.tables().into_iter().map(|table| (table.name.clone(), rows(&table.name))).collect()
}

/// Decides by seed what happens to rows and tables.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % below
    }
}

/// Proves that transactions arrive one after the other, with their changes in the order in which they were made, and
/// typed.
#[test]
fn transactions_come_as_they_were_committed() {
    let storage = memory();
    let db: Database<AnyScheme> = open(&storage);
    let mut changes = db.changes(db.oldest_change_position().unwrap()).unwrap();
    assert!(changes.try_next().unwrap().is_none());
    let names: Table<u64, str> = db.table("names").unwrap();
    db.transact(|tx| {
        tx.put(names, 1, "Ada")?;
        tx.put(names, 2, "Eve")?;
        tx.put(names, 2, "Eva")
    })
    .unwrap();
    db.transact(|tx| tx.delete(names, 1)).unwrap();
    let all: Vec<_> = (0..3).map(|_| changes.wait_next().unwrap().unwrap()).collect();
    assert!(changes.try_next().unwrap().is_none());
    let kinds: Vec<_> = all.iter().flat_map(|all| all.changes().map(|change| change.kind)).collect();
    assert_eq!(kinds[0], ChangeKind::Described);
    assert_eq!(all[0].commit_timestamp(), None);
    assert!(all[1].commit_timestamp() < all[2].commit_timestamp());
    let table = all[0].changes().next().unwrap().table;
    assert_eq!((&*table.name, &*table.key_type, &*table.value_type), ("names", "u64", "string"));
    let decoded = |at: usize| -> Vec<_> {
        all[at].changes().map(|change| change.decode::<u64, str>().unwrap().unwrap()).collect()
    };
    assert_eq!(decoded(1), [(1, Some("Ada")), (2, Some("Eva"))], "each row once, as it is in the end");
    assert_eq!(decoded(2), [(1, None)]);
    let wrong = all[1].changes().next().unwrap().decode::<u64, u64>();
    assert!(matches!(wrong, Err(braiddb::Error::TableMismatch { .. })), "{wrong:?}");
}

/// Proves that values that are read in place are aligned, whatever keys are beside them.
#[test]
fn values_are_aligned() {
    let storage = memory();
    let db: Database<AnyScheme> = open(&storage);
    let table: Table<String, Plain<[u64; 2]>> = db.table("t").unwrap();
    let key = |length: u64| "k".repeat(length as usize);
    db.transact(|tx| (0..20).try_for_each(|length| tx.put(table, key(length), &[length, !length]))).unwrap();
    let mut changes = db.changes(db.oldest_change_position().unwrap()).unwrap();
    changes.wait_next().unwrap().unwrap();
    let transaction = changes.wait_next().unwrap().unwrap();
    assert_eq!(transaction.changes().count(), 20);
    for change in &transaction {
        let (key, value) = change.decode::<String, Plain<[u64; 2]>>().unwrap().unwrap();
        let length = key.len() as u64;
        assert_eq!(value, Some(&[length, !length]));
    }
}
