//! Strict serializability: snapshots with the serial safety net.
//!
//! The scheme notes what each transaction reads. At its commit a transaction takes five steps (`steps.rs`):
//!
//! 1. It enters the log of its worker.
//! 2. It draws its commit timestamp.
//! 3. It tells the index and the log when it commits.
//! 4. It validates its reads. The result is `sstamp`: how early it has to be ordered, because other transactions have
//!    overwritten what it read.
//! 5. It determines `pstamp`: how late it has to be ordered, because it overwrites what other transactions read. If
//!    the two bounds leave no place in the order, it aborts.
//!
//! README.md of this folder has the files and the references, and docs/design/serializability.md the rules and the
//! whole argument.
//!
//! After Wang, Johnson, Fekete, Pandis: Efficiently making (almost) any concurrency control mechanism serializable,
//! VLDB Journal 2017. The differences:
//!
//! - `sstamp` travels in the stamp of the overwriting version.
//! - Readers are entered in a log of their worker. Only a transaction that is ordered earlier than it commits looks
//!   for them.
//! - Declared readers are neither tracked nor do they wait.

#[cfg(all(test, braid_loom))]
mod loom_tests;
pub mod planted;
mod reader_log;
#[cfg(test)]
mod reader_log_tests;
mod reads;
#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
mod steps;
mod validation;

use super::mvcc::{Mvcc, Tracker, Txn};
use super::{Abort, Copies, Env, Mistake, Scanned};
use crate::memory::Memory;
use crate::profile::Activity;
use crate::record::{Slot, Timestamp, Version};
use crate::suspend::Suspend;
use crate::sync::{Arc, Mutex, lock};
use reader_log::ReaderLog;
pub use reads::ReadSet;
use std::marker::PhantomData;
use steps::{Proven, Rules};
pub use validation::Validation;

/// Strict serializability, the default. Transactions behave as if they had run one after the other, in an order in
/// which each comes after all transactions that had ended before it began.
pub type Serializable = Mvcc<SerialSafetyNet<Proven>>;

/// [`Serializable`] with one of the errors in [`planted`].
#[doc(hidden)]
pub type Planted<const BUG: u32> = Mvcc<SerialSafetyNet<planted::Erring<BUG>>>;

/// Notes reads and validates them.
#[derive(Clone, Copy, Debug)]
pub struct SerialSafetyNet<R: Rules>(PhantomData<fn() -> R>);

/// The shared part. One per database.
#[derive(Debug, Default)]
pub struct Shared {
    logs: Mutex<ReaderLogs>,
}

#[derive(Debug, Default)]
struct ReaderLogs {
    open: Vec<Arc<ReaderLog>>,
    /// The last commit of workers that are gone.
    gone: Timestamp,
}

impl<R: Rules> Tracker for SerialSafetyNet<R> {
    const IS_DEFAULT: bool = R::IS_DEFAULT;
    const TRACKS_READS: bool = true;

    type Shared = Shared;
    type Worker = Arc<ReaderLog>;
    type Reads = ReadSet;
    type Validation = Validation;
    type Looks = ();

    #[inline(always)]
    fn makes(mistake: Mistake) -> bool {
        R::makes(mistake)
    }

    fn worker(shared: &Shared) -> Arc<ReaderLog> {
        let (entries_max, ids_max) = R::log_max();
        let log = Arc::new(ReaderLog::new(entries_max, ids_max));
        lock(&shared.logs).open.push(log.clone());
        log
    }

    fn retire(shared: &Shared, worker: &Arc<ReaderLog>) {
        let mut logs = lock(&shared.logs);
        logs.open.retain(|log| !Arc::ptr_eq(log, worker));
        logs.gone = logs.gone.max(worker.last());
    }

    fn reads(memory: &Arc<Memory>) -> ReadSet {
        ReadSet::new(memory)
    }

    #[inline(always)]
    fn read(reads: &mut ReadSet, slot: *const Slot, version: Option<*const Version>) {
        match version {
            Some(version) => reads.push(slot, version),
            None => R::read_nothing(reads, slot),
        }
    }

    fn read_present(reads: &mut ReadSet, slot: *const Slot, committed: Timestamp) {
        R::read_present(reads, slot, committed);
    }

    fn read_undone(reads: &mut ReadSet, slot: *const Slot, version: *const Version) {
        reads.push_once(slot, version);
    }

    fn read_range(reads: &mut ReadSet, scanned: &Scanned<'_>) -> bool {
        R::read_range(reads, scanned)
    }

    fn read_copies(reads: &mut ReadSet, scanned: &Scanned<'_>, copies: Arc<dyn Copies>) -> bool {
        R::read_copies(reads, scanned, copies);
        true
    }

    fn declare_read_only(env: Env<'_, Mvcc<Self>>, txn: &mut Txn<Self>) {
        if !txn.reads.is_empty() || !txn.writes().is_empty() || txn.reads.is_untracked {
            return; // tracked like any other
        }
        txn.reads.is_untracked = true;
        R::open_untracked(env, txn);
    }

    fn reads_freely(reads: &ReadSet) -> bool {
        reads.is_untracked && !reads.is_full
    }

    #[inline(always)]
    fn decide<S: Suspend>(
        validation: &mut Validation,
        env: Env<'_, Mvcc<Self>>,
        txn: &mut Txn<Self>,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        if txn.reads.is_empty() {
            // The transaction is ordered where it commits: after the readers of what it overwrites.
            s.enter(Activity::Timestamps);
            return Some(Ok(steps::commit_blindly(env, txn)));
        }
        let is_first_look = txn.writes().is_empty() && txn.reads.entry.is_none();
        if is_first_look && R::is_undisturbed(env, txn) {
            return Some(Ok(txn.begin()));
        }
        validation.step(env, txn, s)
    }

    fn abandon(env: Env<'_, Mvcc<Self>>, txn: &mut Txn<Self>) {
        if let Some(entry) = txn.reads.entry.take() {
            if !txn.reads.is_stamped {
                env.worker.tracker.stamp(entry, env.shared.now());
            }
            env.worker.tracker.retract(entry);
        }
    }

    #[inline(always)]
    fn forget(reads: &mut ReadSet) {
        reads.clear();
    }
}
