//! What a transaction has read last. A write of such a row need not look for it in the index again.
//!
//! While a transaction is open, a record of which it has read a value is not used for another key. If the record has
//! been removed meanwhile, a write of it says so.

use super::point::Point;
use super::scan_batch::ScanBatch;
use crate::cc::ConcurrencyControl;
use crate::index::Key;
use crate::record::Record;
use crate::table::TableInner;
use std::cell::Cell;
use std::ptr;

/// The longest key that is its own slice.
const SLICE_BYTES: u32 = 8;

/// The number of rows of one multi-get that are remembered.
const MANY: usize = 16;

/// The last row read by its key, the first rows of the last multi-get, and the rows that a scan has read last.
pub(crate) struct RecentReads<C: ConcurrencyControl> {
    table: Cell<*const TableInner>,
    slice: Cell<u64>,
    len: Cell<u32>,
    record: Cell<*const Record>,
    many_table: Cell<*const TableInner>,
    many_len: Cell<usize>,
    /// Rows with keys of eight bytes.
    many: [Cell<(u64, *const Record)>; MANY],
    /// One of the transaction's runs, which are kept as long as its state; or null.
    rows: Cell<*const ScanBatch<C>>,
}

impl<C: ConcurrencyControl> Default for RecentReads<C> {
    fn default() -> Self {
        RecentReads {
            table: Cell::new(ptr::null()),
            slice: Cell::new(0),
            len: Cell::new(0),
            record: Cell::new(ptr::null()),
            many_table: Cell::new(ptr::null()),
            many_len: Cell::new(0),
            many: [const { Cell::new((0, ptr::null())) }; MANY],
            rows: Cell::new(ptr::null()),
        }
    }
}

impl<C: ConcurrencyControl> RecentReads<C> {
    /// Notes that this operation has read a value. `find` does not find long keys.
    #[inline(always)]
    pub(crate) fn note(&self, point: &Point<C>) {
        self.table.set(point.table);
        self.slice.set(point.key.slice);
        self.len.set(point.key.len);
        self.record.set(point.record);
    }

    /// Returns the table and the key's slice of the operation that was noted last.
    pub(crate) fn last(&self) -> (*const TableInner, u64) {
        (self.table.get(), self.slice.get())
    }

    /// Notes that a multi-get of rows of this table begins.
    pub(crate) fn note_many(&self, table: *const TableInner) {
        self.many_table.set(table);
        self.many_len.set(0);
    }

    /// Notes that an operation of the multi-get has read a value.
    #[inline(always)]
    pub(crate) fn note_one_of_many(&self, point: &Point<C>) {
        let at = self.many_len.get();
        let is_wanted = self.many_table.get() == point.table;
        if is_wanted && point.key.len == SLICE_BYTES && at < MANY {
            self.many[at].set((point.key.slice, point.record));
            self.many_len.set(at + 1);
        }
    }

    /// Notes that a scan hands out the rows of this run from now on.
    pub(crate) fn note_rows(&self, run: *const ScanBatch<C>) {
        self.rows.set(run);
    }

    /// Forgets all. The transaction is over, so its records may be used for other keys.
    pub(crate) fn clear(&self) {
        self.table.set(ptr::null());
        self.many_table.set(ptr::null());
        self.rows.set(ptr::null());
    }

    /// Returns the record under a key, if the transaction has read a value of it and it is still remembered.
    #[inline(always)]
    pub(crate) fn find(
        &self,
        table: *const TableInner,
        key: &Key,
        txn: &mut C::Txn,
    ) -> Option<*const Record> {
        if key.len > SLICE_BYTES {
            return None;
        }
        if self.table.get() == table && self.slice.get() == key.slice && self.len.get() == key.len {
            return Some(self.record.get());
        }
        if key.len != SLICE_BYTES {
            return None;
        }
        if self.many_table.get() == table
            && let Some(slot) = self.find_of_many(key.slice)
        {
            return Some(slot);
        }
        // SAFETY: the run was noted in this transaction, so it belongs to it, and nothing changes it during this call.
        let rows = unsafe { self.rows.get().as_ref() }.filter(|rows| rows.table == table)?;
        // SAFETY: the run was stepped for this transaction.
        unsafe { rows.find(key.slice, txn) }
    }

    fn find_of_many(&self, slice: u64) -> Option<*const Record> {
        let many = &self.many[..self.many_len.get()];
        many.iter().map(Cell::get).find(|one| one.0 == slice).map(|one| one.1)
    }
}
