//! Workers that gather transactions by what they do next (`suspend::Teams`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::suspend::{OnMiss, Suspend, Teams};
use braiddb::worker::WorkerOptions;
use braiddb::{Database, Error, Options, Result, Table, Txn};

const ACCOUNTS: u64 = 1000;
const OPEN: usize = 16;

type Accounts = Table<u64, u64>;

fn database() -> (Database, Accounts) {
    let db =
        Database::in_memory(Options { workers: 0, retries_max: u32::MAX, ..Options::default() }).unwrap();
    let accounts = db.table("accounts").unwrap();
    db.worker().run(async |tx| put_all(tx, accounts).await).unwrap();
    (db, accounts)
}

async fn put_all(tx: &Txn, accounts: Accounts) -> Result<()> {
    for account in 0..ACCOUNTS {
        tx.put(accounts, account, 100).await?;
    }
    Ok(())
}

/// Moves an amount, sums everything up, or gives up halfway, depending on the number of the transaction.
async fn transaction(tx: &Txn, accounts: Accounts, number: u64) -> Result<()> {
    if number.is_multiple_of(50) {
        let mut sum = 0;
        tx.scan_all(accounts).for_each(|_, amount| sum += amount).await?;
        assert_eq!(sum, 100 * ACCOUNTS);
        return Ok(());
    }
    let (from, to) = (number * 7 % ACCOUNTS, number * 13 % ACCOUNTS);
    let amount = tx.get(accounts, from).await?.unwrap().min(10);
    tx.put(accounts, from, tx.get(accounts, from).await?.unwrap() - amount).await?;
    if number.is_multiple_of(11) {
        return Err(Error::user("it gives up"));
    }
    tx.put(accounts, to, tx.get(accounts, to).await?.unwrap() + amount).await
}

/// Runs many transactions. Returns the mean number of transactions that did the same next, and true if groups were
/// counted at all.
fn run<S: Suspend>(policy: S) -> (f64, bool) {
    let (db, accounts) = database();
    let before = db.statistics();
    let mut worker = db.worker_with(policy, WorkerOptions { batch: OPEN.into(), ..WorkerOptions::default() });
    let (mut committed, mut gave_up) = (0, 0);
    let body = async |tx: &Txn, number: &u64| transaction(tx, accounts, *number).await;
    worker.run_each(1..=5000, body, |result| match result {
        Ok(()) => committed += 1,
        Err(Error::User(_)) => gave_up += 1,
        Err(error) => panic!("{error}"),
    });
    assert_eq!((committed, gave_up), (5000 - 445, 445)); // nine in 100 give up, less those that sum up
    drop(worker);
    let after = db.statistics();
    let (visits, teams) = (after.visits - before.visits, after.teams - before.teams);
    (visits as f64 / teams as f64, teams > 0)
}

#[test]
fn transactions_of_teams_are_what_they_are_alone() {
    // Proves that each transaction ends once and as it should, whatever mix of reads, writes, scans, conflicts and
    // ends is open at once, and that several mostly do the same.
    let (team, is_counted) = run(Teams);
    assert!(is_counted && (2.0..=OPEN as f64).contains(&team), "{team}");
    assert!(!run(OnMiss).1, "others do not gather");
}

#[test]
fn spawned_transactions_are_gathered_and_cancelled() {
    // Proves that transactions of different types are gathered as well, and that a transaction that is dropped halfway
    // does not affect the others.
    let (db, accounts) = database();
    let mut worker = db.worker_with(Teams, WorkerOptions { batch: OPEN.into(), ..WorkerOptions::default() });
    let ended = std::rc::Rc::new(std::cell::Cell::new(0));
    let mut spawned = Vec::new();
    for number in 0..OPEN as u64 {
        let count = ended.clone();
        let end = move |result: Result<()>| count.set(count.get() + u32::from(result.is_ok()));
        let name = match number % 2 {
            0 => worker.spawn(async move |tx: &Txn| tx.put(accounts, number, 100).await, end),
            _ => worker.spawn(async move |tx: &Txn| put_all(tx, accounts).await, end),
        };
        spawned.push(name.unwrap());
    }
    worker.run_rounds(3);
    let cancelled: Vec<_> = spawned.drain(..4).collect();
    let cancelled = cancelled.into_iter().filter(|name| worker.cancel(*name)).count() as u32;
    while !worker.run_rounds(100).is_idle {}
    assert_eq!(ended.get() + cancelled, OPEN as u32);
    assert_eq!(db.transact(|tx| tx.count(accounts)).unwrap(), ACCOUNTS);
}
