//! The ranges of keys that a transaction has gone through, and the check that they still contain the same keys.

use crate::cc::Scanned;
use crate::cc::common::hash::{mix, mix_bytes};
use crate::index::{Index, Key, Mark, Page, Paged, TableIndex};
use crate::memory::{Charge, Memory, OutOfMemory};
use crate::record::RecordId;
use crate::suspend::PrefetchOnly;
use crate::sync::atomic::{Ordering, fence};
use std::fmt;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The number of marks that a transaction keeps. A range with more marks is gone through again.
const MARKS_MAX: usize = 4096;
/// Attempts to go through a range that other transactions are changing.
const WALKS_MAX: usize = 64;
/// Initial room. The room grows in steps that are large enough for transactions of one kind, some of which read a
/// little more than others, to soon find enough. The steps are small enough that many transactions can be open.
const RANGES_FIRST: usize = 8;
const MARKS_FIRST: usize = 64;
const BYTES_FIRST: usize = 256;
/// Room that is kept for the next transaction: some tens of KiB of each kind.
const RANGES_KEPT: usize = 512;
const BYTES_KEPT: usize = 32 << 10;
/// Up to this number, ranges are compared one by one. Beyond it, there is a table.
const RANGES_COMPARED: usize = 16;
/// Marks a free place in that table.
const NO_RANGE: u32 = u32::MAX;

/// A range that was gone through.
#[derive(Clone, Debug)]
struct NotedRange {
    index: *const TableIndex,
    /// Where the range's bounds begin in the set's `bytes`, and their lengths. Equal bounds are stored once.
    start: usize,
    from: Bound<u16>,
    to: Bound<u16>,
    is_reverse: bool,
    has_marks: bool,
    hash: u32,
    /// The range's marks. Empty: go through the range again.
    marks: Range<u32>,
}

const _: () = assert!(MARKS_MAX <= u32::MAX as usize);

/// How a range was noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cc) enum Noted {
    /// The range had been noted before, with its marks or without.
    Before { has_marks: bool },
    /// The range is noted with its marks.
    WithMarks,
    /// The range is gone through again at commit, and nothing that was found there needs to be kept.
    WithoutMarks,
}

/// Copies of rows that lie elsewhere than in records. They can tell where they may be out of date.
pub trait Copies: fmt::Debug + Send + Sync {
    /// Calls `found` for everything within these bounds that may have been written since the copies were made. Must
    /// be called after the transaction's commit time was drawn: writes of transactions that have drawn an earlier
    /// time are then found. If `found` returns false, no more need be known, and this method returns false too.
    fn stale(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        found: &mut dyn FnMut(Stale<'_>) -> Result<bool, OutOfMemory>,
    ) -> Result<bool, OutOfMemory>;
}

/// What may be out of date: see [`Copies::stale`].
#[derive(Clone, Copy, Debug)]
pub enum Stale<'w> {
    /// The row under this key.
    Key(&'w [u8]),
    /// Any row between these bounds.
    Range(Bound<&'w [u8]>, Bound<&'w [u8]>),
}

/// What to do with the records that are found when ranges are gone through again.
pub(in crate::cc) trait Revisit {
    /// Begins a range: the range that was noted under this number.
    fn begin(&mut self, range: usize);
    /// Begins the range again. What was found since `begin` does not count.
    fn begin_again(&mut self);
    /// Takes records that are in the range. Returns false if no more need be known.
    fn found(&mut self, ids: &[RecordId]) -> Result<bool, OutOfMemory>;
}

/// The ranges of a transaction. One per transaction, reused.
#[derive(Debug)]
pub(in crate::cc) struct Ranges {
    ranges: Vec<NotedRange>,
    /// A hash table of the numbers of all ranges. A number is in the first free place from its range's hash on. The
    /// length is a power of two. Empty while there are few ranges.
    table: Vec<u32>,
    marks: Vec<Mark>,
    bytes: Vec<u8>,
    /// The copies by which the ranges of these numbers were read, in ascending order of the numbers.
    copies: Vec<(usize, Arc<dyn Copies>)>,
    /// The numbers, in ascending order, of the ranges that the last `go_through` went through, and the marks that
    /// each left in `fresh`.
    again: Vec<(usize, Range<usize>)>,
    fresh: Vec<Mark>,
    /// The room in all of these.
    charge: Charge,
    page: Page,
}
// SAFETY: the pointers lead to indexes of the database, under the rules of the scheme.
unsafe impl Send for Ranges {}

impl NotedRange {
    fn bounds<'b>(&self, bytes: &'b [u8]) -> (Bound<&'b [u8]>, Bound<&'b [u8]>) {
        let from = self.from.map(|len| &bytes[self.start..][..usize::from(len)]);
        if self.is_point() {
            return (from, from);
        }
        let to_start = self.start + len_of(&self.from);
        (from, self.to.map(|len| &bytes[to_start..][..usize::from(len)]))
    }

