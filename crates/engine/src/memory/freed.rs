//! The free blocks of a slab: a few for each thread, the others for all threads.
//!
//! A thread takes the blocks that it has freed itself or got as new. It meets other threads only once in some dozens of
//! blocks. With one list for all, threads that insert and undo would meet at each block. The scheme is from Bonwick and
//! Adams: Magazines and Vmem, USENIX 2001.
//!
//! This file always uses the standard library's atomics and locks: no model is about these lists, and there are many.
//!
//! Invariant: an id is in at most one list, and in no list while its block is in use.

use crate::sync::CachePadded;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The number of threads with a list of their own. With more threads, some share a list.
const LISTS: usize = 32;
/// The ids that a thread keeps. If it has more, half of these go to the list for all. If it has none, half of these
/// come from there.
const KEPT: usize = 64;

/// The free blocks of one slab: see the head of the file.
pub(super) struct Freed {
    by_thread: [CachePadded<List>; LISTS],
    for_all: CachePadded<List>,
}

#[derive(Default)]
struct List {
    ids: Mutex<Vec<u32>>,
    /// The length of `ids`. It changes under the lock of `ids`; without the lock it is a hint.
    len: AtomicU64,
    /// The ids that were never handed out: the next one in the low half, their end in the high half. An id comes here
    /// once, so a word never recurs.
    new: AtomicU64,
}

impl Freed {
    pub(super) fn new() -> Freed {
        Freed { by_thread: std::array::from_fn(|_| CachePadded::default()), for_all: CachePadded::default() }
    }

    /// Takes an id that this thread has, or one from the list for all.
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

    /// Takes an id of any thread. It is for callers that find no other.
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

    /// Keeps ids that are new to this thread, which takes them in their order.
    pub(super) fn keep(&self, ids: Range<u32>) {
        let own = &self.by_thread[number_of_thread()];
        let new = own.new.load(Ordering::Relaxed);
        let is_empty = new as u32 == (new >> 32) as u32;
        let word = u64::from(ids.end) << 32 | u64::from(ids.start);
        // Another thread that shares this list may have put some there.
        if !is_empty || own.new.compare_exchange(new, word, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            own.change(|own| own.extend(ids.rev()));
        }
    }

    /// Returns how many ids there are. The figure is approximate while other threads take and give.
    pub(super) fn len(&self) -> u64 {
        self.by_thread.iter().chain([&self.for_all]).map(|list| list.count()).sum()
    }
}

impl List {
    #[inline(always)]
    fn pop(&self) -> Option<u32> {
        // Relaxed: a hint. The lock orders the block's contents.
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.change(Vec::pop)
    }

    #[inline(always)]
    fn take_new(&self) -> Option<u32> {
        let is_some = |new: u64| (new as u32) < (new >> 32) as u32;
        // Relaxed: ids carry no data, and the exchange gives each to one thread.
        let taken = self
            .new
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |new| is_some(new).then_some(new + 1));
        taken.ok().map(|new| new as u32)
    }

    fn count(&self) -> u64 {
        let new = self.new.load(Ordering::Relaxed);
        self.len.load(Ordering::Relaxed) + ((new >> 32) - u64::from(new as u32))
    }

    /// Adds an id, and returns how many there are now.
    fn push(&self, id: u32) -> usize {
        self.change(|ids| {
            ids.push(id);
            ids.len()
        })
    }

    /// Takes the ids beyond the first ones, whose number `keep` returns.
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

/// Returns the number of the calling thread's list.
#[inline(always)]
fn number_of_thread() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    thread_local! {
        /// The number plus 1; 0 means that the thread has no number yet.
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

    /// Proves that new ids are taken in their order, once each, including ids that another thread got.
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

    /// Proves that another thread takes the ids that a thread frees except for a few, and these too if nothing else is
    /// left.
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
                // The taking thread has another number, so at most `KEPT` ids stay behind.
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
