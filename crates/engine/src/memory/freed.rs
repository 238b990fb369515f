//! The free blocks of a slab: a few for each thread, the others for all.
//!
//! A thread takes what it has freed itself, or got as new, and meets others only once in some dozens of blocks; in one list for all, threads that
//! insert and undo meet at each. After Bonwick and Adams: Magazines and Vmem, USENIX 2001.
//!
//! Always with the standard library's atomics and locks: no model is about these lists, and there are many.
//!
//! Invariant: an id is in one list at most, and in none while the block is in use.

use crate::sync::CachePadded;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Threads that have lists of their own; with more, some share one.
const LISTS: usize = 32;
/// Ids that a thread keeps. Half of them go to the list for all when there are more, and come from there when there are none.
const KEPT: usize = 64;

/// See the file's beginning.
pub(super) struct Freed {
    by_thread: [CachePadded<List>; LISTS],
    for_all: CachePadded<List>,
}

#[derive(Default)]
struct List {
    ids: Mutex<Vec<u32>>,
    /// Length of `ids`, changed under its lock; a hint without the lock.
    len: AtomicU64,
    /// Ids that were never handed out: the next one, and above it where they end. (An id comes here once, so a word never comes again.)
    new: AtomicU64,
}

impl Freed {
    pub(super) fn new() -> Freed {
        Freed { by_thread: std::array::from_fn(|_| CachePadded::default()), for_all: CachePadded::default() }
    }

    /// An id that this thread has, or that is for all.
    #[inline(always)]
    pub(super) fn take(&self) -> Option<u32> {
        let own = &self.by_thread[number_of_thread()];
        own.pop().or_else(|| own.take_new()).or_else(|| self.refill(own))
    }

    #[cold]
    #[inline(never)]
    fn refill(&self, own: &List) -> Option<u32> {
        let mut some = self.for_all.split(|len| len.saturating_sub(KEPT / 2));
        let id = some.pop()?;
        own.append(some);
        Some(id)
    }

    /// An id of any thread: for when there is no other one.
    #[cold]
    pub(super) fn take_of_any(&self) -> Option<u32> {
        self.take().or_else(|| self.by_thread.iter().find_map(|list| list.pop().or_else(|| list.take_new())))
    }

    pub(super) fn give(&self, id: u32) {
        let own = &self.by_thread[number_of_thread()];
        if own.push(id) > KEPT {
            self.for_all.append(own.split(|_| KEPT / 2));
        }
    }

    /// Ids that are new to this thread, to be taken in their order.
    pub(super) fn keep(&self, ids: Range<u32>) {
        let own = &self.by_thread[number_of_thread()];
        let new = own.new.load(Ordering::Relaxed);
        let is_empty = new as u32 == (new >> 32) as u32;
        let word = u64::from(ids.end) << 32 | u64::from(ids.start);
        // (Another thread with this list may have put some there.)
        if !is_empty || own.new.compare_exchange(new, word, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            own.change(|own| own.extend(ids.rev()));
        }
    }

    /// How many there are; while others take and give, approximately.
    pub(super) fn len(&self) -> u64 {
        self.by_thread.iter().chain([&self.for_all]).map(|list| list.count()).sum()
    }
}

impl List {
    #[inline(always)]
    fn pop(&self) -> Option<u32> {
        // Relaxed: a hint; the lock orders the block's contents.
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.change(Vec::pop)
    }

    #[inline(always)]
    fn take_new(&self) -> Option<u32> {
        let is_some = |new: u64| (new as u32) < (new >> 32) as u32;
        // Relaxed: ids carry nothing; the exchange gives each to one thread.
        let taken = self
            .new
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |new| is_some(new).then_some(new + 1));
        taken.ok().map(|new| new as u32)
    }

    fn count(&self) -> u64 {
        let new = self.new.load(Ordering::Relaxed);
        self.len.load(Ordering::Relaxed) + ((new >> 32) - u64::from(new as u32))
    }

    /// Returns how many there are now.
    fn push(&self, id: u32) -> usize {
        self.change(|ids| {
            ids.push(id);
            ids.len()
        })
    }

    /// Takes the ids behind this number of them.
    fn split(&self, keep: impl FnOnce(usize) -> usize) -> Vec<u32> {
        // Relaxed: as in `pop`.
        match self.len.load(Ordering::Relaxed) {
            0 => Vec::new(),
            _ => self.change(|ids| ids.split_off(keep(ids.len()).min(ids.len()))),
        }
    }

    fn append(&self, mut some: Vec<u32>) {
        self.change(|ids| ids.append(&mut some));
    }

    #[inline(always)]
    fn change<R>(&self, f: impl FnOnce(&mut Vec<u32>) -> R) -> R {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut ids);
        self.len.store(ids.len() as u64, Ordering::Relaxed); // a hint
        result
    }
}

/// Which list a thread has.
#[inline(always)]
fn number_of_thread() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    thread_local! {
        /// One more, so that 0 is none yet.
        static NUMBER: Cell<usize> = const { Cell::new(0) };
    }
    let number = NUMBER.with(Cell::get);
    if number == 0 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % LISTS; // only difference counts
        NUMBER.with(|of_thread| of_thread.set(number + 1));
        return number;
    }
    number - 1
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// New ids are taken in their order, once each, also those that another thread got.
    #[test]
    fn new_ids() {
        let freed = Freed::new();
        freed.keep(1..5);
        freed.keep(10..12); // as a thread with the same list would
        assert_eq!(freed.len(), 6);
        assert_eq!([freed.take(), freed.take(), freed.take()], [Some(10), Some(11), Some(1)]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(freed.take(), None);
                assert_eq!([freed.take_of_any(), freed.take_of_any()], [Some(2), Some(3)]);
            });
        });
        assert_eq!([freed.take(), freed.take()], [Some(4), None]);
        assert_eq!(freed.len(), 0);
        freed.keep(20..21);
        assert_eq!((freed.take(), freed.len()), (Some(20), 0));
    }

    /// What one thread frees another one takes, but for a few, and these too when there is nothing else.
    #[test]
    fn ids_go_from_thread_to_thread() {
        const IDS: u32 = 1000;
        let freed = Freed::new();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..IDS).for_each(|id| freed.give(id))).join().expect("no panic")
        });
        assert_eq!(freed.len(), u64::from(IDS));
        let mut taken = HashSet::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // (A thread of another number: at most `KEPT` stay behind.)
                while let Some(id) = freed.take() {
                    assert!(taken.insert(id));
                }
                assert!(taken.len() >= IDS as usize - KEPT, "{}", taken.len());
                while let Some(id) = freed.take_of_any() {
                    assert!(taken.insert(id));
                }
            });
        });
        assert_eq!((taken.len(), freed.len()), (IDS as usize, 0));
    }
}
