//! Savepoints: the changes since a savepoint are undone, and the transaction continues, under every scheme.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod lent;
mod misuse;
mod model;

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::storage::MemoryStorage;
use braiddb::suspend::{Never, OnMiss, PrefetchOnly, Seeded, Suspend};
use braiddb::worker::WorkerOptions;
use braiddb::{
    AnyScheme, Database, Error, IndexKind, NewValue, Options, Result, Savepoint, SchemeName, Table,
    TableOptions, Transaction, Txn,
};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;

use lent::*;
use misuse::*;

macro_rules! tests {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        mod $module {
            const SCHEME: braiddb::SchemeName = braiddb::SchemeName::$scheme;

            tests! { @each changes_since_are_undone own_writes_come_back savepoints_nest savepoints_of_others_are_refused
                savepoints_of_earlier_runs_are_refused operations_in_flight_refuse scans_with_rows_left_refuse scans_go_on
                values_lent_stay values_in_removed_records_stay updates_for_the_commit_are_undone indexes_follow
                failed_statements_are_recovered_from inserts_can_be_made_again rows_are_free_after_the_end conflicts_stay
                undone_changes_are_not_durable threads_do_not_disturb_each_other pairs_on_workers_take_no_memory multi_gets_do_not_lose_what_they_have_found views_may_come_back }

            #[test]
            fn what_writes_have_told_is_read() {
                super::what_writes_have_told_is_read(SCHEME, $name != "snapshot");
            }

            #[test]
            fn undone_updates_leave_no_trace() {
                super::undone_updates_leave_no_trace(SCHEME, matches!($name, "serializable" | "snapshot"));
            }

            #[test]
            fn rows_wait_for_nobody() {
                super::rows_wait_for_nobody(SCHEME, matches!($name, "serializable" | "snapshot"));
            }

            #[test]
            fn pairs_take_no_memory() {
                super::pairs_take_no_memory(SCHEME, matches!($name, "serializable" | "snapshot" | "mvcc"));
            }

            #[test]
            fn model() {
                super::model::check(SCHEME);
            }
        }
    )*};
    (@each $($test:ident)*) => {$(
        #[test]
        fn $test() {
            super::$test(SCHEME);
        }
    )*};
}
braiddb::schemes!(tests);

fn options() -> Options {
    Options {
        workers: 0,
        retries_max: 1000,
        lock_wait_ms: 100,
        log_segment_bytes: 1 << 16,
        ..Options::default()
    }
}

fn database(scheme: SchemeName) -> Database<AnyScheme> {
    Database::in_memory_with(under(scheme, options()), Arc::new(SystemClock::default())).unwrap()
}

fn on_disk(scheme: SchemeName, disk: &Arc<MemoryStorage>) -> Database<AnyScheme> {
    let options = Options { lock_wait_ms: 1, ..options() };
    Database::open_with(disk.clone(), under(scheme, options), Arc::new(SystemClock::default()), &mut |_| {})
        .unwrap()
}

/// Makes a table for each kind of index.
fn tables<K: braiddb::Key>(db: &Database<AnyScheme>, of: &str) -> Vec<Table<K, u64>> {
    let table = |kind: &IndexKind| {
        let options = TableOptions { index: *kind, ..TableOptions::default() };
        db.table_with(&format!("{of} {}", kind.name()), options).unwrap()
    };
    IndexKind::ALL.iter().map(table).collect()
}

fn get(db: &Database<AnyScheme>, table: Table<u64, u64>, key: u64) -> Option<u64> {
    db.begin().unwrap().get(table, key).unwrap()
}

/// Runs other transactions, and frees memory. Memory that is not kept is used again.
fn churn(db: &Database<AnyScheme>) {
    let other: Table<u64, [u8]> = db.table("churn").unwrap();
    let numbers: Table<u64, u64> = db.table("churned numbers").unwrap();
    for round in 0..20 {
        for key in 0..40 {
            let tx = db.begin().unwrap();
            // Another transaction may have the partitions.
            if tx.put(other, key, &vec![0xaa; (key * 11 % 300) as usize]).is_err() {
                break;
            }
            tx.put(numbers, key + 100 * round, u64::MAX).unwrap();
            if round > 0 {
                tx.delete(numbers, key + 100 * (round - 1)).unwrap();
            }
            tx.commit().unwrap();
        }
        db.maintain();
    }
}

