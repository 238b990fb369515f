//! A transaction runs more operations at once than it has places for, on rows that other transactions change. No
//! operation holds up the worker, which has to run the transactions that the operation waits for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::suspend::{Never, OnMiss, PrefetchOnly, Seeded, Suspend, Teams};
use braiddb::worker::WorkerOptions;
use braiddb::{AnyScheme, Database, Error, Options, Result, SchemeName, Table, Transaction, Txn};
use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROWS: u64 = 30;
const TRANSACTIONS: u64 = 300;
/// A transaction needs less than a millisecond, and waits for a second if it stands still.
const PATIENCE: Duration = Duration::from_secs(30);

macro_rules! tests {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        mod $module {
            #[test]
            fn the_ninth_operation_goes_on() {
                super::the_ninth_operation_goes_on(braiddb::SchemeName::$scheme);
            }

            #[test]
            fn locks_are_joined() {
                super::locks_are_joined(braiddb::SchemeName::$scheme);
            }

            #[test]
            fn hundreds_of_operations_wait() {
                super::hundreds_of_operations_wait(braiddb::SchemeName::$scheme);
            }
        }
    )*};
}
braiddb::schemes!(tests);

/// A way to read several rows at once.
#[derive(Clone, Copy, Debug)]
enum How {
    Joined(u64),
    /// Each operation is polled when its own waker was called.
    Unordered(u64),
    Many,
    Scans,
    Locked(u64),
}

async fn read(tx: &Txn<AnyScheme>, t: Table<u64, u64>, how: How, from: u64) -> Result<()> {
    let key = |n: u64| (from + n) % ROWS;
    match how {
        How::Joined(gets) => {
            let all = join_all((0..gets).map(|n| tx.get(t, key(n)))).await;
            all.into_iter().try_for_each(|got| got.map(|row| assert!(row.is_some())))
        }
        How::Unordered(gets) => {
            let mut all: FuturesUnordered<_> = (0..gets).map(|n| tx.get(t, key(n))).collect();
            while let Some(got) = all.next().await {
                assert!(got?.is_some());
            }
            Ok(())
        }
        How::Many => {
            let first: [u64; 8] = std::array::from_fn(|n| key(n as u64));
            let second: [u64; 8] = std::array::from_fn(|n| key(n as u64 + 8));
            let (first, second) = futures::join!(tx.get_many(t, &first), tx.get_many(t, &second));
            first.and(second).map(drop)
        }
        How::Locked(locks) => {
            let all = join_all((0..locks).map(|n| tx.get_for_update(t, key(n)))).await;
            all.into_iter().try_for_each(|got| got.map(|row| assert!(row.is_some())))
        }
        How::Scans => {
            let count = async |n: u64| {
                let (mut rows, mut count) = (tx.scan(t, n..ROWS), 0);
                while rows.next().await?.is_some() {
                    count += 1;
                }
                assert_eq!(count, ROWS - n);
                Ok(())
            };
            join_all((0..10).map(count)).await.into_iter().collect()
        }
    }
}

fn the_ninth_operation_goes_on(scheme: SchemeName) {
    for how in [
        How::Joined(7),
        How::Joined(8),
        How::Joined(9),
        How::Joined(12),
        How::Joined(ROWS),
        How::Unordered(12),
        How::Many,
        How::Scans,
    ] {
        go_on(scheme, Seeded::new(1), how);
        go_on(scheme, OnMiss, how);
    }
    go_on(scheme, Never, How::Joined(12));
    go_on(scheme, PrefetchOnly, How::Joined(12));
    go_on(scheme, Teams, How::Joined(12));
}

fn locks_are_joined(scheme: SchemeName) {
    for locks in [2, 8, 12] {
        go_on(scheme, Seeded::new(1), How::Locked(locks));
    }
    go_on(scheme, OnMiss, How::Locked(8));
}

/// Proves that no wait for a row is lost, whatever number of deadlocks there are and whichever operation learns of
/// them.
#[test]
fn waits_of_joined_locks_are_not_lost() {
    for seed in 1..=3 {
        for locks in [7, 8, 9] {
            go_on_long(SchemeName::default(), Seeded::new(seed), How::Locked(locks), 1000);
        }
    }
}