    /// Returns true if both bounds are the same key.
    fn is_point(&self) -> bool {
        matches!((self.from, self.to), (Bound::Included(_), Bound::Included(POINT)))
    }

    fn is(&self, scanned: &Scanned<'_>, is_point: bool, bytes: &[u8]) -> bool {
        if self.index != scanned.index || self.is_reverse != scanned.is_reverse || self.is_point() != is_point
        {
            return false;
        }
        let (from, to) = self.bounds(bytes);
        from == scanned.from && (is_point || to == scanned.to)
    }
}

impl Ranges {
    /// Makes an empty set. What is noted is charged to `memory`.
    pub(in crate::cc) fn new(memory: &Arc<Memory>) -> Ranges {
        Ranges {
            ranges: Vec::new(),
            table: Vec::new(),
            marks: Vec::new(),
            bytes: Vec::new(),
            copies: Vec::new(),
            again: Vec::new(),
            fresh: Vec::new(),
            charge: Charge::new(memory),
            page: Page::default(),
        }
    }

    /// Notes a range, once. `has_room` says if there is room for what was read within it.
    pub(in crate::cc) fn note(
        &mut self,
        scanned: &Scanned<'_>,
        has_room: impl FnOnce() -> bool,
    ) -> Result<Noted, OutOfMemory> {
        let is_point = is_point(scanned);
        let hash = hash_of(scanned, is_point);
        // If keys have come or gone since the range was first gone through, its marks say so, and the range is gone
        // through again.
        if let Some(known) = self.find(scanned, is_point, hash) {
            return Ok(Noted::Before { has_marks: known.has_marks });
        }
        self.reserve(scanned)?;
        let has_marks = self.has_room_for(scanned) && has_room();
        let marks = if has_marks { scanned.marks } else { &[] };
        let first = self.marks.len() as u32;
        self.marks.extend_from_slice(marks);
        let start = self.bytes.len();
        let from = self.keep(scanned.from);
        let to = if is_point { Bound::Included(POINT) } else { self.keep(scanned.to) };
        let marks = first..self.marks.len() as u32;
        let (index, is_reverse) = (scanned.index, scanned.is_reverse);
        self.ranges.push(NotedRange { index, start, from, to, is_reverse, has_marks, hash, marks });
        if !self.table.is_empty() {
            self.enter_in_table(self.ranges.len() - 1);
        }
        Ok(if has_marks { Noted::WithMarks } else { Noted::WithoutMarks })
    }

