//! Which of the rows that it has read a transaction remembers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::suspend::{Never, OnMiss, PrefetchOnly, Suspend};
use crate::table::Table;
use crate::txn::Txn;
use crate::worker::WorkerOptions;
use crate::{Database, Options, Result, Serializable};

/// Enough for several runs of a scan.
const ROWS: u64 = 100;

fn remembers(tx: &Txn<Serializable>, table: Table<u64, u64>, key: u64) -> bool {
    let inner = table.inner(tx.state().database).unwrap();
    let point = tx.state().recent_point(inner, crate::index::Key::from_u64(key), crate::cc::Intent::Write);
    // The record that is found is the row's.
    point.inspect(|point| assert_eq!(inner.record(point.id), point.record)).is_some()
}

fn check<S: Suspend>(policy: S) -> Result<()> {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    let (rows, others): (Table<u64, u64>, Table<u64, u64>) = (db.table("rows")?, db.table("others")?);
    let mut worker = db.worker_with(policy, WorkerOptions::default());
    worker.run(async |tx| {
        for key in 0..ROWS {
            tx.put(rows, key, key).await?;
            tx.put(others, key, key).await?;
        }
        Ok(())
    })?;
    worker.run(async |tx| tx.delete(rows, 7).await)?;

    for is_reverse in [false, true] {
        worker.run(async |tx| {
            assert!((0..ROWS).all(|key| !remembers(tx, rows, key)), "what another transaction has read");
            let scan = tx.scan(rows, 5..=12);
            let mut scan = if is_reverse { scan.reverse() } else { scan };
            while let Some((key, _)) = scan.next().await? {
                assert!(remembers(tx, rows, key));
            }
            let known: Vec<u64> = (0..ROWS).filter(|key| remembers(tx, rows, *key)).collect();
            assert_eq!(known, [5, 6, 8, 9, 10, 11, 12], "the rows that are there");
            assert!((0..ROWS).all(|key| !remembers(tx, others, key)), "rows of another table");

            // A row read by its key is remembered beside the rows of the scan, whatever has been written meanwhile.
            assert_eq!(tx.get(others, 20).await?, Some(20));
            assert_eq!(tx.get(others, 1000).await?, None);
            tx.put(rows, 8, 80).await?;
            assert!(remembers(tx, others, 20) && remembers(tx, rows, 8) && !remembers(tx, others, 1000));

            // The rows that a multi-get has found, as many as there is room for.
            tx.get_many(others, &[30, 1000, 31]).await?;
            assert!(remembers(tx, others, 30) && remembers(tx, others, 31) && !remembers(tx, others, 1000));
            let keys: [u64; 40] = std::array::from_fn(|i| 50 + i as u64);
            tx.get_many(others, &keys).await?;
            assert!(!remembers(tx, others, 30) && remembers(tx, others, 51) && !remembers(tx, others, 89));

            // The memory of the scan is used again.
            drop(scan);
            let mut scan = tx.scan(others, 0..ROWS);
            scan.next().await?;
            assert!(!remembers(tx, rows, 9) && remembers(tx, others, 3));
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn rows_that_were_read_are_remembered_until_the_end() {
    check(Never).unwrap();
    check(PrefetchOnly).unwrap();
    check(OnMiss).unwrap();
}

/// Returns how many operations a transaction of reads and writes of the same rows counts.
fn operations_counted<S: Suspend>(policy: S) -> u32 {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
    let rows: Table<u64, u64> = db.table("rows").unwrap();
    let mut worker = db.worker_with(policy, WorkerOptions::default());
    let work = async |tx: &Txn<Serializable>| {
        for key in 0..10 {
            let value = tx.get(rows, key).await?.unwrap_or(0);
            tx.put(rows, key, value + 1).await?;
        }
        let mut scan = tx.scan(rows, 0..10);
        while let Some((key, value)) = scan.next().await? {
            tx.put(rows, key, value + 1).await?;
        }
        tx.get_many(rows, &[1, 2, 3]).await?;
        tx.delete(rows, 1).await?;
        Ok(tx.state().operations.get())
    };
    worker.run(work).unwrap();
    worker.run(work).unwrap()
}

#[test]
fn all_ways_to_run_count_the_same_work() {
    // Proves: Auto compares levels by work, so a transaction is the same work at each of them.
    let counted = operations_counted(Never);
    assert_eq!(operations_counted(PrefetchOnly), counted);
    assert_eq!(operations_counted(OnMiss), counted);
}