/// Polls a future once.
async fn poll_once<F: Future>(future: &mut std::pin::Pin<&mut F>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

fn key(n: u64) -> String {
    format!("a key that does not fit {n}")
}

/// Proves that rows that were inserted, updated, replaced and deleted since a savepoint are restored. Keys are short
/// and long, in every kind of index. The transaction is a closure under every policy or interactive, and is checked
/// before its end and after.
fn changes_since_are_undone(scheme: SchemeName) {
    async fn write(tx: &Txn<AnyScheme>, short: Table<u64, u64>, long: Table<String, u64>) {
        tx.insert(short, 1, 1).await.unwrap();
        assert!(tx.update(short, 2, 21).await.unwrap());
        tx.put(short, 3, 31).await.unwrap();
        assert!(tx.delete(short, 4).await.unwrap());
        tx.delete(short, 5).await.unwrap();
        tx.insert(short, 5, 51).await.unwrap();
        tx.insert(short, 6, 61).await.unwrap();
        tx.delete(short, 6).await.unwrap();
        tx.insert(long, key(1), 1).await.unwrap();
        tx.put(long, key(2), 21).await.unwrap();
        tx.delete(long, key(3)).await.unwrap();
    }
    async fn check(tx: &Txn<AnyScheme>, short: Table<u64, u64>, long: Table<String, u64>) {
        for n in 1..7u64 {
            let there = [2, 3, 4, 5].contains(&n).then_some(n * 10);
            assert_eq!(tx.get(short, n).await.unwrap(), there, "{n}");
        }
        for n in 1..4u64 {
            assert_eq!(tx.get(long, key(n)).await.unwrap(), [2, 3].contains(&n).then_some(n * 10));
        }
        assert_eq!(tx.count(short).await.unwrap(), 4);
        assert_eq!(tx.count(long).await.unwrap(), 2);
    }
    fn by<S: Suspend>(db: &Database<AnyScheme>, policy: S, short: Table<u64, u64>, long: Table<String, u64>) {
        let mut worker = db.worker_with(policy, WorkerOptions::default());
        worker
            .run(async |tx| {
                let before = tx.savepoint();
                for _ in 0..3 {
                    write(tx, short, long).await;
                    tx.rollback_to(&before)?;
                    check(tx, short, long).await;
                }
                write(tx, short, long).await;
                tx.rollback_to(&before)
            })
            .unwrap();
    }
    let db = database(scheme);
    for (short, long) in tables(&db, "short").into_iter().zip(tables(&db, "long")) {
        let tx = db.begin().unwrap();
        for n in 2..6 {
            tx.put(short, n, n * 10).unwrap();
            tx.put(long, key(n), n * 10).unwrap();
        }
        tx.delete(long, key(4)).unwrap();
        tx.delete(long, key(5)).unwrap();
        tx.commit().unwrap();
        by(&db, OnMiss, short, long);
        by(&db, Never, short, long);
        by(&db, PrefetchOnly, short, long);
        let tx = db.begin().unwrap();
        let before = tx.savepoint();
        for _ in 0..2 {
            let written = async |txn: &Txn<AnyScheme>| {
                write(txn, short, long).await;
                Ok(())
            };
            tx.with(written).unwrap();
            tx.rollback_to(&before).unwrap();
        }
        tx.commit().unwrap();
        db.worker()
            .run(async |tx| {
                check(tx, short, long).await;
                Ok(())
            })
            .unwrap();
    }
}

/// Proves that what the transaction itself had written before the savepoint is restored, and is committed.
fn own_writes_come_back(scheme: SchemeName) {
    let db = database(scheme);
    for t in tables(&db, "t") {
        db.worker().run(async |tx| tx.put(t, 2, 20).await).unwrap();
        let tx = db.begin().unwrap();
        tx.insert(t, 1, 11).unwrap();
        tx.put(t, 2, 21).unwrap();
        tx.delete(t, 2).unwrap();
        tx.insert(t, 3, 31).unwrap();
        let before = tx.savepoint();
        tx.put(t, 1, 12).unwrap();
        tx.put(t, 1, 13).unwrap();
        tx.insert(t, 2, 22).unwrap();
        tx.delete(t, 3).unwrap();
        let found = || [1, 2, 3].map(|key| tx.get(t, key).unwrap());
        assert_eq!(found(), [Some(13), Some(22), None]);
        tx.rollback_to(&before).unwrap();
        assert_eq!(found(), [Some(11), None, Some(31)]);
        tx.put(t, 3, 32).unwrap();
        tx.commit().unwrap();
        assert_eq!([1, 2, 3].map(|key| get(&db, t, key)), [Some(11), None, Some(32)]);
    }
}

/// Proves that a savepoint can be rolled back to any number of times, until the transaction is rolled back to an
/// earlier savepoint.
fn savepoints_nest(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    let points: Vec<Savepoint> = (0..10)
        .map(|n| {
            let point = tx.savepoint();
            tx.put(t, n, n).unwrap();
            tx.put(t, 100, n).unwrap();
            point
        })
        .collect();
    for n in [7, 7, 4, 4, 2] {
        tx.rollback_to(&points[n]).unwrap();
        assert_eq!(tx.count(t).unwrap(), n as u64 + 1);
        assert_eq!(tx.get(t, 100).unwrap(), Some(n as u64 - 1));
        for later in &points[n + 1..] {
            assert!(matches!(tx.rollback_to(later), Err(Error::NoSavepoint)));
        }
        // Writing now does not make a later savepoint valid again.
        for key in 50..60 {
            tx.put(t, key, 0).unwrap();
        }
        for later in &points[n + 1..] {
            assert!(matches!(tx.rollback_to(later), Err(Error::NoSavepoint)));
        }
        let inner = tx.savepoint();
        tx.put(t, 60, 0).unwrap();
        tx.rollback_to(&inner).unwrap();
        assert_eq!(tx.count(t).unwrap(), n as u64 + 11);
        tx.rollback_to(&points[n]).unwrap();
        assert!(matches!(tx.rollback_to(&inner), Err(Error::NoSavepoint)));
    }
    let error = tx.rollback_to(&points[5]).unwrap_err().to_string();
    assert!(error.starts_with("the savepoint does not exist"), "{error}");
    tx.commit().unwrap();
    assert_eq!([0, 1, 2, 100].map(|key| get(&db, t, key)), [Some(0), Some(1), None, Some(1)]);
}

/// Proves that updates that were left for the commit since the savepoint are dropped with their functions, and that
/// earlier updates are made.
fn updates_for_the_commit_are_undone(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.worker().run(async |tx| tx.put(t, 1, 10).await).unwrap();
    let held = Arc::new(AtomicU64::new(0));
    let leave = |tx: &Transaction<AnyScheme>, amount: u64| {
        let held = held.clone();
        tx.update_at_commit(t, 1, move |old, new: NewValue<'_, u64>| {
            held.fetch_add(1, Relaxed);
            new.set(old.unwrap_or(0) + amount)
        })
    };
    let tx = db.begin().unwrap();
    let first = tx.savepoint();
    leave(&tx, 1).unwrap();
    let second = tx.savepoint();
    leave(&tx, 100).unwrap();
    tx.add(t, 2, 1000).unwrap();
    tx.put(t, 3, 3).unwrap();
    assert_eq!(Arc::strong_count(&held), 3);
    tx.rollback_to(&second).unwrap();
    assert_eq!(Arc::strong_count(&held), 2);
    leave(&tx, 5).unwrap();
    tx.commit().unwrap();
    assert_eq!(([1, 2, 3].map(|key| get(&db, t, key)), held.load(Relaxed)), ([Some(16), None, None], 2));
    // If all are undone, the transaction commits like a transaction that has left none.
    let tx = db.begin().unwrap();
    assert!(matches!(tx.rollback_to(&first), Err(Error::NoSavepoint)));
    let before = tx.savepoint();
    leave(&tx, 1).unwrap();
    tx.rollback_to(&before).unwrap();
    leave(&tx, 1).unwrap();
    tx.rollback_to(&before).unwrap();
    tx.put(t, 4, 4).unwrap();
    tx.commit().unwrap();
    assert_eq!([1, 4].map(|key| get(&db, t, key)), [Some(16), Some(4)]);
    let mut worker = db.worker();
    worker
        .run(async |tx| {
            tx.add(t, 1, 1)?;
            let before = tx.savepoint();
            tx.add(t, 1, 50)?;
            tx.rollback_to(&before)?;
            tx.add(t, 1, 2)
        })
        .unwrap();
    assert_eq!(get(&db, t, 1), Some(19));
    assert_eq!(Arc::strong_count(&held), 1);
}

