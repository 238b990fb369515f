//! A worker: slots, a policy, and the thread that calls. This file is about futures of any types, erased, which an
//! outside scheduler or [`serve`](super::Executor::serve) drives. In the other files:
//!
//! - `spawned.rs`: how futures are put in
//! - `sleep.rs`: how an outside scheduler waits
//! - `stream.rs`: futures of one type
//! - `round.rs`: a round over either

use crate::exec::contract::{Host, Operations};
use crate::exec::core::{Core, LiveList, Policy, Refill, WorkerOptions};
use crate::exec::pending_output::OutputQueue;
use crate::exec::profiled_round::step_slow_path;
use crate::exec::round::{Parts, Round};
use crate::exec::slot::{Slot, State};
use crate::exec::spawn_queue::{Queue, Spawned};
use crate::exec::tune::level::BatchSize;
use crate::exec::vacancy::Vacancy;
use crate::exec::wake::event_sleep::EventSleep;
use crate::exec::wake::notifier::Notifier;
use crate::suspend::Suspend;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;
use std::thread;

/// The result of one step of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: no future is open or all are parked, and held outputs are still held.
    Idle,
    /// A future, or its operations, moved. Or no future could move, and held outputs were given out.
    Stepped,
    /// A future ended. Its output may be held.
    Ended,
}

/// The result of a call of `Worker::run_rounds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerProgress {
    /// Rounds in which something moved.
    pub rounds: u32,
    /// Futures that have ended. Their outputs may be held.
    pub ended: u64,
    /// True if nothing moves until something is spawned or the worker is woken.
    pub is_idle: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Polled {
    Stays,
    Parked,
    Ended,
}

/// A batch of open futures and the policy by which their operations are stepped. Belongs to the thread that made it.
pub struct Worker<H: Host, S: Suspend> {
    pub(crate) core: Core<H>,
    pub(crate) policy: S,
    pub(crate) live: LiveList<H::Operations>,
    /// The first so many of `live` are live.
    open: usize,
    at: usize,
    /// One of the live futures may be woken although its operations are not done.
    has_early_wake: bool,
    outputs: Rc<OutputQueue>,
    /// Under `Refill::Strict`: the batch is still being gathered.
    gathering: bool,
    /// Spawned futures that wait for a place.
    pub(super) queue: Queue<H::Operations>,
    /// The names of the spawned futures in the slots, by slot number. Other slots may have names of futures that have
    /// gone.
    names: Box<[Option<Spawned>]>,
    pub(super) event_sleep: EventSleep,
}

impl<H: Host, S: Suspend> Worker<H, S> {
    /// Makes a worker of the calling thread.
    pub fn new(host: H, policy: S, options: WorkerOptions) -> Self {
        Worker::with_bell(host, policy, options, Notifier::new())
    }

    pub(crate) fn with_bell(host: H, policy: S, options: WorkerOptions, notifier: Arc<Notifier>) -> Self {
        notifier.set_thread();
        let core = Core::new(host, Policy::of::<S>(), options, notifier);
        Worker {
            live: core.live_list(),
            open: 0,
            at: 0,
            has_early_wake: false,
            outputs: Rc::new(OutputQueue::new(core.held_max)),
            gathering: true,
            queue: Queue::new(options.queued_max),
            names: vec![None; core.slots.slots_max()].into(),
            event_sleep: EventSleep::default(),
            core,
            policy,
        }
    }

    /// Returns the worker's surroundings.
    pub fn host(&self) -> &H {
        &self.core.host
    }

    /// Returns what it has counted so far.
    #[cfg(all(test, not(braid_shuttle)))]
    pub fn counters(&self) -> crate::exec::tune::measure::Counters {
        self.core.counters
    }

    /// Returns how many futures it keeps open at once, not counting parked ones.
    #[cfg(all(test, not(braid_shuttle)))]
    pub fn batch(&self) -> usize {
        self.core.batch()
    }

    /// Changes the number of futures to keep open, within 1 and the options' `batch_max` (1 if the policy never
    /// suspends). If it shrinks, the surplus drains.
    pub fn set_batch(&mut self, batch: impl Into<BatchSize>) {
        self.core.set_batch(batch.into());
    }

