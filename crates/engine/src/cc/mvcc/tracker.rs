//! What a multi-version scheme adds to snapshots: nothing, or the tracking that makes them serializable.

use super::{Env, Mvcc, Txn};
use crate::cc::{Abort, Copies, Mistake, Scanned, Target};
use crate::memory::{Memory, OutOfMemory};
use crate::record::{Slot, Timestamp, Version};
use crate::suspend::Suspend;
use std::sync::Arc;

/// The part in which multi-version schemes differ: what they note of reads, and how they decide whether and
/// as of when a transaction commits.
pub trait Tracker: Sized + Send + Sync + 'static {
    /// If false, the methods that note reads do nothing, and are not worth calling.
    const TRACKS_READS: bool;
    /// A transaction has a time of its own from its beginning on: it reads and writes as of then, and commits as of then. See
    /// `timed.rs`; the methods from `began` on are called under such schemes alone.
    const IS_TIMED: bool = false;

    /// One per database.
    type Shared: Default + Send + Sync;
    /// One per worker.
    type Worker: Send;
    /// One per transaction, reused.
    type Reads: Send;
    /// A suspended validation. Plain data.
    type Validation: Copy + Default + Send;
    /// How often an access that waits has looked. Plain data.
    type Looks: Copy + Default + Send;

    /// Returns true if a planted scheme makes this mistake.
    #[inline(always)]
    fn makes(mistake: Mistake) -> bool {
        let _ = mistake;
        false
    }

    /// A worker's part.
    fn worker(shared: &Self::Shared) -> Self::Worker;
    /// The worker goes.
    fn retire(shared: &Self::Shared, worker: &Self::Worker);

    /// What a transaction has read: nothing yet. It is charged to `memory`.
    fn reads(memory: &Arc<Memory>) -> Self::Reads;
    /// The transaction has read this version (or `None` of those) of a record that is indexed.
    fn read(reads: &mut Self::Reads, slot: *const Slot, version: Option<*const Version>);
    /// The transaction, which has left its snapshot for the present, has read the value that was committed at this time there, and does
    /// not overwrite it. That may be later than its snapshot.
    fn read_present(reads: &mut Self::Reads, slot: *const Slot, committed: Timestamp) {
        let _ = (reads, slot, committed);
    }
    /// As `read` of a value, by a transaction that may have noted it as often as it has gone back to a savepoint.
    fn read_undone(reads: &mut Self::Reads, slot: *const Slot, version: *const Version) {
        Self::read(reads, slot, Some(version));
    }
    /// The transaction knows which keys there are in a range. Returns false if its records need not be noted one by one.
    fn read_range(reads: &mut Self::Reads, scanned: &Scanned<'_>) -> bool;
    /// The transaction knows that there is no value under the key of `target`; `slot`: what the index named, or null.
    fn read_absent(reads: &mut Self::Reads, slot: *const Slot, target: &Target) {
        let _ = slot;
        Self::read_range(reads, &Scanned::of_key(target, &mut [0; 8]));
    }
    /// The transaction will not write. It may be moved to a later snapshot if it has read nothing yet.
    fn declare_read_only(env: Env<'_, Mvcc<Self>>, txn: &mut Txn<Self>);
    /// Whether nothing depends on what the transaction reads.
    fn reads_freely(reads: &Self::Reads) -> bool {
        let _ = reads;
        false
    }

    /// The transaction knows which rows there are in a range by copies that are as of its snapshot. Returns false if it must not, as it does
    /// not read as of a snapshot alone.
    fn read_copies(reads: &mut Self::Reads, scanned: &Scanned<'_>, copies: Arc<dyn Copies>) -> bool {
        let _ = (reads, scanned, copies);
        false
    }

    /// Whether the transaction commits, and with which timestamp, drawn if it has written; `None`: suspended.
    fn decide<S: Suspend>(
        validation: &mut Self::Validation,
        env: Env<'_, Mvcc<Self>>,
        txn: &mut Txn<Self>,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>>;

    /// The transaction aborts, perhaps in the middle of a validation.
    fn abandon(env: Env<'_, Mvcc<Self>>, txn: &mut Txn<Self>);
    /// The transaction has ended.
    fn forget(reads: &mut Self::Reads);

    /// An access that has to wait looks once more. Returns false if it has waited as long as it may.
    #[inline(always)]
    fn may_wait(looks: &mut Self::Looks) -> bool {
        let _ = looks;
        true
    }

    /// The transaction has begun, as of this time.
    #[inline(always)]
    fn began(reads: &mut Self::Reads, at: Timestamp) {
        let _ = (reads, at);
    }
    /// The newest version of a record that is read as of `at`. That is noted at the record.
    #[inline(always)]
    fn head_of_read(slot: &Slot, at: Timestamp) -> *const Version {
        let _ = at;
        slot.head()
    }
    /// A copy of a version with a value, until the transaction ends.
    ///
    /// # Safety
    /// The version is not reclaimed in this epoch.
    unsafe fn copy(reads: &mut Self::Reads, version: *const Version) -> Result<*const Version, OutOfMemory> {
        let _ = reads;
        Ok(version)
    }
    /// Whether the record has been read as of later than `at`, by a transaction that may not have seen what one that writes
    /// as of then writes. `is_there`: that is in the chain.
    #[inline(always)]
    fn is_read_later(slot: &Slot, at: Timestamp, is_there: bool) -> bool {
        let _ = (slot, at, is_there);
        false
    }
    /// The record, which has been read, is locked as of `at`.
    #[inline(always)]
    fn locked(slot: &Slot, at: Timestamp) {
        Self::head_of_read(slot, at);
    }
    /// Whether a version that is written as of `writer`, and may be committed, keeps one that reads as of `reader` waiting.
    #[inline(always)]
    fn is_awaited(writer: Timestamp, reader: Timestamp) -> bool {
        writer < reader
    }
    /// Whether the key of `target`, which has just come into the index, has been found absent as of later than `at`.
    #[inline(always)]
    fn is_missed_later(target: &Target, at: Timestamp) -> bool {
        let _ = (target, at);
        false
    }
    /// Whether the caller passes the records of the last range of `read_range` to `read_in_range`.
    #[inline(always)]
    fn lists_records(reads: &Self::Reads) -> bool {
        let _ = reads;
        false
    }
    /// The record has been found in that range.
    fn read_in_range(reads: &mut Self::Reads, slot: *const Slot) {
        let _ = (reads, slot);
    }
    /// See [`ConcurrencyControl::obstacle`](crate::cc::ConcurrencyControl::obstacle).
    fn obstacle(reads: &Self::Reads) -> Option<Target> {
        let _ = reads;
        None
    }
    /// A record that the transaction has made is no more: its slot may serve another one before the transaction ends.
    fn unmake(reads: &mut Self::Reads, slot: *const Slot) {
        let _ = (reads, slot);
    }
}
