//! Updates that are made when a transaction commits (`update_at_commit`, `add`), under every scheme.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::storage::MemoryStorage;
use braiddb::suspend::OnMiss;
use braiddb::worker::WorkerOptions;
use braiddb::{AnyScheme, Database, Error, Options, Result, SchemeName, Table, Txn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! tests {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        mod $module {
            const SCHEME: braiddb::SchemeName = braiddb::SchemeName::$scheme;

            tests! { @each additions_make_numbers rows_are_left_as_they_are updates_come_after_own_writes
                errors_undo_the_transaction panics_undo_the_transaction writes_are_refused_at_once indexes_follow updates_are_durable updates_have_room
                held_rows_are_waited_for additions_on_threads_are_not_lost }

            #[test]
            fn the_newest_value_is_updated() {
                super::the_newest_value_is_updated(SCHEME, !matches!($name, "mvcc" | "timestamp" | "occ"));
            }

            #[test]
            fn additions_do_not_conflict() {
                super::additions_do_not_conflict(SCHEME, !matches!($name, "mvcc" | "timestamp"));
            }

            #[test]
            fn what_was_read_is_the_newest() {
                super::what_was_read_is_the_newest(SCHEME, $name != "snapshot");
            }

            #[test]
            fn what_is_looked_at_is_read() {
                super::what_is_looked_at_is_read(SCHEME, $name != "snapshot");
            }

            #[test]
            fn errors_fit_what_was_read() {
                super::errors_fit_what_was_read(SCHEME, $name != "snapshot");
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
    Options { workers: 0, retries_max: u32::MAX, lock_wait_ms: 100, ..Options::default() }
}

fn database(scheme: SchemeName) -> Database<AnyScheme> {
    Database::in_memory_with(under(scheme, options()), Arc::new(SystemClock::default())).unwrap()
}

fn get(db: &Database<AnyScheme>, table: Table<u64, u64>, key: u64) -> Option<u64> {
    let tx = db.begin().unwrap();
    tx.get(table, key).unwrap()
}

/// Proves that the first addition makes the number, and that the number is the sum of all additions. If the type
/// cannot hold the sum, nothing changes.
fn additions_make_numbers(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<String, u8> = db.table("t").unwrap();
    let mut worker = db.worker();
    for amount in [200, 50, 5] {
        worker.run(async |tx| tx.add(t, "a long key that does not fit", amount)).unwrap();
    }
    let tx = db.begin().unwrap();
    assert_eq!(tx.get(t, "a long key that does not fit").unwrap(), Some(255));
    drop(tx);
    let error = worker.run(async |tx| tx.add(t, "a long key that does not fit", 1)).unwrap_err();
    assert!(matches!(&error, Error::Overflow { table } if table == "t"), "{error}");
    assert_eq!(error.to_string(), "a number of table \"t\" cannot hold the sum");
    let tx = db.begin().unwrap();
    tx.add(t, "other", 7).unwrap();
    assert_eq!(tx.get(t, "other").unwrap(), None, "it is made at the commit");
    tx.commit().unwrap();
    assert_eq!(db.begin().unwrap().get(t, "other").unwrap(), Some(7));
}

/// Proves that an update that sets nothing leaves the row, or its absence, unchanged, and that its function is told
/// which of the two it is.
fn rows_are_left_as_they_are(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let mut worker = db.worker();
    worker.run(async |tx| tx.put(t, 1, 10).await).unwrap();
    let looked = Arc::new(AtomicU64::new(0));
    let mut look = |key: u64| {
        let looked = looked.clone();
        let note = move |value: Option<u64>| looked.store(value.unwrap_or(99), Ordering::Relaxed);
        worker.run(async move |tx| {
            let note = note.clone();
            tx.update_at_commit(t, key, move |value, _| {
                note(value);
                Ok(())
            })
        })
    };
    look(1).unwrap();
    assert_eq!(looked.load(Ordering::Relaxed), 10);
    look(2).unwrap();
    assert_eq!(looked.load(Ordering::Relaxed), 99);
    assert_eq!((get(&db, t, 1), get(&db, t, 2)), (Some(10), None));
}

/// Proves that updates are made in the order of their calls, on what the transaction itself has written.
fn updates_come_after_own_writes(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let mut worker = db.worker();
    worker
        .run(async |tx| {
            tx.put(t, 1, 5).await?;
            tx.put(t, 3, 5).await
        })
        .unwrap();
    worker
        .run(async |tx| {
            tx.add(t, 2, 7)?;
            tx.add(t, 1, 1)?;
            tx.update_at_commit(t, 1, |value, new| new.set(value.unwrap_or(0) * 10))?;
            tx.put(t, 1, 8).await?;
            tx.delete(t, 3).await?;
            tx.add(t, 3, 4)?;
            assert_eq!(tx.get(t, 1).await?, Some(8));
            Ok(())
        })
        .unwrap();
    assert_eq!([1, 2, 3].map(|key| get(&db, t, key)), [Some(90), Some(7), Some(4)]);
}

/// Proves that the error of an update is the transaction's error, and that nothing of the transaction remains.
fn errors_undo_the_transaction(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let mut worker = db.worker();
    worker.run(async |tx| tx.put(t, 2, 1).await).unwrap();
    let failing = async |tx: &Txn<AnyScheme>| {
        tx.put(t, 1, 1).await?;
        tx.add(t, 2, 1)?;
        tx.update_at_commit(t, 3, |_, _| Err(Error::user("not like this")))
    };
    let error = worker.run(failing).unwrap_err();
    assert!(matches!(&error, Error::User(why) if why.to_string() == "not like this"), "{error}");
    let tx = db.begin().unwrap();
    tx.update_at_commit(t, 2, |_, _| Err(Error::user("nor like this"))).unwrap();
    assert!(matches!(tx.commit().unwrap_err(), Error::User(_)));
    let tx = db.begin().unwrap();
    tx.add(t, 2, 100).unwrap();
    tx.abort();
    assert_eq!([1, 2, 3].map(|key| get(&db, t, key)), [None, Some(1), None]);
}

/// Proves the same of an update that panics, in a closure's transaction and in one that is driven by calls. No lock
/// remains.
fn panics_undo_the_transaction(scheme: SchemeName) {
    let clock = Arc::new(SystemClock::default());
    let db = Database::<AnyScheme>::in_memory_with(under(scheme, Options { workers: 1, ..options() }), clock)
        .unwrap();
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.run(async move |tx| tx.add(t, 1, 1)).wait().unwrap();
    let panicked = db.run(async move |tx| {
        tx.add(t, 1, 10)?;
        tx.update_at_commit(t, 1, |_, _| panic!("not like this"))
    });
    assert!(matches!(panicked.wait(), Err(Error::Panicked(_))));
    let tx = db.begin().unwrap();
    tx.add(t, 1, 10).unwrap();
    tx.update_at_commit(t, 2, |_, _| panic!("nor like this")).unwrap();
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tx.commit())).unwrap_err();
    db.run(async move |tx| tx.add(t, 1, 1)).wait().unwrap();
    assert_eq!(get(&db, t, 1), Some(2));
}

/// Proves that updates are refused when they are called in a transaction that may not write, or on a row that cannot
/// be written.
fn writes_are_refused_at_once(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    tx.declare_read_only();
    assert!(matches!(tx.add(t, 1, 1), Err(Error::ReadOnly)));
    drop(tx);
    let other = database(scheme);
    let foreign: Table<u64, u64> = other.table("t").unwrap();
    assert!(matches!(db.begin().unwrap().add(foreign, 1, 1), Err(Error::WrongDatabase)));
    let names: Table<String, u64> = db.table("names").unwrap();
    let long = "x".repeat(2000);
    assert!(matches!(db.begin().unwrap().add(names, &*long, 1), Err(Error::KeyTooLong { .. })));
    db.freeze(t).unwrap();
    let error = db.begin().unwrap().add(t, 1, 1).unwrap_err();
    assert!(matches!(error, Error::Frozen { .. }), "{error}");
    // An update that was called before the table was frozen cannot be tested: freezing waits until its transaction has
    // ended.
    db.thaw(t).unwrap();
    db.worker().run(async |tx| tx.add(t, 1, 1)).unwrap();
    assert_eq!(get(&db, t, 1), Some(1));
}

/// Proves that index entries follow the rows, and that a key of a unique index is refused if another row has it.
fn indexes_follow(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let by_value = db.unique_index(t, "by value", |_, value| Some(value)).unwrap();
    let mut worker = db.worker();
    worker.run(async |tx| tx.put(t, 1, 10).await).unwrap();
    worker.run(async |tx| tx.put(t, 2, 20).await).unwrap();
    worker.run(async |tx| tx.add(t, 1, 5)).unwrap();
    let found = |value: u64| {
        let tx = db.begin().unwrap();
        tx.get_by(by_value, value).unwrap().map(|(key, _)| key)
    };
    assert_eq!([10, 15, 20].map(found), [None, Some(1), Some(2)]);
    let error = worker.run(async |tx| tx.add(t, 1, 5)).unwrap_err();
    assert!(matches!(error, Error::UniqueViolation { .. }), "{error}");
    assert_eq!([10, 15, 20].map(found), [None, Some(1), Some(2)]);
}

/// Proves that updates are in the log like other writes.
fn updates_are_durable(scheme: SchemeName) {
    let disk = Arc::new(MemoryStorage::new(1 << 30));
    let open = || {
        let clock = Arc::new(SystemClock::default());
        let options = Options { log_segment_bytes: 1 << 16, ..options() };
        Database::<AnyScheme>::open_with(disk.clone(), under(scheme, options), clock, &mut |_| {}).unwrap()
    };
    let db = open();
    let t: Table<u64, u64> = db.table("t").unwrap();
    for _ in 0..3 {
        db.worker().run(async |tx| tx.add(t, 1, 7)).unwrap();
    }
    let tx = db.begin().unwrap();
    tx.add(t, 2, 9).unwrap();
    tx.commit().unwrap();
    drop(db);
    let db = open();
    let t: Table<u64, u64> = db.table("t").unwrap();
    assert_eq!((get(&db, t, 1), get(&db, t, 2)), (Some(21), Some(9)));
}

/// Proves that what a transaction leaves for its commit is in the memory account, stops at the limit, and is given
/// back.
fn updates_have_room(scheme: SchemeName) {
    let limited = Options { memory_limit_bytes: 64 << 20, ..options() };
    let db = Database::<AnyScheme>::in_memory_with(under(scheme, limited), Arc::new(SystemClock::default()))
        .unwrap();
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.worker().run(async |tx| tx.add(t, 0, 1)).unwrap();
    let before = db.statistics().memory.transactions_bytes;
    let tx = db.begin().unwrap();
    let ballast = [1u64; 32];
    let pushed = (0..1_000_000).find_map(|_| {
        let update = move |_: Option<u64>, new: braiddb::NewValue<'_, u64>| new.set(ballast.iter().sum());
        tx.update_at_commit(t, 0, update).err()
    });
    assert!(matches!(pushed, Some(Error::OutOfMemory { .. })), "{pushed:?}");
    drop(tx);
    let after = db.statistics().memory.transactions_bytes;
    assert!(after < before + (1 << 20), "{before} bytes before, {after} after");
    db.worker().run(async |tx| tx.add(t, 0, 1)).unwrap();
    assert_eq!(get(&db, t, 0), Some(2));
}

/// Proves that an update waits for a row that an idle transaction has locked, for a bounded time, and that the error
/// names the row.
fn held_rows_are_waited_for(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.worker().run(async |tx| tx.put(t, 1, 1).await).unwrap();
    let holder = db.begin().unwrap();
    assert_eq!(holder.get_for_update(t, 1).unwrap(), Some(1));
    let tx = db.begin().unwrap();
    tx.add(t, 1, 5).unwrap();
    let error = tx.commit().unwrap_err();
    // Under timestamps, the later transaction can only abort.
    assert!(matches!(error, Error::LockTimeout(_) | Error::Conflict), "{error}");
    holder.put(t, 1, 2).unwrap();
    holder.commit().unwrap();
    db.worker().run(async |tx| tx.add(t, 1, 5)).unwrap();
    assert_eq!(get(&db, t, 1), Some(7));
}

/// Proves that an update applies to the row's value at the commit, whatever was written since the transaction began.
/// `is_late`: this is no conflict.
fn the_newest_value_is_updated(scheme: SchemeName, is_late: bool) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.worker().run(async |tx| tx.put(t, 1, 1).await).unwrap();
    let tx = db.begin().unwrap();
    tx.add(t, 1, 100).unwrap();
    tx.add(t, 2, 100).unwrap();
    for key in [1, 2] {
        db.worker().run(async |tx| tx.add(t, key, 10)).unwrap();
    }
    assert_eq!(tx.commit().is_ok(), is_late);
    let expected = if is_late { [Some(111), Some(110)] } else { [Some(11), Some(10)] };
    assert_eq!([1, 2].map(|key| get(&db, t, key)), expected);
    // A row that was inserted and deleted meanwhile counts as absent.
    let tx = db.begin().unwrap();
    tx.update_at_commit(t, 3, |value, new| new.set(value.map_or(5, |value| value + 1))).unwrap();
    db.worker().run(async |tx| tx.add(t, 3, 10)).unwrap();
    db.worker().run(async |tx| tx.delete(t, 3).await).unwrap();
    let is_committed = tx.commit().is_ok();
    assert_eq!(get(&db, t, 3), is_committed.then_some(5));
}

