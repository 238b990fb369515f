//! Properties of every scheme of concurrency control. A test is written once and runs under each scheme. Tests that
//! need serializability run under the schemes that promise it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, Storage};
use braiddb::{AnyScheme, Database, Durability, Error, Options, Result, SchemeName, Table, Transaction, Txn};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! tests {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        mod $module {
            const SCHEME: braiddb::SchemeName = braiddb::SchemeName::$scheme;

            const IS_SERIALIZABLE: bool = stringify!($promise).as_bytes()[1] == b'e';

            tests! { @each rows_come_and_go own_writes_are_seen ranges conflicts_are_run_again
                locked_rows_are_not_written idle_writers_are_not_spun_for secondary_indexes indexed_rows_read_before_others_write deleted_rows_give_memory_back long_values
                transfers_on_threads aborted_rows_leave_nothing
                rows_met_later_are_phantoms own_rows_are_no_phantoms databases_are_recovered
                checkpoints_at_the_memory_limit frozen_tables frozen_and_thawed_under_load }

            #[test]
            fn phantoms() {
                super::phantoms(SCHEME, IS_SERIALIZABLE);
            }

            #[test]
            fn disks_without_a_log_need_snapshots() {
                super::disks_without_a_log_need_snapshots(SCHEME, stringify!($promise) != "Serial");
            }

            #[test]
            fn errors_rest_on_what_fits_together() {
                super::errors_rest_on_what_fits_together(SCHEME);
            }

            #[test]
            fn absent_rows_are_read() {
                super::absent_rows_are_read(SCHEME, IS_SERIALIZABLE);
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
tests! {
    "auto-all-hot" auto_all_hot AllHot Serial,
    "auto-hot-by-chance" auto_hot_by_chance HotByChance Serial,
}

/// Makes a database without threads of its own. A transaction that meets conflicts is run again without limit.
fn database(scheme: SchemeName) -> Database<AnyScheme> {
    let options = Options { workers: 0, retries_max: u32::MAX, ..Options::default() };
    Database::in_memory_with(under(scheme, options), Arc::new(SystemClock::default())).unwrap()
}

fn put(db: &Database<AnyScheme>, table: Table<u64, u64>, rows: &[(u64, u64)]) {
    let tx = db.begin().unwrap();
    for (key, value) in rows {
        tx.put(table, *key, *value).unwrap();
    }
    tx.commit().unwrap();
}

fn get(db: &Database<AnyScheme>, table: Table<u64, u64>, key: u64) -> Option<u64> {
    let tx = db.begin().unwrap();
    let value = tx.get(table, key).unwrap();
    tx.commit().unwrap();
    value
}

/// Proves that the rows of a frozen table are read in every way and written in none, and that a transaction that tries
/// to write them continues.
fn frozen_tables(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let other: Table<u64, u64> = db.table("other").unwrap();
    let by_value = db.index(t, "by value", |_, value| Some(value)).unwrap();
    put(&db, t, &[(1, 10), (2, 20), (3, 30)]);
    db.freeze(t).unwrap();
    db.freeze(t).unwrap();
    let sum = db.worker().run(async |tx| {
        let is_frozen = |error| matches!(error, Error::Frozen { table } if table == "t");
        assert!(
            is_frozen(tx.put(t, 1, 0).await.unwrap_err()) && is_frozen(tx.insert(t, 9, 0).await.unwrap_err())
        );
        assert!(
            is_frozen(tx.update(t, 1, 0).await.unwrap_err()) && is_frozen(tx.delete(t, 1).await.unwrap_err())
        );
        assert_eq!(tx.get_many(t, &[1, 4, 3]).await?, [Some(10), None, Some(30)]);
        assert_eq!(keys(tx, t, 9).await?, [1, 2, 3]);
        let mut rows = tx.scan_by(by_value, 15..);
        let found = rows.next().await?.map(|(_, key, _)| key);
        assert_eq!((found, tx.get(t, 5).await?, tx.get_for_update(t, 2).await?), (Some(2), None, Some(20)));
        tx.put(other, 1, tx.get(t, 2).await?.unwrap_or(0)).await?;
        tx.get(t, 1).await
    });
    assert_eq!((sum.unwrap(), get(&db, other, 1)), (Some(10), Some(20)));
    db.thaw(t).unwrap();
    put(&db, t, &[(1, 11)]);
    assert_eq!(get(&db, t, 1), Some(11));
}

/// Proves that readers see each transfer as a whole and that none is lost, whatever is frozen and thawed during
/// transfers.
fn frozen_and_thawed_under_load(scheme: SchemeName) {
    const ROWS: u64 = 4;
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    put(&db, t, &[(0, 100), (1, 100), (2, 100), (3, 100)]);
    let is_over = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let transfers: Vec<_> = (0..2u64)
            .map(|seed| {
                let (db, is_over) = (&db, &is_over);
                scope.spawn(move || {
                    let (mut worker, mut done) = (db.worker(), 0u64);
                    while is_over.load(Ordering::Relaxed) == 0 || done == 0 {
                        let (from, to) = ((done + seed) % ROWS, (3 * done + seed + 1) % ROWS);
                        let moved = worker.run(async |tx| {
                            let at = tx.get(t, from).await?.unwrap_or(0);
                            tx.put(t, from, at.wrapping_sub(1)).await?;
                            let at = tx.get(t, to).await?.unwrap_or(0);
                            tx.put(t, to, at.wrapping_add(1)).await
                        });
                        match moved {
                            Ok(()) => done += 1,
                            Err(Error::Frozen { .. }) => std::thread::yield_now(),
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        let read = |worker: &mut braiddb::worker::Worker<AnyScheme, _>| {
            let sum = worker.run(async |tx| {
                let (mut rows, mut sum) = (tx.scan(t, 0..), 0u64);
                while let Some((_, value)) = rows.next().await? {
                    sum = sum.wrapping_add(value);
                }
                Ok(sum)
            });
            assert_eq!(sum.unwrap(), 100 * ROWS);
        };
        for _ in 0..20 {
            let mut worker = db.worker();
            read(&mut worker);
            drop(worker);
            db.freeze(t).unwrap();
            let mut worker = db.worker();
            (0..20).for_each(|_| read(&mut worker));
            drop(worker);
            db.thaw(t).unwrap();
        }
        is_over.store(1, Ordering::Relaxed);
        transfers.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

async fn keys(tx: &Txn<AnyScheme>, table: Table<u64, u64>, to: u64) -> Result<Vec<u64>> {
    let (mut rows, mut keys) = (tx.scan(table, 0..to), Vec::new());
    while let Some((key, _)) = rows.next().await? {
        keys.push(key);
    }
    Ok(keys)
}

/// Proves that each kind of write has its effect, in the transaction and after it.
fn rows_come_and_go(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    for round in 0..3 {
        db.worker()
            .run(async |tx| {
                tx.insert(t, 1, round).await?;
                assert!(matches!(tx.insert(t, 1, 5).await, Err(Error::KeyExists)));
                assert!(!tx.update(t, 2, 5).await?);
                tx.put(t, 2, 7).await?;
                Ok(())
            })
            .unwrap();
        let values = (get(&db, t, 1), get(&db, t, 2), get(&db, t, 3));
        assert_eq!(values, (Some(round), Some(7), None));
        db.worker()
            .run(async |tx| {
                assert!(tx.update(t, 1, 9).await? && tx.delete(t, 2).await?);
                assert!(!tx.delete(t, 2).await? && !tx.contains(t, 2).await?);
                assert!(tx.delete(t, 1).await?);
                Ok(())
            })
            .unwrap();
        assert_eq!((get(&db, t, 1), get(&db, t, 2)), (None, None));
    }
}

/// Proves that a transaction sees its own writes, and that what it has borrowed stays unchanged.
fn own_writes_are_seen(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, str> = db.table("t").unwrap();
    db.worker()
        .run(async |tx| {
            tx.put(t, 1, "one").await?;
            tx.put(t, 2, "two").await
        })
        .unwrap();
    db.worker()
        .run(async |tx| {
            let before = tx.get(t, 1).await?;
            tx.put(t, 1, "a longer value than eight bytes").await?;
            let first = tx.get(t, 1).await?;
            tx.put(t, 1, "short").await?;
            tx.delete(t, 2).await?;
            assert_eq!((before, first), (Some("one"), Some("a longer value than eight bytes")));
            let (mut rows, mut found) = (tx.scan_all(t), Vec::new());
            while let Some(row) = rows.next().await? {
                found.push(row);
            }
            assert_eq!(found, [(1, "short")]);
            assert_eq!(tx.get_for_update(t, 1).await?, Some("short"));
            Ok(())
        })
        .unwrap();
    assert_eq!(db.begin().unwrap().get(t, 1).unwrap(), Some("short"));
}

/// Proves scans of any length, in both directions, with a limit, and over rows that the transaction has changed.
fn ranges(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    put(&db, t, &(0..1000).map(|key| (key, key)).collect::<Vec<_>>());
    db.worker()
        .run(async |tx| {
            assert_eq!(keys(tx, t, 1000).await?.len(), 1000);
            tx.delete(t, 500).await?;
            tx.insert(t, 2000, 1).await?;
            let mut last = tx.scan(t, 490..).reverse().limit(3);
            let mut found = Vec::new();
            while let Some((key, _)) = last.next().await? {
                found.push(key);
            }
            assert_eq!(found, [2000, 999, 998]);
            assert_eq!(tx.get_many(t, &[499, 500, 501]).await?, [Some(499), None, Some(501)]);
            Ok(())
        })
        .unwrap();
    let tx = db.begin().unwrap();
    let (mut rows, mut count) = (tx.scan(t, 0..), 0);
    while rows.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 1000);
}

/// Two transactions scan a range, then insert into it. Proves that only one of them may commit if the scheme is
/// serializable.
fn phantoms(scheme: SchemeName, is_serializable: bool) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    put(&db, t, &[(1, 0), (50, 0)]);
    let insert = |tx: &braiddb::Transaction<AnyScheme>, key| {
        tx.with(async |tx| {
            let seen = keys(tx, t, 100).await?.len() as u64;
            Ok(seen)
        })
        .map(|seen| (seen, key))
    };
    let (a, b) = (db.begin().unwrap(), db.begin().unwrap());
    let (seen_a, seen_b) = (insert(&a, 10), insert(&b, 20));
    let write = |tx: &braiddb::Transaction<AnyScheme>, seen: Result<(u64, u64)>| {
        seen.and_then(|(seen, key)| tx.insert(t, key, seen))
    };
    let (wrote_a, wrote_b) = (write(&a, seen_a), write(&b, seen_b));
    let commits =
        [(a, wrote_a), (b, wrote_b)].into_iter().map(|(tx, wrote)| wrote.and_then(|()| tx.commit()));
    let commits = commits.filter(|done| done.is_ok()).count();
    assert!(commits <= if is_serializable { 1 } else { 2 }, "{commits} commits");
    let left = db.worker().run(async |tx| keys(tx, t, 100).await).unwrap();
    assert_eq!(left.len(), 2 + commits);
}

/// Looks at the row under a key, and perhaps writes it. Returns true if the row was there.
type Look<AnyScheme> = fn(&braiddb::Transaction<AnyScheme>, Table<u64, u64>, u64) -> Result<bool>;

/// A transaction learns of a row that came into a range after the transaction had scanned the range. Proves that it
/// does not commit with both, under each kind of first and second look.
fn rows_met_later_are_phantoms(scheme: SchemeName) {
    let db = database(scheme);
    let looks: [Look<AnyScheme>; 3] = [
        |tx, t, key| Ok(tx.get(t, key)?.is_some()),
        |tx, t, key| tx.with(async |tx| keys(tx, t, 1000).await).map(|keys| keys.contains(&key)),
        |tx, t, key| tx.update(t, key, 1),
    ];
    // Each tells if it has found the row. A write that does not depend on a row being there has found it if it may
    // commit.
    let later: [Look<AnyScheme>; 6] = [
        looks[0],
        looks[1],
        looks[2],
        |tx, t, key| tx.delete(t, key),
        |tx, t, key| tx.put(t, key, 1).map(|()| true),
        |tx, t, key| match tx.insert(t, key, 1) {
            Err(Error::KeyExists) => Ok(true),
            done => done.map(|()| false),
        },
    ];
    for (i, first) in looks.iter().enumerate() {
        for (k, second) in later.iter().enumerate() {
            let t: Table<u64, u64> = db.table(&format!("t{i}{k}")).unwrap();
            put(&db, t, &[(1, 0), (50, 0)]);
            let (tx, other) = (db.begin().unwrap(), db.begin().unwrap());
            assert!(!first(&tx, t, 10).unwrap());
            // It may be refused if the first transaction has locked what it found.
            let has_come = other.insert(t, 10, 7).and_then(|()| other.commit()).is_ok();
            let found = second(&tx, t, 10);
            let has_committed = found.and_then(|found| tx.commit().map(|()| found));
            if let Ok(found) = has_committed {
                assert!(!(has_come && found), "looks {i} and {k}: found absent, then there");
            }
        }
    }
}

/// Proves that rows that a transaction itself inserts into a range or deletes from it, while it scans the range, are
/// not taken for other transactions' rows: the transaction commits at once.
fn own_rows_are_no_phantoms(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    put(&db, t, &[(1, 0), (10, 0), (20, 0), (50, 0)]);
    let mut runs = 0;
    let seen = db.worker().run(async |tx| {
        runs += 1;
        tx.delete(t, 20).await?;
        let (scanned, got, inserted) = futures::join!(keys(tx, t, 100), tx.get(t, 10), tx.insert(t, 30, 0));
        inserted?;
        assert_eq!((got?, tx.get(t, 20).await?, tx.get(t, 40).await?), (Some(0), None, None));
        assert!(!tx.update(t, 20, 1).await?);
        tx.put(t, 40, 0).await?;
        tx.put(t, 20, 2).await?;
        tx.delete(t, 10).await?;
        Ok((scanned?.len(), keys(tx, t, 100).await?))
    });
    assert!((3..=4).contains(&seen.as_ref().unwrap().0));
    assert_eq!((seen.unwrap().1, runs), (vec![1, 20, 30, 40, 50], 1));
}

/// Each of two transactions finds the row absent that the other then inserts. Proves that one of them commits.
fn absent_rows_are_read(scheme: SchemeName, is_serializable: bool) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let (a, b) = (db.begin().unwrap(), db.begin().unwrap());
    let absent = |found: Option<u64>| assert_eq!(found, None);
    // If a transaction has the whole database to itself, the read fails.
    let read = (a.get(t, 1).map(absent), b.get(t, 2).map(absent));
    let wrote = (read.0.and_then(|()| a.put(t, 2, 0)), read.1.and_then(|()| b.put(t, 1, 0)));
    let commits = [wrote.0.and_then(|()| a.commit()), wrote.1.and_then(|()| b.commit())];
    let commits = commits.iter().filter(|done| done.is_ok()).count();
    assert!(commits <= if is_serializable { 1 } else { 2 }, "{commits} commits");
}

/// Proves that a closure's own error rests on reads that are consistent with each other, whatever commits between
/// them.
fn errors_rest_on_what_fits_together(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    put(&db, t, &[(1, 0), (2, 0)]);
    let runs = Cell::new(0);
    let answer: Result<()> = db.worker().run(async |tx| {
        runs.set(runs.get() + 1);
        let first = tx.get(t, 1).await?;
        if runs.get() == 1 {
            // Under two-phase locking, this transaction aborts.
            let other = db.begin()?;
            let _ = other.put(t, 1, 1).and_then(|()| other.put(t, 2, 1)).and_then(|()| other.commit());
        }
        let second = tx.get(t, 2).await?;
        if first == second {
            Err(Error::user("equal"))
        } else {
            Err(Error::user(format!("{first:?} {second:?}")))
        }
    });
    assert_eq!(answer.unwrap_err().to_string(), "equal");
}

fn open(scheme: SchemeName, disk: &Arc<MemoryStorage>, options: Options) -> Result<Database<AnyScheme>> {
    Database::open_with(disk.clone(), under(scheme, options), Arc::new(SystemClock::default()), &mut |_| {})
}

/// Proves that a database on disk without a log is refused under a scheme without snapshots for its checkpoints, and
/// that nothing is made then.
fn disks_without_a_log_need_snapshots(scheme: SchemeName, has_snapshots: bool) {
    let disk = Arc::new(MemoryStorage::new(1 << 30));
    let options = Options { workers: 0, durability: Durability::None, ..Options::default() };
    match open(scheme, &disk, options) {
        Ok(_) => assert!(has_snapshots),
        Err(error) => {
            assert!(!has_snapshots && error.to_string().contains("snapshots"), "{error}");
            assert_eq!(disk.list().unwrap().len(), 0);
        }
    }
}

/// Transactions run on several threads while checkpoints are made. Proves that their effects are there when the
/// database is opened again: from its log, from a checkpoint and the log, from a checkpoint alone, and read-only.
fn databases_are_recovered(scheme: SchemeName) {
    const KEYS: u64 = 64;
    let disk = Arc::new(MemoryStorage::new(1 << 30));
    let options = || Options {
        workers: 2,
        log_segment_bytes: 1 << 16,
        checkpoint_range_bytes: 512,
        retries_max: u32::MAX,
        ..Options::default()
    };
    let state = |db: &Database<AnyScheme>| -> Vec<(u64, Vec<u8>)> {
        let t: Table<u64, [u8]> = db.table("t").unwrap();
        let (tx, mut all) = (db.begin().unwrap(), Vec::new());
        let mut rows = tx.scan(t, 0..u64::MAX);
        while let Some((key, value)) = rows.next().unwrap() {
            all.push((key, value.to_vec()));
        }
        all
    };
    let mut before = Vec::new();
    for life in 0..4u64 {
        let db = open(scheme, &disk, options()).unwrap();
        assert_eq!(state(&db), before, "life {life}");
        let t: Table<u64, [u8]> = db.table("t").unwrap();
        let is_done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..2u64 {
                let (db, is_done) = (&db, &is_done);
                scope.spawn(move || {
                    let mut worker = db.worker();
                    for i in 0..400u64 {
                        let key = (i * 7 + thread * 31 + life * 13) % KEYS;
                        let value = vec![(i ^ life) as u8; (i % 40) as usize];
                        let done = worker.run(async |tx| {
                            tx.set_durability(Durability::Async)?;
                            let other = (key + 1) % KEYS;
                            match tx.get(t, key).await? {
                                Some(_) if i % 3 == 0 => _ = tx.delete(t, key).await?,
                                _ => tx.put(t, key, &value).await?,
                            }
                            tx.put(t, other, &value).await
                        });
                        done.unwrap();
                    }
                    is_done.fetch_add(1, Ordering::Relaxed);
                });
            }
            while life % 2 == 1 && is_done.load(Ordering::Relaxed) < 2 {
                db.checkpoint().unwrap();
            }
        });
        if life == 2 {
            db.checkpoint().unwrap();
        }
        before = state(&db);
        db.close().unwrap();
    }
    let read = Database::<AnyScheme>::read_with(
        disk,
        under(scheme, options()),
        Arc::new(SystemClock::default()),
        &mut |_| {},
    );
    assert_eq!(state(&read.unwrap()), before);
}

/// Proves that a full database can be written to a checkpoint, with short values and long ones.
fn checkpoints_at_the_memory_limit(scheme: SchemeName) {
    for bytes in [60, 700, 30_000] {
        let disk = Arc::new(MemoryStorage::new(1 << 30));
        let options = || Options { workers: 0, memory_limit_bytes: 4 << 20, ..Options::default() };
        let db = open(scheme, &disk, options()).unwrap();
        let t: Table<u64, [u8]> = db.table("t").unwrap();
        let (mut worker, value) = (db.worker(), vec![7; bytes]);
        let full = (0u64..).find_map(|key| {
            let put = worker.run(async |tx| {
                tx.set_durability(Durability::Async)?;
                tx.put(t, key, &value).await
            });
            put.err().map(|error| (key, error))
        });
        let (rows, error) = full.unwrap();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        db.checkpoint().unwrap_or_else(|error| panic!("values of {bytes} bytes, {rows} rows: {error}"));
        drop(worker);
        db.close().unwrap();
        let db = open(scheme, &disk, Options { memory_limit_bytes: 1 << 30, ..options() }).unwrap();
        let t: Table<u64, [u8]> = db.table("t").unwrap();
        let (tx, mut found) = (db.begin().unwrap(), 0);
        let mut all = tx.scan(t, 0..u64::MAX);
        while let Some((_, value)) = all.next().unwrap() {
            found += u64::from(value.len() == bytes);
        }
        assert_eq!(found, rows);
    }
}

/// Proves that increments on one worker, interleaved, are all counted.
fn conflicts_are_run_again(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    put(&db, t, &[(1, 0)]);
    let mut worker = db.worker();
    let increments = (0..200).map(|_| {
        async |tx: &Txn<AnyScheme>| {
            let value = tx.get(t, 1).await?.unwrap_or(0);
            tx.get(t, 2).await?;
            tx.put(t, 1, value + 1).await
        }
    });
    worker.run_all(increments, |done: Result<()>| done.unwrap());
    assert_eq!(get(&db, t, 1), Some(200));
}

/// Proves that a row that a transaction has locked is not written by another transaction, which gets an error.
fn locked_rows_are_not_written(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    put(&db, t, &[(1, 10)]);
    let holder = db.begin().unwrap();
    assert_eq!(holder.get_for_update(t, 1).unwrap(), Some(10));
    let is_conflict = |done: Result<()>| matches!(done, Err(Error::Conflict));
    let attempt = |write: &dyn Fn(&braiddb::Transaction<AnyScheme>) -> Result<()>| {
        let other = db.begin().unwrap();
        write(&other).and_then(|()| other.commit())
    };
    assert!(is_conflict(attempt(&|tx| tx.put(t, 1, 11))), "put");
    assert!(is_conflict(attempt(&|tx| tx.update(t, 1, 11).map(|_| ()))), "update");
    assert!(is_conflict(attempt(&|tx| tx.delete(t, 1).map(|_| ()))), "delete");
    let skipped = db.worker().run(async |tx| Ok(tx.get_for_update(t, 1).skip_locked().await?.is_locked()));
    assert!(skipped.unwrap());
    let refused: Result<()> = db.worker().run(async |tx| tx.get_for_update(t, 1).no_wait().await.map(|_| ()));
    assert!(matches!(refused, Err(Error::RowLocked(_))));
    holder.put(t, 1, 12).unwrap();
    holder.commit().unwrap();
    assert_eq!(get(&db, t, 1), Some(12));
    assert!(attempt(&|tx| tx.put(t, 1, 13)).is_ok(), "the row is free");
}

/// Proves that a transaction that meets a row which an idle transaction has written sleeps until that transaction
/// ends, or commits beside it.
fn idle_writers_are_not_spun_for(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    put(&db, t, &[(1, 10)]);
    let holder = db.begin().unwrap();
    holder.put(t, 1, 11).unwrap();
    let (attempts, has_waited) = (AtomicU64::new(0), Cell::new(false));
    std::thread::scope(|threads| {
        let (attempts, db) = (&attempts, &db);
        let writer = threads.spawn(move || {
            db.worker().run(async |tx| {
                attempts.fetch_add(1, Ordering::Relaxed);
                let value = tx.get(t, 1).await?.unwrap_or(0);
                tx.put(t, 1, value + 10).await
            })
        });
        std::thread::sleep(std::time::Duration::from_millis(300));
        has_waited.set(!writer.is_finished());
        holder.commit().unwrap();
        writer.join().unwrap().unwrap();
    });
    let attempts = attempts.into_inner();
    assert!(attempts < 100, "{attempts} attempts while the writer was idle");
    assert_eq!(get(&db, t, 1), Some(if has_waited.get() { 21 } else { 11 }));
}

/// Proves that an index finds the existing rows, and refuses a key that another row has.
fn secondary_indexes(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    put(&db, t, &(0..50).map(|key| (key, key % 5)).collect::<Vec<_>>());
    let by_value = db.index(t, "by value", |_, value: u64| Some(value)).unwrap();
    let unique = db.unique_index(t, "unique", |key: &u64, _| (*key < 10).then_some(key + 100)).unwrap();
    db.worker()
        .run(async |tx| {
            tx.put(t, 7, 3).await?;
            assert!(tx.delete(t, 3).await?);
            tx.insert(t, 1000, 3).await
        })
        .unwrap();
    let count = db.worker().run(async |tx| {
        let (mut rows, mut found) = (tx.scan_by(by_value, 3u64..=3), Vec::new());
        while let Some((_, key, value)) = rows.next().await? {
            assert_eq!(value, 3);
            found.push(key);
        }
        assert!(found.contains(&7) && found.contains(&1000) && !found.contains(&3));
        assert_eq!(tx.get_by(unique, 107).await?, Some((7, 3)));
        assert_eq!(tx.get_by(unique, 103).await?, None);
        Ok(found.len())
    });
    assert_eq!(count.unwrap(), 11);
}

/// Commits or aborts a transaction. Returns true if it has committed.
fn commit_if(tx: Transaction<AnyScheme>, is_to_commit: bool) -> bool {
    is_to_commit && tx.commit().is_ok()
}

/// A transaction has read an indexed row, another transaction changes or deletes the row, and then the first
/// transaction writes it. Proves that the row and the index in the end are those of the transaction that committed
/// last.
fn indexed_rows_read_before_others_write(scheme: SchemeName) {
    let options = Options { workers: 0, lock_wait_ms: 10, ..Options::default() };
    let db = Database::<AnyScheme>::in_memory_with(under(scheme, options), Arc::new(SystemClock::default()))
        .unwrap();
    let t: Table<u64, u64> = db.table("t").unwrap();
    let by_value = db.index(t, "by value", |_, value: u64| Some(value)).unwrap();
    for (key, theirs) in [(1, None), (2, Some(20))] {
        put(&db, t, &[(key, 10)]);
        let (older, newer) = (db.begin().unwrap(), db.begin().unwrap());
        let seen = older.get(t, key);
        let changed = match theirs {
            Some(value) => newer.put(t, key, value),
            None => newer.delete(t, key).map(|_| ()),
        };
        let newer_commits = commit_if(newer, changed.is_ok());
        let is_written = seen.is_ok() && older.put(t, key, 30).is_ok();
        let older_commits = commit_if(older, is_written);
        let expected = match (older_commits, newer_commits) {
            (true, _) => Some(30),
            (false, true) => theirs,
            (false, false) => Some(10),
        };
        assert_eq!(get(&db, t, key), expected);
        let indexed = db.worker().run(async |tx| {
            let (mut rows, mut indexed) = (tx.scan_by(by_value, 0u64..), None);
            while let Some((_, found, value)) = rows.next().await? {
                indexed = if found == key { Some(value) } else { indexed };
            }
            Ok(indexed)
        });
        assert_eq!(indexed.unwrap(), expected);
    }
}

/// Proves that the memory of deleted rows is used again, but not while a transaction is open that may return to it.
fn deleted_rows_give_memory_back(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    let mut worker = db.worker();
    for _ in 0..20 {
        worker
            .run(async |tx| {
                for key in 0..100 {
                    tx.put(t, key, key).await?;
                }
                Ok(())
            })
            .unwrap();
        worker
            .run(async |tx| {
                for key in 0..100 {
                    tx.delete(t, key).await?;
                }
                Ok(())
            })
            .unwrap();
        for _ in 0..20 {
            worker.run(async |tx| tx.get(t, 0).await.map(|_| ())).unwrap();
        }
    }
    let records = db.statistics().memory.records;
    assert!(records <= 500, "{records} records for no row, of 2000 that there were");
}

/// Proves that values of all lengths are read back complete.
fn long_values(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, [u8]> = db.table("t").unwrap();
    let lengths = [0, 1, 8, 9, 100, 1024, 1025, 8192, 100_000];
    let value = |length: usize| (0..length).map(|i| (i * 7) as u8).collect::<Vec<_>>();
    db.worker()
        .run(async |tx| {
            for (key, &length) in (0..).zip(&lengths) {
                tx.put(t, key, &value(length)).await?;
            }
            Ok(())
        })
        .unwrap();
    db.worker()
        .run(async |tx| {
            for (key, &length) in (0..).zip(&lengths) {
                assert_eq!(tx.get(t, key).await?, Some(&*value(length)));
                assert_eq!(tx.get(t, key).untracked().await?, Some(&*value(length)));
            }
            Ok(())
        })
        .unwrap();
}

/// Proves that rows that an aborted transaction has made are gone, and that their keys can be used.
fn aborted_rows_leave_nothing(scheme: SchemeName) {
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    put(&db, t, &[(5, 5)]);
    for round in 0..10 {
        let tx = db.begin().unwrap();
        for key in 0..20 {
            tx.put(t, key, round).unwrap();
        }
        tx.delete(t, 5).unwrap();
        tx.abort();
        let left = db.worker().run(async |tx| keys(tx, t, 100).await).unwrap();
        assert_eq!((left, get(&db, t, 5)), (vec![5], Some(5)));
    }
    put(&db, t, &[(1, 1)]);
    assert_eq!(get(&db, t, 1), Some(1));
}

/// Threads move money between accounts, and insert and delete rows. Proves that they always find the same sum.
fn transfers_on_threads(scheme: SchemeName) {
    const ACCOUNTS: u64 = 8;
    let db = database(scheme);
    let t: Table<u64, u64> = db.table("t").unwrap();
    put(&db, t, &(0..ACCOUNTS).map(|key| (key, 100)).collect::<Vec<_>>());
    let sums = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for seed in 1..=3u64 {
            let (db, sums) = (&db, &sums);
            threads.spawn(move || {
                let (mut worker, mut random) = (db.worker(), seed);
                for _ in 0..300 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let (from, to) = (random >> 33 & 7, random >> 40 & 7);
                    worker
                        .run(async |tx| {
                            let (mut rows, mut sum) = (tx.scan_all(t), 0);
                            while let Some((_, value)) = rows.next().await? {
                                sum += value;
                            }
                            if sum != ACCOUNTS * 100 {
                                return Err(Error::user(format!("the sum is {sum}")));
                            }
                            let (a, b) =
                                (tx.get(t, from).await?.unwrap_or(0), tx.get(t, to).await?.unwrap_or(0));
                            if a == 0 || from == to {
                                return Ok(());
                            }
                            // A row without money is deleted.
                            if a == 1 {
                                tx.delete(t, from).await.map(|_| ())?
                            } else {
                                tx.put(t, from, a - 1).await?
                            }
                            tx.put(t, to, b + 1).await
                        })
                        .unwrap();
                    sums.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(sums.into_inner(), 900);
}
