//! What a transaction has read: the versions of records, and the ranges of keys that it has gone through.

use crate::cc::Scanned;
use crate::cc::common::ranges::{Copies, Noted, Ranges, Revisit};
use crate::cc::mvcc::has_departed;
use crate::memory::{Charge, Memory, OutOfMemory};
use crate::record::{RecordId, Slot, TICK, Timestamp, Version};
use std::sync::Arc;

/// Initial room for records. The room grows in steps that are large enough for transactions of one kind, some of
/// which read a little more than others, to soon find enough. The steps are small enough that many transactions can
/// be open.
const RECORDS_FIRST: usize = 64;
/// Room that is kept for the next transaction: some tens of KiB.
const RECORDS_KEPT: usize = 4096;
const OVERWRITTEN_KEPT: usize = 4096;

/// A record of which something was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadRecord {
    pub(super) slot: *const Slot,
    /// The value's version; null: there was no value. Odd: not a version, but the time of the commit whose value was
    /// read in the present.
    pub(super) version: *const Version,
}

/// A bit of `ReadRecord::version`, which then holds a time. The lowest bits of times are free.
const PRESENT: u64 = 1;
const _: () = assert!(PRESENT < TICK && align_of::<Version>() > PRESENT as usize);
const _: () = assert!(usize::BITS == u64::BITS, "a time fits a pointer");

impl ReadRecord {
    /// Returns the commit time of the value, if the record was read in the present.
    #[inline(always)]
    pub(super) fn present(&self) -> Option<Timestamp> {
        let word = self.version.addr() as u64;
        (word & PRESENT != 0).then(|| Timestamp(word).after())
    }
}

/// What a transaction has read. One per slot, reused.
#[derive(Debug)]
#[repr(C)]
pub struct ReadSet {
    pub(super) records: Vec<ReadRecord>,
    /// The transaction's entry in its worker's log, while it is committing.
    pub(super) entry: Option<u64>,
    /// True if the entry says when the transaction commits.
    pub(super) is_stamped: bool,
    /// True if the transaction has read records that are not noted.
    pub(super) is_coarse: bool,
    /// True if what is read is not noted.
    pub(super) is_untracked: bool,
    /// True if the transaction has read more than there was memory to note. Nothing more is noted.
    pub(super) is_full: bool,
    /// The room in `records`.
    charge: Charge,
    ranges: Ranges,
    /// The records that the transaction overwrites, while it is validated.
    pub(super) overwritten: Vec<u32>,
}
// SAFETY: the pointers lead to slots, versions and indexes of the database, under the rules of the scheme.
unsafe impl Send for ReadSet {}

