//! Transactions of one or several workers read rows and then lock or update them. Many of them conflict, but each
//! commits after a few attempts, under every scheme.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes::under;
use braiddb::metrics::SystemClock;
use braiddb::storage::MemoryStorage;
use braiddb::suspend::{OnMiss, Seeded};
use braiddb::worker::WorkerOptions;
use braiddb::{AnyScheme, Database, NewValue, Options, Result, SchemeName, Table, Txn};
use futures::future::join_all;
use std::sync::Arc;

const TOGETHER: usize = 10;
const TRANSACTIONS: u64 = 400;

/// Reads ten rows together and adds one to each, twice.
async fn update(tx: &Txn<AnyScheme>, rows: Table<u64, u64>, count: u64, seed: u64) -> Result<()> {
    let mut state = seed;
    for _ in 0..2 {
        let keys: [u64; TOGETHER] = std::array::from_fn(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % count
        });
        let values = tx.get_many(rows, &keys).await?;
        let values: Vec<u64> = values.into_iter().map(|value| value.unwrap()).collect();
        for (key, value) in keys.into_iter().zip(values) {
            tx.put(rows, key, value + 1).await?;
        }
    }
    Ok(())
}

/// The average number of conflicts that a transaction may have.
const CONFLICTS_MAX: u64 = 10;

/// Runs transactions on `count` rows, `open` of them at a time.
fn transactions_commit_after_a_few_attempts(scheme: SchemeName, count: u64, open: usize) {
    let options = Options { workers: 0, ..Options::default() };
    let db = Database::<AnyScheme>::in_memory_with(under(scheme, options), Arc::new(SystemClock::default()))
        .unwrap();
    let rows: Table<u64, u64> = db.table("rows").unwrap();
    for row in 0..count {
        db.worker().run(async |tx| tx.put(rows, row, 0).await).unwrap();
    }
    let before = db.statistics();
    let mut worker = db.worker_with(OnMiss, WorkerOptions { batch: open.into(), ..WorkerOptions::default() });
    worker.run_each(
        0..TRANSACTIONS,
        async |tx, &seed| update(tx, rows, count, seed).await,
        |done| done.unwrap(),
    );
    let now = db.statistics();
    assert!(now.commits - before.commits >= TRANSACTIONS);
    let conflicts = now.aborts_conflict - before.aborts_conflict;
    assert!(
        conflicts <= CONFLICTS_MAX * TRANSACTIONS,
        "{conflicts} conflicts of {TRANSACTIONS} transactions on {count} rows"
    );
}

/// The average number of conflicts that a transaction may have if all transactions want one row.
const CONFLICTS_OF_ONE_ROW_MAX: u64 = 40;

/// Runs transactions on two threads that read one row and then lock it. Proves that each commits after some attempts:
///
/// - no wait is forgotten in a queue,
/// - transactions that share the row do not stand aside for each other,
/// - the transaction whose turn has come keeps the turn for its next attempt.
fn readers_of_one_row_lock_it(scheme: SchemeName, at_commit: bool) {
    const EACH: u64 = 1_000;
    let options = Options { workers: 0, retries_max: 100_000, ..Options::default() };
    let db = Database::<AnyScheme>::in_memory_with(under(scheme, options), Arc::new(SystemClock::default()))
        .unwrap();
    let rows: Table<u64, u64> = db.table("rows").unwrap();
    db.transact(|tx| tx.put(rows, 1, 0)).unwrap();
    let body = async |tx: &Txn<AnyScheme>, _: &u64| {
        tx.get(rows, 1).await?;
        if at_commit {
            return tx.update_at_commit(rows, 1, |old: Option<u64>, new: NewValue<'_, u64>| {
                new.set(old.unwrap_or_default() + 1)
            });
        }
        let value = tx.get_for_update(rows, 1).await?;
        tx.put(rows, 1, value.unwrap() + 1).await
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let options = WorkerOptions { batch: 32.into(), batch_max: 32, ..WorkerOptions::default() };
                db.worker_with(OnMiss, options).run_each(0..EACH, body, |done| done.unwrap());
            });
        }
    });
    let conflicts = db.statistics().aborts_conflict;
    assert!(
        conflicts <= CONFLICTS_OF_ONE_ROW_MAX * 2 * EACH,
        "{conflicts} conflicts of {} transactions on one row",
        2 * EACH
    );
    assert_eq!(db.begin().unwrap().get(rows, 1).unwrap(), Some(2 * EACH));
}

