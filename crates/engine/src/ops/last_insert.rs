//! The place where the transaction has inserted last. A greater key that belongs to the same leaf goes there without a
//! descent.
//!
//! A cursor is good within the epoch in which its descent began. It is good even longer: *as long as the participant
//! announces the same number `A`*, also if the participant has left and entered in between. The argument uses the words
//! of [`crate::epoch`]:
//! 1. The insertion had a stamp `s >= A`. What it could reach is therefore retired, if at all, with an `r` for which `s
//!    <= r + 1`.
//! 2. Each time that the participant announces `A`, `G <= A + 1 <= r + 2`. `G` only grows, so this held in between as
//!    well.
//! 3. Reclamation happens at `r + 3`. Therefore nothing that the insertion could reach has been reclaimed.
//!
//! The epoch of the last refresh would not do, because the insertion may have begun before that refresh.

use super::point::Point;
use crate::cc::ConcurrencyControl;
use crate::index::{Cursor, Index, Key};
use crate::kernel::Context;
use crate::table::TableInner;
use std::cell::Cell;
use std::ptr;

/// The longest key that is its own slice.
const SLICE_BYTES: u32 = 8;

/// The last insertion of a key of up to eight bytes.
pub(crate) struct LastInsert {
    /// Null: there is none.
    table: Cell<*const TableInner>,
    slice: Cell<u64>,
    len: Cell<u32>,
    cursor: Cell<Cursor>,
    announced: Cell<u64>,
}

impl Default for LastInsert {
    fn default() -> Self {
        LastInsert {
            table: Cell::new(ptr::null()),
            slice: Cell::new(0),
            len: Cell::new(0),
            cursor: Cell::new(Cursor::NONE),
            announced: Cell::new(0),
        }
    }
}

impl LastInsert {
    /// Notes that the key of this operation, which had found nothing, was inserted. The operation is in flight.
    #[inline(always)]
    pub(crate) fn note<C: ConcurrencyControl>(&self, point: &Point<C>, context: &Context<C>) {
        if point.key.len <= SLICE_BYTES {
            self.table.set(point.table);
            self.slice.set(point.key.slice);
            self.len.set(point.key.len);
            self.cursor.set(point.cursor);
            self.announced.set(context.local.announced());
        }
    }

    /// Forgets the insertion, because the transaction is over.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.table.set(ptr::null());
    }

    /// Returns a cursor for a key that follows the last one, if it belongs where the last one went.
    #[inline(always)]
    pub(crate) fn cursor_for<C: ConcurrencyControl>(
        &self,
        table: &TableInner,
        key: &Key,
        context: &Context<C>,
    ) -> Option<Cursor> {
        let is_good = self.announced.get() == context.local.announced();
        if !ptr::eq(self.table.get(), table) || !is_good || key.len > SLICE_BYTES {
            return None;
        }
        let last = Key { slice: self.slice.get(), len: self.len.get(), bytes: ptr::null() };
        // SAFETY: the cursor is of this table's index, and is as good as if its descent had ended just now (see the
        // module's head). Keys of up to eight bytes have no other bytes.
        unsafe { table.index.start_near(&self.cursor.get(), &last, key) }
    }
}
