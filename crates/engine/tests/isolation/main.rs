//! What transactions may see of each other: row locks, untracked reads, declared readers, phantoms, and waits that
//! end. Each test states a promise, under both schemes if both make it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod locks;
mod phantoms;
mod queues;
mod read_only;
mod untracked;
mod waits;

use braiddb::metrics::SystemClock;
use braiddb::{ConcurrencyControl, Database, Options, Result, Table, Txn};
use std::sync::Arc;

/// Makes a database without threads of its own. A transaction that meets conflicts is run again without limit.
fn database<C: ConcurrencyControl>() -> Database<C> {
    let options = Options { workers: 0, retries_max: u32::MAX, ..Options::default() };
    Database::in_memory_with(options, Arc::new(SystemClock::default())).unwrap()
}

/// Makes the table `t` with these rows.
fn table_of<C: ConcurrencyControl>(db: &Database<C>, rows: &[(u64, u64)]) -> Table<u64, u64> {
    let table = db.table("t").unwrap();
    put(db, table, rows);
    table
}

/// Sets these rows in a separate transaction.
fn put<C: ConcurrencyControl>(db: &Database<C>, table: Table<u64, u64>, rows: &[(u64, u64)]) {
    let tx = db.begin().unwrap();
    for (key, value) in rows {
        tx.put(table, *key, *value).unwrap();
    }
    tx.commit().unwrap();
}

/// Returns a row's value, as a transaction sees it that begins now.
fn value<C: ConcurrencyControl>(db: &Database<C>, table: Table<u64, u64>, key: u64) -> Option<u64> {
    db.begin().unwrap().get(table, key).unwrap()
}

/// Two transactions each read, by `read`, the row that the other then writes. Returns how many of them commit.
fn skew<C: ConcurrencyControl>(
    rows: &[(u64, u64)],
    read: impl AsyncFn(&Txn<C>, Table<u64, u64>, u64) -> Result<()>,
) -> usize {
    let db = database::<C>();
    let table = table_of(&db, rows);
    let (a, b) = (db.begin().unwrap(), db.begin().unwrap());
    a.with(async |tx| read(tx, table, 1).await).unwrap();
    b.with(async |tx| read(tx, table, 2).await).unwrap();
    a.put(table, 2, 20).unwrap();
    b.put(table, 1, 10).unwrap();
    [a.commit(), b.commit()].iter().filter(|result| result.is_ok()).count()
}