/// The average number of conflicts that a transaction may have if all transactions read every row.
const CONFLICTS_OF_READERS_MAX: u64 = 100;

/// Runs transactions on one worker. Each reads all rows at once, in many operations, and then writes one of them.
/// Proves that when the last share of a row is given back, the transactions do not all come back together and fail
/// each other again.
fn readers_of_all_rows_write_one(scheme: SchemeName) {
    const ROWS: u64 = 30;
    const JOINED: u64 = 40;
    const READERS: u64 = 50;
    let options = Options { workers: 0, ..Options::default() };
    let db = Database::<AnyScheme>::in_memory_with(under(scheme, options), Arc::new(SystemClock::default()))
        .unwrap();
    let rows: Table<u64, u64> = db.table("rows").unwrap();
    db.transact(|tx| (0..ROWS).try_for_each(|row| tx.put(rows, row, 0))).unwrap();
    let body = async |tx: &Txn<AnyScheme>, &number: &u64| {
        let read = async |first: u64| {
            let keys: [u64; 3] = std::array::from_fn(|next| (first + next as u64) % ROWS);
            tx.get_many(rows, &keys).await.map(drop)
        };
        join_all((0..JOINED).map(|at| read(number * 7 + at))).await.into_iter().collect::<Result<()>>()?;
        let old = tx.get(rows, number * 7 % ROWS).await?;
        tx.put(rows, number * 7 % ROWS, old.unwrap() + 1).await
    };
    let mut worker = db.worker_with(OnMiss, WorkerOptions { batch: 16.into(), ..WorkerOptions::default() });
    worker.run_each(0..READERS, body, |done| done.unwrap());
    let conflicts = db.statistics().aborts_conflict;
    assert!(
        conflicts <= CONFLICTS_OF_READERS_MAX * READERS,
        "{conflicts} conflicts of {READERS} transactions"
    );
}

/// Runs transactions on one worker. Each reads and locks all rows at once, some of them twice, in many operations.
/// Proves that operations that wait for rows fail when another operation of their transaction has failed. Otherwise an
/// operation with a turn to keep would keep a second operation asleep behind it.
fn joined_operations_fail_together(scheme: SchemeName) {
    const ROWS: u64 = 30;
    const JOINED: u64 = 40;
    const JOINERS: u64 = 50;
    let options = Options { workers: 0, ..Options::default() };
    let db = Database::<AnyScheme>::in_memory_with(under(scheme, options), Arc::new(SystemClock::default()))
        .unwrap();
    let rows: Table<u64, u64> = db.table("rows").unwrap();
    db.transact(|tx| (0..ROWS).try_for_each(|row| tx.put(rows, row, 0))).unwrap();
    let body = async |tx: &Txn<AnyScheme>, &number: &u64| {
        let one = async |at: u64| {
            let row = (number * 7 + at) % ROWS;
            match at % 5 {
                4 => tx.get_for_update(rows, row).await.map(drop),
                3 => tx.scan(rows, row..ROWS).next().await.map(drop),
                _ => tx.get(rows, row).await.map(drop),
            }
        };
        join_all((0..JOINED).map(one)).await.into_iter().collect::<Result<()>>()?;
        let old = tx.get(rows, number * 7 % ROWS).await?;
        tx.put(rows, number * 7 % ROWS, old.unwrap() + 1).await
    };
    let mut worker = db.worker_with(OnMiss, WorkerOptions { batch: 16.into(), ..WorkerOptions::default() });
    worker.run_each(0..JOINERS, body, |done| done.unwrap());
}

/// The number of accounts.
const ACCOUNTS: u64 = 10;
const BALANCE: u64 = 1 << 40;

/// Moves an amount from one account to another at the commit, with a read between the two updates, or returns the sum
/// of all accounts.
async fn move_or_sum(tx: &Txn<AnyScheme>, rows: Table<u64, u64>, number: u64) -> Result<Option<u64>> {
    let (from, to) = (number % ACCOUNTS, (number + 1 + number / 7 % (ACCOUNTS - 1)) % ACCOUNTS);
    let take = |old: Option<u64>, new: NewValue<'_, u64>| new.set(old.unwrap_or_default() - 7);
    match number % 3 {
        0 => {
            tx.update_at_commit(rows, from, take)?;
            tx.add(rows, to, 7)?;
        }
        1 => {
            tx.update_at_commit(rows, from, take)?;
            let old = tx.get(rows, to).await?;
            tx.put(rows, to, old.unwrap() + 7).await?;
        }
        _ => {
            let (mut all, mut sum) = (tx.scan(rows, 0..ACCOUNTS), 0);
            while let Some((_, value)) = all.next().await? {
                sum += value;
            }
            return Ok(Some(sum));
        }
    }
    Ok(None)
}