/// Proves that transactions of one worker that add to the same rows at their commits, where the scheme allows it, do
/// not abort each other.
fn additions_do_not_conflict(scheme: SchemeName, is_late: bool) {
    const TRANSACTIONS: u64 = 500;
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let options = WorkerOptions { batch: 8.into(), ..WorkerOptions::default() };
    let mut worker = db.worker_with(OnMiss, options);
    let add = async |tx: &Txn<AnyScheme>, number: &u64| {
        tx.add(t, 1, 1)?;
        tx.add(t, number % 3, 1)
    };
    worker.run_each(0..TRANSACTIONS, add, |ended| ended.unwrap());
    drop(worker);
    assert_eq!(get(&db, t, 1), Some(TRANSACTIONS + TRANSACTIONS.div_ceil(3)));
    let conflicts = db.statistics().aborts_conflict;
    // The first transactions insert the same rows.
    assert!(!is_late || conflicts < 30, "{conflicts} conflicts");
}

/// Proves that a transaction whose reads were overwritten meanwhile does not commit with its late update. If each of
/// two transactions reads what the other writes, at most one commits as if the other did not exist. `is_serializable`:
/// the scheme promises that.
fn what_was_read_is_the_newest(scheme: SchemeName, is_serializable: bool) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.worker()
        .run(async |tx| {
            for key in [1, 2, 3] {
                tx.put(t, key, 0).await?;
            }
            Ok(())
        })
        .unwrap();
    let (a, b) = (db.begin().unwrap(), db.begin().unwrap());
    let step = |tx: &braiddb::Transaction<AnyScheme>, from: u64, to: u64| -> Result<()> {
        let seen = tx.get(t, from)?.unwrap();
        tx.add(t, 3, 1)?;
        tx.put(t, to, seen + 1)
    };
    let both = (step(&a, 1, 2), step(&b, 2, 1));
    let committed = [(both.0, a), (both.1, b)].map(|(done, tx)| done.is_ok() && tx.commit().is_ok());
    let count = committed.iter().filter(|&&is_committed| is_committed).count() as u64;
    assert_eq!(get(&db, t, 3), Some(count));
    let is_skewed = get(&db, t, 1) == Some(1) && get(&db, t, 2) == Some(1);
    assert!(!(is_serializable && is_skewed));
    // A read row is overwritten by a transaction that has also updated the row that this transaction updates.
    let tx = db.begin().unwrap();
    let seen = tx.get(t, 1).unwrap().unwrap();
    let other = db.begin().unwrap();
    let is_overwritten = other.put(t, 1, 50).is_ok() && other.add(t, 3, 10).is_ok() && other.commit().is_ok();
    tx.add(t, 3, seen + 100).unwrap();
    let is_committed = tx.commit().is_ok();
    assert!(!(is_serializable && is_committed && is_overwritten));
}

