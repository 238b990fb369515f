//! From the entries of an index to the rows that they name: the second half of a run over an index.

use super::run::Row;
use super::table::TableInner;
use crate::cc::{ConcurrencyControl, Refused};
use crate::profile::Activity;
use crate::record::{RecordId, Slot};
use crate::suspend::Suspend;

/// Rows visited at once.
const WINDOW: usize = 32;
const _: () = assert!(WINDOW <= u32::BITS as usize, "one bit per row");

/// A row that an entry names; with no slot, there is no such entry.
struct Followed<C: ConcurrencyControl> {
    slot: *const Slot,
    visit: C::Visit,
}

/// The rows of a run's entries, in the order of the entries.
pub(super) struct Follow<C: ConcurrencyControl> {
    rows: Vec<Followed<C>>,
    /// Where the present window ends; before it all rows have been asked for.
    asked: usize,
    /// Rows of the window whose visits have not ended.
    left: u32,
}

impl<C: ConcurrencyControl> Follow<C> {
    pub(super) const fn new() -> Self {
        Follow { rows: Vec::new(), asked: 0, left: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        (self.asked, self.left) = (0, 0);
    }

    /// The entry that comes next names a row of `base`, if the transaction sees it.
    pub(super) fn push(&mut self, base: &TableInner, entry: Option<*const [u8]>) {
        let slot = entry.map_or(std::ptr::null(), |entry| {
            // SAFETY: read just now.
            let id = unsafe { &*entry }.first_chunk().expect("entries begin with four bytes");
            base.slot(RecordId(u32::from_le_bytes(*id)))
        });
        self.rows.push(Followed { slot, visit: C::Visit::default() });
    }

    /// Goes on with the visits of the rows, a window at a time. True: all have ended.
    ///
    /// # Safety
    /// As [`Point::step`](super::point::Point::step).
    #[inline(never)]
    pub(super) unsafe fn step<S: Suspend>(&mut self, shared: &C::Shared, txn: &C::Txn, s: &mut S) -> bool {
        s.enter(Activity::Versions);
        loop {
            if self.left == 0 {
                if self.asked == self.rows.len() {
                    return true;
                }
                if self.ask(s) {
                    return false;
                }
            }
            let first = (self.asked - 1) / WINDOW * WINDOW;
            let mut round = self.left;
            while round != 0 {
                let i = round.trailing_zeros() as usize;
                round &= round - 1;
                let Followed { slot, visit } = &mut self.rows[first + i];
                // SAFETY: the entry is visible, so the row is, too: its record stays what it is.
                let is_done = unsafe { Row::<C>::visit(visit, *slot, shared, txn, s) };
                self.left &= !(u32::from(is_done) << i);
            }
            if self.left != 0 {
                return false;
            }
        }
    }

    /// Asks for the slots of the next window. True: leave.
    fn ask<S: Suspend>(&mut self, s: &mut S) -> bool {
        let first = self.asked;
        self.asked = self.rows.len().min(first + WINDOW);
        let mut leave = false;
        for (row, i) in self.rows[first..self.asked].iter().zip(0..) {
            if !row.slot.is_null() {
                self.left |= 1 << i;
                leave |= s.miss::<1>(row.slot.cast());
            }
        }
        leave
    }

    /// The value of the row of entry `at`. `None`: the transaction has deleted it since the entry was read.
    ///
    /// # Safety
    /// `step` has returned true; `txn` is the transaction that it was called for, still open.
    pub(super) unsafe fn read(
        &self,
        at: usize,
        txn: &mut C::Txn,
        is_tracked: bool,
    ) -> Result<Option<*const [u8]>, Refused> {
        let row = &self.rows[at];
        debug_assert!(!row.slot.is_null(), "the entry is there, so it was when rows were looked for");
        // SAFETY: the visits have ended, so that they outlast the epoch.
        unsafe { C::read(&row.visit, row.slot, txn, is_tracked) }
    }
}
