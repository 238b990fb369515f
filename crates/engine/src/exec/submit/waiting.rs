//! The futures that wait until an inbox has room.
//!
//! Invariant: each waiting future has a waker here until it is woken or dropped. There are no other wakers.

use crate::exec::blocking::{Mutex, lock};
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::collections::BTreeMap;
use std::task::Waker;

/// The futures that wait for room in the inboxes of an executor, in the order in which they have come.
///
/// Wakers are cloned, called and dropped outside of the lock, because they are the caller's code, which may drop
/// futures.
pub(crate) struct Waiting {
    wakers: Mutex<Wakers>,
    /// How many futures wait. Threads that make room read this under the lock of an inbox. A future that had registered
    /// before has looked into that inbox since.
    count: AtomicUsize,
}

#[derive(Default)]
struct Wakers {
    next: u64,
    by_number: BTreeMap<u64, Waker>,
}

impl Waiting {
    pub(crate) fn new() -> Waiting {
        Waiting { wakers: Mutex::new(Wakers::default()), count: AtomicUsize::new(0) }
    }

    /// Returns true if futures may be waiting.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Wakes as many futures as there are new places.
    pub(crate) fn wake(&self, places: usize) {
        let woken: Vec<Waker> = {
            let mut wakers = lock(&self.wakers);
            let woken = std::iter::from_fn(|| wakers.by_number.pop_first()).take(places);
            let woken = woken.map(|(_, waker)| waker).collect();
            self.count.store(wakers.by_number.len(), Relaxed);
            woken
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Registers a future, which may have a number already, to be woken.
    pub(crate) fn wait(&self, number: &mut Option<u64>, waker: &Waker) {
        let waker = waker.clone();
        let mut wakers = lock(&self.wakers);
        let kept = number.filter(|number| wakers.by_number.contains_key(number));
        let at = kept.unwrap_or(wakers.next);
        wakers.next = wakers.next.max(at + 1);
        let old = wakers.by_number.insert(at, waker);
        self.count.store(wakers.by_number.len(), Relaxed);
        drop(wakers);
        drop(old);
        *number = Some(at);
    }

    /// Returns true if the future with this number waits and has not been woken.
    pub(crate) fn has(&self, number: u64) -> bool {
        lock(&self.wakers).by_number.contains_key(&number)
    }

    /// Removes a future that does not wait any more. Returns false if it has been woken.
    pub(crate) fn forget(&self, number: u64) -> bool {
        let mut wakers = lock(&self.wakers);
        let waker = wakers.by_number.remove(&number);
        self.count.store(wakers.by_number.len(), Relaxed);
        drop(wakers);
        waker.is_some()
    }
}
