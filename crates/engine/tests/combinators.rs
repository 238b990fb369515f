//! Concurrent operations of one transaction, polled by a combinator that relies on the wakers that it hands out
//! itself.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::suspend::{OnMiss, PrefetchOnly, Seeded, Suspend};
use braiddb::worker::WorkerOptions;
use braiddb::{Database, Index, Options, Result, Serializable, Table, Txn};
use futures::StreamExt;
use futures::stream::{FuturesUnordered, iter};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

/// More than a transaction has in flight, and more than any block of futures that a combinator polls as one.
const AT_ONCE: u64 = 100;
/// Steps that are enough for any transaction here. A transaction that does not continue takes them all.
const STEPS_MAX: usize = 1_000_000;

#[derive(Clone, Copy)]
struct Tables {
    rows: Table<u64, u64>,
    /// The table with a secondary index.
    indexed: Table<u64, u64>,
    by_value: Index<u64, u64, u64>,
}

fn database() -> (Database, Tables) {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
    let (rows, indexed) = (db.table("rows").unwrap(), db.table("indexed").unwrap());
    let by_value = db.unique_index(indexed, "by value", |_, value| Some(value)).unwrap();
    let tx = db.begin().unwrap();
    for key in 0..AT_ONCE {
        tx.put(rows, key, key).unwrap();
        tx.put(indexed, key, key).unwrap();
    }
    tx.commit().unwrap();
    (db, Tables { rows, indexed, by_value })
}

/// Runs all of them at once, and polls each only when its own waker was called.
async fn each<F: Future<Output = Result<()>>>(operations: impl Iterator<Item = F>) -> Result<()> {
    let mut open: FuturesUnordered<F> = operations.collect();
    while let Some(result) = open.next().await {
        result?;
    }
    Ok(())
}

async fn every_kind(tx: &Txn, t: Tables) -> Result<()> {
    each((0..AT_ONCE).map(async |key| tx.get(t.rows, key).await.map(drop))).await?;
    each((0..AT_ONCE).map(async |key| tx.contains(t.rows, key).await.map(drop))).await?;
    each((0..AT_ONCE).map(async |key| tx.get_for_update(t.rows, key).await.map(drop))).await?;
    each((0..AT_ONCE).map(async |key| tx.get_for_update(t.rows, key).skip_locked().await.map(drop))).await?;
    each((0..AT_ONCE).map(async |key| tx.put(t.rows, key, key + 1).await)).await?;
    each((0..AT_ONCE).map(async |key| tx.update(t.rows, key, key + 2).await.map(drop))).await?;
    each((0..AT_ONCE).map(async |key| tx.delete(t.rows, key).await.map(drop))).await?;
    each((0..AT_ONCE).map(async |key| tx.insert(t.rows, key, key).await)).await?;
    each((0..AT_ONCE).map(async |key| tx.put(t.indexed, key, key + AT_ONCE).await)).await?;
    each((0..AT_ONCE).map(async |key| tx.get_by(t.by_value, key).await.map(drop))).await?;
    each((0..AT_ONCE).map(async |key| tx.get_many(t.rows, &[key, key + 1, key + 2]).await.map(drop))).await?;
    each((0..AT_ONCE).map(async |key| {
        let mut rows = tx.scan(t.rows, key..);
        while rows.next().await?.is_some() {}
        Ok(())
    }))
    .await?;
    each((0..AT_ONCE).map(async |key| {
        let mut rows = tx.scan_by(t.by_value, key..);
        while rows.next().await?.is_some() {}
        Ok(())
    }))
    .await
}

/// Steps one transaction to its end.
fn run<S: Suspend>(policy: S, body: impl AsyncFn(&Txn, Tables) -> Result<()> + 'static) {
    let (db, tables) = database();
    let ended = Rc::new(Cell::new(false));
    let of_end = ended.clone();
    let mut worker = db.worker_with(policy, WorkerOptions::default());
    let end = move |result: Result<()>| of_end.set(result.map(|()| true).unwrap());
    worker.spawn(async move |tx: &Txn<Serializable>| body(tx, tables).await, end).unwrap();
    for _ in 0..STEPS_MAX {
        if ended.get() {
            return;
        }
        worker.step();
    }
    panic!("the transaction does not go on");
}

#[test]
fn every_operation_calls_the_waker_that_it_was_polled_with() {
    run(OnMiss, every_kind);
    run(PrefetchOnly, every_kind);
    for seed in 0..20 {
        run(Seeded::new(seed), every_kind);
    }
}

#[test]
fn nested_combinators_that_drop_operations_half_way() {
    run(OnMiss, async |tx, t| {
        let sums = (0..AT_ONCE).map(async |key| -> Result<u64> {
            let values = (key..AT_ONCE).map(|key| tx.get(t.rows, key));
            let mut values = iter(values).buffer_unordered(50);
            let mut sum = 0;
            while let Some(value) = values.next().await {
                sum += value?.unwrap_or(0);
                if sum > 1000 {
                    break;
                }
            }
            Ok(sum)
        });
        let mut sums = iter(sums).buffer_unordered(40);
        let mut ended = 0;
        while let Some(sum) = sums.next().await {
            assert!(sum? > 0);
            ended += 1;
        }
        assert_eq!(ended, AT_ONCE);
        Ok(())
    });
}
