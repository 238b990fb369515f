//! MVCC: multi-version timestamp ordering, serializable. The steps of a transaction:
//!
//! 1. It gets its time, which is its place in the order, when it begins.
//! 2. It reads what is the newest as of its time, and leaves its time where it reads.
//! 3. A write puts a version before the others. It is refused if it comes too late for its time.
//! 4. At its commit it goes through those ranges again in which keys came or went while it went through them.
//!
//! After Reed: Naming and synchronization in a decentralized computer system, 1978, and Bernstein and Goodman:
//! Concurrency control in distributed database systems, ACM Computing Surveys 1981. README.md of this folder has the
//! argument. The differences:
//!
//! - A version is put before the others or not at all. A write behind a later version is refused, where the textbook
//!   would put it between two versions. A record therefore needs one time until which it has been read, instead of
//!   one for each version.
//! - The times of ranges and absent keys lie in the nodes of the index.
//! - `get_for_update` is a read and a pending write.

mod copies;
pub mod planted;
mod reads;
#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
mod steps;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests;

use super::locking::STEPS_MAX;
use super::mvcc::{Mvcc, Tracker, Txn};
use super::waits::Waits;
use super::{Abort, Env, Mistake, Scanned, Target};
use crate::memory::{Memory, OutOfMemory};
use crate::record::{Slot, Timestamp, Version};
use crate::suspend::Suspend;
use crate::sync::Arc;
pub use reads::ReadSet;
use std::marker::PhantomData;
use steps::{Proven, Rules, Verdict};

/// Multi-version timestamp ordering: serializable. A transaction reads as of its beginning. A transaction that would
/// change what was read or written as of a later time is run again.
pub type MultiVersion = Mvcc<ByTime<Proven>>;

/// [`MultiVersion`] with one of the errors in [`planted`].
#[doc(hidden)]
pub type PlantedMultiVersion<const BUG: u32> = Mvcc<ByTime<planted::Erring<BUG>>>;

/// Leaves times where it reads, and looks for them where it writes.
#[derive(Clone, Copy, Debug)]
pub struct ByTime<R: Rules>(PhantomData<fn() -> R>);

impl<R: Rules> Tracker for ByTime<R> {
    const TRACKS_READS: bool = true;
    const IS_TIMED: bool = true;

    type Shared = ();
    type Worker = ();
    type Reads = ReadSet;
    type Validation = u32;
    type Looks = u32;

    #[inline(always)]
    fn makes(mistake: Mistake) -> bool {
        R::makes(mistake)
    }

    fn worker((): &()) {}
    fn retire((): &(), (): &()) {}

    fn reads(memory: &Arc<Memory>) -> ReadSet {
        ReadSet::new(memory)
    }

    /// Does nothing: the read was noted at the record when it was accessed.
    #[inline(always)]
    fn read(_: &mut ReadSet, _: *const Slot, _: Option<*const Version>) {}

    fn read_range(reads: &mut ReadSet, scanned: &Scanned<'_>) -> bool {
        R::read_range(reads, scanned);
        false
    }

    fn read_absent(reads: &mut ReadSet, slot: *const Slot, target: &Target) {
        R::read_absent(reads, slot, target);
    }

    /// Does nothing: the transaction is tracked like any other. At an earlier time it would not be in a strict order.
    fn declare_read_only(_: Env<'_, Mvcc<Self>>, _: &mut Txn<Self>) {}

    #[inline(always)]
    fn decide<S: Suspend>(
        looks: &mut u32,
        env: Env<'_, Mvcc<Self>>,
        txn: &mut Txn<Self>,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        if s.pause() {
            return None;
        }
        if !txn.reads.is_empty() {
            match R::judge(env, txn) {
                Verdict::Fits => {}
                Verdict::Misses(abort) => return Some(Err(abort)),
                Verdict::Unknown if may_look_again(looks) => return None,
                Verdict::Unknown => return Some(Err(Abort::WaitTimeout)),
            }
        }
        let has_written = !txn.writes().is_empty();
        Some(Ok(if has_written { env.shared.commit_at_own_time(txn) } else { txn.begin() }))
    }

    fn abandon(_: Env<'_, Mvcc<Self>>, _: &mut Txn<Self>) {}

    #[inline(always)]
    fn forget(reads: &mut ReadSet) {
        reads.clear();
    }

    #[inline(always)]
    fn may_wait(looks: &mut u32, waits: &Waits, place: u32) -> bool {
        may_look_again(looks) && !waits.is_asleep(place, *looks)
    }

    #[inline(always)]
    fn began(reads: &mut ReadSet, at: Timestamp) {
        reads.begin(at);
    }

    #[inline(always)]
    fn head_of_read(slot: &Slot, at: Timestamp) -> *const Version {
        R::head_of_read(slot, at)
    }

    unsafe fn copy(reads: &mut ReadSet, version: *const Version) -> Result<*const Version, OutOfMemory> {
        // SAFETY: the caller has promised that the version is not reclaimed in this epoch, so it outlives the
        // copying.
        unsafe { reads.copies.copy(version) }
    }

    #[inline(always)]
    fn is_read_later(slot: &Slot, at: Timestamp, is_there: bool) -> bool {
        R::is_read_later(slot, at, is_there)
    }

    fn locked(slot: &Slot, at: Timestamp) {
        R::locked(slot, at);
    }

    #[inline(always)]
    fn is_awaited(writer: Timestamp, reader: Timestamp) -> bool {
        R::is_awaited(writer, reader)
    }

    fn is_missed_later(target: &Target, at: Timestamp) -> bool {
        R::is_missed_later(target, at)
    }

    #[inline(always)]
    fn lists_records(reads: &ReadSet) -> bool {
        reads.is_listing
    }

    fn read_in_range(reads: &mut ReadSet, slot: *const Slot) {
        reads.list(slot);
    }

    fn obstacle(reads: &ReadSet) -> Option<Target> {
        reads.obstacle
    }

    fn unmake(reads: &mut ReadSet, slot: *const Slot) {
        reads.unlist(slot);
    }
}

/// Counts another look of what waits. Returns false if it has waited as long as it may.
#[inline(always)]
fn may_look_again(looks: &mut u32) -> bool {
    *looks += 1;
    *looks <= STEPS_MAX
}