/// Runs transactions on three workers that move amounts between few accounts. Proves that each commits, without a wait
/// that reaches `lock_wait_ms`, and that no sum shows half of a commit.
fn accounts(scheme: SchemeName) {
    const EACH: u64 = 400;
    let options = Options { workers: 1, retries_max: 100_000, ..Options::default() };
    let db = Database::<AnyScheme>::in_memory_with(under(scheme, options), Arc::new(SystemClock::default()))
        .unwrap();
    let rows: Table<u64, u64> = db.table("accounts").unwrap();
    db.transact(|tx| (0..ACCOUNTS).try_for_each(|row| tx.put(rows, row, BALANCE))).unwrap();
    let judge = |done: Result<Option<u64>>| {
        let sum = done.unwrap();
        assert!(sum.is_none_or(|sum| sum == ACCOUNTS * BALANCE), "the sum is {sum:?}");
    };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (db, judge) = (&db, &judge);
            scope.spawn(move || {
                let options = WorkerOptions { batch: 8.into(), batch_max: 8, ..WorkerOptions::default() };
                let numbers = (0..EACH).map(|number| number * 5 + thread);
                let body =
                    async move |tx: &Txn<AnyScheme>, &number: &u64| move_or_sum(tx, rows, number).await;
                let handle = db.run_each(numbers.clone().collect::<Vec<_>>(), body);
                db.worker_with(OnMiss, options).run_each(numbers, body, judge);
                handle.wait().unwrap().into_iter().for_each(judge);
            });
        }
    });
    judge(db.transact(|tx| {
        (0..ACCOUNTS).map(|row| Ok(tx.get(rows, row)?.unwrap())).sum::<Result<_>>().map(Some)
    }));
}

macro_rules! tests {
    ($($name:literal $module:ident $scheme:ident $promise:ident,)*) => {$(
        #[test]
        fn $module() {
            transactions_commit_after_a_few_attempts(braiddb::SchemeName::$scheme, 200, 4);
            transactions_commit_after_a_few_attempts(braiddb::SchemeName::$scheme, 40, 16);
            readers_of_one_row_lock_it(braiddb::SchemeName::$scheme, false);
            readers_of_one_row_lock_it(braiddb::SchemeName::$scheme, true);
            readers_of_all_rows_write_one(braiddb::SchemeName::$scheme);
            joined_operations_fail_together(braiddb::SchemeName::$scheme);
            accounts(braiddb::SchemeName::$scheme);
        }
    )*};
}
braiddb::schemes!(tests);

/// The partitions of the table.
const PARTITIONS: u32 = 64;

/// Runs transactions on one worker. Each locks several rows in different partitions at once. Proves that an operation that
/// sleeps for a partition is called when another operation of its transaction has got that partition.
#[test]
fn partitions_are_locked_together() {
    const ROWS: u64 = 30;
    const JOINED: u64 = 4;
    const LOCKERS: u64 = 2_000;
    let options = Options {
        workers: 0,
        lock_wait_ms: 2_000,
        log_buffer_bytes: 1 << 16,
        log_segment_bytes: 1 << 20,
        ..Options::default()
    };
    let (storage, clock) = (Arc::new(MemoryStorage::new(1 << 30)), Arc::new(SystemClock::default()));
    let options = under(SchemeName::HStore, options);
    let db = Database::<AnyScheme>::open_with(storage, options, clock, &mut |_| {}).unwrap();
    let rows: Table<u64, u64> = db.partitioned_table("rows", PARTITIONS).unwrap();
    db.transact(|tx| (0..ROWS).try_for_each(|row| tx.put(rows, row, 0))).unwrap();
    let body = async |tx: &Txn<AnyScheme>, &number: &u64| {
        let first = number * 7;
        let lock = async |at: u64| tx.get_for_update(rows, (first + at) % ROWS).await.map(drop);
        join_all((0..JOINED).map(lock)).await.into_iter().collect::<Result<()>>()?;
        let old = tx.get(rows, first % ROWS).await?;
        tx.put(rows, first % ROWS, old.unwrap() + 1).await
    };
    let options = WorkerOptions { batch: 16.into(), ..WorkerOptions::default() };
    let mut worker = db.worker_with(Seeded::new(0), options);
    worker.run_each(0..LOCKERS, body, |done| done.unwrap());
}
