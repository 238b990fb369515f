//! A record's chain of versions: how a version is made, and which transaction has overwritten what another has read.

use super::reclaim::TombstoneValue;
use super::{Env, Mvcc, Shared, Tracker};
use crate::cc::common::registry::Outcome;
use crate::cc::{Change, Target};
use crate::epoch::Local;
use crate::memory::OutOfMemory;
use crate::record::{RecordId, Slot, Stamp, Tag, Timestamp, Version, VersionKind};

/// Writes a version: into the slot if it fits and the place is free, otherwise into memory.
#[inline(always)]
pub(super) fn new_version(
    slot: &Slot,
    local: &Local,
    stamp: Stamp,
    next: *const Version,
    kind: VersionKind,
    value: &[u8],
) -> Result<*mut Version, OutOfMemory> {
    let inline = slot.write_inline(stamp, next, kind, value);
    if !inline.is_null() {
        return Ok(inline);
    }
    let bytes = Version::bytes_for(value.len());
    let at: *mut Version = match kind {
        VersionKind::Value => local.allocate(bytes)?.cast(),
        // The reserve lets a full database be emptied.
        VersionKind::Tombstone => local.allocate_from_reserve(bytes)?.cast(),
    };
    // SAFETY: allocated with that size.
    unsafe { Version::write(at, stamp.0, next, kind, value) };
    Ok(at)
}

/// Makes a version for a change of the record whose head is `old`.
#[inline(always)]
pub(super) fn version_of<T: Tracker>(
    env: Env<'_, Mvcc<T>>,
    tag: Tag,
    slot: &Slot,
    old: *const Version,
    target: &Target,
    change: Change<'_>,
) -> Result<*mut Version, OutOfMemory> {
    let value = |value: &[u8]| new_version(slot, env.local, tag.stamp(), old, VersionKind::Value, value);
    match change {
        Change::Put(bytes) | Change::Update(bytes) | Change::Insert(bytes) => value(bytes),
        // SAFETY: it is the head, and the thread is inside an epoch. The version's value does not change.
        Change::Lock => value(unsafe { &*Version::value(old) }),
        Change::Delete => {
            let mut value = env.worker.tombstone_value.borrow_mut();
            TombstoneValue::write(target, &mut value);
            new_version(slot, env.local, tag.stamp(), old, VersionKind::Tombstone, &value)
        }
    }
}

/// Gives back a version at once.
///
/// # Safety
/// `v` is from `new_version` for `slot`, and no other thread can see it: it was never published, or no thread reads
/// the record.
pub(super) unsafe fn drop_version(slot: &Slot, local: &Local, v: *mut Version) {
    if slot.is_inline(v) {
        // SAFETY: the caller has promised that no other thread can see the version.
        slot.free_inline(unsafe { &*v }.stamp());
    } else {
        // SAFETY: as above.
        let bytes = unsafe { Version::bytes_total(v) };
        // SAFETY: the version is from `allocate` with this size, because it comes from `new_version` and is not in
        // the slot.
        unsafe { local.free(v.cast(), bytes) };
    }
}

/// What became of the version of a record that a snapshot sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwritten {
    /// It has not been overwritten, or only by transactions that will commit later.
    No,
    /// Ask again: the transaction that has overwritten it may commit earlier.
    Wait,
    /// The transaction that committed with this timestamp has overwritten it.
    By(Timestamp),
}

impl<T: Tracker> Shared<T> {
    /// Returns the first transaction that has overwritten what a snapshot opened at `begin` sees of a record. Only
    /// transactions that commit before `at` count. The transaction of `me` does not count.
    ///
    /// # Safety
    /// `slot` is a slot, the thread is inside an epoch, and the snapshot is open.
    #[inline(always)]
    pub(in crate::cc) unsafe fn overwriter(
        &self,
        slot: *const Slot,
        begin: Timestamp,
        at: Timestamp,
        me: Tag,
    ) -> Overwritten {
        // SAFETY: slots are never unmapped.
        let mut v = unsafe { &*slot }.head();
        let mut first = Overwritten::No;
        while !v.is_null() {
            // SAFETY: reached from the head inside an epoch.
            let version = unsafe { &*v };
            match self.commit_of(version, begin, at, me) {
                Commit::Seen => break,
                Commit::Later => {}
                Commit::Unknown => return Overwritten::Wait,
                Commit::Earlier(stamp) => first = Overwritten::By(stamp),
            }
            v = version.next();
        }
        first
    }

    /// Returns the slot of a record if a snapshot opened at `begin` may not see its newest version, or if the record
    /// is being removed just now.
    pub(in crate::cc) fn changed_since(&self, begin: Timestamp, id: RecordId) -> Option<*const Slot> {
        let slot = self.slot(id);
        // SAFETY: slots are never unmapped.
        let head = unsafe { &*slot }.head();
        // SAFETY: it is the head, and the thread is inside an epoch.
        let is_seen = !head.is_null() && unsafe { &*head }.stamp().is_committed_by(begin);
        (!is_seen).then_some(slot)
    }

    #[inline(always)]
    fn commit_of(&self, version: &Version, begin: Timestamp, at: Timestamp, me: Tag) -> Commit {
        loop {
            let stamp = version.stamp();
            if stamp.is_committed_by(begin) {
                return Commit::Seen;
            }
            if let Some(committed) = stamp.timestamp() {
                return if committed < at { Commit::Earlier(committed) } else { Commit::Later };
            }
            // Rolled back: the version is about to be unlinked.
            let Some(tag) = stamp.tag().filter(|&tag| tag != me) else { return Commit::Later };
            match self.registry.outcome(tag) {
                Outcome::Active => return Commit::Later,
                Outcome::Committing => return Commit::Unknown,
                Outcome::Pending(committed) if committed < at => return Commit::Unknown,
                Outcome::Committed(committed) if committed <= begin => return Commit::Seen,
                Outcome::Committed(committed) if committed < at => return Commit::Earlier(committed),
                Outcome::Pending(_) | Outcome::Committed(_) => return Commit::Later,
                // The transaction stamped its versions before it ended, so the next look finds no mark.
                Outcome::Ended => {}
            }
        }
    }
}

/// A version's commit, as seen by a transaction that is itself committing.
enum Commit {
    /// Within its snapshot.
    Seen,
    Earlier(Timestamp),
    /// After it, or never.
    Later,
    Unknown,
}
