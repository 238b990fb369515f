//! NO_WAIT: two-phase locking, serializable. A transaction that would have to wait for a lock aborts at once. The
//! steps of a transaction are those of `locking.rs`.
//!
//! After Bernstein and Goodman: Concurrency control in distributed database systems, ACM Computing Surveys 1981.

use super::locking::{Locking, Meeting, OnConflict, Scope};
use super::single::{Single, Txn};
use crate::memory::OutOfMemory;

/// Two-phase locking without waiting: serializable. A transaction that meets another transaction's lock is run again.
pub type NoWait = Single<Locking<GiveWay>>;

/// A transaction that meets a lock aborts.
#[derive(Clone, Copy, Debug)]
pub struct GiveWay;

impl OnConflict for GiveWay {
    // Under the other schemes a waiting writer marks the lock's word. Here writers wait only in the queue.
    const LINES_UP: bool = true;

    #[inline(always)]
    fn may_wait(_: Scope<'_, Self>, _: &mut Txn, _: &Meeting) -> Result<bool, OutOfMemory> {
        Ok(false)
    }
}
