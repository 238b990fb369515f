//! The ranges of a tree's keys that have been changed. A checkpoint has to write these ranges again.
//!
//! Writers set marks, one per range, just before they append their changes to the log. A mark is set once and never
//! taken back. One reader makes checkpoints. From time to time it has the marks replaced by fresh ones, perhaps for
//! other ranges, and reads both the replaced and the current marks:
//!
//! 1. [`Touched::turn`] replaces the marks that have been set by fresh marks.
//! 2. [`Touched::settle`] is repeated until all operations that were in flight then are over. If that takes too long,
//!    go on.
//! 3. Read the position of the log: `start`.
//! 4. [`Touched::take`] gives the ranges of all marks, and forgets those replaced marks that had settled in step 2.
//!
//! # Why no change is missed
//!
//! Suppose that a change has its record before `start`, and that no earlier step 3 has read a later position. Then step
//! 4 gives the change's range. The writer has marked it, in some set of marks `M`, before it appended. `start` was read
//! (Acquire) behind the record, hence after the append (Release), so the mark is seen. It remains to show that `M` is
//! still looked at. `M` would have been forgotten only if it had been replaced and had settled before an earlier
//! `start'`. But the writer has read that `M` is current, and has appended, within one epoch. When `M` had settled,
//! every epoch in which it could be read was over, and everything done in them is visible. The append therefore lies
//! before `start'`, which contradicts the assumption.
//!
//! It makes no difference if a writer finds its range already marked in `M` and does not mark it again, because marks
//! are not taken back.
//!
//! Step 2 need not wait for anything. Marks that have not settled are looked at again the next time. This costs the
//! writing of ranges that have not been changed since, and nothing else.

#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(braid_shuttle)))]
mod tests;

use crate::epoch::Epochs;
use crate::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::sync::{Arc, Mutex, lock};

/// The most sets of marks that are looked at. There are so many if an operation does not end. Then no set is replaced,
/// and the current marks remain in use.
const SETS_MAX: usize = 8;

/// The changed ranges of one tree.
pub struct Touched {
    /// The marks of the last of `sets`.
    current: AtomicPtr<Marks>,
    /// All sets that are still looked at, the current one last. Only the reader locks this.
    sets: Mutex<Vec<Set>>,
}

struct Set {
    marks: Arc<Marks>,
    /// The moment at which the set was replaced, if it was.
    replaced: Option<u64>,
    /// Whether no operation that may set a mark here is in flight any more.
    is_settled: bool,
}

/// A mark for each range. The first range begins before all keys, each further one at a bound.
struct Marks {
    bounds: Box<[Bound]>,
    marks: Box<[AtomicBool]>,
}

struct Bound {
    /// The first eight bytes, in the form of an index key's slice.
    slice: u64,
    bytes: Box<[u8]>,
}

impl Marks {
    fn new<'b>(bounds: impl Iterator<Item = &'b [u8]>) -> Arc<Marks> {
        let bounds: Box<[Bound]> =
            bounds.map(|bytes| Bound { slice: slice(bytes), bytes: bytes.into() }).collect();
        debug_assert!(bounds.is_sorted_by(|a, b| a.bytes < b.bytes), "bounds ascend");
        let marks = (0..=bounds.len()).map(|_| AtomicBool::new(false)).collect();
        Arc::new(Marks { bounds, marks })
    }

    #[inline]
    fn mark(&self, key: &[u8]) {
        let mark = &self.marks[if self.bounds.is_empty() { 0 } else { self.range_of(key) }];
        // Relaxed: the log orders what follows. The mark is read first, because other writers set it too.
        if !mark.load(Ordering::Relaxed) {
            mark.store(true, Ordering::Relaxed);
        }
    }

    fn range_of(&self, key: &[u8]) -> usize {
        let slice = slice(key);
        let is_before = |bound: &Bound| bound.slice < slice || (bound.slice == slice && *bound.bytes <= *key);
        self.bounds.partition_point(is_before)
    }

    fn is_set(&self, range: usize) -> bool {
        self.marks[range].load(Ordering::Relaxed)
    }

    fn are_for<'b>(&self, bounds: impl Iterator<Item = &'b [u8]>) -> bool {
        self.bounds.iter().map(|bound| &*bound.bytes).eq(bounds)
    }

    /// Notes in `ranges`, which begin at other bounds, the ranges that have keys in common with a marked range.
    fn add_to(&self, bounds: &[&[u8]], ranges: &mut [bool]) {
        for range in (0..self.marks.len()).filter(|range| self.is_set(*range)) {
            let from = range.checked_sub(1).map(|at| &*self.bounds[at].bytes);
            let to = self.bounds.get(range).map(|bound| &*bound.bytes);
            let first = from.map_or(0, |from| bounds.partition_point(|bound| *bound <= from));
            let last = to.map_or(bounds.len(), |to| bounds.partition_point(|bound| *bound < to));
            ranges[first..=last].fill(true);
        }
    }
}

