//! Where a stream takes its futures from: a closure, or inputs with hints. Inputs that would conflict with open futures
//! are put aside.

use crate::exec::order::hint::Hint;
use crate::exec::order::queue::ConflictQueue;
use std::future::Future;

/// How many inputs may be put aside at once. While this many are aside, no further input is looked at.
pub(crate) const ASIDE_MAX: usize = 64;

/// The futures of a stream, in slots beside operations of type `M`.
pub(crate) trait Source<'s, M: 's> {
    type Future: Future;
    /// True if `next` may have no future now and have one later.
    const WAITS: bool;

    /// Returns the next future, for this slot of a worker that keeps `batch` open. `None` means that there is none, or
    /// none that may be let in before another future has ended.
    fn next(&mut self, operations: &'s M, slot: u32, batch: usize) -> Option<Self::Future>;

    /// Returns true if `next` will never return a future again.
    fn is_exhausted(&self) -> bool;

    /// Returns true if the future in this slot is a long one.
    fn is_long(&self, slot: u32) -> bool;

    /// Notes that the future in this slot has ended.
    fn ended(&mut self, slot: u32);
}

/// A closure that returns futures until there are none left.
pub(crate) struct Plain<N>(pub(crate) N);

impl<'s, M: 's, F: Future, N: FnMut(&'s M) -> Option<F>> Source<'s, M> for Plain<N> {
    type Future = F;
    const WAITS: bool = false;

    #[inline(always)]
    fn next(&mut self, operations: &'s M, _: u32, _: usize) -> Option<F> {
        (self.0)(operations)
    }
    #[inline(always)]
    fn is_exhausted(&self) -> bool {
        true // asked after `next` has returned `None`
    }
    #[inline(always)]
    fn is_long(&self, _: u32) -> bool {
        false
    }
    #[inline(always)]
    fn ended(&mut self, _: u32) {}
}

/// Inputs, the hint of each, and the function that makes a future of an input.
pub(crate) struct Hinted<I: Iterator, H, N> {
    inputs: I,
    hint: H,
    make: N,
    queue: ConflictQueue<I::Item>,
    /// The hints of the futures in the slots.
    open: Vec<Hint>,
    has_more: bool,
}

impl<I: Iterator, H: FnMut(&I::Item) -> Hint, N> Hinted<I, H, N> {
    pub(crate) fn new(inputs: I, hint: H, make: N) -> Self {
        Hinted { inputs, hint, make, queue: ConflictQueue::new(), open: Vec::new(), has_more: true }
    }

    /// Returns the next input that may be let in: the first of those put aside, or a new one.
    fn take(&mut self) -> Option<(Hint, I::Item)> {
        if let Some(found) = self.queue.next() {
            return Some(found);
        }
        while self.has_more && self.queue.waiting() < ASIDE_MAX {
            let Some(input) = self.inputs.next() else {
                self.has_more = false;
                break;
            };
            let hint = (self.hint)(&input);
            if let Ok(input) = self.queue.offer(hint, input) {
                return Some((hint, input));
            }
        }
        None
    }
}

impl<'s, M: 's, I, F, H, N> Source<'s, M> for Hinted<I, H, N>
where
    I: Iterator,
    F: Future,
    H: FnMut(&I::Item) -> Hint,
    N: FnMut(&'s M, I::Item) -> F,
{
    type Future = F;
    const WAITS: bool = true;

    fn next(&mut self, operations: &'s M, slot: u32, batch: usize) -> Option<F> {
        self.queue.set_places(batch);
        let (hint, input) = self.take()?;
        let slot = slot as usize;
        if self.open.len() <= slot {
            self.open.resize(slot + 1, Hint::default());
        }
        self.open[slot] = hint;
        Some((self.make)(operations, input))
    }
    fn is_exhausted(&self) -> bool {
        !self.has_more && self.queue.waiting() == 0
    }
    fn is_long(&self, slot: u32) -> bool {
        self.open[slot as usize].is_long()
    }
    fn ended(&mut self, slot: u32) {
        let hint = std::mem::take(&mut self.open[slot as usize]);
        self.queue.leave(hint);
    }
}
