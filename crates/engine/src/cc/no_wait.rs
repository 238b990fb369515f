//! NO_WAIT: two-phase locking in which a transaction that would have to wait for a lock gives way at once.
//!
//! After Bernstein and Goodman: Concurrency control in distributed database systems, ACM Computing Surveys 1981.

use super::locking::{Locking, Meeting, OnConflict, Scope};
use super::single::{Single, Txn};
use crate::memory::OutOfMemory;

/// Two-phase locking without waiting: serializable; a transaction that meets another one's lock is run again.
pub type NoWait = Single<Locking<GiveWay>>;

/// One that meets a lock gives way.
#[derive(Clone, Copy, Debug)]
pub struct GiveWay;

impl OnConflict for GiveWay {
    // (Under the other schemes a waiting writer marks the lock's word. Here writers wait only in the queue.)
    const LINES_UP: bool = true;

    #[inline(always)]
    fn may_wait(_: Scope<'_, Self>, _: &mut Txn, _: &Meeting) -> Result<bool, OutOfMemory> {
        Ok(false)
    }
}
