//! What a transaction has written.

use crate::cc::Target;
use crate::record::{Slot, Version};

/// A version that this transaction has installed.
#[derive(Clone, Copy, Debug)]
pub(in crate::cc) struct Write {
    pub(in crate::cc) slot: *const Slot,
    pub(in crate::cc) new: *const Version,
    /// What it was put in front of; null: nothing, the record is new.
    pub(in crate::cc) old: *const Version,
    pub(in crate::cc) target: Target,
    /// It has the value that was there, and is nothing but a lock.
    pub(in crate::cc) is_lock: bool,
}

impl Write {
    /// It is a lock of a row that the transaction has not changed since.
    #[inline(always)]
    pub(super) fn is_idle_lock(&self) -> bool {
        // SAFETY: slots are never unmapped.
        self.is_lock && std::ptr::eq(unsafe { &*self.slot }.head(), self.new)
    }
}

// SAFETY: the pointers lead to the transaction's own uncommitted versions and their slots, and are
// followed by one thread at a time.
unsafe impl Send for Write {}