/// Proves that a transaction that has undone all its updates for the commit is like a transaction without any: it need
/// not be ordered last. `is_ordered_earlier`: the scheme finds such an order.
fn undone_updates_leave_no_trace(scheme: SchemeName, is_ordered_earlier: bool) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.worker().run(async |tx| tx.put(t, 1, 1).await).unwrap();
    let (tx, other) = (db.begin().unwrap(), db.begin().unwrap());
    assert_eq!(tx.get(t, 1).unwrap(), Some(1));
    let before = tx.savepoint();
    tx.add(t, 2, 1).unwrap();
    tx.rollback_to(&before).unwrap();
    let is_overwritten = other.put(t, 1, 2).is_ok() && other.commit().is_ok();
    tx.put(t, 3, 3).unwrap();
    let is_committed = tx.commit().is_ok();
    assert!(is_committed || is_overwritten && !is_ordered_earlier);
}

/// Proves that index entries are undone with their rows.
fn indexes_follow(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let unique = db.unique_index(t, "unique", |_, value| Some(value)).unwrap();
    let parity = db.index(t, "parity", |_, value| Some(value % 2)).unwrap();
    let tx = db.begin().unwrap();
    (1..4).for_each(|key| tx.put(t, key, key * 10).unwrap());
    tx.commit().unwrap();
    let found = |tx: &Transaction<AnyScheme>| {
        let by = |value: u64| tx.get_by(unique, value).unwrap().map(|(key, _)| key);
        let mut evens = Vec::new();
        let mut rows = tx.scan_by(parity, 0..1);
        while let Some((_, key, _)) = rows.next().unwrap() {
            evens.push(key);
        }
        ([10, 20, 30, 11, 12].map(by), evens)
    };
    let expected = ([Some(1), Some(2), Some(3), None, None], vec![1, 2, 3]);
    let tx = db.begin().unwrap();
    let before = tx.savepoint();
    for _ in 0..3 {
        tx.put(t, 1, 11).unwrap();
        tx.delete(t, 2).unwrap();
        tx.put(t, 4, 20).unwrap(); // the key that another row has given up
        tx.put(t, 3, 12).unwrap();
        tx.put(t, 3, 10).unwrap();
        assert_eq!(found(&tx), ([Some(3), Some(4), None, Some(1), None], vec![3, 4]));
        tx.rollback_to(&before).unwrap();
        assert_eq!(found(&tx), expected);
    }
    tx.put(t, 5, 12).unwrap();
    tx.commit().unwrap();
    let expected = ([Some(1), Some(2), Some(3), None, Some(5)], vec![1, 2, 3, 5]);
    assert_eq!(found(&db.begin().unwrap()), expected);
}

