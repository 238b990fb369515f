//! Versions under schemes in which a transaction has a time from its beginning on. It reads, writes and commits as of
//! this time ([`Tracker::IS_TIMED`]).
//!
//! Invariants:
//! - A transaction's time is its own, and its snapshot's. The registry holds it from the transaction's beginning to
//!   its end.
//! - A version is put before the versions that are older in this order, and only if the record has not been read as
//!   of a later time. Along a chain times therefore decrease as usual, and what is read as of a time is the newest
//!   version before it.
//! - The place for a small version in the record holds the time until which the record has been read. Every version
//!   lies elsewhere.
//! - Accesses wait only for transactions of earlier times, so they never wait in a cycle.

use super::{Env, Mvcc, NOTHING, Seen, Shared, Tracker, Txn, Write, slot_of, undo};
use crate::cc::common::registry::Outcome;
use crate::cc::{Abort, Intent, Mistake, Refused};
use crate::record::{Record, Slot, Tag, Timestamp, Version, VersionKind};
use std::ptr::without_provenance;

// Ends of an access, beside a version and `NOTHING`.
/// The value is read once the record is locked.
pub(super) const UNREAD: *const Version = without_provenance(2);
/// A write is too late: the record has a version of a later time.
pub(super) const LATE: *const Version = without_provenance(3);
/// The access has waited as long as it may.
pub(super) const TIMED_OUT: *const Version = without_provenance(4);
/// There is no memory for a copy of the value.
const NO_ROOM: *const Version = without_provenance(5);

/// Returns why an access was refused, if it was.
#[inline(always)]
pub(super) fn refusal(end: *const Version) -> Option<Refused> {
    match end {
        LATE => Some(Refused::Abort(Abort::WriteConflict)),
        TIMED_OUT => Some(Refused::Abort(Abort::WaitTimeout)),
        NO_ROOM => Some(Refused::OutOfMemory),
        _ => None,
    }
}

/// Returns where an access ends that has come to a version which it sees.
#[inline(always)]
pub(super) fn end_at<T: Tracker>(
    shared: &Shared<T>,
    txn: &mut Txn<T>,
    slot: &Slot,
    seen: *const Version,
    intent: Intent,
) -> *const Version {
    let seen = if !T::makes(Mistake::EarlyValues) {
        shared.newest_seen_by(txn.begin(), txn.tag(), slot, seen)
    } else {
        seen
    };
    // SAFETY: reached from the head of its chain in this epoch.
    let Some(version) = (unsafe { seen.as_ref() }) else { return NOTHING };
    if version.kind() != VersionKind::Value {
        txn.saw(version.stamp());
        return NOTHING;
    }
    if intent == Intent::Untracked { keep(txn, seen) } else { seen }
}

/// Copies a version whose read is noted nowhere. A version of an earlier time may be put before it, and it may be
/// reclaimed.
pub(super) fn keep<T: Tracker>(txn: &mut Txn<T>, version: *const Version) -> *const Version {
    // SAFETY: reached from the head of its chain in this epoch.
    unsafe { T::copy(&mut txn.reads, version) }.unwrap_or(NO_ROOM)
}

/// Undoes a version that was put before another one, if it is too late.
pub(super) fn undo_if_late<T: Tracker>(
    env: Env<'_, Mvcc<T>>,
    txn: &Txn<T>,
    write: &Write,
) -> Result<(), Abort> {
    // SAFETY: slots are never unmapped.
    if !T::is_read_later(unsafe { &*write.slot }, txn.begin(), true) {
        return Ok(());
    }
    undo(env, txn.tag(), write);
    Err(Abort::WriteConflict)
}

