//! What a multi-version scheme adds to snapshots: nothing, or the tracking that makes them serializable.

use super::{Env, Mvcc, Txn};
use crate::cc::{Abort, Scanned};
use crate::memory::Memory;
use crate::record::{Slot, Timestamp, Version};
use crate::suspend::Suspend;
use std::sync::Arc;

/// The part in which multi-version schemes differ: what they note of reads, and how they decide whether and
/// as of when a transaction commits.
pub trait Tracker: Sized + Send + Sync + 'static {
    /// If false, the methods that note reads do nothing, and are not worth calling.
    const TRACKS_READS: bool;
    /// True only in tests: readers take a committing transaction for one that has not begun to commit.
    const TEARS_COMMITS: bool = false;

    /// True only in tests: what superseded a version that is read is unlinked nevertheless.
    const FORGETS_SUCCESSORS: bool = false;

    /// True only in tests: nodes of the index lose their stamps when they split.
    const LOSES_STAMPS: bool = false;

    /// One per database.
    type Shared: Default + Send + Sync;
    /// One per worker.
    type Worker: Send;
    /// One per transaction, reused.
    type Reads: Send;
    /// A suspended validation. Plain data.
    type Validation: Copy + Default + Send;

    /// A worker's part.
    fn worker(shared: &Self::Shared) -> Self::Worker;
    /// The worker goes.
    fn retire(shared: &Self::Shared, worker: &Self::Worker);

    /// What a transaction has read: nothing yet. It is charged to `memory`.
    fn reads(memory: &Arc<Memory>) -> Self::Reads;
    /// The transaction has read this version (or `None` of those) of a record that is indexed.
    fn read(reads: &mut Self::Reads, slot: *const Slot, version: Option<*const Version>);
    /// The transaction knows which keys there are in a range. Returns false if its records need not be noted one by one.
    fn read_range(reads: &mut Self::Reads, scanned: &Scanned<'_>) -> bool;
    /// The transaction will not write. It may be moved to a later snapshot if it has read nothing yet.
    fn declare_read_only(env: Env<'_, Mvcc<Self>>, txn: &mut Txn<Self>);

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
}
