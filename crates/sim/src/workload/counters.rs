//! Increments: none is lost, and each sees the one before.

use super::{Workload, digest};
use crate::ledger::Ledger;
use crate::random::Random;
use crate::scheduler::Stage;
use braiddb::{Database, Result, Table, Transaction, Txn};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A count is stored with padding of any length, so that versions lie inside of slots and outside.
type Rows = Table<u64, [u8]>;

struct Counters {
    rows: Rows,
    ledger: Ledger,
    /// What the committed increments add up to.
    counts: Rc<RefCell<[u64; COUNTERS as usize]>>,
    /// The planted bug: a count is read in one transaction and written in another.
    loses: bool,
    stale: Rc<Cell<Option<(u64, u64)>>>,
}

const COUNTERS: u64 = 3;
const PADDING_MAX: u64 = 300;

/// The workload.
pub fn counters(database: &Database, _: &mut Random, ledger: &Ledger) -> Result<Box<dyn Workload>> {
    make(database, ledger, false)
}

/// The workload with a bug, to show that it finds one: increments whose read and write are two transactions.
pub fn counters_losing_updates(
    database: &Database,
    _: &mut Random,
    ledger: &Ledger,
) -> Result<Box<dyn Workload>> {
    make(database, ledger, true)
}

fn make(database: &Database, ledger: &Ledger, loses: bool) -> Result<Box<dyn Workload>> {
    let rows = database.table("counters")?;
    let (counts, stale) = (Rc::default(), Rc::default());
    Ok(Box::new(Counters { rows, ledger: ledger.clone(), counts, loses, stale }))
}

fn padded(count: u64, padding: u64) -> Vec<u8> {
    let mut bytes = count.to_le_bytes().to_vec();
    bytes.resize(8 + padding as usize, count as u8);
    bytes
}

fn count_in(bytes: Option<&[u8]>) -> u64 {
    let Some((head, padding)) = bytes.and_then(|bytes| bytes.split_first_chunk()) else { return 0 };
    let count = u64::from_le_bytes(*head);
    if padding.iter().all(|&byte| byte == count as u8) { count } else { u64::MAX }
}

impl Workload for Counters {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn begin(&mut self, stage: &mut Stage<'_>, random: &mut Random) {
        let (rows, key, padding) = (self.rows, random.below(COUNTERS), random.below(PADDING_MAX));
        if self.loses {
            return self.begin_half(stage, key);
        }
        let (counts, ledger) = (self.counts.clone(), self.ledger.clone());
        let body = async move |tx: &Txn| {
            let count = count_in(tx.get(rows, key).await?) + 1;
            tx.put(rows, key, &padded(count, padding)).await?;
            Ok(count)
        };
        stage.spawn(body, move |count| counted(&counts, &ledger, key, count));
    }

    fn look(&self, transaction: &Transaction) -> Result<u64> {
        let mut seen = 0;
        for key in 0..COUNTERS {
            let count = count_in(transaction.get(self.rows, key)?);
            let latest = self.counts.borrow()[key as usize];
            self.ledger.check(count <= latest, || format!("counter {key} is {count}, past {latest}"));
            seen = digest(seen, &count.to_le_bytes());
        }
        Ok(seen)
    }

    fn end(&mut self, database: &Database) -> Result<()> {
        let tx = database.begin()?;
        for key in 0..COUNTERS {
            let (count, expected) = (count_in(tx.get(self.rows, key)?), self.counts.borrow()[key as usize]);
            self.ledger
                .check(count == expected, || format!("counter {key} is {count} after {expected} increments"));
        }
        Ok(())
    }
}

fn counted(counts: &RefCell<[u64; COUNTERS as usize]>, ledger: &Ledger, key: u64, count: u64) {
    let mut counts = counts.borrow_mut();
    let before = counts[key as usize];
    ledger.check(count == before + 1, || format!("increment {count} of counter {key} follows {before}"));
    counts[key as usize] += 1;
}

impl Counters {
    fn begin_half(&self, stage: &mut Stage<'_>, key: u64) {
        let (rows, stale) = (self.rows, self.stale.clone());
        match stale.take() {
            None => stage.spawn(
                async move |tx: &Txn| Ok(count_in(tx.get(rows, key).await?)),
                move |count| stale.set(Some((key, count))),
            ),
            Some((key, count)) => {
                let (counts, ledger) = (self.counts.clone(), self.ledger.clone());
                let body = async move |tx: &Txn| tx.put(rows, key, &padded(count + 1, 0)).await;
                stage.spawn(body, move |()| counted(&counts, &ledger, key, count + 1));
            }
        }
    }
}
