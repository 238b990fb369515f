//! Values that a transaction has written and taken back, and may still be reading.
//!
//! Invariant: such a value is in no record, and stays where it is until the transaction has ended.

use super::record::drop_value;
use crate::epoch::Local;
use crate::record::Version;
use std::cell::Cell;
use std::ptr;

/// The undone values of a transaction. One per transaction, reused.
#[derive(Debug)]
pub(in crate::cc) struct Undone {
    /// The last value. The others follow by their links, which nothing else uses because the values were never
    /// published.
    last: *mut Version,
    /// The transaction has read what it has itself written.
    has_read_own: Cell<bool>,
}

impl Undone {
    /// Makes an empty set.
    pub(super) const fn new() -> Undone {
        Undone { last: ptr::null_mut(), has_read_own: Cell::new(false) }
    }

    /// Notes that the transaction reads what it has written.
    #[inline(always)]
    pub(in crate::cc) fn note_read(&self) {
        self.has_read_own.set(true);
    }

    pub(super) fn has_read_own(&self) -> bool {
        self.has_read_own.get()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.last.is_null()
    }

    pub(super) fn keep(&mut self, value: *mut Version) {
        // SAFETY: the value is the transaction's own, and in no record.
        unsafe { &*value }.set_next(self.last);
        self.last = value;
    }

    /// Drops the values. They are not read any more.
    pub(super) fn forget(&mut self, local: &Local) {
        while !self.last.is_null() {
            // SAFETY: as in `keep`.
            let next = unsafe { &*self.last }.next().cast_mut();
            // SAFETY: the value was never published, and whatever it was lent to is gone.
            unsafe { drop_value(self.last, local) };
            self.last = next;
        }
    }

    /// Ends the transaction.
    #[inline(always)]
    pub(super) fn end(&mut self) {
        *self.has_read_own.get_mut() = false;
    }
}
