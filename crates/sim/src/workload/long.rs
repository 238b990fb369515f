//! A transaction that stays open from the beginning to the end. With a snapshot, it sees the first state to the last,
//! and holds back no more garbage than it can see. Without a snapshot, it commits only if what it has read is still
//! there.

use super::{EXACT, Made, Workload, declare, digest};
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::submitter::{IDLE_ROWS, Submitter};
use braiddb::{ConcurrencyControl, Database, Result, Table, Transaction, Txn};

struct Long<C: ConcurrencyControl> {
    rows: Table<u64, [u8]>,
    ledger: Ledger,
    long: Option<Transaction<C>>,
    /// The number of rows that it reads, from `first` on.
    read: u64,
    first: u64,
}

const ROWS: u64 = 50;
const VALUE_BYTES_MAX: u64 = 200;
/// The number of changes that a worker lets wait before it works around an open snapshot, and some that are under way.
const GARBAGE_PER_WORKER_MAX: usize = 4096 + 1024;

/// The workload.
pub fn long<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    let rows: Table<u64, [u8]> = database.partitioned_table("long", u64::BITS)?;
    let tx = database.begin()?;
    for key in 0..ROWS {
        tx.insert(rows, key, &[1; 64])?;
    }
    tx.commit()?;
    let open = database.begin()?;
    open.declare_partitions(database.partition_of(rows, 0))?;
    // If it may lock what it reads, it reads only one row, so that other transactions make progress.
    let read = if ledger.isolation().reads_snapshots() { ROWS } else { 1 };
    let mut long = Long { rows, ledger: ledger.clone(), long: None, read, first: 0 };
    long.first = long.digest(&open, read)?;
    long.long = Some(open);
    Ok(Box::new(long))
}

impl<C: ConcurrencyControl> Long<C> {
    fn digest(&self, transaction: &Transaction<C>, end: u64) -> Result<u64> {
        let (mut rows, mut seen) = (transaction.scan(self.rows, 0..end), 0);
        while let Some((key, value)) = rows.next()? {
            seen = digest(digest(seen, &key.to_le_bytes()), value);
        }
        Ok(seen)
    }
}

impl<C: ConcurrencyControl> Workload<C> for Long<C> {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (rows, first, second) = (self.rows, random.below(ROWS), random.below(ROWS));
        let value = vec![random.any() as u8; random.below(VALUE_BYTES_MAX) as usize];
        let deletes = random.chance(20);
        let body = async move |tx: &Txn<C>| {
            declare(tx, rows, EXACT, &[first, second]).await?;
            tx.put(rows, first, &value).await?;
            if deletes { tx.delete(rows, second).await.map(drop) } else { tx.put(rows, second, &value).await }
        };
        submitter.spawn(body, |()| ());
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        self.digest(observer.transaction(), ROWS).map(Look::from)
    }

    /// The transaction was open the whole time. What it saw is still there, and little else. Without snapshots, all
    /// deleted rows wait for it.
    fn before_cleaning(&mut self, _: &Database<C>, garbage: usize, workers: usize) -> Result<()> {
        let is_bounded =
            !self.ledger.isolation().reads_snapshots() || garbage <= workers * GARBAGE_PER_WORKER_MAX;
        self.ledger.check(is_bounded, || format!("{garbage} changes wait behind one snapshot"));
        let Some(long) = self.long.take() else { return Ok(()) };
        match self.digest(&long, self.read).and_then(|last| long.commit().map(|()| last)) {
            Ok(last) => {
                self.ledger.check(last == self.first, || "the long transaction's rows have changed".into())
            }
            Err(error) => self.ledger.refused("the long transaction", &error),
        }
        Ok(())
    }

    fn end(&mut self, database: &Database<C>) -> Result<()> {
        let tx = database.begin()?;
        let (mut rows, mut alive) = (tx.scan(self.rows, 0..ROWS), 0);
        while rows.next()?.is_some() {
            alive += 1;
        }
        let memory = database.statistics().memory;
        let records = memory.records - IDLE_ROWS;
        self.ledger.check(records == alive, || format!("{records} records are kept for {alive} rows"));
        Ok(())
    }
}
