//! Which ranges of a tree's keys have been changed: what a checkpoint has to write again.
//!
//! Writers set marks, one per range, just before they append their changes to the log; a mark is set once and never
//! taken back. One reader, which makes checkpoints, has the marks replaced by fresh ones now and then, perhaps for other
//! ranges, and reads those that were replaced as well as those that are current:
//!
//! 1. [`Touched::turn`] puts fresh marks in place of those that have been set.
//! 2. [`Touched::settle`], until all operations that were in flight then are over; if that takes too long, go on.
//! 3. Read where the log is: `start`.
//! 4. [`Touched::take`] gives the ranges of all marks, and forgets those replaced marks that had settled in step 2.
//!
//! # Why no change is missed
//!
//! Say a change has its record before `start`, and no earlier step 3 has read a later position. Then step 4 gives its
//! range. The writer has marked it, in some set of marks `M`, before it appended; `start` was read (Acquire) behind the
//! record, hence after the append (Release), and so the mark is seen. `M` is still looked at: it would have been
//! forgotten only if it had been replaced and had settled before an earlier `start'`. But the writer has read that `M`
//! is current, and appended, within one epoch; when `M` had settled, every epoch in which it could be read was over, and
//! what was done in them is visible. So the append lies before `start'`, against what was said.
//!
//! That `M` is seen to be marked already, and not marked again, makes no difference: marks are not taken back.
//!
//! In step 2 nothing has to be waited for: marks that have not settled are looked at again the next time, which costs
//! the writing of ranges that have not been changed since, and nothing else.

#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(braid_shuttle)))]
mod tests;

use crate::epoch::Epochs;
use crate::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::sync::{Arc, Mutex, lock};

/// As long as so many sets of marks are looked at, because an operation does not end, none is replaced: the current marks
/// go on to count.
const SETS_MAX: usize = 8;

/// Of one tree.
pub struct Touched {
    /// The marks of the last of `sets`.
    current: AtomicPtr<Marks>,
    /// All that are still looked at, the current ones last. Locked by the reader only.
    sets: Mutex<Vec<Set>>,
}

struct Set {
    marks: Arc<Marks>,
    /// Of what was replaced, the moment at which it was.
    replaced: Option<u64>,
    /// No operation that may set a mark here is in flight any more.
    is_settled: bool,
}

/// A mark for each range. The first one begins before all keys, each further one at a bound.
struct Marks {
    bounds: Box<[Bound]>,
    marks: Box<[AtomicBool]>,
}

struct Bound {
    /// The first eight bytes, as of an index's key.
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
        // Relaxed: what follows in the log is ordered by that. Looked at first, since others do so, too.
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

    /// Notes in `ranges`, which begin at other bounds, those that have keys in common with one that is marked.
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

/// The first eight bytes of a key or bound, in the order of keys.
#[inline]
fn slice(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = bytes.len().min(8);
    first[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(first)
}

impl Touched {
    /// One range, of all keys; not marked.
    pub fn new() -> Touched {
        let marks = Marks::new(std::iter::empty());
        let current = AtomicPtr::new(Arc::as_ptr(&marks).cast_mut());
        let first = Set { marks, replaced: None, is_settled: false };
        Touched { current, sets: Mutex::new(vec![first]) }
    }

    /// Marks the range of a key that is about to be changed: before the change is appended to the log, and within the
    /// same epoch.
    ///
    /// # Safety
    /// Inside an epoch; or nobody else uses the tree.
    #[inline]
    pub unsafe fn mark(&self, key: &[u8]) {
        // Acquire: pairs with the Release in `turn`.
        let marks = self.current.load(Ordering::Acquire);
        // SAFETY: what was current within this epoch is not freed before it has settled.
        unsafe { &*marks }.mark(key);
    }

    /// Step 1: fresh marks, for ranges that begin at these bounds, which ascend. Nothing changes if no mark is set and
    /// the ranges are the same.
    pub fn turn(&self, epochs: &Epochs, bounds: &[&[u8]]) {
        let mut sets = lock(&self.sets);
        let current = sets.last_mut().expect("some are current");
        let is_marked = (0..current.marks.marks.len()).any(|range| current.marks.is_set(range));
        if is_marked || !current.marks.are_for(bounds.iter().copied()) {
            self.replace(&mut sets, epochs, bounds);
        }
    }

    /// Between two turns: as step 1, if the ranges are others.
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

    /// Step 2: whether all marks that were replaced have settled.
    pub fn settle(&self, epochs: &Epochs) -> bool {
        let mut sets = lock(&self.sets);
        for set in sets.iter_mut().filter(|set| !set.is_settled) {
            set.is_settled = set.replaced.is_some_and(|moment| epochs.is_past(moment));
        }
        sets.iter().all(|set| set.is_settled || set.replaced.is_none())
    }

    /// Step 4: of the ranges that begin at these bounds, and before them, which are marked.
    pub fn take(&self, bounds: &[&[u8]]) -> Vec<bool> {
        let mut sets = lock(&self.sets);
        let ranges = marked(&sets, bounds);
        sets.retain(|set| !set.is_settled);
        ranges
    }

    /// As step 4, and nothing is forgotten: which are marked so far.
    pub fn marked(&self, bounds: &[&[u8]]) -> Vec<bool> {
        marked(&lock(&self.sets), bounds)
    }
}

/// Of the ranges that begin at these bounds, and before them, those that have keys in common with one that is marked.
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
