//! A log whose durable position a test sets, and which can tell what waits for it.

use crate::exec::contract::Released;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{Condvar, Mutex, lock, wait};
use std::sync::Arc;
use std::task::Waker;

#[derive(Default)]
pub(super) struct ToyLog {
    /// Twice the durable position, plus one if the log has stopped.
    released: AtomicU64,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Workers that sleep.
    wakers: Vec<(u64, Waker)>,
    /// Workers that are about to end.
    blocked: usize,
}

impl ToyLog {
    pub(super) fn new() -> Arc<ToyLog> {
        Arc::default()
    }

    /// Makes the log durable up to `until`.
    pub(super) fn release(&self, until: u64) {
        assert!(!self.released().is_final && until >= self.released().until);
        self.change(until << 1);
    }

    /// Stops the log at its position.
    pub(super) fn stop(&self) {
        self.change(self.released().until << 1 | 1);
    }

    fn change(&self, released: u64) {
        let mut waiting = lock(&self.waiting);
        self.released.store(released, Release); // Release: pairs with the Acquire in `released`
        let (due, left) = waiting.wakers.drain(..).partition(|&(until, _)| self.is_settled(until));
        waiting.wakers = left;
        self.changed.notify_all();
        drop(waiting);
        let due: Vec<(u64, Waker)> = due;
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn is_settled(&self, until: u64) -> bool {
        let released = self.released();
        released.is_final || until <= released.until
    }

    pub(super) fn released(&self) -> Released {
        let released = self.released.load(Acquire); // Acquire: pairs with the Release in `change`
        Released { until: released >> 1, is_final: released & 1 != 0 }
    }

    pub(super) fn wake_when_released(&self, until: u64, waker: &Waker) -> bool {
        let mut waiting = lock(&self.waiting);
        if self.is_settled(until) {
            return false;
        }
        waiting.wakers.retain(|(_, other)| !other.will_wake(waker));
        waiting.wakers.push((until, waker.clone()));
        self.changed.notify_all();
        true
    }

    pub(super) fn wait_released(&self, until: u64) {
        let mut waiting = lock(&self.waiting);
        waiting.blocked += 1;
        self.changed.notify_all();
        while !self.is_settled(until) {
            waiting = wait(&self.changed, waiting);
        }
        waiting.blocked -= 1;
    }
}

#[cfg(not(braid_shuttle))]
impl ToyLog {
    /// Blocks until a worker sleeps until something is released. A worker that was woken for another reason counts as
    /// well.
    pub(super) fn await_sleeper(&self) {
        self.await_that(|waiting| !waiting.wakers.is_empty());
    }

    /// Blocks until a worker that is about to end waits.
    pub(super) fn await_blocked(&self) {
        self.await_that(|waiting| waiting.blocked > 0);
    }

    fn await_that(&self, condition: impl Fn(&Waiting) -> bool) {
        let mut waiting = lock(&self.waiting);
        while !condition(&waiting) {
            waiting = wait(&self.changed, waiting);
        }
    }
}
