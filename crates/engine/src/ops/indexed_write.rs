//! The write of a row of a table that has indexes, as a step machine. It finds the row, then the entries that come and
//! go.

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
    /// The entry comes. If false, it goes.
    pub(crate) comes: bool,
}

/// One write under way. Lent by the transaction's pool.
pub(crate) struct IndexedWrite<C: ConcurrencyControl> {
    pub(crate) base: Option<Point<C>>,
    /// The number of changes that the transaction had made when `base` began.
    pub(crate) savepoint: usize,
    /// How many times an extractor has written since the write began.
    pub(crate) extractor_writes: u32,
    /// The entries that change, once the row has been read.
    pub(crate) entries: Vec<Entry<C>>,
    pub(crate) is_read: bool,
    /// What is being looked for: first the row, by the first bit; then the entries, a bit each.
    pub(crate) left: u64,
    /// A place that holds the epoch in which the row was found, while entries are looked for.
    pub(crate) hold: u8,
    /// The write runs where it is polled, and has no place.
    pub(crate) is_inline: bool,
    /// Memory for an entry's key or value.
    pub(crate) bytes: Vec<u8>,
    /// Memory for a value that is not aligned as values in records are.
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

    /// Returns one of the operations that are not done.
    pub(crate) fn awaited(&self) -> Option<&Point<C>> {
        match self.is_read {
            false => self.base.as_ref(),
            true => self.entries.get(self.left.trailing_zeros() as usize).map(|entry| &entry.point),
        }
    }

    /// Goes on to the next probable miss. Returns true if all that is looked for has been found.
    ///
    /// # Safety
    /// As for each [`Point::step`].
    #[inline(never)] // not into the loop that steps the others
    pub(crate) unsafe fn step<S: Suspend>(
        &mut self,
        context: &Context<C>,
        txn: &mut C::Txn,
        s: &mut S,
    ) -> bool {
        if !self.is_read && self.left != 0 {
            // SAFETY: the caller guarantees it.
            let is_found = unsafe { self.base.as_mut().expect("begun").step(context, txn, s) };
            self.left = u64::from(!is_found);
            return is_found;
        }
        let mut round = self.left;
        while round != 0 {
            let i = round.trailing_zeros() as usize;
            round &= round - 1;
            // SAFETY: the caller guarantees it.
            if unsafe { self.entries[i].point.step(context, txn, s) } {
                self.left &= !(1 << i);
            }
        }
        self.left == 0
    }
}