    /// Sets whether futures placed from now on are alone in the worker. If the batch is found by measuring, futures
    /// that are alone run as in sequential execution.
    pub fn set_alone(&mut self, is_alone: bool) {
        self.core.set_alone(is_alone);
    }

    /// Changes when free places are filled again.
    pub fn set_refill(&mut self, refill: Refill) {
        self.core.refill = refill;
    }

    /// Returns the number of open futures, including parked ones. Ended futures whose outputs are held are not
    /// counted.
    pub fn open(&self) -> usize {
        self.open + self.core.parked
    }

    /// Returns the number of held outputs of spawned and submitted futures.
    pub fn held(&self) -> usize {
        self.outputs.len()
    }

    /// Returns the number of open futures that wait for something outside.
    #[cfg(all(test, not(braid_shuttle)))]
    pub fn parked(&self) -> usize {
        self.core.parked
    }

    /// Returns how many futures may be placed now.
    pub fn room(&self) -> usize {
        if self.outputs.is_full() {
            return 0;
        }
        let gathers = self.core.refill == Refill::Immediate || self.gathering || self.open() == 0;
        let places = if gathers { self.core.free_places(self.open) } else { 0 };
        places.min(self.core.slots.vacancies())
    }

    /// Returns true if no future may be placed now.
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Lets `put` fill a vacant slot. Returns the slot's number, or `None` if the worker is full or `put` did not
    /// fill it.
    pub(crate) fn place(&mut self, put: impl FnOnce(Vacancy<'_, H::Operations>)) -> Option<usize> {
        self.place_as(None, put)
    }

    /// Places a spawned future with this name, like `place`.
    pub(super) fn place_as(
        &mut self,
        name: Option<Spawned>,
        put: impl FnOnce(Vacancy<'_, H::Operations>),
    ) -> Option<usize> {
        if self.is_full() {
            return None;
        }
        self.gathering |= self.open() == 0;
        let at = self.core.slots.vacant(&self.core.host)?;
        let placing = Placing { worker: self, at };
        // SAFETY: slots live as long as the worker, and drop their futures before their operations.
        let slot: &'static Slot<H::Operations> = unsafe { &*at.as_ptr() };
        put(Vacancy::new(slot, &placing.worker.outputs));
        drop(placing);
        if slot.state.get() == State::Vacant {
            return None;
        }
        self.names[slot.index as usize] = name;
        self.live[self.open] = at;
        self.open += 1;
        Some(slot.index as usize)
    }

    /// Returns the slot of the spawned future of this name, if it is in one.
    pub(super) fn slot_of(&self, spawned: Spawned) -> Option<usize> {
        self.names.iter().position(|&name| name == Some(spawned))
    }

    /// Drops the future in slot number `index`, with the operations it has in flight. Returns false if the slot is
    /// vacant, or its future cannot be cancelled any more.
    pub(super) fn cancel_slot(&mut self, index: usize) -> bool {
        let Some(slot) = self.core.slots.at(index) else { return false };
        // SAFETY: slots live as long as the worker.
        let that = unsafe { slot.as_ref() };
        match that.state.get() {
            State::Vacant => return false,
            _ if that.operations.must_finish() => return false,
            State::Parked => self.core.unpark(that),
            State::Live => {
                let at = self.live[..self.open].iter().position(|&p| p == slot);
                self.take_out(at.expect("a live slot is in the list"));
            }
        }
        self.core.enter();
        self.vacate(slot);
        true
    }

    /// Runs `f` for a caller that steps the worker from outside, and may not come back for long.
    pub fn attended<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        struct Attended<'w, H: Host, S: Suspend>(&'w mut Worker<H, S>);
        impl<H: Host, S: Suspend> Drop for Attended<'_, H, S> {
            fn drop(&mut self) {
                self.0.core.pause(&self.0.live[..self.0.open]);
            }
        }
        if self.open() > 0 {
            self.core.enter();
        }
        let attended = Attended(self);
        f(&mut *attended.0)
    }

    /// Looks at one open future, chosen by the policy. This is the unit of work for a simulator.
    pub fn step(&mut self) -> Step {
        let released = self.attend();
        if self.open == 0 {
            return if released { Step::Stepped } else { Step::Idle };
        }
        self.core.enter();
        self.core.count_round(&self.live[..self.open]);
        // The answer comes from foreign code. Slots after the open ones are not alive.
        self.at = self.policy.pick(self.at.min(self.open - 1), self.open).min(self.open - 1);
        let at = self.at;
        let (found, early) = step_slow_path(&self.core.host, &self.live[..=at], at, &mut self.policy, true);
        if found > at {
            self.core.counters.suspensions += 1;
            return Step::Stepped;
        }
        self.core.counters.polls += 1;
        if self.poll(at, early) == Polled::Ended { Step::Ended } else { Step::Stepped }
    }

    /// Looks at every open future once. Returns true if there was one that was not parked, or if held outputs were
    /// given out.
    pub fn round(&mut self) -> bool {
        let released = self.attend();
        if self.open == 0 {
            self.core.stop_timing();
            return released;
        }
        self.core.enter();
        self.go_round();
        true
    }

    /// Runs rounds until nothing moves, at most `rounds_max`. A thread with other things to do returns to them,
    /// however much there is to do here.
    pub fn run_rounds(&mut self, rounds_max: u32) -> WorkerProgress {
        let ended = self.core.counters.ended;
        let mut progress = WorkerProgress { rounds: 0, ended: 0, is_idle: false };
        while progress.rounds < rounds_max && !progress.is_idle {
            progress.is_idle = !self.round();
            progress.rounds += u32::from(!progress.is_idle);
        }
        progress.ended = self.core.counters.ended - ended;
        progress
    }

    /// Does housekeeping for a scheduler that has nothing else to do. Returns true if there is more to do.
    pub fn maintain(&mut self) -> bool {
        self.release();
        if self.open > 0 {
            return self.core.maintain();
        }
        self.core.interrupt();
        self.core.maintain_idle()
    }

    /// Returns true if futures are open that are not parked.
    pub(super) fn has_live(&self) -> bool {
        self.open > 0
    }

    /// Takes notice of what other threads have done, and admits futures that may enter. Returns true if held outputs
    /// were given out.
    fn attend(&mut self) -> bool {
        self.event_sleep.end(&self.core.slots.wakes.notifier);
        let released = self.release(); // before the notifier: it may wake futures here
        if self.open == 0 && self.core.parked > 0 {
            self.core.host.expire(); // this too may wake futures here
        }
        self.take_woken();
        self.admit();
        self.gathering = false;
        released
    }

    /// Gives places to waiting spawned futures, while there are any.
    fn admit(&mut self) {
        while !self.queue.is_empty() && !self.is_full() {
            let Some((spawned, fill)) = self.queue.pop(&self.core.host) else { break };
            self.place_as(Some(spawned), fill);
        }
    }

    /// Returns true if a waiting spawned future may enter.
    pub(super) fn can_admit(&self) -> bool {
        !self.queue.is_empty() && !self.is_full()
    }

    /// Gives out the held outputs that are due. Returns true if there were some.
    fn release(&mut self) -> bool {
        if self.outputs.is_empty() {
            return false;
        }
        self.outputs.ask(&self.core.host);
        let mut released = false;
        while let Some((pending_output, fate)) = self.outputs.pop() {
            released = true;
            pending_output.give(fate);
        }
        released
    }

    /// For `Notifier::sleep`: returns true if nothing is held, or the host will notify the worker when some of it is
    /// released.
    pub(crate) fn awaits_release(&self) -> bool {
        self.core.awaits_release(self.outputs.first())
    }

    /// Polls the future at `at` in the list. `early`: its operations may not be done.
    #[inline(always)]
    fn poll(&mut self, at: usize, early: bool) -> Polled {
        // SAFETY: slots live as long as the worker, and are reached by `&` only.
        let slot: &Slot<H::Operations> = unsafe { &*self.live[at].as_ptr() };
        let unwound = Unwound { worker: self, at };
        // SAFETY: `place` puts erased futures only, and a live slot is not vacant.
        let poll = unsafe { slot.future.poll(&mut Context::from_waker(&slot.waker)) };
        mem::forget(unwound);
        if poll.is_ready() {
            self.core.counters.ended += 1;
            self.end(at);
            return Polled::Ended;
        }
        if slot.pended(self.core.host.local(), early) {
            return Polled::Stays;
        }
        self.take_out(at);
        self.core.park(slot);
        if self.open == 0 {
            self.core.settle();
        }
        Polled::Parked
    }

    fn end(&mut self, at: usize) {
        let slot = self.take_out(at);
        self.vacate(slot);
    }

    /// Empties a slot that is in no list, even if the future's drop panics.
    fn vacate(&mut self, slot: NonNull<Slot<H::Operations>>) {
        struct Vacated<'w, H: Host, S: Suspend>(&'w mut Worker<H, S>, NonNull<Slot<H::Operations>>);
        impl<H: Host, S: Suspend> Drop for Vacated<'_, H, S> {
            fn drop(&mut self) {
                self.0.core.slots.give_back(self.1);
                if self.0.open == 0 {
                    self.0.core.settle();
                }
            }
        }
        let ended = Vacated(self, slot);
        // SAFETY: slots live as long as the worker.
        unsafe { ended.1.as_ref() }.vacate();
    }

    pub(crate) fn clear(&mut self) {
        self.open = 0;
        self.gathering = true;
        self.core.set_alone(false); // a panic may have cut off what would have
        self.core.clear();
    }

    /// Drops every future, then waits for held outputs and gives them out. The first panic is passed on when
    /// everything is done. It is ignored if another panic is already under way.
    pub(crate) fn finish(&mut self) {
        let forgotten = catch_unwind(AssertUnwindSafe(|| self.queue.clear(&self.core.host)));
        let cleared = catch_unwind(AssertUnwindSafe(|| self.clear()));
        let given = self.finish_held();
        if let Err(payload) = forgotten.and(cleared).and(given)
            && !thread::panicking()
        {
            resume_unwind(payload);
        }
    }

    /// Waits for held outputs and gives all of them out. Returns the first panic of the host or of an ending.
    fn finish_held(&mut self) -> thread::Result<()> {
        let Some(last) = self.outputs.last() else { return Ok(()) };
        let mut given = catch_unwind(AssertUnwindSafe(|| {
            self.core.host.wait_released(last);
            self.outputs.ask(&self.core.host);
        }));
        self.outputs.learn_no_more();
        while let Some((pending_output, fate)) = self.outputs.pop() {
            given = given.and(catch_unwind(AssertUnwindSafe(|| pending_output.give(fate))));
        }
        debug_assert!(self.outputs.is_empty());
        given
    }
}

