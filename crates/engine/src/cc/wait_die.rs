//! WAIT_DIE: two-phase locking, serializable. A transaction waits for a lock if it is older than all transactions
//! that have it, and aborts otherwise. The steps of a transaction are those of `locking.rs`, and:
//!
//! 1. When it begins for the first time, it draws its age. When it is run again, it keeps its age.
//! 2. At each look at a lock that others have, it compares its age with the holder's, or with that of the oldest
//!    sharer. It waits on, or aborts.
//! 3. While it waits to have a shared lock alone, no younger transaction comes to share the lock.
//!
//! Waits lead from older to younger transactions, so no cycle closes. An aborted transaction keeps its age, so one
//! day it is the oldest.
//!
//! After Rosenkrantz, Stearns, Lewis: System level concurrency control for distributed database systems, TODS 1978.
//! Different here: a shared lock keeps only the age of the oldest sharer, even after that transaction has ended; and
//! step 3.

use super::Declared;
use super::locking::{Locking, Meeting, OnConflict, Scope};
use super::single::{Single, Txn, holder_of_lock, is_older, oldest_of, shares_of};
use crate::memory::OutOfMemory;

/// Two-phase locking in which older transactions wait: serializable. A transaction that meets an older transaction's
/// lock is run again.
pub type WaitDie = Single<Locking<ByAge>>;

/// The older transaction waits, the younger aborts.
#[derive(Clone, Copy, Debug)]
pub struct ByAge;

impl OnConflict for ByAge {
    #[inline(always)]
    fn begun(env: Scope<'_, Self>, txn: &mut Txn, declared: Declared) {
        if !declared.is_retry {
            txn.age = env.shared.registry.draw_age();
        }
        env.shared.registry.set_age(txn.member.place(), txn.age);
    }

    fn may_wait(env: Scope<'_, Self>, txn: &mut Txn, meeting: &Meeting) -> Result<bool, OutOfMemory> {
        let lock = meeting.lock;
        if let Some(holder) = holder_of_lock(lock) {
            let age = env.shared.registry.age_of(holder);
            return Ok(age.is_none_or(|age| is_older(txn.age, age)));
        }
        let is_oldest = match meeting.has_share {
            true => txn.age == oldest_of(lock),
            false => shares_of(lock) == 0 || is_older(txn.age, oldest_of(lock)),
        };
        if is_oldest && meeting.wanted.alone {
            txn.keep_out(meeting.wanted.record, lock);
        }
        Ok(is_oldest)
    }
}
