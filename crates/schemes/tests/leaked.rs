//! Futures of operations that are polled once and leaked: everything that they could touch ends with their
//! transaction, under every scheme.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::suspend::{Never, OnMiss, PrefetchOnly, Seeded, Suspend, Teams};
use braiddb::worker::WorkerOptions;
use braiddb::{AnyScheme, Database, Index, Options, Result, SchemeName, Table, Transaction, Txn};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

const ROWS: u64 = 32;
const KINDS: u64 = 16;
/// The transactions of a test, and the number of them that are open at once.
const TRANSACTIONS: u64 = 200;
const OPEN: usize = 16;
/// A number of steps that is enough for each of them.
const STEPS_MAX: usize = 1_000_000;

#[derive(Clone, Copy)]
struct Tables {
    rows: Table<u64, u64>,
    /// The table with a secondary index.
    indexed: Table<u64, u64>,
    by_value: Index<u64, u64, u64>,
    /// Rows in which transactions count themselves.
    counts: Table<u64, u64>,
}

fn database(scheme: SchemeName) -> (Database<AnyScheme>, Tables) {
    let options = Options { workers: 0, ..Options::default() };
    let db: Database<AnyScheme> =
        Database::in_memory_with(under(scheme, options), Arc::new(SystemClock::default())).unwrap();
    let (rows, indexed) = (db.table("rows").unwrap(), db.table("indexed").unwrap());
    let by_value = db.unique_index(indexed, "by value", |_, value| Some(value)).unwrap();
    let counts = db.table("counts").unwrap();
    let fill = |tx: &Transaction<AnyScheme>| {
        for key in 0..ROWS {
            tx.insert(rows, key, key)?;
            tx.insert(indexed, key, key)?;
            tx.insert(counts, key, 0)?;
        }
        Ok(())
    };
    db.transact(fill).unwrap();
    (db, Tables { rows, indexed, by_value, counts })
}

macro_rules! tests {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        mod $module {
            #[test]
            fn what_is_leaked_ends_with_its_transaction() {
                super::what_is_leaked_ends_with_its_transaction(braiddb::SchemeName::$scheme);
            }

            #[test]
            fn transactions_that_leak_go_on() {
                super::transactions_that_leak_go_on(braiddb::SchemeName::$scheme);
            }

            #[test]
            fn a_kept_scan_goes_on() {
                super::a_kept_scan_goes_on(braiddb::SchemeName::$scheme);
            }

            #[test]
            fn all_places_can_be_leaked() {
                super::all_places_can_be_leaked(braiddb::SchemeName::$scheme);
            }
        }
    )*};
}
braiddb::schemes!(tests);

/// Polls an operation once, and leaks it. Returns true if it was still in flight.
async fn leak<F: Future>(operation: F) -> bool {
    let mut operation = Box::pin(operation);
    let is_done = poll_fn(|context| Poll::Ready(operation.as_mut().poll(context).is_ready())).await;
    std::mem::forget(operation);
    !is_done
}

/// Leaks an operation of the given kind.
async fn leak_some(tx: &Txn<AnyScheme>, t: Tables, kind: u64, key: u64) -> bool {
    match kind % KINDS {
        0 => leak(tx.get(t.rows, key)).await,
        1 => leak(tx.get(t.rows, key + ROWS)).await,
        2 => leak(tx.contains(t.rows, key)).await,
        3 => leak(tx.get_many(t.rows, &[key, key + 1, key + 2, key + ROWS])).await,
        4 => leak(tx.get_for_update(t.rows, key)).await,
        5 => leak(tx.get_for_update(t.rows, key).skip_locked()).await,
        6 => leak(tx.put(t.rows, key, 1000)).await,
        7 => leak(tx.insert(t.rows, key + ROWS, 1000)).await,
        8 => leak(tx.update(t.rows, key, 1000)).await,
        9 => leak(tx.delete(t.rows, key)).await,
        10 => leak(tx.scan(t.rows, key..).next()).await,
        11 => leak(async { tx.scan(t.rows, ..key).reverse().next().await.map(drop) }).await,
        12 => leak(async { tx.scan_by(t.by_value, key..).next().await.map(drop) }).await,
        13 => leak(tx.get_by(t.by_value, key)).await,
        14 => leak(tx.put(t.indexed, key, key)).await,
        _ => leak(tx.declare_partitions(tx.partition_of(t.rows, key))).await,
    }
}

/// A transaction leaks an operation and commits, in steps that leave time for the operation to continue. Proves that
/// another transaction then reads, scans and writes the same rows without waiting.
fn what_is_leaked_ends_with_its_transaction(scheme: SchemeName) {
    let (db, t) = database(scheme);
    let in_flight = Rc::new(Cell::new(0));
    for seed in 0..16 * KINDS {
        let key = seed * 7 % ROWS;
        let mut worker = db.worker_with(Seeded::new(seed), WorkerOptions::default());
        let (of_transaction, ended) = (in_flight.clone(), Rc::new(Cell::new(false)));
        let leaking = async move |tx: &Txn<AnyScheme>| {
            tx.put(t.counts, key, seed).await?;
            let is_in_flight = leak_some(tx, t, seed, key).await;
            of_transaction.set(of_transaction.get() + u64::from(is_in_flight));
            Ok(())
        };
        let of_end = ended.clone();
        let end = move |result: Result<()>| {
            result.unwrap();
            of_end.set(true);
        };
        worker.spawn(leaking, end).unwrap();
        let is_over = (0..STEPS_MAX).any(|_| {
            worker.step();
            ended.get()
        });
        assert!(is_over, "seed {seed}");
        let next = db.begin().unwrap();
        let done = use_all(&next, t, (key, seed)).and_then(|()| next.commit());
        assert!(done.is_ok(), "seed {seed}, kind {}: {done:?}", seed % KINDS);
    }
    assert!(in_flight.get() > KINDS, "{} were in flight", in_flight.get());
}

