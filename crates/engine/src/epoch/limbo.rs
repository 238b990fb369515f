//! The objects that one participant has retired and not yet reclaimed.

use super::Reclaim;
use std::collections::VecDeque;

/// One deferred reclamation.
pub(super) struct Retired {
    /// The participant's announcement when the object was retired: `r` in the head of `epoch`.
    pub(super) stamp: u64,
    pub(super) p: *mut u8,
    pub(super) word: u64,
    pub(super) reclaim: Reclaim,
}

// SAFETY: the caller of `retire` promises that the reclamation may run on any participant's thread.
unsafe impl Send for Retired {}

/// A queue of deferred reclamations, mostly in the order of stamps. An adopted object may stand behind younger ones,
/// and then waits longer than necessary.
#[derive(Default)]
pub(super) struct Limbo(VecDeque<Retired>);

/// A queue whose capacity exceeds this gives its own memory back when it is empty.
const KEPT_CAPACITY: usize = 4096;

impl Limbo {
    #[inline]
    pub(super) fn push(&mut self, retired: Retired) {
        self.0.push_back(retired);
    }

    /// Removes and returns the first object, if its stamp is below `end`.
    #[inline]
    pub(super) fn pop_below(&mut self, end: u64) -> Option<Retired> {
        let due = self.0.front().is_some_and(|first| first.stamp < end);
        if due { self.0.pop_front() } else { None }
    }

    pub(super) fn trim(&mut self) {
        if self.0.is_empty() && self.0.capacity() > KEPT_CAPACITY {
            self.0 = VecDeque::new();
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Retired> {
        std::mem::take(&mut self.0).into_iter()
    }
}
