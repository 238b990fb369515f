//! What tables that come and go leave behind when transactions stay open.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes as _;
use braiddb::metrics::SystemClock;
use braiddb::{
    ConcurrencyControl, Database, Error, Front, IndexKind, MultiVersion, Options, Serializable, Silo,
    Snapshot, Table, TableOptions, Transaction,
};
use std::sync::Arc;

const ROWS: u64 = 100;
/// Records that are waiting for their turn beside those that are rows or seen by a snapshot.
const WAITING: u64 = 1500;

fn in_memory<C: ConcurrencyControl>() -> Database<C> {
    Database::in_memory_with(Options { workers: 0, ..Options::default() }, Arc::new(SystemClock::default()))
        .unwrap()
}

/// A queue with two secondary indexes, from which the first row is taken and to which one is added, beside open transactions that have
/// read another table; some of them have begun later than others, and some end in between.
fn queue_beside_snapshots<C: ConcurrencyControl>(index: IndexKind, front: Front, snapshots: u64) {
    let db = in_memory::<C>();
    let other: Table<u64, u64> = db.table("other").unwrap();
    let queue: Table<u64, u64> = db.table_with("queue", TableOptions { index, front }).unwrap();
    db.index(queue, "by rest", |key: &u64, _: u64| Some(key % 7)).unwrap();
    db.unique_index(queue, "by double", |key: &u64, _: u64| Some(2 * key)).unwrap();
    db.transact(|tx| tx.put(other, 1, 1)).unwrap();
    let mut worker = db.worker();
    let open_one = || {
        let open = db.begin().unwrap();
        assert_eq!(open.get(other, 1).unwrap(), Some(1));
        open
    };
    let mut open: Vec<Transaction<C>> = (0..snapshots)
        .map(|value| {
            worker.run(async |tx| tx.put(other, 2, value).await).unwrap();
            open_one()
        })
        .collect();
    for key in 0..ROWS {
        worker.run(async |tx| tx.put(queue, key, key).await).unwrap();
    }
    let entries = 3 * ROWS;
    let mut most = 0;
    for key in 0..4000 {
        worker
            .run(async |tx| {
                match index.is_ordered() {
                    true => assert_eq!(tx.pop_first(queue).await?, Some((key, key))),
                    false => assert!(tx.delete(queue, key).await?),
                }
                tx.put(queue, key + ROWS, key + ROWS).await
            })
            .unwrap();
        most = most.max(db.statistics().memory.records);
        if key % 500 == 0 && open.len() > 2 {
            open.swap_remove(open.len() / 2).commit().unwrap();
        }
    }
    assert!(most <= 2 * entries + WAITING, "{most} records under {index:?} beside {snapshots} snapshots");
    // One that sees the rows of now.
    let late = open_one();
    for key in 4000..8000 {
        let take = async |tx: &braiddb::Txn<C>| {
            assert!(tx.delete(queue, key).await?);
            tx.put(queue, key + ROWS, key + ROWS).await
        };
        worker.run(async |tx| take(tx).await).unwrap();
    }
    for key in 4000 - 1..4001 + ROWS {
        let is_seen = (4000..4000 + ROWS).contains(&key);
        assert_eq!(late.get(queue, key).unwrap(), is_seen.then_some(key));
    }
    let most = db.statistics().memory.records;
    assert!(most <= 2 * entries + WAITING, "{most} records under {index:?} beside {snapshots} snapshots");
}

/// Proves that under all kinds of index, with a front and without one, rows and their entries in secondary indexes go that no open
/// transaction sees, however old the oldest is, and that those stay that one sees.
fn queues_stay_short<C: ConcurrencyControl>() {
    for &index in IndexKind::ALL {
        queue_beside_snapshots::<C>(index, Front::None, 1);
    }
    queue_beside_snapshots::<C>(IndexKind::default(), Front::Hash, 10);
    queue_beside_snapshots::<C>(IndexKind::BTree, Front::Hash, 1000);
}

#[test]
fn queues_stay_short_under_serializable() {
    queues_stay_short::<Serializable>();
}

#[test]
fn queues_stay_short_under_snapshot() {
    queues_stay_short::<Snapshot>();
}

#[test]
fn queues_stay_short_under_multi_version() {
    queues_stay_short::<MultiVersion>();
}

/// A queue whose rows are taken by workers that are gone after some transactions, beside a transaction that stays open if `is_beside`.
fn queue_of_short_lived_workers<C: ConcurrencyControl>(is_beside: bool) {
    let db = in_memory::<C>();
    let [other, queue]: [Table<u64, u64>; 2] = ["other", "queue"].map(|name| db.table(name).unwrap());
    db.transact(|tx| (0..ROWS).try_for_each(|key| tx.put(queue, key, key))).unwrap();
    let open = is_beside.then(|| db.begin().unwrap());
    if let Some(open) = &open {
        assert_eq!(open.get(other, 1).unwrap(), None);
    }
    for first in (0..8000).step_by(20) {
        let mut worker = db.worker();
        for key in first..first + 20 {
            let taken = worker.run(async |tx| {
                let taken = tx.pop_first(queue).await?;
                tx.put(queue, key + ROWS, key + ROWS).await?;
                Ok(taken)
            });
            assert_eq!(taken.unwrap(), Some((key, key)));
        }
    }
    let records = db.statistics().memory.records;
    assert!(records <= 2 * ROWS + WAITING, "{records} records, beside an open transaction: {is_beside}");
}

/// Proves that what workers leave is cleaned up by those that come after them, also if none of them lives for long.
#[test]
fn short_lived_workers_clean_up() {
    queue_of_short_lived_workers::<Silo>(false);
    for is_beside in [false, true] {
        queue_of_short_lived_workers::<Serializable>(is_beside);
        queue_of_short_lived_workers::<Snapshot>(is_beside);
        queue_of_short_lived_workers::<MultiVersion>(is_beside);
    }
}

/// Proves that a transaction does not write a key that others have inserted and deleted since it began, although the key
/// is gone, and that the next one does.
fn keys_that_came_and_went<C: ConcurrencyControl>() {
    let db = in_memory::<C>();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let (early, other) = (db.begin().unwrap(), db.begin().unwrap());
    let mut worker = db.worker();
    worker.run(async |tx| tx.put(t, 1, 1).await).unwrap();
    worker.run(async |tx| tx.delete(t, 1).await.map(drop)).unwrap();
    for value in 0..2000 {
        worker.run(async |tx| tx.put(t, 2, value).await).unwrap();
    }
    assert_eq!(db.statistics().memory.records, 1, "the key is gone");
    let written = early.put(t, 1, 2).and_then(|()| early.commit());
    assert!(matches!(written, Err(Error::Conflict)), "{written:?}");
    other.put(t, 3, 3).unwrap();
    other.commit().unwrap();
    db.transact(|tx| tx.insert(t, 1, 3)).unwrap();
}

#[test]
fn keys_that_came_and_went_are_noticed() {
    keys_that_came_and_went::<Serializable>();
    keys_that_came_and_went::<Snapshot>();
    keys_that_came_and_went::<MultiVersion>();
}