/// Reads, scans and writes the rows of a transaction that leaks, and checks that it sees what it has written.
fn use_all(tx: &Transaction<AnyScheme>, t: Tables, (counted, count): (u64, u64)) -> Result<()> {
    assert_eq!(tx.get(t.counts, counted)?, Some(count));
    tx.scan(t.rows, 0..2 * ROWS).for_each(|_, _| ())?;
    for key in 0..ROWS {
        // A leaked operation has done all or nothing at its first poll.
        let value = tx.get_for_update(t.rows, key)?;
        assert!(matches!(value, None | Some(1000)) || value == Some(key), "{value:?}");
        tx.put(t.rows, key, key)?;
        tx.delete(t.rows, key + ROWS)?;
        tx.put(t.indexed, key, key)?;
    }
    Ok(())
}

/// Many transactions that leak operations meet on few rows, on one worker. Proves that all commit, that each counts
/// once, and that no row has the value of another.
fn transactions_that_leak_go_on(scheme: SchemeName) {
    for seed in 0..4 {
        let (db, t) = database(scheme);
        let options = WorkerOptions { batch: OPEN.into(), batch_max: OPEN, ..WorkerOptions::default() };
        let mut worker = db.worker_with(Seeded::new(seed), options);
        let body = async |tx: &Txn<AnyScheme>, number: &u64| {
            let (key, kind) = (number * 5 % ROWS, number * 11 + seed);
            leak_some(tx, t, kind, key).await;
            leak_some(tx, t, kind / KINDS + number, number % 3).await;
            let count = tx.get(t.counts, number % 3).await?.unwrap();
            tx.put(t.counts, number % 3, count + 1).await
        };
        let mut committed = 0;
        worker.run_each(0..TRANSACTIONS, body, |ended: Result<()>| {
            ended.unwrap();
            committed += 1;
        });
        assert_eq!(committed, TRANSACTIONS);
        drop(worker);
        let last = db.begin().unwrap();
        let counts: u64 = (0..3).map(|key| last.get_for_update(t.counts, key).unwrap().unwrap()).sum();
        assert_eq!(counts, TRANSACTIONS, "seed {seed}");
        for key in 0..ROWS {
            last.put(t.rows, key, key).unwrap();
            last.put(t.indexed, key, key + ROWS).unwrap();
        }
        last.commit().unwrap();
    }
}

/// Proves that a scan that was polled and kept continues after a write of the same transaction, within its range or
/// outside.
fn a_kept_scan_goes_on(scheme: SchemeName) {
    let (db, t) = database(scheme);
    for seed in 0..20 {
        let mut worker = db.worker_with(Seeded::new(seed), WorkerOptions::default());
        let done = worker.run(async |tx: &Txn<AnyScheme>| {
            let mut scan = Box::pin(async {
                let (mut rows, mut count) = (tx.scan(t.rows, ROWS / 4..ROWS / 2), 0);
                while rows.next().await?.is_some() {
                    count += 1;
                }
                Ok(count)
            });
            let polled = poll_fn(|context| Poll::Ready(scan.as_mut().poll(context))).await;
            let key = if seed % 2 == 0 { 0 } else { ROWS / 4 + 1 };
            tx.put(t.rows, key, key).await?;
            if let Poll::Ready(count) = polled { count } else { scan.await }
        });
        assert!(matches!(done, Ok(count) if count == ROWS / 2 - ROWS / 4), "seed {seed}: {done:?}");
    }
}

/// Proves that the operations of a transaction complete, whatever steps them, although it has leaked more operations
/// than there are places.
fn all_places_can_be_leaked(scheme: SchemeName) {
    leak_all_places(scheme, Never);
    leak_all_places(scheme, PrefetchOnly);
    leak_all_places(scheme, OnMiss);
    leak_all_places(scheme, Teams);
    leak_all_places(scheme, Seeded::new(7));
}

fn leak_all_places<S: Suspend>(scheme: SchemeName, policy: S) {
    let (db, t) = database(scheme);
    let options = WorkerOptions { batch: OPEN.into(), batch_max: OPEN, ..WorkerOptions::default() };
    let mut worker = db.worker_with(policy, options);
    let body = async |tx: &Txn<AnyScheme>, number: &u64| {
        let keys: [u64; 8] = std::array::from_fn(|at| at as u64 * 4 % ROWS);
        leak(tx.get_many(t.rows, &keys)).await;
        leak(tx.get_many(t.rows, &keys)).await;
        leak(tx.scan(t.rows, 3..).next()).await;
        let count = tx.get(t.counts, number % 3).await?.unwrap();
        let mut rows = tx.scan(t.rows, 0..ROWS);
        for key in 0..ROWS {
            assert_eq!(rows.next().await?, Some((key, key)));
        }
        assert_eq!(rows.next().await?, None);
        tx.put(t.indexed, number % ROWS, number + ROWS).await?;
        tx.put(t.counts, number % 3, count + 1).await
    };
    let mut committed = 0;
    worker.run_each(0..TRANSACTIONS, body, |ended: Result<()>| {
        ended.unwrap();
        committed += 1;
    });
    drop(worker);
    let last = db.begin().unwrap();
    let counts: u64 = (0..3).map(|key| last.get(t.counts, key).unwrap().unwrap()).sum();
    assert_eq!((committed, counts), (TRANSACTIONS, TRANSACTIONS));
}
