//! The write of a row of a table that has indexes, as a step machine: it finds the row, then the entries that come and go.

use super::NO_SLOT;
use super::point::Point;
use crate::cc::ConcurrencyControl;
use crate::kernel::Context;
use crate::suspend::Suspend;
use crate::table::{INDEXES_MAX, IndexInner};

/// A change of one entry.
pub(crate) struct Entry<C: ConcurrencyControl> {
    pub(crate) index: *const IndexInner,
    pub(crate) point: Point<C>,
    /// It comes; else it goes.
    pub(crate) comes: bool,
}

/// One write under way. Lent by the transaction's pool.
pub(crate) struct IndexedWrite<C: ConcurrencyControl> {
    pub(crate) base: Option<Point<C>>,
    /// Changes that the transaction had made when `base` set out.
    pub(crate) savepoint: usize,
    /// Times that an extractor has written since the write began.
    pub(crate) extractor_writes: u32,
    /// Those of the entries that change, once the row has been read.
    pub(crate) entries: Vec<Entry<C>>,
    pub(crate) is_read: bool,
    /// What is being looked for: entries, a bit each; before that the row, by the first bit.
    pub(crate) left: u64,
    /// A place that keeps the epoch in which the row was found, while entries are looked for.
    pub(crate) hold: u8,
    /// Runs where it is polled: it has no place.
    pub(crate) is_inline: bool,
    /// Memory for an entry's key or value.
    pub(crate) bytes: Vec<u8>,
    /// Memory for a value that does not lie as values in records do.
    pub(crate) aligned: Vec<u64>,
}

const _: () = assert!(2 * INDEXES_MAX <= u64::BITS as usize, "one bit per entry");

impl<C: ConcurrencyControl> IndexedWrite<C> {
    pub(crate) fn new() -> Self {
        IndexedWrite {
            base: None,
            savepoint: 0,
            extractor_writes: 0,
            entries: Vec::new(),
            is_read: false,
            left: 0,
            hold: NO_SLOT,
            is_inline: false,
            bytes: Vec::new(),
            aligned: Vec::new(),
        }
    }

    /// One of those that are looked for and have not been found.
    pub(crate) fn awaited(&self) -> Option<&Point<C>> {
        match self.is_read {
            false => self.base.as_ref(),
            true => self.entries.get(self.left.trailing_zeros() as usize).map(|entry| &entry.point),
        }
    }

    /// Goes on to the next probable miss; returns true if what is looked for has been found.
    ///
    /// # Safety
    /// As [`Point::step`], for each.
    #[inline(never)] // not into the loop that steps the others
    pub(crate) unsafe fn step<S: Suspend>(
        &mut self,
        context: &Context<C>,
        txn: &mut C::Txn,
        s: &mut S,
    ) -> bool {
        if !self.is_read && self.left != 0 {
            // SAFETY: by the caller's promise.
            let is_found = unsafe { self.base.as_mut().expect("begun").step(context, txn, s) };
            self.left = u64::from(!is_found);
            return is_found;
        }
        let mut round = self.left;
        while round != 0 {
            let i = round.trailing_zeros() as usize;
            round &= round - 1;
            // SAFETY: by the caller's promise.
            if unsafe { self.entries[i].point.step(context, txn, s) } {
                self.left &= !(1 << i);
            }
        }
        self.left == 0
    }
}
