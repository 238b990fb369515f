//! WAIT_DIE: two-phase locking in which a transaction waits for a lock if it is older than all that have it, and gives way
//! otherwise.
//!
//! After Rosenkrantz, Stearns, Lewis: System level concurrency control for distributed database systems, TODS 1978. Waits go from
//! the older to the younger, so none closes a circle; and one that gives way keeps its age, so that it is the oldest some day.
//! Different here: of those that share a lock only the age of the oldest is kept, also when that one has ended; and while one
//! waits for them, a younger one does not come to share it.

use super::Declared;
use super::locking::{Locking, Meeting, OnConflict, Scope};
use super::single::{Single, Txn, holder_of_lock, is_older, oldest_of, shares_of};
use crate::memory::OutOfMemory;

/// Two-phase locking in which older transactions wait: serializable; one that meets the lock of an older one is run again.
pub type WaitDie = Single<Locking<ByAge>>;

/// The older waits, the younger gives way.
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
