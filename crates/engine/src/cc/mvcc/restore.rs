//! Fills a database that no transaction reads yet: each record has one version, which has committed.
//!
//! Invariants:
//! - The stamp is a tick, whose reach is the tick itself. Therefore nothing that a later transaction does can be
//!   ordered before a restored version.
//! - The thread that takes a version off the head of a chain is its only owner, and gives it back at once. Versions
//!   are therefore given back as fast as they are replaced, and the next version can take the place inside the slot
//!   again.

use super::chain::{drop_version, new_version};
use crate::cc::common::registry::FIRST;
use crate::epoch::Local;
use crate::memory::OutOfMemory;
use crate::record::{INLINE_BYTES_MAX, Slot, Stamp, Timestamp, VersionKind};
use std::ptr::null;

/// Returns the stamp of a version that committed at `at`.
pub(super) fn stamp_of(at: u64) -> Stamp {
    debug_assert!(at <= Timestamp::LAST.0);
    // There is no commit before the first, so 0 occurs only in damaged files.
    let stamp = Stamp(Timestamp(at).tick().max(FIRST).0);
    debug_assert!(stamp.timestamp().is_some_and(|at| at.reach() == at));
    stamp
}

/// Makes `value`, committed at `at`, the record's only version.
///
/// # Safety
/// No thread reads the record, and `new_version` made what the record has.
#[inline(always)]
pub(super) unsafe fn put(slot: &Slot, local: &Local, value: &[u8], at: u64) -> Result<(), OutOfMemory> {
    let new = new_version(slot, local, stamp_of(at), null(), VersionKind::Value, value)?;
    let old = slot.exchange(new);
    if !old.is_null() {
        // SAFETY: the version is off the chain, and no thread reads it.
        unsafe { drop_version(slot, local, old.cast_mut()) };
    }
    Ok(())
}

/// Makes `value` the only version of a record that already has a version. A short value that lies in the slot makes
/// room for the next one.
///
/// # Safety
/// As `put`.
#[inline(always)]
pub(super) unsafe fn put_over(slot: &Slot, local: &Local, value: &[u8], at: u64) -> Result<(), OutOfMemory> {
    if value.len() <= INLINE_BYTES_MAX && slot.is_inline(slot.head()) {
        let old = slot.exchange(null());
        if !old.is_null() {
            // SAFETY: the version is off the chain, and no thread reads it.
            unsafe { drop_version(slot, local, old.cast_mut()) };
        }
    }
    // SAFETY: the caller has promised what `put` asks for: no thread reads the record, and `new_version` made what it
    // has.
    unsafe { put(slot, local, value, at) }
}
