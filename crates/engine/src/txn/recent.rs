//! What a transaction has read last: a write of such a row need not look for it in the index again.
//!
//! Only under a scheme that pins what its transactions have read (`READ_PINS_RECORD`): a record of which the
//! transaction has read a value stays the one under its key for as long as the transaction is open, whatever it, or
//! anybody, writes meanwhile.

use super::point::Point;
use super::run::Run;
use super::table::TableInner;
use crate::cc::ConcurrencyControl;
use crate::index::Key;
use crate::record::Slot;
use std::cell::Cell;
use std::ptr;

/// The longest key that is its own slice.
const SLICE_BYTES: u32 = 8;

/// The last row read by its key, and the last rows that a scan has read.
pub(super) struct Recent<C: ConcurrencyControl> {
    table: Cell<*const TableInner>,
    slice: Cell<u64>,
    len: Cell<u32>,
    slot: Cell<*const Slot>,
    /// One of the transaction's runs, which are kept as long as its desk; or null.
    rows: Cell<*const Run<C>>,
}

impl<C: ConcurrencyControl> Default for Recent<C> {
    fn default() -> Self {
        Recent {
            table: Cell::new(ptr::null()),
            slice: Cell::new(0),
            len: Cell::new(0),
            slot: Cell::new(ptr::null()),
            rows: Cell::new(ptr::null()),
        }
    }
}

impl<C: ConcurrencyControl> Recent<C> {
    /// This operation has read a value.
    #[inline(always)]
    pub(super) fn note(&self, point: &Point<C>) {
        if C::READ_PINS_RECORD && point.key.len <= SLICE_BYTES {
            self.table.set(point.table);
            self.slice.set(point.key.slice);
            self.len.set(point.key.len);
            self.slot.set(point.slot);
        }
    }

    /// A scan hands out the rows of this run from now on.
    pub(super) fn note_rows(&self, run: *const Run<C>) {
        if C::READ_PINS_RECORD {
            self.rows.set(run);
        }
    }

    /// The transaction is over, and so is the pinning.
    pub(super) fn clear(&self) {
        self.table.set(ptr::null());
        self.rows.set(ptr::null());
    }

    /// The record under a key, if the transaction has read a value of it and it is still remembered.
    #[inline(always)]
    pub(super) fn find(&self, table: *const TableInner, key: &Key, txn: &mut C::Txn) -> Option<*const Slot> {
        if !C::READ_PINS_RECORD || key.len > SLICE_BYTES {
            return None;
        }
        if self.table.get() == table && self.slice.get() == key.slice && self.len.get() == key.len {
            return Some(self.slot.get());
        }
        // SAFETY: noted in this transaction, so its desk's, and nobody changes it during this call.
        let rows = unsafe { self.rows.get().as_ref() }?;
        if rows.table != table || key.len != SLICE_BYTES {
            return None;
        }
        // SAFETY: the run was stepped for this transaction.
        unsafe { rows.find(key.slice, txn) }
    }
}