/// Proves that a row counts as read if an update looks at it and leaves it unchanged, also if the row is absent. One
/// transaction writes what the other has read, and looks at what the other is going to write. If both commit, each has
/// missed the other's write. `is_serializable`: they do not both commit.
fn what_is_looked_at_is_read(scheme: SchemeName, is_serializable: bool) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    for (key, is_there) in [(2, true), (20, false)] {
        let fill = async |tx: &Txn<AnyScheme>| {
            tx.put(t, 1, 0).await?;
            if is_there { tx.put(t, key, 0).await } else { Ok(()) }
        };
        db.worker().run(fill).unwrap();
        let (first, second) = (db.begin().unwrap(), db.begin().unwrap());
        assert_eq!(second.get(t, 1).unwrap(), Some(0));
        let seen = Arc::new(AtomicU64::new(99));
        let looks = seen.clone();
        let look = move |value: Option<u64>, _: braiddb::NewValue<'_, u64>| {
            looks.store(value.unwrap_or(0), Ordering::Relaxed);
            Ok(())
        };
        first.update_at_commit(t, key, look).unwrap();
        let has_first = first.put(t, 1, 1).is_ok() && first.commit().is_ok();
        let has_second = second.put(t, key, 1).is_ok() && second.commit().is_ok();
        assert!(has_first || has_second, "one of them can commit");
        if has_first {
            assert_eq!(seen.load(Ordering::Relaxed), 0);
        }
        assert!(!(is_serializable && has_first && has_second), "{key}: both have missed the other's write");
    }
}