    /// Notes a range that was read by copies, once. No marks say whether the same keys are there, so no stamp is left
    /// in the index: the transaction counts as a reader of everything. The copies are not charged.
    pub(in crate::cc) fn note_copies(
        &mut self,
        scanned: &Scanned<'_>,
        copies: Arc<dyn Copies>,
    ) -> Result<(), OutOfMemory> {
        if self.copies.len() == self.copies.capacity() {
            self.charge.grow(&mut self.copies, 1, RANGES_FIRST)?;
        }
        let number = self.ranges.len();
        self.note(scanned, || false)?;
        // A range that was noted before keeps the check that it had, because both reads are of the same snapshot.
        if number < self.ranges.len() {
            self.copies.push((number, copies));
        }
        Ok(())
    }

    /// Makes room for one more range with these bounds.
    fn reserve(&mut self, scanned: &Scanned<'_>) -> Result<(), OutOfMemory> {
        let bytes = len_of_bytes(scanned.from) + len_of_bytes(scanned.to);
        if self.bytes.len() + bytes > self.bytes.capacity() {
            self.charge.grow(&mut self.bytes, bytes, BYTES_FIRST)?;
        }
        if self.ranges.len() == self.ranges.capacity() {
            self.charge.grow(&mut self.ranges, 1, RANGES_FIRST)?;
        }
        if self.ranges.len() >= RANGES_COMPARED && 2 * self.ranges.len() >= self.table.len() {
            self.grow_table()?;
        }
        Ok(())
    }

    /// Returns true if there is room for the marks of the range, or if it can be made.
    fn has_room_for(&mut self, scanned: &Scanned<'_>) -> bool {
        let marks = scanned.marks.len();
        self.marks.len() + marks <= MARKS_MAX
            && (self.marks.len() + marks <= self.marks.capacity()
                || self.charge.grow(&mut self.marks, marks, MARKS_FIRST).is_ok())
    }

    fn keep(&mut self, bound: Bound<&[u8]>) -> Bound<u16> {
        bound.map(|bytes| {
            debug_assert!(bytes.len() < usize::from(POINT), "keys are shorter");
            self.bytes.extend_from_slice(bytes);
            bytes.len() as u16
        })
    }

    fn find(&self, scanned: &Scanned<'_>, is_point: bool, hash: u32) -> Option<&NotedRange> {
        let is_it = |range: &&NotedRange| range.hash == hash && range.is(scanned, is_point, &self.bytes);
        if self.table.is_empty() {
            return self.ranges.iter().find(is_it);
        }
        let numbers = self.places_of(hash).map(|at| self.table[at]).take_while(|&number| number != NO_RANGE);
        numbers.map(|number| &self.ranges[number as usize]).find(is_it)
    }

    /// Returns the places of the table where a range with this hash may be, in order. One of them is free.
    fn places_of(&self, hash: u32) -> impl Iterator<Item = usize> + use<> {
        let mask = self.table.len() - 1;
        debug_assert!(self.table.len().is_power_of_two());
        (0..=mask).map(move |step| (hash as usize + step) & mask)
    }

    fn enter_in_table(&mut self, number: usize) {
        let mut places = self.places_of(self.ranges[number].hash);
        let free = places.find(|&at| self.table[at] == NO_RANGE).expect("half of the places are free");
        self.table[free] = number as u32;
    }

    #[cold]
    fn grow_table(&mut self) -> Result<(), OutOfMemory> {
        let places = (4 * self.ranges.len()).next_power_of_two();
        self.table.clear();
        if places > self.table.capacity() {
            self.charge.grow(&mut self.table, places, places)?;
        }
        self.table.resize(places, NO_RANGE);
        (0..self.ranges.len()).for_each(|number| self.enter_in_table(number));
        Ok(())
    }

    /// Calls `f` for each range with its index, and with the key if the range is a single key.
    pub(in crate::cc) fn each(&self, mut f: impl FnMut(*const TableIndex, Option<&[u8]>)) {
        for range in &self.ranges {
            let len = len_of(&range.from);
            f(range.index, range.is_point().then(|| &self.bytes[range.start..][..len]));
        }
    }

    pub(in crate::cc) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    #[inline(always)]
    pub(in crate::cc) fn clear(&mut self) {
        if !self.ranges.is_empty() {
            self.clear_all();
        }
    }

