//! Declared readers, and the order that all transactions see.

use super::{database, put, table_of, value};
use braiddb::suspend::OnMiss;
use braiddb::worker::Worker;
use braiddb::{ConcurrencyControl, Database, Error, Result, Serializable, Snapshot, Table, Transaction, Txn};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

const ROWS: u64 = 20;
const DURATION: Duration = Duration::from_millis(700);

/// Moves 1 from row to row until told to stop.
fn overwrite<C: ConcurrencyControl>(db: &Database<C>, table: Table<u64, u64>, stop: &AtomicBool) {
    let mut worker = db.worker();
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        next += 1;
        let moved = worker.run(async |tx| {
            let (from, to) = (next % ROWS, next * 7 % ROWS);
            let old = tx.get(table, from).await?.unwrap();
            tx.put(table, from, old - 1).await?;
            let old = tx.get(table, to).await?.unwrap();
            tx.put(table, to, old + 1).await
        });
        moved.unwrap();
    }
}

/// Returns the sum of all rows twice: by a scan, and row by row.
async fn sums<C: ConcurrencyControl>(tx: &Txn<C>, table: Table<u64, u64>) -> Result<(u64, u64)> {
    tx.declare_read_only();
    let (mut rows, mut scanned, mut read) = (tx.scan(table, ..ROWS), 0, 0);
    while let Some((_, value)) = rows.next().await? {
        scanned += value;
    }
    for key in 0..ROWS {
        read += tx.get(table, key).await?.unwrap();
    }
    Ok((scanned, read))
}

fn check_readers<C: ConcurrencyControl>() {
    const START: u64 = 1 << 40;
    let db = database::<C>();
    let table = table_of(&db, &(0..ROWS).map(|key| (key, START)).collect::<Vec<_>>());
    let expected = (ROWS * START, ROWS * START);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| overwrite(&db, table, &stop));
        }
        let mut worker = db.worker();
        worker.set_retries_max(0);
        let until = Instant::now() + DURATION;
        while Instant::now() < until {
            let inputs = 0..20;
            worker.run_each(
                inputs,
                async |tx, _| sums(tx, table).await,
                |got| {
                    assert_eq!(got.expect("a declared reader meets no conflict"), expected);
                },
            );
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Proves that a declared reader is never run again and sees one state while two threads overwrite what it reads.
#[test]
fn declared_readers_meet_no_conflict() {
    check_readers::<Serializable>();
    check_readers::<Snapshot>();
}

/// Plays Fekete's anomaly: `early` reads row 2, which is overwritten. The reader sees the new value, but not what
/// `early` then writes. Returns how many of the two commit.
fn read_only_anomaly<C: ConcurrencyControl>(
    read: impl FnOnce(&Transaction<C>, Table<u64, u64>) -> Result<()>,
) -> usize {
    let db = database::<C>();
    let table = table_of(&db, &[(1, 0), (2, 0)]);
    let early = db.begin().unwrap();
    assert_eq!(early.get(table, 2).unwrap(), Some(0));
    put(&db, table, &[(2, 1)]);
    let reader = db.begin().unwrap();
    read(&reader, table).unwrap();
    let read = reader.commit();
    early.put(table, 1, 1).unwrap();
    [read, early.commit()].iter().filter(|result| result.is_ok()).count()
}

/// Proves that a reader counts in the order of the other transactions, whether it declares itself first, after it has
/// read, or not at all.
#[test]
fn readers_are_in_the_order() {
    let both = |tx: &Transaction, t| tx.get(t, 1).and_then(|_| tx.get(t, 2).map(drop));
    assert_eq!(read_only_anomaly::<Serializable>(both), 1);
    let first = |tx: &Transaction, t| {
        tx.declare_read_only();
        both(tx, t)
    };
    assert_eq!(read_only_anomaly::<Serializable>(first), 1);
    let later = |tx: &Transaction, t| {
        tx.get(t, 2)?;
        tx.declare_read_only();
        tx.get(t, 1).map(drop)
    };
    assert_eq!(read_only_anomaly::<Serializable>(later), 1);
    let snapshot = |tx: &Transaction<Snapshot>, t| tx.get(t, 1).and_then(|_| tx.get(t, 2).map(drop));
    assert_eq!(read_only_anomaly::<Snapshot>(snapshot), 2);
}

/// Overwrites row 1 many times, and cleans up everything that no open snapshot needs.
fn churn(worker: &mut Worker<Serializable, OnMiss>, table: Table<u64, [u8]>) {
    for byte in 0..200 {
        worker.run(async |tx| tx.put(table, 1, &[byte; 500]).await).unwrap();
    }
    for _ in 0..50 {
        worker.maintain();
    }
}

/// Proves that a transaction that has read something, even untracked, keeps its snapshot when it declares itself. It
/// sees one state, and what it has borrowed stays.
#[test]
fn a_late_declaration_keeps_the_snapshot() {
    let db = database::<Serializable>();
    let table: Table<u64, [u8]> = db.table("t").unwrap();
    let mut worker = db.worker();
    worker.run(async |tx| tx.put(table, 1, &[255; 500]).await).unwrap();
    let tx = db.begin().unwrap();
    let read = tx.with(async |tx| {
        let before = tx.get(table, 1).untracked().await?.unwrap();
        worker.run(async |tx| tx.put(table, 1, &[0; 500]).await)?;
        tx.declare_read_only();
        churn(&mut worker, table);
        assert_eq!(before, [255; 500]);
        assert_eq!(tx.get(table, 1).await?, Some(&[255; 500][..]));
        let mut rows = tx.scan_all(table);
        assert_eq!(rows.next().await?, Some((1, &[255; 500][..])));
        Ok(())
    });
    read.unwrap();
    tx.commit().unwrap();
}

/// Proves the same if a read is in progress, or a scan of the transaction has begun, at the declaration.
#[test]
fn a_declaration_amid_a_read_keeps_the_snapshot() {
    let db = database::<Serializable>();
    let table: Table<u64, [u8]> = db.table("t").unwrap();
    let (mut worker, mut other) = (db.worker(), db.worker());
    worker.set_batch(48); // a lone transaction would not suspend
    // More rows, because reads of a small table do not suspend.
    other.run_each(100..2100, async |tx, key| tx.put(table, *key, &[1]).await, |result| result.unwrap());
    for scans in [false, true] {
        other.run(async |tx| tx.put(table, 1, &[255; 500]).await).unwrap();
        let read = worker.run(async |tx| {
            let (mut get, mut rows) = (pin!(tx.get(table, 1)), tx.scan_all(table));
            let mut next = pin!(rows.next());
            poll_fn(|context| {
                let is_pending = if scans {
                    next.as_mut().poll(context).is_pending()
                } else {
                    get.as_mut().poll(context).is_pending()
                };
                assert!(is_pending, "it is under way");
                Poll::Ready(())
            })
            .await;
            let began = tx.snapshot_timestamp();
            churn(&mut other, table);
            tx.declare_read_only();
            assert_eq!(tx.snapshot_timestamp(), began);
            let found = if scans { next.await?.map(|(_, value)| value) } else { get.await? };
            churn(&mut other, table);
            assert_eq!(found, Some(&[255; 500][..]));
            Ok(())
        });
        read.unwrap();
    }
}

/// Proves that a declaration needs only its transaction, not the database's handle, and that other transactions know
/// of it all the same.
#[test]
fn a_declaration_outlives_the_database() {
    let db = database::<Serializable>();
    let table = table_of(&db, &[(1, 0), (2, 0)]);
    let early = db.begin().unwrap();
    assert_eq!(early.get(table, 2).unwrap(), Some(0));
    put(&db, table, &[(2, 1)]);
    let reader = db.begin().unwrap();
    drop(db);
    reader.declare_read_only();
    assert_eq!((reader.get(table, 1).unwrap(), reader.get(table, 2).unwrap()), (Some(0), Some(1)));
    reader.commit().unwrap();
    early.put(table, 1, 1).unwrap();
    assert!(matches!(early.commit(), Err(Error::Conflict)), "it would come between what the reader has seen");
}

fn check_strict_order<C: ConcurrencyControl>() {
    let db = database::<C>();
    let table = table_of(&db, &[(1, 0)]);
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut worker = db.worker();
            for value in 1.. {
                worker.run(async |tx| tx.put(table, 1, value).await).unwrap();
                acknowledged.store(value, Ordering::Release); // pairs with the Acquire below
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let mut worker = db.worker();
        let until = Instant::now() + DURATION;
        let mut last = 0;
        for number in 0.. {
            if Instant::now() >= until {
                break;
            }
            let known = acknowledged.load(Ordering::Acquire);
            let found = worker.run(async |tx| {
                if number % 2 == 0 {
                    tx.declare_read_only();
                }
                Ok(tx.get(table, 1).await?.unwrap())
            });
            let found = found.unwrap();
            assert!(found >= known && found >= last, "{found} after {known} and {last}");
            last = found;
        }
        stop.store(true, Ordering::Relaxed);
        assert!(last > 0);
    });
}

