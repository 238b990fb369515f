//! Filling a database that nobody reads yet: each record has one version, which has committed.
//!
//! Invariants:
//! - The stamp is a tick, whose reach is the tick itself: nothing that a later transaction does can come to be
//!   ordered before a restored version.
//! - Who takes a version off the head of a chain is its only owner, and gives it back at once. So versions go
//!   back as fast as they are replaced, and the place inside the slot can be taken again by the next one.

use super::chain::{drop_version, new_version};
use crate::cc::common::registry::FIRST;
use crate::epoch::Local;
use crate::memory::OutOfMemory;
use crate::record::{INLINE_BYTES_MAX, Slot, Stamp, Timestamp, VersionKind};
use std::ptr::null;

/// The stamp of a version that committed at `at`.
pub(super) fn stamp_of(at: u64) -> Stamp {
    debug_assert!(at <= Timestamp::LAST.0);
    // (There is no commit before the first: so 0 is not to be met outside of damaged files.)
    let stamp = Stamp(Timestamp(at).tick().max(FIRST).0);
    debug_assert!(stamp.timestamp().is_some_and(|at| at.reach() == at));
    stamp
}

/// Makes `value`, committed at `at`, the record's only version.
///
/// # Safety
/// Nobody reads the record, and what it has is from `new_version`.
#[inline(always)]
pub(super) unsafe fn put(slot: &Slot, local: &Local, value: &[u8], at: u64) -> Result<(), OutOfMemory> {
    let new = new_version(slot, local, stamp_of(at), null(), VersionKind::Value, value)?;
    let old = slot.exchange(new);
    if !old.is_null() {
        // SAFETY: off the chain, and nobody reads it.
        unsafe { drop_version(slot, local, old.cast_mut()) };
    }
    Ok(())
}

/// As `put`, for a record that has a version: a short value that lies in the slot makes room for the next one.
///
/// # Safety
/// As `put`.
#[inline(always)]
pub(super) unsafe fn put_over(slot: &Slot, local: &Local, value: &[u8], at: u64) -> Result<(), OutOfMemory> {
    if value.len() <= INLINE_BYTES_MAX && slot.is_inline(slot.head()) {
        let old = slot.exchange(null());
        if !old.is_null() {
            // SAFETY: off the chain, and nobody reads it.
            unsafe { drop_version(slot, local, old.cast_mut()) };
        }
    }
    // SAFETY: by the caller's promise.
    unsafe { put(slot, local, value, at) }
}
