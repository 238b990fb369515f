//! Copies of what a transaction has read without a note.

use crate::memory::{Arena, Charge, Memory, OutOfMemory};
use crate::record::{Version, VersionKind};
use std::sync::Arc;

/// Versions up to this length, heads included, are copied side by side.
const SHORT_BYTES_MAX: usize = 1024;
/// Initial room for copies of long versions.
const LONG_FIRST: usize = 8;

/// The copies of a transaction. One per slot, reused.
#[derive(Debug)]
pub(super) struct Copies {
    short: Arena,
    long: Vec<Box<[u64]>>,
    /// The room in `long`, and in the copies that it holds.
    charge: Charge,
}

impl Copies {
    /// Makes an empty set. Copies are charged to `memory`.
    pub(super) fn new(memory: &Arc<Memory>) -> Copies {
        Copies { short: Arena::new(memory), long: Vec::new(), charge: Charge::new(memory) }
    }

    /// Copies a version with a value, without what is behind it in its chain.
    ///
    /// # Safety
    /// The version is not reclaimed meanwhile.
    pub(super) unsafe fn copy(&mut self, version: *const Version) -> Result<*const Version, OutOfMemory> {
        // SAFETY: the caller has promised that the version is not reclaimed meanwhile, and its bytes do not change.
        let (value, stamp) = unsafe { (&*Version::value(version), (*version).stamp()) };
        let bytes = Version::bytes_for(value.len());
        let write = |at: *mut u64| {
            // SAFETY: `at` has room for `bytes` bytes, is aligned for a word, and is not shared yet.
            unsafe { Version::write(at.cast(), stamp.0, std::ptr::null(), VersionKind::Value, value) };
        };
        if bytes <= SHORT_BYTES_MAX {
            let copy = self.short.room_aligned(bytes)?.cast();
            write(copy);
            return Ok(copy.cast_const().cast());
        }
        if self.long.len() == self.long.capacity() {
            self.charge.grow(&mut self.long, 1, LONG_FIRST)?;
        }
        let words = bytes.div_ceil(size_of::<u64>());
        self.charge.add(words * size_of::<u64>())?;
        let mut copy = vec![0u64; words].into_boxed_slice();
        write(copy.as_mut_ptr());
        let at = copy.as_ptr().cast();
        self.long.push(copy);
        Ok(at)
    }

    /// Forgets the copies. They are not looked at any more.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.short.reset();
        if !self.long.is_empty() {
            let bytes = self.long.iter().map(|copy| size_of_val(&**copy)).sum();
            self.charge.clear(&mut self.long, 0);
            self.charge.give_back(bytes);
        }
    }
}
