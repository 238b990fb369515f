//! Where the transaction has inserted last: a greater key that belongs to the same leaf goes there without a descent.
//!
//! A cursor is good within the epoch that its descent began in, and longer: *as long as the participant announces the same
//! number `A`*, also if it has left and entered in between. Argument, in the words of [`crate::epoch`]: the insertion
//! had a stamp `s >= A`, so what it could reach is retired with an `r` of which `s <= r + 1`, if at all. Each time that the
//! participant announces `A`, `G <= A + 1 <= r + 2`; and `G` only grows, so that was so in between as well, and nothing of it has
//! been reclaimed, which is done at `r + 3`. (The epoch of the last refresh would not do: the insertion may have begun before that.)

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
    /// The key of this operation, which had found nothing, was inserted. The operation is in flight.
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

    /// The transaction is over.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.table.set(ptr::null());
    }

    /// Where a key belongs that is the next greater one, if that is where the last one went.
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
        // SAFETY: of this table's index; its descent might have ended just now (see the module's head); keys of up to eight
        // bytes have no others.
        unsafe { table.index.start_near(&self.cursor.get(), &last, key) }
    }
}
