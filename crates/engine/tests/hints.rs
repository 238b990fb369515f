//! Hints and adaptive workers, through the public interface.

use braiddb::suspend::OnMiss;
use braiddb::worker::{BatchSize, Hint, WorkerOptions};
use braiddb::{Database, Options, Result, Table, Txn};
use std::cell::Cell;

const HOT: u64 = 4;
const TRANSACTIONS: u64 = 20_000;

fn database(workers: usize) -> (Database, Table<u64, u64>) {
    let db =
        Database::in_memory(Options { workers, pin_workers: false, ..Options::default() }).expect("memory");
    let table = db.table("hot").expect("it is new");
    db.begin()
        .and_then(|tx| (0..HOT).try_for_each(|key| tx.put(table, key, 0)).and_then(|()| tx.commit()))
        .expect("nobody else writes");
    (db, table)
}

/// Moves one from a hot record to another.
async fn transfer(tx: &Txn, table: Table<u64, u64>, number: u64) -> Result<()> {
    let (from, to) = keys(number);
    let (a, b) = (tx.get(table, from).await?.unwrap_or(0), tx.get(table, to).await?.unwrap_or(0));
    tx.put(table, from, a.wrapping_sub(1)).await?;
    tx.put(table, to, b.wrapping_add(1)).await
}

fn keys(number: u64) -> (u64, u64) {
    (number % HOT, (number + 1 + number / HOT % (HOT - 1)) % HOT)
}

fn hint(number: &u64) -> Hint {
    let (from, to) = keys(*number);
    Hint::default().touches(from).touches(to)
}

fn sum(db: &Database, table: Table<u64, u64>) -> u64 {
    let tx = db.begin().expect("few are open");
    (0..HOT).fold(0, |sum: u64, key| {
        sum.wrapping_add(tx.get(table, key).expect("it reads").expect("it is there"))
    })
}

#[test]
fn hinted_transactions_on_hot_records_never_conflict() {
    // Proves that with hints, transfers among four records on one worker never abort, interleaved or with an adapting
    // worker, and that they abort without hints.
    for batch in [BatchSize::Fixed(48), BatchSize::Auto] {
        let (db, table) = database(0);
        let mut worker = db.worker_with(OnMiss, WorkerOptions { batch, ..WorkerOptions::default() });
        // More rows, because reads of a small table do not suspend.
        worker.run_each(1000..3000, async |tx, key| tx.put(table, *key, 0).await, |result| result.unwrap());
        let mut ended = 0;
        worker.run_each_hinted(
            0..TRANSACTIONS,
            hint,
            async |tx, number| transfer(tx, table, *number).await,
            |result| ended += u64::from(result.is_ok()),
        );
        assert_eq!((ended, db.statistics().aborts_conflict), (TRANSACTIONS, 0));
        assert_eq!(sum(&db, table), 0);
        worker.set_batch(48);
        worker.run_each(
            0..1000,
            async |tx, number| transfer(tx, table, *number).await,
            |result| result.unwrap(),
        );
        assert!(db.statistics().aborts_conflict > 0);
    }
}

#[test]
fn submitted_transactions_with_hints_never_conflict_on_one_worker() {
    // Proves the same of transactions that other threads submit, one by one and as a batch, and that equal hints keep
    // the order.
    let (db, table) = database(1);
    let batch = db.run_each_hinted((0..TRANSACTIONS).collect(), hint, async move |tx, number: &u64| {
        transfer(tx, table, *number).await
    });
    let log: Table<u64, u64> = db.table("log").unwrap();
    let handles: Vec<_> = (0..500_u64)
        .map(|number| {
            db.run_hinted(Hint::default().touches(1000), async move |tx| {
                let at = tx.get(log, 0).await?.unwrap_or(0) + 1;
                tx.put(log, 0, at).await?;
                tx.insert(log, at, number).await
            })
        })
        .collect();
    assert!(batch.wait().unwrap().iter().all(Result::is_ok));
    handles.into_iter().for_each(|handle| handle.wait().unwrap());
    assert_eq!((sum(&db, table), db.statistics().aborts_conflict), (0, 0));
    let tx = db.begin().unwrap();
    assert!((0..500).all(|number| tx.get(log, number + 1).unwrap() == Some(number)));
}

#[test]
fn a_hinted_transaction_that_is_dropped_makes_way() {
    // Proves that transactions get their turn if they wait for a transaction that is cancelled, either open or waiting
    // itself.
    let (db, table) = database(1);
    let hint = Hint::default().touches(1);
    let first = db.run_hinted(hint, async move |tx| {
        loop {
            tx.get(table, 1).await?;
        }
        #[expect(unreachable_code, reason = "the loop's type is that of a result")]
        Ok(())
    });
    let second = db.run_hinted(hint, async move |tx| tx.put(table, 1, 5).await);
    let third = db.run_hinted(hint, async move |tx| tx.get(table, 1).await);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!third.is_done());
    drop(second);
    drop(first);
    assert_eq!(third.wait().unwrap(), Some(0));
}

#[test]
fn a_transaction_that_turns_out_long_lets_others_run() {
    // Proves that an endless transaction without a hint does not block a worker that runs one transaction after the
    // other.
    let (db, table) = database(1);
    let endless = db.run(async move |tx| -> Result<()> {
        loop {
            tx.get(table, 1).await?;
        }
    });
    for _ in 0..100 {
        assert_eq!(db.run(async move |tx| tx.get(table, 2).await).wait().unwrap(), Some(0));
    }
    endless.cancel();
    assert!(endless.wait().is_err());
}

#[test]
fn an_adapting_worker_runs_everything_once() {
    // Proves that each transaction ends once and sees its own work when the level changes in the middle of a stream of
    // short and long transactions, with hints and without.
    let (db, table) = database(0);
    let mut worker = db.worker();
    let ended = Cell::new(0_u64);
    let count = 300_000;
    let body = async |tx: &Txn, number: &u64| {
        let reads = if number.is_multiple_of(5000) { 3000 } else { 2 };
        for read in 0..reads {
            tx.get(table, (number + read) % HOT).await?;
        }
        tx.put(table, 100 + number, *number).await
    };
    worker.run_each(0..count / 2, body, |result| ended.set(ended.get() + u64::from(result.is_ok())));
    let long =
        |number: &u64| if number.is_multiple_of(5000) { Hint::default().long() } else { Hint::default() };
    let sink = |result: Result<()>| ended.set(ended.get() + u64::from(result.is_ok()));
    worker.run_each_hinted(count / 2..count, long, body, sink);
    assert_eq!(ended.get(), count);
    let tx = db.begin().unwrap();
    assert!((0..count).all(|number| tx.get(table, 100 + number).unwrap() == Some(number)));
}
