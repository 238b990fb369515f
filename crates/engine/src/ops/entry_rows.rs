//! The second half of a run over an index: from its entries to the rows that they name.

use crate::cc::{ConcurrencyControl, Env, Intent, Refused};
use crate::profile::Activity;
use crate::record::{Record, RecordId};
use crate::suspend::{Suspend, Whole};
use crate::table::TableInner;

/// The number of rows visited at once.
const WINDOW: usize = 32;
const _: () = assert!(WINDOW <= u32::BITS as usize, "one bit per row");

/// A row that an entry names. If it has no record, there is no such entry.
struct Followed<C: ConcurrencyControl> {
    record: *const Record,
    access: C::Access,
}

/// The rows of a run's entries, in the order of the entries.
pub(crate) struct EntryRows<C: ConcurrencyControl> {
    rows: Vec<Followed<C>>,
    /// The end of the present window. All rows before it have been prefetched.
    asked: usize,
    /// The rows of the window whose accesses have not ended.
    left: u32,
}

impl<C: ConcurrencyControl> EntryRows<C> {
    pub(crate) const fn new() -> Self {
        EntryRows { rows: Vec::new(), asked: 0, left: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        (self.asked, self.left) = (0, 0);
    }

    /// Adds the row of `base` that the next entry names, if the transaction sees the entry.
    pub(crate) fn push(&mut self, base: &TableInner, entry: Option<*const [u8]>) {
        let record = entry.map_or(std::ptr::null(), |entry| {
            // SAFETY: the entry was read just now.
            let id = unsafe { &*entry }.first_chunk().expect("entries begin with four bytes");
            base.record(RecordId(u32::from_le_bytes(*id)))
        });
        self.rows.push(Followed { record, access: C::Access::default() });
    }

    /// Goes on with the accesses to the rows, a window at a time. Their versions have about `version_bytes` bytes.
    /// Returns true if all accesses have ended.
    ///
    /// # Safety
    /// As for [`Point::step`](super::point::Point::step).
    #[inline(never)]
    pub(crate) unsafe fn step<S: Suspend>(
        &mut self,
        intent: Intent,
        version_bytes: usize,
        env: Env<'_, C>,
        txn: &mut C::Txn,
        s: &mut S,
    ) -> bool {
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
                let Followed { record, access } = &mut self.rows[first + i];
                // SAFETY: the transaction has found the entry's value, so its row's record stays what it is.
                let is_done = unsafe {
                    C::access(access, *record, intent, env, txn, &mut Whole::new(s, version_bytes))
                };
                self.left &= !(u32::from(is_done) << i);
            }
            if self.left != 0 {
                return false;
            }
        }
    }

    /// Prefetches the records of the next window. Returns true if the operation is to be left.
    fn ask<S: Suspend>(&mut self, s: &mut S) -> bool {
        let first = self.asked;
        self.asked = self.rows.len().min(first + WINDOW);
        let mut leave = false;
        for (row, i) in self.rows[first..self.asked].iter().zip(0..) {
            if !row.record.is_null() {
                self.left |= 1 << i;
                leave |= s.miss::<1>(row.record.cast());
            }
        }
        leave
    }

    /// Returns an entry to whose row the access has not ended.
    pub(crate) fn awaited(&self) -> Option<usize> {
        let first = self.asked.checked_sub(1)? / WINDOW * WINDOW;
        (self.left != 0).then(|| first + self.left.trailing_zeros() as usize)
    }

    /// Returns the record of the row of entry `at`.
    pub(crate) fn record(&self, at: usize) -> *const Record {
        self.rows[at].record
    }

    /// Returns the value of the row of entry `at`. `None`: the transaction has deleted the row since the entry was
    /// read.
    ///
    /// # Safety
    /// `step` has returned true. `txn` is the transaction for which it was called, still open.
    pub(crate) unsafe fn read(
        &self,
        at: usize,
        txn: &mut C::Txn,
        intent: Intent,
    ) -> Result<Option<*const [u8]>, Refused> {
        let row = &self.rows[at];
        debug_assert!(!row.record.is_null(), "the entry is there, so it was when rows were looked for");
        // SAFETY: the accesses have ended.
        unsafe { C::value(&row.access, row.record, intent, txn) }
    }
}