/// Proves that the answer is not the error of an update that saw rows from after the transaction's beginning, if the
/// transaction has read older rows.
fn errors_fit_what_was_read(scheme: SchemeName, is_serializable: bool) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let fill = async |tx: &Txn<AnyScheme>| {
        tx.put(t, 1, 0).await?;
        tx.put(t, 2, 0).await
    };
    db.worker().run(fill).unwrap();
    let refuse = |value: Option<u64>, _: braiddb::NewValue<'_, u64>| Err(Error::user(format!("{value:?}")));
    let tx = db.begin().unwrap();
    let read = tx.get(t, 1).unwrap().unwrap();
    let other = db.begin().unwrap();
    let is_changed = other.put(t, 1, 1).is_ok() && other.put(t, 2, 1).is_ok() && other.commit().is_ok();
    tx.update_at_commit(t, 2, refuse).unwrap();
    let error = tx.commit().unwrap_err();
    match &error {
        Error::User(why) if is_serializable => {
            assert_eq!(why.to_string(), format!("{:?}", Some(read)), "{is_changed}")
        }
        Error::User(_) | Error::Conflict | Error::LockTimeout(_) => {}
        _ => panic!("{error}"),
    }
    // If only one row was seen, and its value is newer than the transaction's snapshot, nothing contradicts the error.
    let tx = db.begin().unwrap();
    db.worker().run(async |tx| tx.put(t, 2, 7).await).unwrap();
    tx.update_at_commit(t, 2, refuse).unwrap();
    let error = tx.commit().unwrap_err();
    match &error {
        Error::User(why) => assert_eq!(why.to_string(), "Some(7)"),
        // Under schemes for which a change of the row after the beginning is a conflict.
        _ => assert!(matches!(error, Error::Conflict), "{error}"),
    }
}

