//! Transfers that keep the sum of all accounts: every snapshot sees the same sum.

use super::{Made, Workload, declare, digest};
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Error, Result, Table, Txn};

struct Bank {
    accounts: Table<u64, i64>,
    ledger: Ledger,
}

/// More accounts than one run of a scan, and more than one node of the index, holds.
const ACCOUNTS: u64 = 40;
const EACH: i64 = 100;
const TOTAL: i64 = ACCOUNTS as i64 * EACH;

/// The workload.
pub fn bank<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    let accounts = database.partitioned_table("accounts", u64::BITS)?;
    let tx = database.begin()?;
    for key in 0..ACCOUNTS {
        tx.insert(accounts, key, EACH)?;
    }
    tx.commit()?;
    Ok(Box::new(Bank { accounts, ledger: ledger.clone() }))
}

impl<C: ConcurrencyControl> Workload<C> for Bank {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let accounts = self.accounts;
        if random.chance(30) {
            let (ledger, is_reverse) = (self.ledger.clone(), random.chance(50));
            let body = async move |tx: &Txn<C>| audit(tx, accounts, &ledger, is_reverse).await;
            return submitter.spawn(body, |()| ());
        }
        // One side has few accounts, so that transfers meet.
        let (mut from, mut to) = (random.below(6), random.below(ACCOUNTS));
        if random.chance(50) {
            (from, to) = (to, from);
        }
        let (amount, closes) = (random.between(1, 120) as i64, random.chance(20));
        submitter
            .spawn(async move |tx: &Txn<C>| transfer(tx, accounts, from, to, amount, closes).await, |()| ());
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let (mut rows, mut sum, mut seen) = (observer.transaction().scan(self.accounts, 0..ACCOUNTS), 0, 0);
        while let Some((key, balance)) = rows.next()? {
            sum += balance;
            seen = digest(digest(seen, &key.to_le_bytes()), &balance.to_le_bytes());
        }
        self.ledger
            .check_open(sum == TOTAL, || format!("a look from outside adds up to {sum}, not {TOTAL}"))?;
        Ok(seen.into())
    }
}

async fn audit<C: ConcurrencyControl>(
    tx: &Txn<C>,
    accounts: Table<u64, i64>,
    ledger: &Ledger,
    is_reverse: bool,
) -> Result<()> {
    let all = tx.scan_all(accounts);
    let mut rows = if is_reverse { all.reverse() } else { all };
    let mut sum = 0;
    while let Some((_, balance)) = rows.next().await? {
        sum += balance;
    }
    ledger.check_open(sum == TOTAL, || format!("a scan adds up to {sum}, not {TOTAL}"))
}

/// Moves money. An account that is empty afterwards may be closed, which deletes its row.
async fn transfer<C: ConcurrencyControl>(
    tx: &Txn<C>,
    accounts: Table<u64, i64>,
    from: u64,
    to: u64,
    amount: i64,
    closes: bool,
) -> Result<()> {
    declare(tx, accounts, amount as u64, &[from, to]).await?;
    let left = tx.get(accounts, from).await?.unwrap_or(0);
    let amount = if closes { left } else { amount };
    tx.put(accounts, from, left - amount).await?;
    let got = tx.get(accounts, to).await?.unwrap_or(0) + amount;
    if left < amount {
        return Err(Error::user("not enough money")); // after the first half is written
    }
    tx.put(accounts, to, got).await?;
    if closes && from != to {
        tx.delete(accounts, from).await?;
    }
    Ok(())
}
