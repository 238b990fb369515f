//! What a multi-version scheme adds to snapshots: nothing, or the tracking that makes them serializable.

use super::{Env, Mvcc, Txn};
use crate::cc::waits::Waits;
use crate::cc::{Abort, Copies, Mistake, Scanned, Target};
use crate::memory::{Memory, OutOfMemory};
use crate::record::{Slot, Timestamp, Version};
use crate::suspend::Suspend;
use std::sync::Arc;

/// The part in which multi-version schemes differ: what they note about reads, and how they decide whether and as of
/// when a transaction commits.
pub trait Tracker: Sized + Send + Sync + 'static {
    /// True for the default scheme alone.
    const IS_DEFAULT: bool = false;
    /// If false, the methods that note reads do nothing and need not be called.
    const TRACKS_READS: bool;
    /// True if a transaction has a time of its own from its beginning on. It reads, writes and commits as of this
    /// time: see `timed.rs`. The methods from `began` on are called only under such schemes.
    const IS_TIMED: bool = false;

    /// The shared part. One per database.
    type Shared: Default + Send + Sync;
    /// A worker's part. One per worker.
    type Worker: Send;
    /// What a transaction has read. One per transaction, reused.
    type Reads: Send;
    /// A suspended validation. Plain data.
    type Validation: Copy + Default + Send;
    /// How often a waiting access has looked. Plain data.
    type Looks: Copy + Default + Send;

    /// Returns true if a planted scheme makes this mistake.
    #[inline(always)]
    fn makes(mistake: Mistake) -> bool {
        let _ = mistake;
        false
    }

    /// Makes a worker's part.
    fn worker(shared: &Self::Shared) -> Self::Worker;
    /// Ends a worker's part.
    fn retire(shared: &Self::Shared, worker: &Self::Worker);

    /// Makes an empty set of reads, which is charged to `memory`.
    fn reads(memory: &Arc<Memory>) -> Self::Reads;
    /// Notes that the transaction has read this version of an indexed record, or that it sees none (`None`).
    fn read(reads: &mut Self::Reads, slot: *const Slot, version: Option<*const Version>);
    /// Notes that the transaction has read, in the present, the value committed at this time, and does not overwrite
    /// it. The transaction has left its snapshot for the present, so the time may be later than its snapshot.
    fn read_present(reads: &mut Self::Reads, slot: *const Slot, committed: Timestamp) {
        let _ = (reads, slot, committed);
    }
    /// Notes the read of a value, as `read` does. The transaction may have noted the same value as often as it has
    /// gone back to a savepoint.
    fn read_undone(reads: &mut Self::Reads, slot: *const Slot, version: *const Version) {
        Self::read(reads, slot, Some(version));
    }
    /// Notes that the transaction knows which keys are in a range. Returns false if its records need not be noted one
    /// by one.
    fn read_range(reads: &mut Self::Reads, scanned: &Scanned<'_>) -> bool;
    /// Notes that the transaction knows there is no value under the key of `target`. `slot` is what the index named,
    /// or null.
    fn read_absent(reads: &mut Self::Reads, slot: *const Slot, target: &Target) {
        let _ = slot;
        Self::read_range(reads, &Scanned::of_key(target, &mut [0; 8]));
    }
    /// Says that the transaction will not write. If it has read nothing yet, it may be moved to a later snapshot.
    fn declare_read_only(env: Env<'_, Mvcc<Self>>, txn: &mut Txn<Self>);
    /// Returns true if nothing depends on what the transaction reads.
    fn reads_freely(reads: &Self::Reads) -> bool {
        let _ = reads;
        false
    }

    /// Notes that the transaction knows which rows are in a range by copies as of its snapshot. Returns false if it
    /// must not, because it does not read as of a snapshot alone.
    fn read_copies(reads: &mut Self::Reads, scanned: &Scanned<'_>, copies: Arc<dyn Copies>) -> bool {
        let _ = (reads, scanned, copies);
        false
    }

    /// Decides whether the transaction commits, and with which timestamp, which is drawn if the transaction has
    /// written; `None`: suspended.
    fn decide<S: Suspend>(
        validation: &mut Self::Validation,
        env: Env<'_, Mvcc<Self>>,
        txn: &mut Txn<Self>,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>>;

    /// Aborts the transaction, perhaps in the middle of a validation.
    fn abandon(env: Env<'_, Mvcc<Self>>, txn: &mut Txn<Self>);
    /// Forgets the reads of a transaction that has ended.
    fn forget(reads: &mut Self::Reads);

    /// Counts another look of an access that waits for the transaction at `place`. Returns false if the access has
    /// waited as long as it may, or if that transaction sleeps.
    #[inline(always)]
    fn may_wait(looks: &mut Self::Looks, waits: &Waits, place: u32) -> bool {
        let _ = (looks, waits, place);
        true
    }

    /// Says that the transaction has begun as of this time.
    #[inline(always)]
    fn began(reads: &mut Self::Reads, at: Timestamp) {
        let _ = (reads, at);
    }
    /// Returns the newest version of a record that is read as of `at`, and notes the read at the record.
    #[inline(always)]
    fn head_of_read(slot: &Slot, at: Timestamp) -> *const Version {
        let _ = at;
        slot.head()
    }
    /// Copies a version with a value. The copy lives until the transaction ends.
    ///
    /// # Safety
    /// The version is not reclaimed in this epoch.
    unsafe fn copy(reads: &mut Self::Reads, version: *const Version) -> Result<*const Version, OutOfMemory> {
        let _ = reads;
        Ok(version)
    }
    /// Returns true if the record has been read as of a time later than `at`, by a transaction that may not have seen
    /// what a transaction writes as of `at`. `is_there`: the new version is in the chain.
    #[inline(always)]
    fn is_read_later(slot: &Slot, at: Timestamp, is_there: bool) -> bool {
        let _ = (slot, at, is_there);
        false
    }
    /// Notes that the record, which has been read, is locked as of `at`.
    #[inline(always)]
    fn locked(slot: &Slot, at: Timestamp) {
        Self::head_of_read(slot, at);
    }
    /// Returns true if a version written as of `writer`, which may be committed, makes a read as of `reader` wait.
    #[inline(always)]
    fn is_awaited(writer: Timestamp, reader: Timestamp) -> bool {
        writer < reader
    }
    /// Returns true if the key of `target`, which has just come into the index, was found absent as of a time later
    /// than `at`.
    #[inline(always)]
    fn is_missed_later(target: &Target, at: Timestamp) -> bool {
        let _ = (target, at);
        false
    }
    /// Returns true if the caller passes the records of the last range of `read_range` to `read_in_range`.
    #[inline(always)]
    fn lists_records(reads: &Self::Reads) -> bool {
        let _ = reads;
        false
    }
    /// Notes that the record has been found in that range.
    fn read_in_range(reads: &mut Self::Reads, slot: *const Slot) {
        let _ = (reads, slot);
    }
    /// Returns the row in the way: see [`ConcurrencyControl::obstacle`](crate::cc::ConcurrencyControl::obstacle).
    fn obstacle(reads: &Self::Reads) -> Option<Target> {
        let _ = reads;
        None
    }
    /// Notes that a record which the transaction has made is gone. Its slot may serve another record before the
    /// transaction ends.
    fn unmake(reads: &mut Self::Reads, slot: *const Slot) {
        let _ = (reads, slot);
    }
}
