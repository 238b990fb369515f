//! What a transaction has to look at again when it commits: the ranges in which keys came or went while the
//! transaction went through them. In all other ranges it has left its time in the index when it had gone through
//! them.

use super::copies::Copies;
use crate::cc::common::ranges::{Noted, Ranges, Revisit, stamp_marks};
use crate::cc::{Scanned, Target};
use crate::memory::{Charge, Memory, OutOfMemory};
use crate::record::{RecordId, Slot, Timestamp};
use std::sync::Arc;

/// Initial room, and room that is kept for the next transaction.
const FOUND_FIRST: usize = 16;
const FOUND_KEPT: usize = 1024;

/// The noted reads of a transaction. One per slot, reused.
#[derive(Debug)]
pub struct ReadSet {
    /// The transaction's time.
    at: Timestamp,
    ranges: Ranges,
    /// The number of ranges.
    count: usize,
    /// The records that were found in each range, by the range's number.
    found: Vec<(usize, *const Slot)>,
    charge: Charge,
    /// True if records that are listed were found in the last range.
    pub(super) is_listing: bool,
    /// True if there was more to note than memory for it.
    pub(super) is_full: bool,
    /// The first record that was not found before and that the last look did not accept. It belongs to another
    /// transaction, if this transaction has not committed.
    pub(super) obstacle: Option<Target>,
    /// Copies of what was read without a note.
    pub(super) copies: Copies,
}
// SAFETY: the pointers lead to slots of the database, under the rules of the scheme.
unsafe impl Send for ReadSet {}

impl ReadSet {
    /// Makes an empty set. What it will hold is charged to `memory`.
    pub(super) fn new(memory: &Arc<Memory>) -> ReadSet {
        ReadSet {
            at: Timestamp(0),
            ranges: Ranges::new(memory),
            count: 0,
            found: Vec::new(),
            charge: Charge::new(memory),
            is_listing: false,
            is_full: false,
            obstacle: None,
            copies: Copies::new(memory),
        }
    }

    #[inline(always)]
    pub(super) fn begin(&mut self, at: Timestamp) {
        debug_assert!(self.is_empty());
        self.at = at;
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && !self.is_full
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.copies.clear();
        if self.is_empty() {
            return;
        }
        self.ranges.clear();
        self.charge.clear(&mut self.found, FOUND_KEPT);
        (self.count, self.is_listing, self.is_full) = (0, false, false);
        self.obstacle = None;
    }

    /// Leaves the time where a range has been gone through. If keys have come or gone there meanwhile, notes the
    /// range.
    pub(super) fn leave_in_range(&mut self, scanned: &Scanned<'_>) {
        self.is_listing = false;
        // SAFETY: indexes live as long as the database, and a scan is reported inside its epoch.
        let is_left = unsafe { stamp_marks(&*scanned.index, scanned.marks, self.at.0) };
        if !is_left || scanned.marks.is_empty() {
            self.note(scanned);
        }
    }

    /// Leaves the time at a key that is absent, or whose record (`slot`) has no value. `slot` is null if there was no
    /// record.
    pub(super) fn leave_at_key(&mut self, slot: *const Slot, target: &Target) {
        self.is_listing = false;
        // SAFETY: as above, and the key lives as long as the transaction.
        let there = unsafe { self.ranges.stamp_key(&*target.index, &target.key, self.at.0) };
        match there {
            Some(None) => {}
            Some(Some(id)) if id == target.id && !slot.is_null() => {}
            _ => {
                self.note(&Scanned::of_key(target, &mut [0; 8]));
                self.is_listing = false;
            }
        }
    }

    #[cold]
    fn note(&mut self, scanned: &Scanned<'_>) {
        match self.ranges.note(&Scanned { marks: &[], ..*scanned }, || true) {
            Ok(Noted::Before { .. }) => {} // what was found there then counts
            Ok(Noted::WithMarks | Noted::WithoutMarks) => {
                (self.count, self.is_listing) = (self.count + 1, true)
            }
            Err(OutOfMemory) => self.is_full = true,
        }
    }

    /// Notes that a value of the record has been found in the range that was noted last. A record without a value is
    /// not listed. When the transaction commits, its memory may belong to another key, or to another record of the
    /// same key.
    pub(super) fn list(&mut self, slot: *const Slot) {
        if !self.is_listing {
            return;
        }
        let has_room = self.found.len() < self.found.capacity()
            || self.charge.grow(&mut self.found, 1, FOUND_FIRST).is_ok();
        match has_room {
            true => self.found.push((self.count - 1, slot)),
            false => self.is_full = true,
        }
    }

    /// Removes a record that is gone from the list. The next record in its slot was not found in any range.
    pub(super) fn unlist(&mut self, slot: *const Slot) {
        self.found.retain(|&(_, found)| !std::ptr::eq(found, slot));
    }

    /// Goes through the noted ranges again, and leaves the time there. Gives each record that was not found there
    /// before to `look`, which returns false if no more need be known. In this case the result is false, as it is if
    /// other transactions change a range too fast.
    ///
    /// # Safety
    /// The thread is inside an epoch.
    pub(super) unsafe fn look_again(
        &mut self,
        look: &mut impl FnMut(*const Slot) -> bool,
        slot_of: impl Fn(RecordId) -> *const Slot,
    ) -> Result<bool, OutOfMemory> {
        self.found.sort_unstable();
        let mut unknown = Unknown { found: &self.found, range: 0, refused: None, look, slot_of };
        // SAFETY: the caller has promised that the thread is inside an epoch, which is all that `revisit` needs.
        let is_known = unsafe { self.ranges.revisit(0, self.at.0, &mut unknown) }?;
        self.obstacle = unknown.refused.filter(|_| !is_known).map(|(at, id)| {
            let (index, key) = self.ranges.met(unknown.range, at);
            Target { index, key, id }
        });
        Ok(is_known)
    }
}

/// Looks at the records that were not found before.
struct Unknown<'r, F, G> {
    found: &'r [(usize, *const Slot)],
    /// The range that is gone through.
    range: usize,
    /// A record that is not accepted: its number among the records found together, and its id.
    refused: Option<(usize, RecordId)>,
    look: &'r mut F,
    slot_of: G,
}

impl<F: FnMut(*const Slot) -> bool, G: Fn(RecordId) -> *const Slot> Revisit for Unknown<'_, F, G> {
    fn begin(&mut self, range: usize) {
        self.range = range;
    }

    fn begin_again(&mut self) {}

    fn found(&mut self, ids: &[RecordId]) -> Result<bool, OutOfMemory> {
        let refused = ids.iter().position(|&id| {
            let slot = (self.slot_of)(id);
            self.found.binary_search(&(self.range, slot)).is_err() && !(self.look)(slot)
        });
        self.refused = refused.map(|at| (at, ids[at]));
        Ok(refused.is_none())
    }
}