impl ReadSet {
    /// Makes an empty set. What it will hold is charged to `memory`.
    pub(super) fn new(memory: &Arc<Memory>) -> Self {
        ReadSet {
            records: Vec::new(),
            charge: Charge::new(memory),
            ranges: Ranges::new(memory),
            entry: None,
            is_stamped: false,
            is_coarse: false,
            is_untracked: false,
            is_full: false,
            overwritten: Vec::new(),
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, slot: *const Slot, version: *const Version) {
        if self.is_untracked {
            return;
        }
        if self.records.len() == self.records.capacity() && !self.grow() {
            return;
        }
        self.records.push(ReadRecord { slot, version });
    }

    /// Notes a read, as `push` does, that may have been noted any number of times before. Takes no more room than
    /// keeping each read twice.
    pub(super) fn push_once(&mut self, slot: *const Slot, version: *const Version) {
        if self.records.len() == self.records.capacity() && !self.is_untracked {
            self.records.sort_unstable();
            self.records.dedup();
            if self.records.len() > self.records.capacity() / 2 && !self.grow() {
                return;
            }
        }
        self.push(slot, version);
    }

    /// Notes a value that was committed at this time and read in the present.
    pub(super) fn push_present(&mut self, slot: *const Slot, committed: Timestamp) {
        let word = committed.tick().0 | PRESENT;
        self.push_once(slot, std::ptr::without_provenance(word as usize));
    }

    /// Makes room for more records. If there is no memory, it keeps each record once. Returns false if that is not
    /// enough.
    #[cold]
    fn grow(&mut self) -> bool {
        if self.charge.grow(&mut self.records, 1, RECORDS_FIRST).is_ok() {
            return true;
        }
        self.records.sort_unstable();
        self.records.dedup();
        let is_enough = self.records.len() < self.records.capacity().div_ceil(2);
        if !is_enough {
            self.set_full();
        }
        is_enough
    }

    /// Stops noting what is read from now on, for want of memory.
    #[cold]
    fn set_full(&mut self) {
        (self.is_full, self.is_untracked) = (true, true);
    }

    /// Notes a range, once. Returns false if the range is so long, or memory so short, that the range is gone through
    /// again at commit. In this case nothing that was found there needs to be kept.
    pub(super) fn push_range(&mut self, scanned: &Scanned<'_>) -> bool {
        if self.is_untracked {
            return false;
        }
        let ReadSet { ranges, records, charge, .. } = self;
        let has_room = || {
            records.len() + scanned.rows <= records.capacity()
                || charge.grow(records, scanned.rows, RECORDS_FIRST).is_ok()
        };
        match ranges.note(scanned, has_room) {
            Ok(Noted::Before { has_marks }) => has_marks,
            Ok(Noted::WithMarks) => true,
            Ok(Noted::WithoutMarks) => {
                self.is_coarse = true;
                false
            }
            Err(OutOfMemory) => {
                self.set_full();
                false
            }
        }
    }

    /// Notes a range that was read by copies of its rows.
    pub(super) fn push_copies(&mut self, scanned: &Scanned<'_>, copies: Arc<dyn Copies>) {
        if self.is_untracked {
            return;
        }
        self.is_coarse = true;
        if let Err(OutOfMemory) = self.ranges.note_copies(scanned, copies) {
            self.set_full();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.ranges.is_empty() && !self.is_full
    }

    pub(super) fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Returns true if the transaction has found a key absent that may have been deleted after this snapshot was
    /// opened and has left its index.
    pub(super) fn has_missed_departed(&self, begin: Timestamp) -> bool {
        let mut has_missed = false;
        self.ranges.each(|index, key| has_missed |= has_departed(index, key, begin));
        has_missed
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        debug_assert!(self.entry.is_none());
        (self.is_untracked, self.is_full) = (false, false);
        self.is_coarse = false;
        self.ranges.clear();
        self.charge.clear(&mut self.records, RECORDS_KEPT);
    }

    /// Keeps the list's memory when the answer about these records is known.
    pub(super) fn keep_overwritten(&mut self, mut asked: Vec<u32>) {
        asked.clear();
        asked.shrink_to(OVERWRITTEN_KEPT);
        self.overwritten = asked;
    }

    /// Leaves `at` in the index wherever the transaction, which began at `begin`, has read which keys there are.
    /// Where keys have come or gone since, asks `changed` about every record of the range, and adds the records that
    /// it returns to what is validated. Returns false if other transactions change a range faster than it can be gone
    /// through.
    ///
    /// # Safety
    /// The thread is inside an epoch.
    pub(super) unsafe fn publish_ranges(
        &mut self,
        begin: Timestamp,
        at: Timestamp,
        changed: impl Fn(RecordId) -> Option<*const Slot>,
    ) -> Result<bool, OutOfMemory> {
        let ReadSet { ranges, records, charge, .. } = self;
        let mut added = Added { known: records.len(), records, charge, changed };
        // SAFETY: the caller has promised that the thread is inside an epoch, which is all that `revisit` needs.
        unsafe { ranges.revisit(begin.0, at.0, &mut added) }
    }
}

/// Adds the records of ranges that may have changed to the records that were read.
struct Added<'r, F> {
    records: &'r mut Vec<ReadRecord>,
    charge: &'r mut Charge,
    /// The number of records before the range.
    known: usize,
    changed: F,
}

impl<F: Fn(RecordId) -> Option<*const Slot>> Revisit for Added<'_, F> {
    fn begin(&mut self, _: usize) {
        self.known = self.records.len();
    }

    fn begin_again(&mut self) {
        self.records.truncate(self.known);
    }

    fn found(&mut self, ids: &[RecordId]) -> Result<bool, OutOfMemory> {
        if self.records.len() + ids.len() > self.records.capacity() {
            self.charge.grow(self.records, ids.len(), RECORDS_FIRST)?;
        }
        let changed = ids.iter().filter_map(|&id| (self.changed)(id));
        self.records.extend(changed.map(|slot| ReadRecord { slot, version: std::ptr::null() }));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Bound;

    fn scanned<'s>(from: Bound<&'s [u8]>, to: Bound<&'s [u8]>) -> Scanned<'s> {
        Scanned { index: std::ptr::null(), from, to, is_reverse: false, marks: &[], rows: 0, known: 0 }
    }

    /// At the limit a set is full and takes no more. Records that it has several times make room first.
    #[test]
    fn limit() {
        const LIMIT: u64 = 1 << 20; // as much as the least share
        let memory = Memory::new(LIMIT);
        let mut reads = ReadSet::new(&memory);
        let slot = |i: usize| std::ptr::without_provenance::<Slot>(32 * i);
        for i in 0..100_000 {
            reads.push(slot(i % 100), std::ptr::null());
        }
        assert!(!reads.is_full);
        (0..100_000).for_each(|i| reads.push(slot(i), std::ptr::null()));
        assert!(reads.is_full && reads.records.len() > 1000 && memory.total_used_bytes() <= LIMIT);
        reads.clear();
        assert!(reads.is_empty() && !reads.is_full);
        let keys: Vec<[u8; 4]> = (0..100_000u32).map(u32::to_be_bytes).collect();
        let point = |key| scanned(Bound::Included(key), Bound::Included(key));
        let refused = keys.iter().position(|key| !reads.push_range(&point(key)));
        assert!(reads.is_full && refused.is_some_and(|i| i > 100), "{refused:?}");
    }
}