/// Proves that a transaction continues from the savepoint after a failed statement, and commits.
fn failed_statements_are_recovered_from(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.unique_index(t, "by value", |_, value| Some(value)).unwrap();
    db.worker().run(async |tx| tx.put(t, 1, 10).await).unwrap();
    let mut worker = db.worker();
    for round in 0..3u64 {
        worker
            .run(async |tx| {
                tx.put(t, 50 + round, 500 + round).await?;
                let before = tx.savepoint();
                tx.insert(t, 60 + round, 600 + round).await?;
                // A new row with a key that another row has, and a row that exists.
                assert!(matches!(tx.insert(t, 70 + round, 10).await, Err(Error::UniqueViolation { .. })));
                assert!(matches!(tx.insert(t, 1, 99).await, Err(Error::KeyExists)));
                tx.rollback_to(&before)?;
                assert_eq!(tx.get(t, 60 + round).await?, None);
                tx.put(t, 80 + round, 600 + round).await
            })
            .unwrap();
    }
    let keys: Vec<u64> = (0..100).filter(|&key| get(&db, t, key).is_some()).collect();
    assert_eq!(keys, [1, 50, 51, 52, 80, 81, 82]);
}

/// Proves that an undone insert can be made again, by the transaction itself and by others, before and after its end.
fn inserts_can_be_made_again(scheme: SchemeName) {
    let db = database(scheme);
    for t in tables(&db, "t") {
        let tx = db.begin().unwrap();
        let before = tx.savepoint();
        for value in 0..5 {
            tx.insert(t, 1, value).unwrap();
            tx.insert(t, 2, value).unwrap();
            assert!(matches!(tx.insert(t, 1, 9), Err(Error::KeyExists)));
            tx.rollback_to(&before).unwrap();
            assert_eq!([1, 2].map(|key| tx.get(t, key).unwrap()), [None, None]);
        }
        tx.insert(t, 1, 100).unwrap();
        let other = db.begin().unwrap();
        // It may have to wait for a partition.
        let is_inserted = other.insert(t, 2, 200).is_ok() && other.commit().is_ok();
        match tx.commit() {
            Ok(()) => assert_eq!(get(&db, t, 1), Some(100)),
            // By its insert, the transaction has found that there was no such row.
            Err(error) => assert!(is_inserted && matches!(error, Error::Conflict), "{error}"),
        }
        assert_eq!(get(&db, t, 2), is_inserted.then_some(200));
        let tx = db.begin().unwrap();
        let before = tx.savepoint();
        tx.insert(t, 3, 1).unwrap();
        tx.rollback_to(&before).unwrap();
        tx.commit().unwrap();
        db.worker().run(async |tx| tx.insert(t, 3, 300).await).unwrap();
        assert_eq!(get(&db, t, 3), Some(300));
    }
}

