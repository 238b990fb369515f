//! The steps of the scheme: what a read leaves, and what a write looks for. Tests replace single steps by another
//! form, to show that the checks notice it (`planted.rs`). Such steps are called by way of [`Rules`].

use super::{ByTime, ReadSet};
use crate::cc::mvcc::{Mvcc, Txn};
use crate::cc::{Abort, Env, Mistake, Scanned, Target};
use crate::index::Index;
use crate::memory::OutOfMemory;
use crate::record::{Slot, Timestamp, Version};
use crate::sync::atomic::{Ordering, fence};

pub(super) type Scope<'e, R> = Env<'e, Mvcc<ByTime<R>>>;
pub(super) type Open<R> = Txn<ByTime<R>>;

/// Says whether the keys that a transaction has found are the keys that exist as of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fits,
    /// The transaction has missed a key, or this cannot be known.
    Misses(Abort),
    /// An earlier transaction is about to bring a key: ask again.
    Unknown,
}

/// Leaves the time of a read at a record, and then looks at its newest version.
#[inline(always)]
pub(super) fn leave_and_look(slot: &Slot, at: Timestamp) -> *const Version {
    slot.raise_read_until(at);
    fence(Ordering::SeqCst); // if a read and a write meet, one sees the other: pairs with the fence in `is_read_later`
    slot.head()
}

/// Returns true if a record has been read as of a time later than `at`. A read that has not left its time yet knows a
/// version that `is_there`.
#[inline(always)]
pub(super) fn is_read_later(slot: &Slot, at: Timestamp, is_there: bool) -> bool {
    if is_there {
        fence(Ordering::SeqCst); // pairs with the fence in `leave_and_look`
    }
    slot.read_until() > at
}

/// Looks again at ranges in which keys have come or gone.
#[cold]
pub(super) fn judge<R: Rules>(env: Scope<'_, R>, txn: &mut Open<R>) -> Verdict {
    if txn.reads.is_full {
        return Verdict::Misses(Abort::OutOfMemory);
    }
    let (at, me, shared) = (txn.begin(), txn.tag(), env.shared);
    let mut verdict = Verdict::Misses(Abort::Unserializable);
    let mut look = |slot| {
        // SAFETY: the record was found in this epoch.
        let has_value = unsafe { shared.has_value(at, me, slot) };
        if has_value.is_none() {
            verdict = Verdict::Unknown;
        }
        has_value == Some(false)
    };
    // SAFETY: a commit is stepped inside an epoch.
    match unsafe { txn.reads.look_again(&mut look, |id| shared.slot(id)) } {
        Ok(true) => Verdict::Fits,
        Ok(false) => verdict,
        Err(OutOfMemory) => Verdict::Misses(Abort::OutOfMemory),
    }
}

/// The steps that the argument covers.
pub trait Rules: Sized + Send + Sync + 'static {
    /// See [`Tracker::makes`](crate::cc::mvcc::Tracker::makes).
    #[inline(always)]
    fn makes(mistake: Mistake) -> bool {
        let _ = mistake;
        false
    }

    /// Reads a record.
    #[inline(always)]
    fn head_of_read(slot: &Slot, at: Timestamp) -> *const Version {
        leave_and_look(slot, at)
    }

    /// Called when a record is written.
    #[inline(always)]
    fn is_read_later(slot: &Slot, at: Timestamp, is_there: bool) -> bool {
        is_read_later(slot, at, is_there)
    }

    /// Called when a record is locked.
    fn locked(slot: &Slot, at: Timestamp) {
        slot.raise_read_until(at);
    }

    /// Called when a read has met what may be committed.
    #[inline(always)]
    fn is_awaited(writer: Timestamp, reader: Timestamp) -> bool {
        writer < reader
    }

    /// Called when a range has been gone through.
    fn read_range(reads: &mut ReadSet, scanned: &Scanned<'_>) {
        reads.leave_in_range(scanned);
    }

    /// Called when a key has been found absent.
    fn read_absent(reads: &mut ReadSet, slot: *const Slot, target: &Target) {
        reads.leave_at_key(slot, target);
    }

    /// Called when a key has been brought.
    fn is_missed_later(target: &Target, at: Timestamp) -> bool {
        fence(Ordering::SeqCst); // pairs with the fence between `raise_stamp` and `is_as_marked`
        // SAFETY: the thread is inside an epoch, indexes live as long as the database, and keys as the transaction.
        let stamp = unsafe { (*target.index).stamp_of(&target.key) };
        Timestamp(stamp) > at
    }

    /// Called when the transaction commits and has ranges to look at again.
    fn judge(env: Scope<'_, Self>, txn: &mut Open<Self>) -> Verdict {
        judge(env, txn)
    }
}

/// The steps without an error.
#[derive(Clone, Copy, Debug)]
pub struct Proven;

impl Rules for Proven {}