/// Proves that a transaction sees what was acknowledged before it began, and that nothing that was seen is undone.
#[test]
fn what_was_acknowledged_is_seen() {
    check_strict_order::<Serializable>();
    check_strict_order::<Snapshot>();
}

fn check_timestamps<C: ConcurrencyControl>() {
    let db = database::<C>();
    let table = table_of(&db, &[]);
    let (mut worker, mut last) = (db.worker(), 0);
    let snapshot = || db.begin().unwrap().with(async |tx| Ok(tx.snapshot_timestamp())).unwrap();
    assert_eq!(snapshot(), snapshot(), "nothing has been committed between them");
    for value in 0..100 {
        let before = snapshot();
        worker.run(async |tx| tx.put(table, 1, value).await).unwrap();
        let commit = worker.last_commit_timestamp();
        assert!(commit > last && commit >= before && snapshot() >= commit && snapshot() > before);
        let seen = worker.run(async |tx| {
            if value % 2 == 0 {
                tx.declare_read_only();
            }
            tx.get(table, 1).await?;
            Ok(tx.snapshot_timestamp())
        });
        assert_eq!(seen.unwrap(), snapshot());
        assert!(worker.last_commit_timestamp() >= commit, "a reader comes after what it has read");
        last = commit;
    }
    assert_eq!(self::value(&db, table, 1), Some(99));
}

/// Proves that the timestamps of snapshots and commits grow in the order of commits.
#[test]
fn timestamps_grow() {
    check_timestamps::<Serializable>();
    check_timestamps::<Snapshot>();
}
