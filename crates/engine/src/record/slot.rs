//! A record's place in the indirection array.

use super::stamp::{Stamp, Timestamp};
use super::version::{Version, VersionKind};
#[cfg(not(any(braid_shuttle, braid_loom)))]
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::switch;
use std::cell::UnsafeCell;
use std::mem::offset_of;
#[cfg(any(braid_shuttle, braid_loom))] // of the exact size of its value
use std::sync::atomic::{AtomicPtr, Ordering};

/// The longest value, in bytes, that fits in the slot itself.
pub const INLINE_BYTES_MAX: usize = 8;

/// The head of a version chain, with room for one small version.
#[repr(C, align(32))]
#[derive(Debug)]
pub struct Slot {
    head: AtomicPtr<Version>,
    inline: Version,
    inline_value: UnsafeCell<[u8; INLINE_BYTES_MAX]>,
}

// A slot never straddles a cache line.
#[cfg(not(any(braid_shuttle, braid_loom)))]
const _: () = assert!(size_of::<Slot>() == 32);

// SAFETY: only the thread that has claimed the place writes the value's bytes, and it does so before it publishes them.
unsafe impl Sync for Slot {}

impl Slot {
    /// Makes a slot out of memory that is zero or has been a slot before. The place inside stays in use as long as a
    /// version of the former record has it. With `keeps_time`, the place begins anew instead.
    ///
    /// # Safety
    /// `at` is a slot's memory that no other thread reaches, except for an unlinked version in the place inside.
    pub unsafe fn reset(at: *mut Slot, keeps_time: bool) {
        // SAFETY: the caller has promised that `at` is a slot's memory, and any bytes there are a valid slot.
        let slot = unsafe { &*at };
        if keeps_time {
            slot.inline.set_stamp(Stamp::FREE);
        }
        slot.head.store(std::ptr::null_mut(), Ordering::Release); // pairs with the Acquire in `head`
    }

    /// Notes that the record has been read until `at`, which is not 0. The time is stored in the place for a small
    /// version, which is in use from then on. Only schemes that call this when they make the record may use it.
    #[inline(always)]
    pub fn raise_read_until(&self, at: Timestamp) {
        debug_assert!(at.0 != Stamp::FREE.0 && Stamp(at.0).timestamp().is_some());
        switch();
        self.inline.raise_time(at.0);
        switch();
    }

    /// Returns the time until which the record has been read, under schemes that note it.
    #[inline(always)]
    pub fn read_until(&self) -> Timestamp {
        switch();
        Timestamp(self.inline.time())
    }

    /// Returns the newest version, or null if there is no record here.
    #[inline(always)]
    pub fn head(&self) -> *const Version {
        self.head.load(Ordering::Acquire) // pairs with the Releases of installs
    }

    /// Returns whether `v` is the version inside this slot.
    #[inline(always)]
    pub fn is_inline(&self, v: *const Version) -> bool {
        std::ptr::eq(v, self.inline_version())
    }

    /// Returns the place inside, derived from the whole slot's address because the value's bytes lie behind the head.
    #[inline(always)]
    fn inline_version(&self) -> *const Version {
        std::ptr::from_ref(self).wrapping_byte_add(offset_of!(Slot, inline)).cast()
    }

    /// Installs `new` as the head before `old`. Returns false if `old` was no longer the head.
    #[inline(always)]
    pub fn install(&self, old: *const Version, new: *const Version) -> bool {
        // AcqRel: publishes `new` to the Acquire in `head`.
        self.head
            .compare_exchange(old.cast_mut(), new.cast_mut(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Installs `new` as the head, with nothing behind it, and returns the old head, which now belongs to the caller.
    /// The caller knows that no thread reads the record.
    #[inline(always)]
    pub fn exchange(&self, new: *const Version) -> *const Version {
        // AcqRel: publishes `new` to the Acquire in `head`, and takes over what others have published.
        self.head.swap(new.cast_mut(), Ordering::AcqRel)
    }

    /// Claims the place inside, writes the version there and returns it. Returns null if the value is too long or the
    /// place is in use.
    #[inline(always)]
    pub fn write_inline(
        &self,
        stamp: Stamp,
        next: *const Version,
        kind: VersionKind,
        value: &[u8],
    ) -> *mut Version {
        if value.len() > INLINE_BYTES_MAX || !self.inline.claim(stamp.0) {
            return std::ptr::null_mut();
        }
        let at = self.inline_version().cast_mut();
        // SAFETY: this thread has claimed the place, and the slot's layout has room for INLINE_BYTES_MAX bytes behind
        // it.
        unsafe { Version::write(at, stamp.0, next, kind, value) };
        at
    }

    /// Frees the place inside if the version with this stamp still has it. The whole slot may serve another record by
    /// now.
    pub fn free_inline(&self, stamp: Stamp) {
        self.inline.release(stamp);
    }
}