    #[inline(never)]
    fn clear_all(&mut self) {
        self.charge.clear(&mut self.ranges, RANGES_KEPT);
        self.charge.clear(&mut self.table, 4 * RANGES_KEPT);
        self.charge.clear(&mut self.marks, MARKS_MAX);
        self.charge.clear(&mut self.bytes, BYTES_KEPT);
        self.charge.clear(&mut self.copies, RANGES_KEPT);
        self.charge.clear(&mut self.again, RANGES_KEPT);
        self.charge.clear(&mut self.fresh, MARKS_MAX);
        if self.page.marks.capacity() > MARKS_MAX {
            self.page.marks = Vec::new();
        }
    }

    /// Leaves `stamp` where `key` is or would be in an index, and returns the record that is there. `None`: other
    /// transactions change that place too fast.
    ///
    /// # Safety
    /// The thread is inside an epoch, and the key's bytes are alive.
    pub(in crate::cc) unsafe fn stamp_key(
        &mut self,
        index: &TableIndex,
        key: &Key,
        stamp: u64,
    ) -> Option<Option<RecordId>> {
        let page = &mut self.page;
        for _ in 0..WALKS_MAX {
            page.is_marking = true;
            page.marks.clear();
            // SAFETY: the caller has promised that the thread is inside an epoch and that the key's bytes are alive.
            // `look` needs no more.
            let found = unsafe { index.look(key, page) };
            // SAFETY: the thread is inside an epoch.
            if unsafe { stamp_marks(index, &page.marks, stamp) } {
                return Some(found);
            }
        }
        None
    }