impl<T: Tracker> Shared<T> {
    /// Returns what another transaction's version means for a transaction that reads as of `at`.
    #[cold]
    #[inline(never)]
    pub(super) fn resolve_by_time(&self, version: &Version, at: Timestamp) -> Seen {
        loop {
            let stamp = version.stamp();
            let Some(tag) = stamp.tag() else {
                return if stamp.is_committed_by(at) { Seen::Visible } else { Seen::Invisible };
            };
            let age = self.registry.age_of(tag);
            // The age may be that of the next transaction at its place. In that case, however, this transaction had
            // stamped its versions before.
            let Some(writer) = age.map(Timestamp).filter(|_| version.stamp() == stamp) else { continue };
            match self.registry.outcome(tag) {
                Outcome::Ended => {}
                Outcome::Committed(_) if writer <= at => return Seen::Visible,
                _ if T::is_awaited(writer, at) => return Seen::Wait,
                _ => return Seen::Invisible,
            }
        }
    }

    /// Returns the newest version that a transaction sees, when its access has come to `seen`. When the access met
    /// that version, the version may not have been committed. Its transaction may have put more versions before it
    /// since, all of them before it committed. Null: the last of them was a deletion, and has been removed with its
    /// record.
    #[inline(always)]
    fn newest_seen_by(&self, at: Timestamp, me: Tag, slot: &Slot, seen: *const Version) -> *const Version {
        let mut v = slot.head();
        while !std::ptr::eq(v, seen) && !v.is_null() {
            // SAFETY: reached from the head inside an epoch.
            let version = unsafe { &*v };
            let stamp = version.stamp();
            let is_others = || stamp.tag().is_some_and(|tag| tag != me);
            if stamp.is_committed_by(at)
                || is_others() && matches!(self.resolve_by_time(version, at), Seen::Visible)
            {
                return v;
            }
            v = version.next();
        }
        v
    }

    /// Returns true unless an open transaction has this record's newest version and is ordered after `at`.
    ///
    /// # Safety
    /// As [`ConcurrencyControl::access`](super::ConcurrencyControl::access).
    pub(super) unsafe fn is_earlier(&self, record: *const Record, at: Timestamp) -> bool {
        // SAFETY: it is the head, and the thread is inside an epoch.
        let head = unsafe { slot_of(record).head().as_ref() };
        !head.is_some_and(|head| {
            head.stamp().tag().is_some() && matches!(self.resolve_by_time(head, at), Seen::Invisible)
        })
    }

    /// Lets the transaction commit as of its time. Other transactions wait for its outcome from now on.
    #[inline(always)]
    pub(in crate::cc) fn commit_at_own_time(&self, txn: &Txn<T>) -> Timestamp {
        debug_assert!(!txn.writes.is_empty());
        self.registry.commit_at(txn.member.place(), txn.begin(), false)
    }

    /// Returns true if the transaction finds a value in a record, apart from its own, and notes that at the record.
    /// `None`: ask again.
    ///
    /// # Safety
    /// The thread has found the record in its epoch.
    pub(in crate::cc) unsafe fn has_value(&self, at: Timestamp, me: Tag, slot: *const Slot) -> Option<bool> {
        // SAFETY: slots are never unmapped.
        let mut v = T::head_of_read(unsafe { &*slot }, at);
        while !v.is_null() {
            // SAFETY: reached from the head inside an epoch.
            let version = unsafe { &*v };
            let stamp = version.stamp();
            let seen = match stamp.tag() {
                _ if stamp.is_committed_by(at) => Seen::Visible,
                Some(tag) if tag != me => self.resolve_by_time(version, at),
                _ => Seen::Invisible,
            };
            match seen {
                Seen::Visible => {
                    // SAFETY: slots are never unmapped.
                    let newest = self.newest_seen_by(at, me, unsafe { &*slot }, v);
                    // SAFETY: reached from the head inside an epoch.
                    return Some(unsafe { newest.as_ref() }.is_some_and(|v| v.kind() == VersionKind::Value));
                }
                Seen::Wait => return None,
                Seen::Invisible => v = version.next(),
            }
        }
        Some(false)
    }
}
