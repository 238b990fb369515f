//! Outputs of ended futures that are held back until the host releases them: see `OutputGate::released`. There is one
//! queue per stream, of its type, and one per worker, of spawned and submitted futures, which reach it while they are
//! polled.
//!
//! An output costs a place in a ring, but no slot, waker or lock. Once the ring has grown, it costs no allocation,
//! except a box for a spawned future.
//!
//! Invariants: queued outputs ascend in `until`. Once everything due has been given out, each `until` is above what
//! is known to be released. Held outputs are therefore given out in the order in which they came.

use crate::exec::contract::{Fate, OutputGate, Released, Stall};
use crate::exec::panics::quietly;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

/// The held outputs of one type. If it is dropped with some left, it drops them, and ignores a panic of one.
pub(crate) struct PendingOutputs<T> {
    queue: VecDeque<(u64, T)>,
    /// The host's last answer.
    released: Released,
    /// Why the rest is given out without having been released.
    stall: Option<Stall>,
    held_max: usize,
}

impl<T> PendingOutputs<T> {
    /// Makes a queue that is full from `held_max` outputs on. Open futures may still add their outputs then.
    pub(crate) fn new(held_max: usize) -> Self {
        PendingOutputs {
            queue: VecDeque::new(),
            released: Released { until: 0, is_final: false },
            stall: None,
            held_max: held_max.max(1),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= self.held_max
    }

    /// Returns true if an output that asks for `until` must be held. False for 0.
    #[inline(always)]
    pub(crate) fn must_hold(&self, until: u64) -> bool {
        until > self.released.until
    }

    /// Holds an output. If it asks for less than the one before it, it waits for that one.
    #[inline]
    pub(crate) fn push(&mut self, until: u64, output: T) {
        debug_assert!(self.must_hold(until));
        let until = self.last().map_or(until, |last| last.max(until));
        debug_assert!(self.first().is_none_or(|first| first <= until), "what is held ascends");
        self.queue.push_back((until, output));
    }

    /// Returns what the first output waits for.
    pub(crate) fn first(&self) -> Option<u64> {
        self.queue.front().map(|(until, _)| *until)
    }

    /// Returns what the last output waits for.
    pub(crate) fn last(&self) -> Option<u64> {
        self.queue.back().map(|(until, _)| *until)
    }

    /// Asks what is released, and whether waiting is over. Then everything due must be popped before more is pushed.
    pub(crate) fn ask(&mut self, gate: &impl OutputGate) {
        let released = gate.released();
        debug_assert!(released.until >= self.released.until, "what is released stays so");
        debug_assert!(released.is_final || !self.released.is_final, "final is final");
        self.released = released;
        self.stall = gate.stall();
    }

    /// Treats what is known to be released as final.
    pub(crate) fn learn_no_more(&mut self) {
        self.released.is_final = true;
    }

    /// Returns the next output that is due.
    pub(crate) fn pop(&mut self) -> Option<(T, Fate)> {
        let fate = match self.first()? {
            until if until <= self.released.until => Fate::Durable,
            _ if self.released.is_final => self.stall.map_or(Fate::Unknown, Fate::Stalled),
            _ => Fate::Stalled(self.stall?),
        };
        let (_, output) = self.queue.pop_front()?;
        Some((output, fate))
    }
}

impl<T> Drop for PendingOutputs<T> {
    fn drop(&mut self) {
        for (_, output) in self.queue.drain(..) {
            let _ = quietly(|| drop(output));
        }
    }
}

/// Announces the result that a submitted future has left with its task.
pub(crate) trait Announce {
    /// Wakes what waits for the result.
    ///
    /// # Safety
    /// Called once for each pair that `Sink::hold` has returned, on the same thread.
    unsafe fn announce(&self, part: usize, fate: Fate);
}

/// How a held future of a worker ends.
pub(crate) enum PendingOutput {
    /// A submitted future: a part of a task, as `Sink::hold` returned them.
    Submitted(Arc<dyn Announce>, usize),
    /// A spawned future.
    Spawned(Box<dyn FnOnce(Fate)>),
}

impl PendingOutput {
    /// Gives the output out. A panic of a spawned future is passed on.
    pub(crate) fn give(self, fate: Fate) {
        match self {
            PendingOutput::Submitted(task, part) => {
                // A result without a receiver may be dropped here, and panic. There is no caller to report the panic
                // to.
                let _ = quietly(|| {
                    // SAFETY: made of what `hold` returned, and used up here; the queue never leaves its thread.
                    unsafe { task.announce(part, fate) };
                    drop(task);
                });
            }
            PendingOutput::Spawned(end) => end(fate),
        }
    }
}

/// The held outputs of a worker's spawned and submitted futures. Shared with these futures, on the worker's thread.
pub(crate) struct OutputQueue(RefCell<PendingOutputs<PendingOutput>>);

impl OutputQueue {
    pub(crate) fn new(held_max: usize) -> Self {
        OutputQueue(RefCell::new(PendingOutputs::new(held_max)))
    }

    /// See `PendingOutputs::must_hold`.
    pub(crate) fn must_hold(&self, until: u64) -> bool {
        self.0.borrow().must_hold(until)
    }

    /// See `PendingOutputs::push`.
    pub(crate) fn push(&self, until: u64, pending_output: PendingOutput) {
        self.0.borrow_mut().push(until, pending_output);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.borrow().is_full()
    }

    /// See `PendingOutputs::first`.
    pub(crate) fn first(&self) -> Option<u64> {
        self.0.borrow().first()
    }

    /// See `PendingOutputs::last`.
    pub(crate) fn last(&self) -> Option<u64> {
        self.0.borrow().last()
    }

    /// See `PendingOutputs::ask`.
    pub(crate) fn ask(&self, gate: &impl OutputGate) {
        self.0.borrow_mut().ask(gate);
    }

    /// See `PendingOutputs::learn_no_more`.
    pub(crate) fn learn_no_more(&self) {
        self.0.borrow_mut().learn_no_more();
    }

    /// See `PendingOutputs::pop`. Nothing is borrowed when it returns, so an ending may run any code.
    pub(crate) fn pop(&self) -> Option<(PendingOutput, Fate)> {
        self.0.borrow_mut().pop()
    }
}