/// Returns the first eight bytes of a key or bound, in the order of keys.
#[inline]
fn slice(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = bytes.len().min(8);
    first[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(first)
}

impl Touched {
    /// Makes one range of all keys, not marked.
    pub fn new() -> Touched {
        let marks = Marks::new(std::iter::empty());
        let current = AtomicPtr::new(Arc::as_ptr(&marks).cast_mut());
        let first = Set { marks, replaced: None, is_settled: false };
        Touched { current, sets: Mutex::new(vec![first]) }
    }

    /// Marks the range of a key that is about to be changed. The caller does this before it appends the change to the
    /// log, and within the same epoch.
    ///
    /// # Safety
    /// The call is inside an epoch, or no other thread uses the tree.
    #[inline]
    pub unsafe fn mark(&self, key: &[u8]) {
        // Acquire: pairs with the Release in `turn`.
        let marks = self.current.load(Ordering::Acquire);
        // SAFETY: marks that were current within this epoch are not freed before they have settled, which is after the
        // epoch. Outside an epoch, the caller has promised that no other thread uses the tree, so none replaces or
        // frees the marks.
        unsafe { &*marks }.mark(key);
    }

    /// Does step 1: makes fresh marks for ranges that begin at these bounds, which ascend. Nothing changes if no mark
    /// is set and the ranges are the same.
    pub fn turn(&self, epochs: &Epochs, bounds: &[&[u8]]) {
        let mut sets = lock(&self.sets);
        let current = sets.last_mut().expect("some are current");
        let is_marked = (0..current.marks.marks.len()).any(|range| current.marks.is_set(range));
        if is_marked || !current.marks.are_for(bounds.iter().copied()) {
            self.replace(&mut sets, epochs, bounds);
        }
    }

    /// Replaces the marks between two turns, like step 1, if the ranges differ.
    pub fn fit(&self, epochs: &Epochs, bounds: &[&[u8]]) {
        let mut sets = lock(&self.sets);
        let current = sets.last_mut().expect("some are current");
        if !current.marks.are_for(bounds.iter().copied()) {
            self.replace(&mut sets, epochs, bounds);
        }
    }

    fn replace(&self, sets: &mut Vec<Set>, epochs: &Epochs, bounds: &[&[u8]]) {
        if sets.len() >= SETS_MAX {
            return;
        }
        let marks = Marks::new(bounds.iter().copied());
        // Release: pairs with the Acquire in `mark`.
        self.current.store(Arc::as_ptr(&marks).cast_mut(), Ordering::Release);
        sets.last_mut().expect("some are current").replaced = Some(epochs.moment());
        sets.push(Set { marks, replaced: None, is_settled: false });
    }

    /// Does step 2: returns whether all replaced marks have settled.
    pub fn settle(&self, epochs: &Epochs) -> bool {
        let mut sets = lock(&self.sets);
        for set in sets.iter_mut().filter(|set| !set.is_settled) {
            set.is_settled = set.replaced.is_some_and(|moment| epochs.is_past(moment));
        }
        sets.iter().all(|set| set.is_settled || set.replaced.is_none())
    }

    /// Does step 4: returns which ranges are marked, of those that begin at these bounds and the range before them.
    pub fn take(&self, bounds: &[&[u8]]) -> Vec<bool> {
        let mut sets = lock(&self.sets);
        let ranges = marked(&sets, bounds);
        sets.retain(|set| !set.is_settled);
        ranges
    }

    /// Returns which ranges are marked so far, like step 4, but forgets nothing.
    pub fn marked(&self, bounds: &[&[u8]]) -> Vec<bool> {
        marked(&lock(&self.sets), bounds)
    }
}

/// Returns, for the ranges that begin at these bounds and the range before them, which have keys in common with a
/// marked range.
fn marked(sets: &[Set], bounds: &[&[u8]]) -> Vec<bool> {
    let mut ranges = vec![false; bounds.len() + 1];
    sets.iter().for_each(|set| set.marks.add_to(bounds, &mut ranges));
    ranges
}

impl Default for Touched {
    fn default() -> Touched {
        Touched::new()
    }
}

impl std::fmt::Debug for Touched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Touched").field("sets", &lock(&self.sets).len()).finish_non_exhaustive()
    }
}
