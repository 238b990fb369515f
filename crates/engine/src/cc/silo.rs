//! Silo: optimistic, serializable. The steps of a transaction:
//!
//! 1. It reads without locks and notes when what it reads was committed. It keeps its writes apart.
//! 2. At its commit it latches what it writes.
//! 3. It draws its time from the database's clock.
//! 4. It commits if everything that it has read is still the newest and latched by no other transaction. Otherwise it
//!    aborts.
//!
//! After Tu, Zheng, Kohler, Liskov, Madden: Speedy transactions in multicore in-memory databases, SOSP 2013. Different
//! here: commit times are drawn from the database's clock, and a range whose nodes have changed is gone through again
//! instead of being refused.

use super::optimistic::{Optimistic, Scope, Validation, draw};
use super::single::{Entry, Policy, Single, Txn, record_of};
use super::{Abort, Env};
use crate::record::Timestamp;
use crate::sync::atomic::{Ordering, fence};

/// Optimistic concurrency control after Silo: serializable. A transaction is run again if other transactions have
/// meanwhile overwritten what it has read.
pub type Silo = Single<Optimistic<ByNewest>>;

/// Everything that was read is still the newest, and no other transaction has latched it.
#[derive(Clone, Copy, Debug)]
pub struct ByNewest;

impl Validation for ByNewest {
    #[inline(always)]
    fn admits(_: &Txn, _: u64) -> bool {
        true
    }

    #[inline(always)]
    fn validate(env: Scope<'_, Self>, txn: &Txn) -> Option<Result<Timestamp, Abort>> {
        Some(draw_and_compare(env, txn).map_err(|_| Abort::Unserializable))
    }
}

/// Draws the time of the commit, and then compares what the transaction has read. Fails with the number of the first
/// stale entry.
#[inline(always)]
pub(super) fn draw_and_compare<P: Policy>(env: Env<'_, Single<P>>, txn: &Txn) -> Result<Timestamp, usize> {
    let at = draw(env, txn);
    fence(Ordering::SeqCst); // if two transactions overwrite what the other has read, one finds the other's latch
    stale(txn).map_or(Ok(at), Err)
}

/// Returns the number of the first entry whose value is no longer the newest, or that another transaction is about to
/// overwrite.
#[inline(always)]
pub(super) fn stale(txn: &Txn) -> Option<usize> {
    let is_newest = |(number, entry): (usize, &Entry)| {
        let Some(seen) = entry.seen else { return true };
        let (at, is_latched) = record_of(entry.record).at();
        at == seen && (!is_latched || txn.accesses.last_write(number).is_some())
    };
    txn.accesses.entries.iter().enumerate().position(|entry| !is_newest(entry))
}
