//! What a transaction has written.

use crate::cc::Target;
use crate::record::{Slot, Version};

/// A version that this transaction has installed.
#[derive(Clone, Copy, Debug)]
pub(in crate::cc) struct Write {
    pub(in crate::cc) slot: *const Slot,
    pub(in crate::cc) new: *const Version,
    /// The version that the new one supersedes; null: none, the record is new.
    pub(in crate::cc) old: *const Version,
    pub(in crate::cc) target: Target,
    /// The version has the value that was there, and is only a lock.
    pub(in crate::cc) is_lock: bool,
}

impl Write {
    /// Returns true if this is a lock of a row that the transaction has not changed since.
    #[inline(always)]
    pub(super) fn is_idle_lock(&self) -> bool {
        // SAFETY: slots are never unmapped.
        self.is_lock && std::ptr::eq(unsafe { &*self.slot }.head(), self.new)
    }
}

// SAFETY: the pointers lead to the transaction's own uncommitted versions and their slots. One thread at a time
// follows them.
unsafe impl Send for Write {}