/// Proves that each transaction reads its rows, adds one to a row and commits, in little time.
fn go_on<S: Suspend>(scheme: SchemeName, policy: S, how: How) {
    go_on_long(scheme, policy, how, TRANSACTIONS);
}

/// Runs `transactions` transactions, and proves the same as `go_on`.
fn go_on_long<S: Suspend>(scheme: SchemeName, policy: S, how: How, transactions: u64) {
    let options = Options { workers: 0, retries_max: 10_000, ..Options::default() };
    let db: Database<AnyScheme> =
        Database::in_memory_with(under(scheme, options), Arc::new(SystemClock::default())).unwrap();
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.transact(|tx| (0..ROWS).try_for_each(|key| tx.insert(t, key, 0))).unwrap();
    let options = WorkerOptions { batch: 16.into(), batch_max: 16, ..WorkerOptions::default() };
    let mut worker = db.worker_with(policy, options);
    let body = async |tx: &Txn<AnyScheme>, number: &u64| {
        read(tx, t, how, number * 7).await?;
        let key = number * 13 % ROWS;
        let value = tx.get(t, key).await?.unwrap();
        tx.put(t, key, value + 1).await
    };
    let began = Instant::now();
    worker.run_each(0..transactions, body, |ended: Result<()>| ended.unwrap());
    assert!(began.elapsed() < PATIENCE, "{how:?}: {:?}", began.elapsed());
    drop(worker);
    let last = db.begin().unwrap();
    let sum: u64 = (0..ROWS).map(|key| last.get(t, key).unwrap().unwrap()).sum();
    assert_eq!(sum, transactions, "{how:?}");
}

/// More operations of a transaction than it has places for wait for another transaction at once. Proves that the
/// transaction commits when the other has ended.
fn hundreds_of_operations_wait(scheme: SchemeName) {
    const MANY: u64 = 400;
    let options = Options { workers: 0, ..Options::default() };
    let db: Database<AnyScheme> =
        Database::in_memory_with(under(scheme, options), Arc::new(SystemClock::default())).unwrap();
    let t: Table<u64, u64> = db.table("t").unwrap();
    db.transact(|tx| (0..MANY).try_for_each(|key| tx.insert(t, key, 0))).unwrap();
    for is_sequential in [false, true] {
        let holder = db.begin().unwrap();
        (0..MANY).try_for_each(|key| holder.put(t, key, key)).unwrap();
        let ended = Rc::new(Cell::new(None));
        let of_end = ended.clone();
        let all = async move |tx: &Txn<AnyScheme>| {
            let all = join_all((0..MANY).map(|key| tx.get(t, key))).await;
            all.into_iter().try_fold(0, |sum, got| Ok(sum + got?.unwrap()))
        };
        let end = move |result: Result<u64>| of_end.set(Some(result.unwrap()));
        match is_sequential {
            true => wait_for(&db, PrefetchOnly, (all, end), &ended, holder),
            false => wait_for(&db, OnMiss, (all, end), &ended, holder),
        }
        let sum = ended.take().unwrap();
        assert!(sum == 0 || sum == MANY * (MANY - 1) / 2, "{sum}");
    }
}

/// Runs rounds with a transaction while another transaction is open, and then until the first has ended.
fn wait_for<S: Suspend>(
    db: &Database<AnyScheme>,
    policy: S,
    (body, end): (
        impl AsyncFnMut(&Txn<AnyScheme>) -> Result<u64> + 'static,
        impl FnOnce(Result<u64>) + 'static,
    ),
    ended: &Cell<Option<u64>>,
    holder: Transaction<AnyScheme>,
) {
    let mut worker = db.worker_with(policy, WorkerOptions::default());
    worker.spawn(body, end).unwrap();
    worker.run_rounds(1000);
    holder
        .commit()
        .or_else(|error| if matches!(error, Error::Conflict) { Ok(()) } else { Err(error) })
        .unwrap();
    let began = Instant::now();
    loop {
        worker.run_rounds(1000);
        let result = ended.take();
        ended.set(result);
        if result.is_some() {
            return;
        }
        assert!(began.elapsed() < PATIENCE);
    }
}
