//! Spawned futures that wait for a place in their worker, first come, first served. Futures that have a place are not
//! here.
//!
//! Invariants:
//! - Numbers ascend from the head to the tail, and none is given twice.
//! - At most `queued_max` futures wait. The host has been charged for each, until the future has left.

use crate::exec::contract::Host;
use crate::exec::vacancy::Vacancy;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

/// The name of a spawned future. No other future of the same worker ever has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spawned(pub(super) u64);

/// Why a future was not spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSpawned {
    /// The future would have to wait, and the queue is full.
    QueueFull {
        /// The limit of the queue.
        queued_max: usize,
    },
    /// The future would have to wait, and the host has no memory for it.
    OutOfMemory,
}

/// Puts a future into the slot that it gets.
pub(crate) type Fill<M> = Box<dyn FnOnce(Vacancy<'_, M>)>;

struct Waiting<M: 'static> {
    spawned: Spawned,
    /// The bytes charged to the host.
    bytes: usize,
    fill: Fill<M>,
}

/// An empty queue keeps memory for this many futures. It may never again need what it once grew to.
const KEPT: usize = 64;

pub(crate) struct Queue<M: 'static> {
    waiting: VecDeque<Waiting<M>>,
    queued_max: usize,
    last: Spawned,
}

impl<M> Queue<M> {
    pub(crate) fn new(queued_max: usize) -> Self {
        Queue { waiting: VecDeque::new(), queued_max, last: Spawned(0) }
    }

    /// Returns a name for the next future.
    pub(crate) fn name(&mut self) -> Spawned {
        self.last.0 += 1;
        self.last
    }

    /// Adds the next future, which has the name given last, at the tail.
    pub(crate) fn push<F>(&mut self, fill: F, host: &impl Host<Operations = M>) -> Result<(), NotSpawned>
    where
        F: FnOnce(Vacancy<'_, M>) + 'static,
    {
        if self.waiting.len() >= self.queued_max {
            return Err(NotSpawned::QueueFull { queued_max: self.queued_max });
        }
        let bytes = size_of::<F>() + size_of::<Waiting<M>>();
        if !host.charge(bytes) {
            return Err(NotSpawned::OutOfMemory);
        }
        debug_assert!(self.waiting.back().is_none_or(|before| before.spawned < self.last), "numbers ascend");
        self.waiting.push_back(Waiting { spawned: self.last, bytes, fill: Box::new(fill) });
        Ok(())
    }

    /// Takes the first future out.
    pub(crate) fn pop(&mut self, host: &impl Host<Operations = M>) -> Option<(Spawned, Fill<M>)> {
        let first = self.waiting.pop_front()?;
        Some(self.took(first, host))
    }

    /// Takes out the future of this name, if it waits.
    pub(crate) fn remove(&mut self, spawned: Spawned, host: &impl Host<Operations = M>) -> Option<Fill<M>> {
        let at = self.waiting.binary_search_by_key(&spawned, |waiting| waiting.spawned).ok()?;
        let waiting = self.waiting.remove(at)?;
        Some(self.took(waiting, host).1)
    }

    fn took(&mut self, waiting: Waiting<M>, host: &impl Host<Operations = M>) -> (Spawned, Fill<M>) {
        host.uncharge(waiting.bytes);
        if self.waiting.is_empty() {
            self.waiting.shrink_to(KEPT);
        }
        (waiting.spawned, waiting.fill)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Drops all waiting futures. The first panic of a drop is passed on when all are dropped. It is ignored if
    /// another panic is already under way.
    pub(crate) fn clear(&mut self, host: &impl Host<Operations = M>) {
        let mut cleared = Ok(());
        while let Some((_, fill)) = self.pop(host) {
            cleared = cleared.and(catch_unwind(AssertUnwindSafe(|| drop(fill))));
        }
        if let Err(payload) = cleared
            && !thread::panicking()
        {
            resume_unwind(payload);
        }
    }
}
