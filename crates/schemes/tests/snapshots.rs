//! What rows that are inserted and deleted leave behind while transactions stay open.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::{
    AnyScheme, Database, Error, Front, IndexKind, Options, Result, SchemeName, Table, TableOptions,
    Transaction, Txn,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const ROWS: u64 = 100;
/// The number of records that wait to be freed, in addition to records that are rows or that a snapshot sees.
const WAITING: u64 = 1500;

fn in_memory(scheme: SchemeName) -> Database<AnyScheme> {
    Database::in_memory_with(
        under(scheme, Options { workers: 0, ..Options::default() }),
        Arc::new(SystemClock::default()),
    )
    .unwrap()
}

/// A queue with two secondary indexes. The first row is taken and a row is added, again and again, beside open
/// transactions that have read another table. Some of these have begun later than others, and some end in between.
fn queue_beside_snapshots(scheme: SchemeName, index: IndexKind, front: Front, snapshots: u64) {
    let db = in_memory(scheme);
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
    let mut open: Vec<Transaction<AnyScheme>> = (0..snapshots)
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
    // A transaction that sees the present rows.
    let late = open_one();
    for key in 4000..8000 {
        let take = async |tx: &braiddb::Txn<AnyScheme>| {
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

/// Proves, for all kinds of index, with and without a front, that rows and their index entries are freed if no open
/// transaction sees them, however old the oldest transaction is, and that they stay if one does.
fn queues_stay_short(scheme: SchemeName) {
    for &index in IndexKind::ALL {
        queue_beside_snapshots(scheme, index, Front::None, 1);
    }
    queue_beside_snapshots(scheme, IndexKind::default(), Front::Hash, 10);
    queue_beside_snapshots(scheme, IndexKind::BTree, Front::Hash, 1000);
}

#[test]
fn queues_stay_short_under_serializable() {
    queues_stay_short(SchemeName::Serializable);
}

#[test]
fn queues_stay_short_under_snapshot() {
    queues_stay_short(SchemeName::Snapshot);
}

#[test]
fn queues_stay_short_under_multi_version() {
    queues_stay_short(SchemeName::MultiVersion);
}

/// A queue whose rows are taken by workers that end after some transactions. `is_beside`: beside a transaction that
/// stays open.
fn queue_of_short_lived_workers(scheme: SchemeName, is_beside: bool) {
    let db = in_memory(scheme);
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

/// Proves that later workers clean up what earlier workers leave, even if no worker lives long.
#[test]
fn short_lived_workers_clean_up() {
    queue_of_short_lived_workers(SchemeName::Silo, false);
    for is_beside in [false, true] {
        queue_of_short_lived_workers(SchemeName::Serializable, is_beside);
        queue_of_short_lived_workers(SchemeName::Snapshot, is_beside);
        queue_of_short_lived_workers(SchemeName::MultiVersion, is_beside);
    }
}

/// Proves that a transaction does not write a key that others have inserted and deleted since the transaction began,
/// although the key is gone, and that the next transaction does.
fn keys_that_came_and_went(scheme: SchemeName) {
    let db = in_memory(scheme);
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
    keys_that_came_and_went(SchemeName::Serializable);
    keys_that_came_and_went(SchemeName::Snapshot);
    keys_that_came_and_went(SchemeName::MultiVersion);
}

/// Makes random changes at both ends of a table whose ends are dead, and within it, in transactions of one thread,
/// beside snapshots. Proves that each scan matches a model, from each end, in each snapshot and after each change.
fn ends_by_a_model(scheme: SchemeName, seed: u64, index: IndexKind) {
    const MIDDLE: u64 = 1 << 40;
    let db = in_memory(scheme);
    let t: Table<u64, u64> = db.table_with("t", TableOptions { index, front: Front::None }).unwrap();
    let mut random = seed;
    let mut below = |n: u64| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) % n
    };
    let mut model: BTreeMap<u64, u64> = (0..100).map(|i| (MIDDLE + i, i)).collect();
    db.transact(|tx| model.iter().try_for_each(|(key, value)| tx.put(t, *key, *value))).unwrap();
    let mut snapshots: Vec<(Transaction<AnyScheme>, BTreeMap<u64, u64>)> = Vec::new();
    let mut worker = db.worker();
    let scan = async |tx: &Txn<AnyScheme>, is_reverse: bool, limit: usize| -> Result<Vec<(u64, u64)>> {
        let (mut rows, mut seen) = (tx.scan_all(t), Vec::new());
        if is_reverse {
            rows = rows.reverse();
        }
        let mut rows = rows.limit(limit);
        while let Some(row) = rows.next().await? {
            seen.push(row);
        }
        Ok(seen)
    };
    let in_model = |model: &BTreeMap<u64, u64>, is_reverse: bool, limit: usize| -> Vec<(u64, u64)> {
        let rows = model.iter().map(|(key, value)| (*key, *value));
        if is_reverse { rows.rev().take(limit).collect() } else { rows.take(limit).collect() }
    };
    for step in 0..3000 {
        if step % 40 == 0 {
            if snapshots.len() > 5 {
                snapshots.swap_remove(below(5) as usize);
            }
            let open = db.begin().unwrap();
            assert_eq!(open.get(t, 0).unwrap(), None);
            snapshots.push((open, model.clone()));
        }
        let (action, at, fails, limit) = (below(16), below(400), below(10) == 0, 1 + below(30) as usize);
        let mut after = model.clone();
        let changed = worker.run(async |tx| {
            let is_reverse = action % 2 == 0;
            match action {
                0..10 => {
                    let taken = if is_reverse { tx.pop_last(t).await? } else { tx.pop_first(t).await? };
                    let right = if is_reverse { after.pop_last() } else { after.pop_first() };
                    assert_eq!(taken, right);
                    let key = match is_reverse {
                        true => after.first_key_value().map_or(MIDDLE, |(key, _)| key - 1),
                        false => after.last_key_value().map_or(MIDDLE, |(key, _)| key + 1),
                    };
                    tx.put(t, key, step).await?;
                    after.insert(key, step);
                }
                // A key among those that were taken, or among those that were not.
                10..13 => {
                    let key = MIDDLE + at - 200;
                    tx.put(t, key, step).await?;
                    after.insert(key, step);
                }
                _ => {
                    let key = MIDDLE + at - 200;
                    assert_eq!(tx.delete(t, key).await?, after.remove(&key).is_some());
                }
            }
            assert_eq!(scan(tx, is_reverse, limit).await?, in_model(&after, is_reverse, limit), "its own");
            if fails { Err(Error::user("given up")) } else { Ok(()) }
        });
        match changed {
            Ok(()) => model = after,
            Err(error) => assert!(fails, "{error}"),
        }
        for is_reverse in [false, true] {
            let seen = worker.run(async |tx| scan(tx, is_reverse, limit).await).unwrap();
            assert_eq!(seen, in_model(&model, is_reverse, limit), "step {step}, {index:?}");
            let (open, model) = &snapshots[below(snapshots.len() as u64) as usize];
            let seen = open.with(async |tx| scan(tx, is_reverse, usize::MAX).await).unwrap();
            assert_eq!(seen, in_model(model, is_reverse, usize::MAX), "a snapshot, step {step}, {index:?}");
        }
    }
}

/// Proves that a transaction never skips dead rows at the ends of a table that it sees, and never skips rows that come
/// to life and that it then sees.
#[test]
fn ends_are_as_in_a_model() {
    for seed in 1..4 {
        for index in IndexKind::ordered() {
            ends_by_a_model(SchemeName::Serializable, seed, index);
        }
        ends_by_a_model(SchemeName::Snapshot, seed, IndexKind::default());
        ends_by_a_model(SchemeName::MultiVersion, seed, IndexKind::default());
    }
}

/// Threads push onto a stack and pop from it. The first row is the top: keys descend as the stack grows. So each push
/// is among keys that were popped and that an old transaction keeps. Each push notes what it has found on top.
fn stack(scheme: SchemeName, round: u64) {
    const BOTTOM: u64 = 1 << 40;
    const EACH: u64 = 3000;
    let db = in_memory(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.transact(|tx| tx.put(t, BOTTOM, 0)).unwrap();
    let mut old: Vec<Transaction<AnyScheme>> = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || {
                    let mut worker = db.worker();
                    worker.set_retries_max(u32::MAX);
                    let mut height = 0u64;
                    for i in 0..EACH {
                        // Up by about a hundred, and down again.
                        let pushes = (i / 64 + round + thread).is_multiple_of(2);
                        let done = worker.run(async |tx| {
                            let (top, _) = tx.first(t).await?.ok_or_else(|| Error::user("no bottom"))?;
                            if pushes {
                                let key = top - 1 - thread;
                                tx.insert(t, key, top).await?;
                            } else if top != BOTTOM {
                                assert!(tx.delete(t, top).await?);
                            }
                            Ok(top)
                        });
                        height = height.max(BOTTOM - done.unwrap());
                    }
                    height
                })
            })
            .collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            if old.len() < 20 {
                let open = db.begin().unwrap();
                assert_eq!(open.get(t, 0).unwrap(), None);
                old.push(open);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
            // The stack as a chain, in which each row names the row below it.
            let rows = db.transact(|tx| {
                let mut rows = Vec::new();
                tx.scan_all(t).for_each(|key, below| rows.push((key, below)))?;
                Ok(rows)
            });
            let rows = rows.unwrap();
            for pair in rows.windows(2) {
                assert_eq!(pair[0].1, pair[1].0, "a push has not seen the top: {rows:?}");
            }
            assert_eq!(rows.last(), Some(&(BOTTOM, 0)));
        }
        for thread in threads {
            assert!(thread.join().unwrap() > 0);
        }
    });
}

/// Proves that a transaction that has skipped dead keys is not ordered after a transaction that has brought one of
/// them to life.
#[test]
fn stacks_are_chains() {
    for round in 0..4 {
        stack(SchemeName::Serializable, round);
    }
}
