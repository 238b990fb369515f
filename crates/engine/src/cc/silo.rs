//! Silo: optimistic; a transaction latches what it writes, and then looks whether what it has read is the newest still.
//!
//! After Tu, Zheng, Kohler, Liskov, Madden: Speedy transactions in multicore in-memory databases, SOSP 2013. Different
//! here: commit times are drawn from the database's clock; ranges are gone through again, where their nodes have changed,
//! rather than refused.

use super::optimistic::{Optimistic, Scope, Validation, draw};
use super::single::{Entry, Policy, Single, Txn, record_of};
use super::{Abort, Env};
use crate::record::Timestamp;
use crate::sync::atomic::{Ordering, fence};

/// Optimistic concurrency control after Silo: serializable; a transaction that has read what others have overwritten
/// meanwhile is run again.
pub type Silo = Single<Optimistic<ByNewest>>;

/// What was read is the newest still, and no other transaction has latched it.
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

/// Draws the time of the commit, and then compares what the transaction has read. Fails with the number of the first entry that is
/// stale.
#[inline(always)]
pub(super) fn draw_and_compare<P: Policy>(env: Env<'_, Single<P>>, txn: &Txn) -> Result<Timestamp, usize> {
    let at = draw(env, txn);
    fence(Ordering::SeqCst); // of two that overwrite what the other has read one finds the other's latch
    stale(txn).map_or(Ok(at), Err)
}

/// The first of what the transaction has read that is not the newest any more, or is about to be overwritten by another one.
#[inline(always)]
pub(super) fn stale(txn: &Txn) -> Option<usize> {
    let is_newest = |(number, entry): (usize, &Entry)| {
        let Some(seen) = entry.seen else { return true };
        let (at, is_latched) = record_of(entry.record).at();
        at == seen && (!is_latched || txn.accesses.last_write(number).is_some())
    };
    txn.accesses.entries.iter().enumerate().position(|entry| !is_newest(entry))
}
