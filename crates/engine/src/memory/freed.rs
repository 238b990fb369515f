//! The free blocks of a slab: a few for each thread, the others for all.
//!
//! A thread takes what it has freed itself, or got as new, and meets others only once in some dozens of blocks: with one list for all, sixteen threads
//! that insert and undo spend most of their time waiting for it. After Bonwick and Adams: Magazines and Vmem, USENIX 2001.
//!
//! Invariant: an id is in one list at most, and in none while the block is in use.

use crate::sync::CachePadded;
use crate::sync::unmodelled::atomic::{AtomicU64, Ordering};
use crate::sync::unmodelled::{Mutex, lock};
use std::ops::Range;

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
}

impl Freed {
    pub(super) fn new() -> Freed {
        Freed { by_thread: std::array::from_fn(|_| CachePadded::default()), for_all: CachePadded::default() }
    }

    /// An id that this thread has, or that is for all.
    #[inline]
    pub(super) fn take(&self) -> Option<u32> {
        let own = &self.by_thread[number_of_thread()];
        own.pop().or_else(|| self.refill(own))
    }

    #[inline]
    fn refill(&self, own: &List) -> Option<u32> {
        let mut some = self.for_all.split(|len| len.saturating_sub(KEPT / 2));
        let id = some.pop()?;
        own.append(some);
        Some(id)
    }

    /// An id of any thread: for when there is no other one.
    #[cold]
    pub(super) fn take_of_any(&self) -> Option<u32> {
        self.take().or_else(|| self.by_thread.iter().find_map(|list| list.pop()))
    }

    pub(super) fn give(&self, id: u32) {
        let own = &self.by_thread[number_of_thread()];
        if own.push(id) > KEPT {
            self.for_all.append(own.split(|_| KEPT / 2));
        }
    }

    /// Ids that are new to this thread, to be taken in their order.
    pub(super) fn keep(&self, ids: Range<u32>) {
        self.by_thread[number_of_thread()].change(|own| own.extend(ids.rev()));
    }

    /// How many there are; while others take and give, approximately.
    pub(super) fn len(&self) -> u64 {
        self.by_thread.iter().chain([&self.for_all]).map(|list| list.len.load(Ordering::Relaxed)).sum()
    }
}

impl List {
    #[inline]
    fn pop(&self) -> Option<u32> {
        // Relaxed: a hint; the lock orders the block's contents.
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.change(Vec::pop)
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

    fn change<R>(&self, f: impl FnOnce(&mut Vec<u32>) -> R) -> R {
        let mut ids = lock(&self.ids);
        let result = f(&mut ids);
        self.len.store(ids.len() as u64, Ordering::Relaxed); // a hint
        result
    }
}

/// Which list a thread has.
#[inline]
fn number_of_thread() -> usize {
    // (The process's own, so no part of what a model checker sees.)
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LISTS; // only difference counts
    }
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;
    use std::collections::HashSet;

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
