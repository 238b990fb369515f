//! What a transaction has read: the versions of records, and the ranges of keys it has gone through.

use crate::cc::Scanned;
use crate::index::masstree::Masstree;
use crate::index::{Index, Key, Mark, Page, Paged};
use crate::record::{RecordId, Slot, Timestamp, Version};
use crate::suspend::PrefetchOnly;
use crate::sync::atomic::{Ordering, fence};
use std::ops::{Bound, Range};

/// Marks that a transaction keeps. A range of more than that is gone through again.
const MARKS_MAX: usize = 4096;
/// Attempts to go through a range that others are changing.
const WALKS_MAX: usize = 64;
/// Records that there is room for at first.
const RECORDS_FIRST: usize = 256;
/// Marks that there is room for at first.
const MARKS_FIRST: usize = 64;
/// Entries kept in memory for the next transaction.
const KEPT_MAX: usize = 1 << 16;

/// A record of which something was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadRecord {
    pub(super) slot: *const Slot,
    /// The value's version; null: there was no value.
    pub(super) version: *const Version,
}

/// A range that was gone through.
#[derive(Clone, Debug)]
struct ReadRange {
    index: *const Masstree,
    from: Bound<Range<u32>>,
    to: Bound<Range<u32>>,
    is_reverse: bool,
    /// Empty: go through it again.
    marks: Range<u32>,
}

/// One per slot, reused.
#[derive(Debug, Default)]
pub struct ReadSet {
    pub(super) records: Vec<ReadRecord>,
    ranges: Vec<ReadRange>,
    marks: Vec<Mark>,
    bytes: Vec<u8>,
    /// The transaction's entry in its worker's log, while it is committing.
    pub(super) entry: Option<u64>,
    /// That says when it commits.
    pub(super) is_stamped: bool,
    /// It has read records that are not noted.
    pub(super) is_coarse: bool,
    /// Nothing is to be noted.
    pub(super) is_untracked: bool,
    page: Page,
    /// The records that the transaction overwrites, while it is judged.
    pub(super) overwritten: Vec<u32>,
}
// SAFETY: the pointers lead to slots, versions and indexes of the database, under the rules of the scheme.
unsafe impl Send for ReadSet {}

impl ReadSet {
    #[inline(always)]
    pub(super) fn push(&mut self, slot: *const Slot, version: *const Version) {
        if self.is_untracked {
            return;
        }
        if self.records.len() == self.records.capacity() {
            self.grow();
        }
        self.records.push(ReadRecord { slot, version });
    }

    /// In steps so large that transactions of one kind, some of which read a little more than others, soon
    /// find room enough.
    #[cold]
    fn grow(&mut self) {
        self.records.reserve(self.records.capacity().max(RECORDS_FIRST));
    }

    /// Notes a range. False: it is so long that it is gone through again at commit, and nothing of what was
    /// found there needs to be kept.
    pub(super) fn push_range(&mut self, scanned: &Scanned<'_>) -> bool {
        if self.is_untracked {
            return false;
        }
        self.marks.reserve(if self.marks.is_empty() { MARKS_FIRST } else { 0 });
        let first = self.marks.len() as u32;
        let is_kept = self.marks.len() + scanned.marks.len() <= MARKS_MAX;
        if is_kept {
            self.marks.extend_from_slice(scanned.marks);
        }
        self.is_coarse |= !is_kept;
        let range = ReadRange {
            index: scanned.index,
            from: self.keep(scanned.from),
            to: self.keep(scanned.to),
            is_reverse: scanned.is_reverse,
            marks: first..self.marks.len() as u32,
        };
        self.ranges.push(range);
        is_kept
    }

    fn keep(&mut self, bound: Bound<&[u8]>) -> Bound<Range<u32>> {
        bound.map(|bytes| {
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(bytes);
            start..self.bytes.len() as u32
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.ranges.is_empty()
    }

    pub(super) fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        debug_assert!(self.entry.is_none());
        self.is_untracked = false;
        self.is_coarse = false;
        if !self.ranges.is_empty() {
            self.ranges.clear();
            self.marks.clear();
            self.bytes.clear();
        }
        if self.records.len() > KEPT_MAX {
            self.records = Vec::new();
        }
        self.records.clear();
    }

    /// Leaves `at` in the index wherever the transaction has read which keys there are. Where keys have come or
    /// gone since, adds those records to what is validated that `changed` returns: it is asked for every record
    /// of the range. False: others change them faster than that.
    ///
    /// # Safety
    /// Inside an epoch.
    pub(super) unsafe fn publish_ranges(
        &mut self,
        at: Timestamp,
        changed: impl Fn(RecordId) -> Option<*const Slot>,
    ) -> bool {
        for range in &self.ranges {
            for mark in &self.marks[range.marks.start as usize..range.marks.end as usize] {
                // SAFETY: indexes live as long as the database; inside an epoch.
                unsafe { (*range.index).raise_stamp(mark, at.0) };
            }
        }
        fence(Ordering::SeqCst); // pairs with the fence before `stamp_of`, and with that in `carry_stamp`
        for i in 0..self.ranges.len() {
            let range = self.ranges[i].clone();
            let marks = &self.marks[range.marks.start as usize..range.marks.end as usize];
            // SAFETY: as above.
            let index = unsafe { &*range.index };
            if !marks.is_empty() && marks.iter().all(|mark| index.is_as_marked(mark)) {
                continue;
            }
            let known = self.records.len();
            let mut attempts = 0..WALKS_MAX;
            // SAFETY: as above.
            while !unsafe { self.walk_again(&range, at, &changed) } {
                self.records.truncate(known);
                if attempts.next().is_none() {
                    return false;
                }
            }
        }
        true
    }

    /// Goes through a range again, and leaves `at` there. True: nothing has changed meanwhile.
    ///
    /// # Safety
    /// Inside an epoch.
    unsafe fn walk_again(
        &mut self,
        range: &ReadRange,
        at: Timestamp,
        changed: impl Fn(RecordId) -> Option<*const Slot>,
    ) -> bool {
        // SAFETY: indexes live as long as the database.
        let index = unsafe { &*range.index };
        let bytes = &self.bytes;
        let bound = |bound: &Bound<Range<u32>>| {
            bound.clone().map(|range| &bytes[range.start as usize..range.end as usize])
        };
        let (key, to, page) = (bound(&range.from).map(Key::new), bound(&range.to), &mut self.page);
        page.is_marking = true;
        page.marks.clear();
        // SAFETY: the key's bytes stay where they are during the call.
        let mut walk = unsafe { index.walk(key.as_ref(), range.is_reverse, page) };
        loop {
            // SAFETY: in the epoch that the walk began in.
            match unsafe { index.next_page(&mut walk, page, &mut PrefetchOnly) } {
                Paged::Suspended => {}
                Paged::End => break,
                Paged::Page => {
                    index.prepare_page(&walk, &mut PrefetchOnly);
                    let within = page.len_within(to, range.is_reverse);
                    let changed = page.ids[..within].iter().filter_map(|&id| changed(id));
                    self.records.extend(changed.map(|slot| ReadRecord { slot, version: std::ptr::null() }));
                    if within < page.len {
                        break;
                    }
                }
            }
        }
        for mark in &page.marks {
            // SAFETY: inside an epoch.
            unsafe { index.raise_stamp(mark, at.0) };
        }
        fence(Ordering::SeqCst); // as in `publish_ranges`
        page.marks.iter().all(|mark| index.is_as_marked(mark))
    }
}