/// Proves that all additions of several threads to shared rows, among other reads and writes, are there at the end.
fn additions_on_threads_are_not_lost(scheme: SchemeName) {
    const THREADS: u64 = 2;
    const EACH: u64 = 400;
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let work = |thread: u64| {
        let options = WorkerOptions { batch: 4.into(), ..WorkerOptions::default() };
        let mut worker = db.worker_with(OnMiss, options);
        worker.set_retries_max(u32::MAX);
        let body = async |tx: &Txn<AnyScheme>, number: &u64| {
            let own = 100 + thread;
            let seen = tx.get(t, own).for_write().await?.unwrap_or(0);
            tx.put(t, own, seen + 1).await?;
            tx.add(t, number % 2, 1)
        };
        worker.run_each(0..EACH, body, |ended| ended.unwrap());
    };
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|thread| drop(scope.spawn(move || work(thread))));
    });
    let found = [0, 1, 100, 101].map(|key| get(&db, t, key));
    assert_eq!(found, [EACH; 4].map(Some)); // each of two threads has half of the first two rows, and one other
}

/// Proves that an absent row is not locked under snapshot isolation. Another transaction inserts it after an update at
/// the commit has looked for it, while this commit waits for a later row.
#[test]
fn absent_rows_are_not_locked() {
    const ABSENT: u64 = 1;
    const HELD: u64 = 2;
    let db = Database::<AnyScheme>::in_memory_with(
        under(SchemeName::Snapshot, Options { lock_wait_ms: 60_000, ..options() }),
        Arc::new(SystemClock::default()),
    )
    .unwrap();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let holder = db.begin().unwrap();
    holder.put(t, HELD, 1).unwrap();
    let (looks, commits) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (looked, committed) = (looks.clone(), commits.clone());
    let look = async move |tx: &Txn<AnyScheme>| {
        let looked = looked.clone();
        tx.update_at_commit(t, ABSENT, move |old, _| {
            assert_eq!(old, None);
            looked.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })?;
        tx.update_at_commit(t, HELD, |old, _| {
            assert_eq!(old, Some(1));
            Ok(())
        })
    };
    let mut worker = db.worker();
    let count =
        move |result: Result<()>| _ = committed.fetch_add(u64::from(result.is_ok()), Ordering::Relaxed);
    worker.spawn(look, count).unwrap();
    (0..1000).for_each(|_| _ = worker.round());
    assert_eq!((looks.load(Ordering::Relaxed), commits.load(Ordering::Relaxed)), (1, 0));
    holder.put(t, ABSENT, 1).unwrap();
    holder.commit().unwrap();
    while commits.load(Ordering::Relaxed) == 0 {
        worker.round();
    }
    assert_eq!((looks.load(Ordering::Relaxed), get(&db, t, ABSENT)), (1, Some(1)));
}
