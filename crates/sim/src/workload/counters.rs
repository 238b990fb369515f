//! Increments, made by a read and a write or at the commit. None is lost, and each sees the one before it.

use super::{Made, Workload, digest};
use crate::ledger::Ledger;
use crate::observer::{Look, Observer};
use crate::random::Random;
use crate::submitter::Submitter;
use braiddb::{ConcurrencyControl, Database, Result, Table, Txn};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count is stored with padding of any length, so that versions lie both inside and outside of slots.
type Rows = Table<u64, [u8]>;

struct Counters {
    rows: Rows,
    ledger: Ledger,
    counts: Rc<RefCell<Counts>>,
    /// The largest counts seen from outside.
    latest: Cell<[u64; COUNTERS as usize]>,
    /// The planted bug: a count is read in one transaction and written in another.
    loses: bool,
    stale: Rc<Cell<Option<(u64, u64)>>>,
}

/// By counter, the counts that acknowledged increments have made. They may be out of order, because a commit can be
/// seen before it is acknowledged.
type Counts = [BTreeSet<u64>; COUNTERS as usize];

const COUNTERS: u64 = 3;
const PADDING_MAX: u64 = 300;

/// The workload.
pub fn counters<C: ConcurrencyControl>(database: &Database<C>, _: &mut Random, ledger: &Ledger) -> Made<C> {
    make(database, ledger, false)
}

/// The workload with a planted bug that it must find: increments whose read and write are two transactions.
pub fn counters_losing_updates<C: ConcurrencyControl>(
    database: &Database<C>,
    _: &mut Random,
    ledger: &Ledger,
) -> Made<C> {
    make(database, ledger, true)
}

fn make<C: ConcurrencyControl>(database: &Database<C>, ledger: &Ledger, loses: bool) -> Made<C> {
    let rows = database.table("counters")?;
    let (counts, stale) = (Rc::default(), Rc::default());
    Ok(Box::new(Counters { rows, ledger: ledger.clone(), counts, latest: Cell::default(), loses, stale }))
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

impl<C: ConcurrencyControl> Workload<C> for Counters {
    fn begin(&mut self, submitter: &mut Submitter<'_, C>, random: &mut Random) {
        let (rows, key, padding) = (self.rows, random.below(COUNTERS), random.below(PADDING_MAX));
        if self.loses {
            return self.begin_half(submitter, key);
        }
        let (counts, ledger) = (self.counts.clone(), self.ledger.clone());
        if random.chance(50) {
            let made = Arc::new(AtomicU64::new(0));
            let at_commit = made.clone();
            let body = async move |tx: &Txn<C>| {
                let made = at_commit.clone();
                tx.update_at_commit(rows, key, move |row, new| {
                    let count = count_in(row) + 1;
                    made.store(count, Ordering::Relaxed); // only one thread
                    new.set(&padded(count, padding))
                })
            };
            return submitter.spawn(body, move |()| {
                counted(&counts, &ledger, key, made.load(Ordering::Relaxed));
            });
        }
        let body = async move |tx: &Txn<C>| {
            let count = count_in(tx.get(rows, key).await?) + 1;
            tx.put(rows, key, &padded(count, padding)).await?;
            Ok(count)
        };
        submitter.spawn(body, move |count| counted(&counts, &ledger, key, count));
    }

    fn look(&self, observer: &Observer<C>) -> Result<Look> {
        let mut seen = 0;
        for key in 0..COUNTERS {
            let count = count_in(observer.transaction().get(self.rows, key)?);
            let mut latest = self.latest.get();
            latest[key as usize] = latest[key as usize].max(count);
            self.latest.set(latest);
            seen = digest(seen, &count.to_le_bytes());
        }
        Ok(seen.into())
    }

    fn end(&mut self, database: &Database<C>) -> Result<()> {
        let tx = database.begin()?;
        for key in 0..COUNTERS {
            let count = count_in(tx.get(self.rows, key)?);
            let counts = &self.counts.borrow()[key as usize];
            let (expected, unknown) = (counts.len() as u64, self.ledger.unknown());
            self.ledger.check((expected..=expected + unknown).contains(&count), || {
                format!("counter {key} is {count} after {expected} increments, {unknown} unknown")
            });
            let last = self.latest.get()[key as usize].max(counts.last().copied().unwrap_or(0));
            self.ledger.check(last <= count, || format!("counter {key} is {count} and was {last}"));
        }
        Ok(())
    }
}

fn counted(counts: &RefCell<Counts>, ledger: &Ledger, key: u64, count: u64) {
    let is_new = counts.borrow_mut()[key as usize].insert(count);
    ledger.check(is_new, || format!("two increments made {count} of counter {key}"));
}

impl Counters {
    fn begin_half<C: ConcurrencyControl>(&self, submitter: &mut Submitter<'_, C>, key: u64) {
        let (rows, stale) = (self.rows, self.stale.clone());
        match stale.take() {
            None => submitter.spawn(
                async move |tx: &Txn<C>| Ok(count_in(tx.get(rows, key).await?)),
                move |count| stale.set(Some((key, count))),
            ),
            Some((key, count)) => {
                let (counts, ledger) = (self.counts.clone(), self.ledger.clone());
                let body = async move |tx: &Txn<C>| tx.put(rows, key, &padded(count + 1, 0)).await;
                submitter.spawn(body, move |()| counted(&counts, &ledger, key, count + 1));
            }
        }
    }
}
