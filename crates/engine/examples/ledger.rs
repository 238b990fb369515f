//! A ledger on disk: money moves between accounts and each move is written down, or neither happens.
//!
//! `cargo run --example ledger`

use braiddb::{Database, Error, Options, Result, Table, Txn};

type Accounts = Table<String, i64>;
/// By the account, then the number of the entry. One scan reads all entries of an account.
type Entries = Table<(String, u64), (i64, String)>;

async fn post(
    tx: &Txn,
    accounts: Accounts,
    entries: Entries,
    name: &str,
    change: i64,
    text: &str,
) -> Result<()> {
    let Some(balance) = tx.get(accounts, name).await? else {
        return Err(Error::user(format!("no account {name}")));
    };
    if balance + change < 0 {
        return Err(Error::user(format!("{name} has {balance} only")));
    }
    tx.put(accounts, name, balance + change).await?;
    let last = tx.scan(entries, (name, 0)..=(name, u64::MAX)).reverse().limit(1).next().await?;
    let number = last.map_or(0, |((_, number), _)| number + 1);
    tx.insert(entries, (name, number), (change, text)).await
}

/// Runs the example.
pub fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("braid-ledger-{}", std::process::id()));
    let db = Database::open(&directory, Options { workers: 2, ..Options::default() })?;
    let accounts: Accounts = db.table("accounts")?;
    let entries: Entries = db.table("entries")?;
    db.run(async move |tx| {
        tx.put(accounts, "Ada", 100).await?;
        tx.put(accounts, "Eve", 0).await
    })
    .wait()?;

    let transfer = |from: &'static str, to: &'static str, amount: i64| {
        db.run(async move |tx| {
            post(tx, accounts, entries, from, -amount, &format!("to {to}")).await?;
            post(tx, accounts, entries, to, amount, &format!("from {from}")).await
        })
    };
    transfer("Ada", "Eve", 70).wait()?; // the transfer is on disk when this returns
    let refused = transfer("Ada", "Eve", 70).wait();
    println!("the second transfer: {}", refused.as_ref().expect_err("the money is gone"));

    let tx = db.begin()?;
    let mut rows = tx.scan(entries, ("Eve", 0)..=("Eve", u64::MAX));
    while let Some(((name, number), (change, text))) = rows.next()? {
        println!("{name} {number}: {change} {text}");
    }
    drop(rows);
    assert_eq!((tx.get(accounts, "Ada")?, tx.get(accounts, "Eve")?), (Some(30), Some(70)));
    drop(tx);
    db.close()?;
    std::fs::remove_dir_all(directory).map_err(Error::user)
}