    /// Checks whether all ranges contain the same keys as before, and leaves `stamp` in the index wherever the
    /// transaction has read which keys there are. The steps:
    ///
    /// 1. Raise the stamp at all marks.
    /// 2. Skip each range whose marks are unchanged.
    /// 3. Go through every other range again, and give what is there now to `revisit`. Keys that are dead as of
    ///    `as_of` and later need not be given.
    ///
    /// Returns false if `revisit` has said that no more need be known, or if other transactions change a range faster
    /// than it can be gone through.
    ///
    /// # Safety
    /// The thread is inside an epoch.
    pub(in crate::cc) unsafe fn revisit(
        &mut self,
        as_of: u64,
        stamp: u64,
        revisit: &mut impl Revisit,
    ) -> Result<bool, OutOfMemory> {
        self.page.as_of = as_of;
        for range in &self.ranges {
            for mark in &self.marks[range.marks.start as usize..range.marks.end as usize] {
                // SAFETY: indexes live as long as the database, and the thread is inside an epoch.
                unsafe { (*range.index).raise_stamp(mark, stamp) };
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
            revisit.begin(i);
            if let Ok(at) = self.copies.binary_search_by_key(&i, |(number, _)| *number) {
                let (bounds, page) = (range.bounds(&self.bytes), &mut self.page);
                page.is_marking = false;
                let mut look = |stale: Stale<'_>| {
                    // SAFETY: as above, and the keys' bytes are alive during the call.
                    unsafe { look_again(index, stale, page, revisit) }
                };
                if !self.copies[at].1.stale(bounds, &mut look)? {
                    return Ok(false);
                }
                continue;
            }
            let mut attempts = 0..WALKS_MAX;
            loop {
                // SAFETY: as above.
                match unsafe { self.walk_again(&range, stamp, revisit) }? {
                    Walked::Unchanged => break,
                    Walked::Changed if attempts.next().is_some() => revisit.begin_again(),
                    Walked::Changed | Walked::Enough => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// Goes through the ranges in which keys may have come or gone, and gives what is there now to `revisit`. If
    /// `is_as_it_was` later returns true, what was found was there at one moment: at any moment between the two
    /// calls. Returns false if `revisit` has said that no more need be known.
    ///
    /// # Safety
    /// The thread is inside an epoch.
    pub(in crate::cc) unsafe fn go_through(
        &mut self,
        revisit: &mut impl Revisit,
    ) -> Result<bool, OutOfMemory> {
        debug_assert!(self.copies.is_empty(), "what was read by copies has no marks");
        self.again.clear();
        self.fresh.clear();
        for i in 0..self.ranges.len() {
            let range = &self.ranges[i];
            let marks = &self.marks[range.marks.start as usize..range.marks.end as usize];
            // SAFETY: indexes live as long as the database.
            let index = unsafe { &*range.index };
            if !marks.is_empty() && marks.iter().all(|mark| index.is_as_marked(mark)) {
                continue;
            }
            revisit.begin(i);
            let range = range.clone();
            // SAFETY: as above, and the caller has promised that the thread is inside an epoch.
            if !unsafe { self.walk(&range, revisit) }? {
                return Ok(false);
            }
            self.keep_fresh(i)?;
        }
        Ok(true)
    }

    /// Keeps the marks of the range of this number, which was gone through just now.
    fn keep_fresh(&mut self, number: usize) -> Result<(), OutOfMemory> {
        let marks = &self.page.marks;
        if self.again.len() == self.again.capacity() {
            self.charge.grow(&mut self.again, 1, RANGES_FIRST)?;
        }
        if self.fresh.len() + marks.len() > self.fresh.capacity() {
            self.charge.grow(&mut self.fresh, marks.len(), MARKS_FIRST)?;
        }
        let first = self.fresh.len();
        self.fresh.extend_from_slice(marks);
        self.again.push((number, first..self.fresh.len()));
        Ok(())
    }

    /// Returns true if no key has come into the ranges or gone since they were noted. For ranges that the last
    /// `go_through` went through again, the time since then counts instead.
    pub(in crate::cc) fn is_as_it_was(&self) -> bool {
        fence(Ordering::SeqCst); // of two that insert into each other's ranges, one finds the other's key
        let mut again = self.again.iter().peekable();
        self.ranges.iter().enumerate().all(|(i, range)| {
            let marks = match again.next_if(|(number, _)| *number == i) {
                Some((_, fresh)) => &self.fresh[fresh.clone()],
                None => &self.marks[range.marks.start as usize..range.marks.end as usize],
            };
            // SAFETY: indexes live as long as the database.
            let index = unsafe { &*range.index };
            marks.iter().all(|mark| index.is_as_marked(mark))
        })
    }

    /// Returns the index of the range of this number, and the key of the record at position `at` among those found
    /// there last. Serves a `Revisit` that has said that no more need be known. The key's bytes are valid until the
    /// ranges are used again.
    #[cold]
    pub(in crate::cc) fn met(&self, range: usize, at: usize) -> (*const TableIndex, Key) {
        let (range, page) = (&self.ranges[range], &self.page);
        let key = match range.bounds(&self.bytes) {
            (Bound::Included(key), _) if range.is_point() => Key::new(key),
            _ if page.is_fixed8 => Key::from_u64(page.slices[at]),
            _ => Key::new(page.key(at)),
        };
        (range.index, key)
    }

    /// Goes through a range again, and leaves `stamp` there.
    ///
    /// # Safety
    /// The thread is inside an epoch.
    unsafe fn walk_again(
        &mut self,
        range: &NotedRange,
        stamp: u64,
        revisit: &mut impl Revisit,
    ) -> Result<Walked, OutOfMemory> {
        // SAFETY: the caller has promised that the thread is inside an epoch, which is all that `walk` needs.
        if !unsafe { self.walk(range, revisit) }? {
            return Ok(Walked::Enough);
        }
        // SAFETY: indexes live as long as the database, and the thread is inside an epoch.
        let is_unchanged = unsafe { stamp_marks(&*range.index, &self.page.marks, stamp) };
        Ok(if is_unchanged { Walked::Unchanged } else { Walked::Changed })
    }

    /// Gives what is in a range to `revisit`, and leaves the marks of everything that was read in the page. Returns
    /// false if `revisit` has said that no more need be known.
    ///
    /// # Safety
    /// The thread is inside an epoch.
    unsafe fn walk(&mut self, range: &NotedRange, revisit: &mut impl Revisit) -> Result<bool, OutOfMemory> {
        // SAFETY: indexes live as long as the database.
        let index = unsafe { &*range.index };
        let (from, to) = range.bounds(&self.bytes);
        let (key, page) = (from.map(Key::new), &mut self.page);
        page.is_marking = true;
        page.marks.clear();
        if range.is_point()
            && let Bound::Included(key) = &key
        {
            // SAFETY: the key's bytes stay where they are during the call.
            let found = unsafe { index.look(key, page) };
            return revisit.found(found.as_slice());
        }
        // SAFETY: the caller has promised that the thread is inside an epoch. The bounds lie in `bytes`, which does
        // not change during the call.
        unsafe { walk_through(index, key.as_ref(), to, range.is_reverse, page, revisit) }
    }
}

/// Gives what is now in the place that may have been written to `revisit`. Returns false if `revisit` has said that
/// no more need be known.
///
/// # Safety
/// As `walk_through`.
unsafe fn look_again(
    index: &TableIndex,
    stale: Stale<'_>,
    page: &mut Page,
    revisit: &mut impl Revisit,
) -> Result<bool, OutOfMemory> {
    match stale {
        Stale::Key(key) => {
            // SAFETY: the caller has promised that the thread is inside an epoch and that the key's bytes are alive.
            let found = unsafe { index.look(&Key::new(key), page) };
            revisit.found(found.as_slice())
        }
        Stale::Range(from, to) => {
            let from = from.map(Key::new);
            // SAFETY: as above, for the bytes of both bounds.
            unsafe { walk_through(index, from.as_ref(), to, false, page, revisit) }
        }
    }
}

/// Gives what is in a range to `revisit`. Returns false if `revisit` has said that no more need be known.
///
/// # Safety
/// The thread is inside an epoch, and the keys' bytes are alive.
unsafe fn walk_through(
    index: &TableIndex,
    from: Bound<&Key>,
    to: Bound<&[u8]>,
    is_reverse: bool,
    page: &mut Page,
    revisit: &mut impl Revisit,
) -> Result<bool, OutOfMemory> {
    // SAFETY: the caller has promised that the thread is inside an epoch and that the keys' bytes are alive.
    let mut walk = unsafe { index.walk(from, is_reverse, page) };
    loop {
        // SAFETY: the thread is in the epoch in which the walk began.
        match unsafe { index.next_page(&mut walk, page, &mut PrefetchOnly) } {
            Paged::Suspended => {}
            Paged::End => return Ok(true),
            Paged::Page => {
                // SAFETY: this index made the walk.
                unsafe { index.prepare_page(&walk, &mut PrefetchOnly) };
                let within = page.len_within(to, is_reverse);
                if !revisit.found(&page.ids[..within])? {
                    return Ok(false);
                }
                if within < page.len {
                    return Ok(true);
                }
            }
        }
    }
}

/// Leaves `stamp` where a walk has left these marks. Returns true if the same keys are still there. A transaction
/// that brings a key then finds the stamp.
///
/// # Safety
/// The thread is inside an epoch.
pub(in crate::cc) unsafe fn stamp_marks(index: &TableIndex, marks: &[Mark], stamp: u64) -> bool {
    for mark in marks {
        // SAFETY: the caller has promised that the thread is inside an epoch.
        unsafe { index.raise_stamp(mark, stamp) };
    }
    fence(Ordering::SeqCst); // as in `revisit`
    marks.iter().all(|mark| index.is_as_marked(mark))
}

/// The result of going through a range again.
enum Walked {
    /// Nothing has changed there meanwhile.
    Unchanged,
    Changed,
    /// The walk was broken off, because no more need be known.
    Enough,
}

/// Stands for the length of a second bound that equals the first.
const POINT: u16 = u16::MAX;

fn len_of(bound: &Bound<u16>) -> usize {
    match bound {
        Bound::Included(len) | Bound::Excluded(len) => usize::from(*len),
        Bound::Unbounded => 0,
    }
}

fn len_of_bytes(bound: Bound<&[u8]>) -> usize {
    match bound {
        Bound::Included(bytes) | Bound::Excluded(bytes) => bytes.len(),
        Bound::Unbounded => 0,
    }
}

/// Returns true if the range is a single key. Operations that have found no value scan such ranges: they give the
/// same bytes twice.
fn is_point(scanned: &Scanned<'_>) -> bool {
    match (scanned.from, scanned.to) {
        (Bound::Included(from), Bound::Included(to)) => std::ptr::eq(from, to) || from == to,
        _ => false,
    }
}

/// Hashes a range's bounds and index. A transaction that deliberately reads ranges with equal hashes delays only
/// itself.
fn hash_of(scanned: &Scanned<'_>, is_point: bool) -> u32 {
    let hash = mix(scanned.index.addr() as u64, u64::from(scanned.is_reverse) << 1 | u64::from(is_point));
    let hash = hash_bound(hash, scanned.from);
    let hash = if is_point { hash } else { hash_bound(hash, scanned.to) };
    (hash >> 32) as u32
}

#[inline]
fn hash_bound(hash: u64, bound: Bound<&[u8]>) -> u64 {
    let (kind, bytes) = match bound {
        Bound::Included(bytes) => (1, bytes),
        Bound::Excluded(bytes) => (2, bytes),
        Bound::Unbounded => (3, &[][..]),
    };
    let hash = mix(hash, kind << 32 | bytes.len() as u64);
    mix_bytes(hash, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Kind;

    fn scanned<'s>(from: Bound<&'s [u8]>, to: Bound<&'s [u8]>) -> Scanned<'s> {
        Scanned { index: std::ptr::null(), from, to, is_reverse: false, marks: &[], rows: 0, known: 0 }
    }

    /// Ranges are kept once each, however many there are, and come back unchanged. All that they took, except a
    /// little, is given back.
    #[test]
    fn equal_ranges_are_kept_once() {
        let memory = Memory::new(u64::MAX);
        let mut noted = Ranges::new(&memory);
        let keys: Vec<Vec<u8>> = (0..3000u32).map(|i| i.to_be_bytes().repeat(1 + i as usize % 20)).collect();
        let bounds = |key: &'static [u8], i: usize| match i % 5 {
            0 => (Bound::Included(key), Bound::Included(key)),
            1 => (Bound::Included(key), Bound::Excluded(key)),
            2 => (Bound::Excluded(key), Bound::Unbounded),
            3 => (Bound::Unbounded, Bound::Included(key)),
            _ => (Bound::Included(&key[1..]), Bound::Excluded(&key[2..])),
        };
        let keys: &'static [Vec<u8>] = keys.leak();
        for _ in 0..3 {
            for (i, key) in keys.iter().enumerate() {
                let (from, to) = bounds(key, i);
                assert!(noted.note(&scanned(from, to), || true).is_ok());
            }
        }
        assert_eq!(noted.ranges.len(), keys.len());
        for (i, range) in noted.ranges.iter().enumerate() {
            assert_eq!(range.bounds(&noted.bytes), bounds(&keys[i], i), "{i}");
        }
        noted.clear();
        assert!(noted.is_empty() && memory.used_bytes(Kind::Transactions) < 128 << 10);
        drop(noted);
        assert_eq!(memory.used_bytes(Kind::Transactions), 0);
    }
}
