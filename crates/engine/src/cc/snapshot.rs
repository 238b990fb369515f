//! Snapshot isolation: [`Mvcc`] without any tracking of reads. It does not prevent write skew and the anomalies that
//! follow from it. The steps of a transaction:
//!
//! 1. It reads what had committed when it began.
//! 2. A write of a record fails if another transaction was the first to update it.
//! 3. At its commit it validates nothing. It draws a time if it has written.
//!
//! After Berenson et al., SIGMOD 1995.

use super::mvcc::{Mvcc, Tracker, Txn};
use super::{Abort, Copies, Env, Scanned};
use crate::memory::Memory;
use crate::profile::Activity;
use crate::record::{Slot, Timestamp, Version};
use crate::suspend::Suspend;
use std::sync::Arc;

/// Multi-version snapshot isolation: a transaction sees what had committed when it began, and the first to update a
/// record wins.
pub type Snapshot = Mvcc<Untracked>;

/// Notes no reads.
#[derive(Clone, Copy, Debug)]
pub struct Untracked;

impl Tracker for Untracked {
    const TRACKS_READS: bool = false;
    type Shared = ();
    type Worker = ();
    type Reads = ();
    type Validation = ();
    type Looks = ();

    fn worker(&(): &()) {}
    fn retire(&(): &(), &(): &()) {}
    fn reads(_: &Arc<Memory>) {}
    #[inline(always)]
    fn read((): &mut (), _: *const Slot, _: Option<*const Version>) {}
    fn read_range((): &mut (), _: &Scanned<'_>) -> bool {
        false
    }
    fn declare_read_only(_: Env<'_, Snapshot>, _: &mut Txn<Untracked>) {}
    fn reads_freely((): &()) -> bool {
        true
    }
    fn read_copies((): &mut (), _: &Scanned<'_>, _: Arc<dyn Copies>) -> bool {
        true
    }

    /// Never waits, because there is nothing to validate.
    #[inline(always)]
    fn decide<S: Suspend>(
        (): &mut (),
        env: Env<'_, Snapshot>,
        txn: &mut Txn<Untracked>,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        if txn.writes().is_empty() {
            return Some(Ok(txn.begin()));
        }
        s.enter(Activity::Timestamps);
        Some(Ok(env.shared.draw(txn)))
    }

    fn abandon(_: Env<'_, Snapshot>, _: &mut Txn<Untracked>) {}
    #[inline(always)]
    fn forget((): &mut ()) {}
}
