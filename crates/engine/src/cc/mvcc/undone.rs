//! A transaction's return to a savepoint: the changes that it has made since are undone, and it continues.
//!
//! Invariants:
//! - The transaction depends on what was there before an undone change, as if it had read it. The change may have
//!   told it, and no longer keeps others away.
//! - A version whose value the transaction may have read is in no chain, but stays where it is until the transaction
//!   has ended. If it lies in its record's slot, it keeps its place there as long, even if the slot serves another
//!   record by then.

use super::ending::take_off;
use super::reclaim::retire_version;
use super::{Env, Mvcc, Shared, Tracker, Txn, Write};
use crate::epoch::Local;
use crate::memory::{Charge, Memory, OutOfMemory};
use crate::record::{Slot, Stamp, Version, VersionKind};
use std::sync::Arc;

/// Initial room, and room that is kept for the next transaction.
const UNDONE_FIRST: usize = 16;
const UNDONE_KEPT: usize = 64;

/// Versions that were undone and may still be read. One per transaction, reused.
pub(super) struct Undone {
    versions: Vec<(*const Slot, *const Version)>,
    charge: Charge,
}
// SAFETY: the pointers lead to versions that only the transaction uses, and to their slots.
unsafe impl Send for Undone {}

impl Undone {
    /// Makes an empty set. The room for versions is charged to `memory`.
    pub(super) fn new(memory: &Arc<Memory>) -> Undone {
        Undone { versions: Vec::new(), charge: Charge::new(memory) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    /// Makes room for one more.
    fn reserve(&mut self) -> Result<(), OutOfMemory> {
        if self.versions.len() < self.versions.capacity() {
            return Ok(());
        }
        self.charge.grow(&mut self.versions, 1, UNDONE_FIRST)
    }

    /// Gives the versions back. Only operations in flight that have met them in their chains may still read them.
    pub(super) fn forget(&mut self, local: &Local) {
        for (slot, version) in self.versions.drain(..) {
            // SAFETY: slots are never unmapped.
            retire_version(unsafe { &*slot }, version, local);
        }
        self.charge.clear(&mut self.versions, UNDONE_KEPT);
    }
}

impl<T: Tracker> Txn<T> {
    /// Returns true if the transaction may have read what it has itself written. In this case the latest stamp that
    /// it has seen is the mark of an open transaction, because such marks are above all times.
    fn has_read_own(&self) -> bool {
        Stamp(self.newest_seen.get()).tag().is_some()
    }
}

/// Undoes changes: see [`ConcurrencyControl::rollback_to`](super::ConcurrencyControl::rollback_to).
pub(super) fn rollback_to<T: Tracker>(
    env: Env<'_, Mvcc<T>>,
    txn: &mut Txn<T>,
    at: usize,
    keeps: bool,
) -> Result<(), OutOfMemory> {
    debug_assert!(at <= txn.writes.len());
    let keeps = keeps && txn.has_read_own();
    while txn.writes.len() > at {
        if keeps {
            txn.undone.reserve()?;
        }
        let write = txn.writes.pop().expect("longer than `at`");
        remember(env.shared, txn, &write);
        take_off(env, txn.member.tag, &write);
        // SAFETY: slots are never unmapped.
        let slot = unsafe { &*write.slot };
        match keeps {
            true => txn.undone.versions.push((write.slot, write.new)),
            false => retire_version(slot, write.new, env.local),
        }
        if write.old.is_null() {
            env.shared.reclaimer.retire_slot(slot, &write.target, env.local);
        }
    }
    Ok(())
}

/// Notes what the transaction knows through a change that is about to be undone.
fn remember<T: Tracker>(shared: &Shared<T>, txn: &mut Txn<T>, write: &Write) {
    if T::IS_TIMED {
        // SAFETY: slots are never unmapped.
        T::head_of_read(unsafe { &*write.slot }, txn.begin());
    }
    // SAFETY: the version is behind the transaction's own version, in this epoch. It is the newest committed version,
    // or the transaction's own too.
    match unsafe { write.old.as_ref() } {
        Some(old) if old.stamp().tag() == Some(txn.tag()) => {}
        Some(_) if txn.note_in_present(shared, write) => {}
        Some(old) if old.kind() == VersionKind::Value => {
            T::read_undone(&mut txn.reads, write.slot, write.old);
        }
        Some(_) => T::read_absent(&mut txn.reads, write.slot, &write.target),
        None => {
            T::read_absent(&mut txn.reads, write.slot, &write.target);
            T::unmake(&mut txn.reads, write.slot);
        }
    }
}