/// Proves that rows that a transaction has written and undone are free when it has ended in any way, whatever it has
/// kept locked.
fn rows_are_free_after_the_end(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.worker().run(async |tx| tx.put(t, 1, 0).await).unwrap();
    for commits in [true, false] {
        let tx = db.begin().unwrap();
        let before = tx.savepoint();
        tx.put(t, 1, 1).unwrap();
        tx.put(t, 2, 2).unwrap();
        assert_eq!(tx.get_for_update(t, 1).unwrap(), Some(1));
        tx.rollback_to(&before).unwrap();
        assert_eq!(tx.get_for_update(t, 1).unwrap(), Some(0));
        tx.rollback_to(&before).unwrap();
        match commits {
            true => tx.commit().unwrap(),
            false => tx.abort(),
        }
        let other = db.begin().unwrap();
        assert_eq!(other.get_for_update(t, 1).unwrap(), Some(0));
        other.insert(t, 2, 20).unwrap();
        other.delete(t, 2).unwrap();
        other.commit().unwrap();
        assert_eq!((get(&db, t, 1), get(&db, t, 2)), (Some(0), None));
    }
}

/// Proves that a row that a rollback gives up goes to the transaction that waits for it, while the first transaction
/// is open. `gives_up`: the scheme does so.
fn rows_wait_for_nobody(scheme: SchemeName, gives_up: bool) {
    if !gives_up {
        return; // rows stay locked, or nothing waits for them
    }
    let options = Options { lock_wait_ms: 20_000, ..options() };
    let db: Database<AnyScheme> =
        Database::in_memory_with(under(scheme, options), Arc::new(SystemClock::default())).unwrap();
    let t: Table<u64, u64> = db.table("t").unwrap();
    (1..3).for_each(|key| db.worker().run(async |tx| tx.put(t, key, 10).await).unwrap());
    let tx = db.begin().unwrap();
    tx.put(t, 2, 20).unwrap();
    let before = tx.savepoint();
    assert_eq!(tx.get_for_update(t, 1).unwrap(), Some(10));
    std::thread::scope(|scope| {
        let waiters: Vec<_> = [1, 2]
            .map(|key| {
                let db = &db;
                scope.spawn(move || {
                    let other = db.begin().unwrap();
                    let row = other.get_for_update(t, key).unwrap();
                    (row, other.commit().is_ok())
                })
            })
            .into();
        std::thread::sleep(std::time::Duration::from_millis(50));
        tx.rollback_to(&before).unwrap();
        let [first, second] = waiters.try_into().unwrap();
        assert_eq!(first.join().unwrap(), (Some(10), true));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!second.is_finished(), "its row is locked still");
        tx.abort();
        assert_eq!(second.join().unwrap(), (Some(10), true));
    });
}

/// Proves that a rollback does not cure a conflict, or another error after which a transaction can only be undone.
fn conflicts_stay(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    let before = tx.savepoint();
    tx.put(t, 1, 1).unwrap();
    let long = "x".repeat(2000);
    let other: Table<String, u64> = db.table("other").unwrap();
    assert!(matches!(tx.put(other, &long, 1), Err(Error::KeyTooLong { .. })));
    assert!(matches!(tx.rollback_to(&before), Err(Error::KeyTooLong { .. })));
    assert!(matches!(tx.commit(), Err(Error::KeyTooLong { .. })));
    assert_eq!(get(&db, t, 1), None);
}

