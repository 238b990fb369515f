//! How a transaction's changes end. They are published or undone, and what they leave to clean up goes into the
//! worker's queue.

use super::queue::Garbage;
use super::{ConcurrencyControl, Env, Mvcc, Tracker, Txn, Write, reclaim};
use crate::cc::{Changed, Target};
use crate::index::Index;
use crate::record::{Stamp, Tag, Timestamp, Version, VersionKind};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::try_lock;

/// The number of versions superseded between two passes of a worker's garbage collection. It is less than a pass can
/// take, so the collection keeps up with transactions of any length.
pub(super) const CHANGES_PER_PASS: usize = 128;
/// The number of superseded versions for which there is room from one pass to the next.
const SUPERSEDED_KEPT: usize = 1024;

/// Gives each row that `writes` have changed to `note`, with its last value.
#[inline(always)]
pub(super) fn each_change(writes: &[Write], note: &mut impl FnMut(Changed<'_>)) {
    for write in writes {
        // SAFETY: slots are never unmapped.
        if !std::ptr::eq(unsafe { &*write.slot }.head(), write.new) {
            continue; // the transaction has changed it again, or it was only a lock
        }
        // SAFETY: the version is this transaction's, and in its chain.
        let is_value = unsafe { &*write.new }.kind() == VersionKind::Value;
        // SAFETY: as above, and the version's value does not change.
        let value = is_value.then(|| unsafe { &*Version::value(write.new) });
        note(Changed { target: &write.target, value });
    }
}

/// Stamps the writes with one timestamp. The descriptor makes the timestamp known before any version has it.
pub(super) fn publish<T: Tracker>(env: Env<'_, Mvcc<T>>, txn: &mut Txn<T>, at: Timestamp) {
    debug_assert!(if T::IS_TIMED { at == txn.member.begin } else { at > txn.member.begin });
    env.shared.registry.settle(txn.member.place(), at);
    let mut garbage = env.worker.superseded.borrow_mut();
    let (mut superseded, due) = (0, in_line(&garbage, at));
    for write in txn.writes.drain(..) {
        // SAFETY: the version is this transaction's, and in its chain.
        unsafe { &*write.new }.set_committed(at);
        if !write.old.is_null() {
            // SAFETY: this transaction's version superseded it just now, so it is not reclaimed yet.
            let stamp = unsafe { &*write.old }.stamp();
            garbage.push(Garbage { slot: write.slot, version: write.old, stamp, superseded: due });
            superseded += 1;
        }
    }
    drop(garbage);
    env.worker.changes.set(env.worker.changes.get() + superseded);
    while env.worker.changes.get() >= CHANGES_PER_PASS || env.local.has_grown() {
        env.worker.changes.set(env.worker.changes.get().saturating_sub(CHANGES_PER_PASS));
        Mvcc::maintain(env);
    }
}

/// Adds what the worker has superseded lately to its queue, and works through the queue: through all of it if it
/// `is_urgent`. Returns true if more is due.
pub(super) fn collect<T: Tracker>(env: Env<'_, Mvcc<T>>, is_urgent: bool) -> bool {
    if is_urgent {
        env.local.forget_growth();
    }
    // Another thread that is short of memory may be working through the queue.
    let Some(mut queue) = try_lock(&env.worker.queue) else { return false };
    queue.append(&mut env.worker.superseded.borrow_mut());
    env.worker.superseded.borrow_mut().shrink_to(SUPERSEDED_KEPT);
    env.shared.reclaimer.pass(&env.shared.registry, &mut queue, env.local, is_urgent)
}

/// Returns when the turn of an entry superseded at `at` comes: not before the turn of the entries ahead of it.
fn in_line(line: &[Garbage], at: Timestamp) -> Timestamp {
    line.last().map_or(at, |last| last.superseded.max(at))
}

/// Takes the locks back. Transactions that begin from now on must see nothing of them. Therefore this is done before
/// the transaction has committed for such transactions.
#[inline(always)]
pub(super) fn unlock<T: Tracker>(env: Env<'_, Mvcc<T>>, txn: &mut Txn<T>) {
    if !std::mem::take(&mut txn.has_locks) {
        return;
    }
    let tag = txn.member.tag;
    txn.writes.retain(|write| {
        let is_idle = write.is_idle_lock();
        if is_idle {
            undo(env, tag, write);
        }
        !is_idle
    });
}

/// Takes one write back. It is the head of its chain, because every other writer fails with a conflict on it.
pub(super) fn undo<T: Tracker>(env: Env<'_, Mvcc<T>>, tag: Tag, write: &Write) {
    // SAFETY: slots are never unmapped.
    let slot = unsafe { &*write.slot };
    take_off(env, tag, write);
    reclaim::retire_version(slot, write.new, env.local);
    if write.old.is_null() {
        env.shared.reclaimer.retire_slot(slot, &write.target, env.local);
    }
}

/// Takes the version of a write off its chain. If a record was made for the write, takes the record's key out of its
/// index.
pub(super) fn take_off<T: Tracker>(env: Env<'_, Mvcc<T>>, tag: Tag, write: &Write) {
    // SAFETY: slots are never unmapped.
    let slot = unsafe { &*write.slot };
    // SAFETY: the version is this transaction's, and in its chain.
    unsafe { &*write.new }.set_stamp(Stamp::aborted(tag));
    let removed = slot.install(write.new, write.old);
    debug_assert!(removed, "an uncommitted version is the head until its transaction ends");
    // SAFETY: it is behind this transaction's version. It is the newest committed version, or this transaction's too,
    // so it is not reclaimed before the epoch passes.
    if let Some(old) = unsafe { write.old.as_ref() }
        && old.kind() == VersionKind::Tombstone
    {
        // The tombstone's turn may have come while it was covered. Then nothing else would remove the record. Pairs
        // with the fence in `remove_or_defer`.
        fence(Ordering::SeqCst);
        if old.take_overdue() {
            let mut garbage = env.worker.superseded.borrow_mut();
            let superseded = in_line(&garbage, env.shared.now());
            garbage.push(Garbage { slot, version: write.old, stamp: old.stamp(), superseded });
        }
    }
    if write.old.is_null() {
        let Target { index, key, id } = write.target;
        // SAFETY: the index lives as long as the database, and the thread is inside an epoch.
        let removed = unsafe { (*index).remove(env.local, &key, id) };
        debug_assert!(removed, "a record's key is in its index until the record is removed");
    }
}