impl<H: Host, S: Suspend> Drop for Worker<H, S> {
    fn drop(&mut self) {
        self.finish();
    }
}

impl<H: Host, S: Suspend> Round<H, S> for Worker<H, S> {
    #[inline(always)]
    fn parts(&mut self) -> Parts<'_, H, S> {
        let Worker { core, live, policy, open, has_early_wake, .. } = self;
        Parts { core, live, policy, open, has_early_wake }
    }

    #[inline(always)]
    fn visit(&mut self, at: usize, early: bool, polls: &mut u64) -> bool {
        *polls += 1;
        self.poll(at, early) == Polled::Stays
    }
}

/// Gives a slot back that is not filled, also if the code that was to fill it panics.
struct Placing<'w, H: Host, S: Suspend> {
    worker: &'w mut Worker<H, S>,
    at: NonNull<Slot<H::Operations>>,
}

impl<H: Host, S: Suspend> Drop for Placing<'_, H, S> {
    fn drop(&mut self) {
        // SAFETY: slots live as long as the worker.
        if unsafe { self.at.as_ref() }.state.get() == State::Vacant {
            self.worker.core.slots.give_back(self.at);
        }
    }
}

/// Drops a future that panicked at its poll, and frees its slot.
struct Unwound<'w, H: Host, S: Suspend> {
    worker: &'w mut Worker<H, S>,
    at: usize,
}

impl<H: Host, S: Suspend> Drop for Unwound<'_, H, S> {
    fn drop(&mut self) {
        self.worker.core.stop_timing();
        self.worker.end(self.at);
    }
}