/// Each of two transactions knows that it is ordered before the other. Proves that at most one commits, even if a
/// transaction knows it by a write that it has undone. `is_serializable`: the scheme promises that.
fn what_writes_have_told_is_read(scheme: SchemeName, is_serializable: bool) {
    type Act<AnyScheme> = fn(&Transaction<AnyScheme>, Table<u64, u64>) -> Result<()>;
    let undone: [(&str, Act<AnyScheme>, Act<AnyScheme>); 6] = [
        ("insert", |tx, t| tx.insert(t, 1, 1), |tx, t| tx.insert(t, 1, 2)),
        ("insert over a deleted row", |tx, t| tx.insert(t, 2, 1), |tx, t| tx.insert(t, 2, 2)),
        ("update", |tx, t| tx.update(t, 3, 1).map(drop), |tx, t| tx.delete(t, 3).map(drop)),
        ("delete", |tx, t| tx.delete(t, 3).map(drop), |tx, t| tx.delete(t, 3).map(drop)),
        ("lock", |tx, t| tx.get_for_update(t, 3).map(drop), |tx, t| tx.put(t, 3, 2)),
        (
            "delete of its own row",
            |tx, t| tx.insert(t, 1, 1).and(tx.delete(t, 1)).map(drop),
            |tx, t| tx.put(t, 1, 2),
        ),
    ];
    for (name, act, other_act) in undone {
        for is_first in [true, false] {
            let db = database(scheme);
            let (t, noted): (Table<u64, u64>, Table<u64, u64>) =
                (db.table("t").unwrap(), db.table("n").unwrap());
            db.worker().run(async |tx| tx.put(t, 2, 0).await.and(tx.put(t, 3, 0).await)).unwrap();
            db.worker().run(async |tx| tx.delete(t, 2).await).unwrap();
            let (tx, other) = (db.begin().unwrap(), db.begin().unwrap());
            let (tx, other) = if is_first { (tx, other) } else { (other, tx) };
            let run = || -> Result<bool> {
                let before = tx.savepoint();
                act(&tx, t)?;
                tx.rollback_to(&before)?;
                Ok(true)
            };
            let is_undone = run().is_ok();
            let other_run = other.get(noted, 1).and_then(|note| {
                assert_eq!(note, None);
                other_act(&other, t)
            });
            let other_commits = other_run.is_ok() && other.commit().is_ok();
            let commits = is_undone && tx.put(noted, 1, 1).is_ok() && tx.commit().is_ok();
            assert!(!(is_serializable && commits && other_commits), "{name}, {is_first}");
            assert!(commits || other_commits, "{name}, {is_first}: one of them goes on");
        }
    }
}

/// Proves that neither the log nor recovery from it has a change that was undone.
fn undone_changes_are_not_durable(scheme: SchemeName) {
    let disk = Arc::new(MemoryStorage::new(1 << 30));
    let db = on_disk(scheme, &disk);
    let t: Table<u64, [u8]> = db.table("t").unwrap();
    db.worker().run(async |tx| tx.put(t, 1, b"first").await).unwrap();
    let before_bytes = db.statistics().log.bytes;
    for round in 0..10u64 {
        let tx = db.begin().unwrap();
        tx.put(t, 2, b"second").unwrap();
        let before = tx.savepoint();
        tx.put(t, 1, &[0; 10_000]).unwrap();
        tx.delete(t, 2).unwrap();
        tx.insert(t, 100 + round, &[0; 10_000]).unwrap();
        tx.rollback_to(&before).unwrap();
        tx.put(t, 3, b"third").unwrap();
        tx.commit().unwrap();
        // Nothing of this transaction remains.
        let tx = db.begin().unwrap();
        let before = tx.savepoint();
        tx.put(t, 1, &[0; 10_000]).unwrap();
        tx.rollback_to(&before).unwrap();
        tx.commit().unwrap();
    }
    let grown_bytes = db.statistics().log.bytes - before_bytes;
    assert!(grown_bytes < 4096, "{grown_bytes} bytes");
    drop(db);
    for is_orderly in [false, true] {
        let db = on_disk(scheme, &disk);
        let t: Table<u64, [u8]> = db.table("t").unwrap();
        let tx = db.begin().unwrap();
        let rows = [1, 2, 3].map(|key| tx.get(t, key).unwrap().map(<[u8]>::to_vec));
        assert_eq!(rows, [&b"first"[..], b"second", b"third"].map(|value| Some(value.to_vec())));
        assert_eq!(tx.count(t).unwrap(), 3);
        drop(tx);
        if is_orderly {
            db.close().unwrap();
        }
    }
}
