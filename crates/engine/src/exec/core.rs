//! What a worker does between rounds: slots, epochs, wake-ups, housekeeping.
//!
//! Invariant: while a future is polled, stepped or dropped, the worker is inside an epoch no later than the
//! stamp of any slot.

use super::bell::Bell;
use super::op::{Counters, Host, Pulse};
use super::slot::{NO_STAMP, Slot, Slots, State};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

/// Rounds between two announcements of the epoch.
const REFRESH_EVERY_ROUNDS: u64 = 64;
/// Ended futures between two calls of `Host::tend`.
const TEND_EVERY_ENDED: u64 = 256;
/// Calls of `Host::tend` in a row, at most, before the worker looks for work again.
const TEND_IN_A_ROW_MAX: usize = 16;

/// When a free place is filled again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refill {
    /// At once.
    #[default]
    Immediate,
    /// When all futures of a batch have ended, as in the CoroBase paper.
    Strict,
}

/// How a worker works.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// Futures open at once, parked ones not counted; 1 or more. Default: 48.
    pub batch: usize,
    /// The limit of `batch`, for `set_batch`. Default: 64.
    pub batch_max: usize,
    /// Parked futures that may be open beyond the batch; when so many wait for something outside, those to
    /// come wait too. Default: 1024.
    pub parked_max: usize,
    /// Outputs of ended futures that may be held back at once; while so many are, nothing is let in. Those that
    /// are open then add theirs. Default: 65,536, which lets a million end each second and be held for 65 ms.
    pub held_max: usize,
    /// When a free place is filled again. Default: at once.
    pub refill: Refill,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            batch: 48,
            batch_max: 64,
            parked_max: 1024,
            held_max: 1 << 16,
            refill: Refill::Immediate,
        }
    }
}

/// Slots of open futures that are not parked, in the order of visiting: the first so many of an array that
/// the loop keeps count of. Each is valid as long as the worker's slots.
pub(crate) type LiveList<M> = Box<[NonNull<Slot<M>>]>;

pub(crate) struct Core<H: Host> {
    pub(crate) slots: Slots<H::Mailbox>, // before `host`
    pub(crate) host: H,
    pub(crate) parked: usize,
    /// Parked ones with a stamp: they hold a result that they have not fetched. Rare.
    parked_stamped: usize,
    pub(crate) batch_max: usize,
    pub(crate) held_max: usize,
    pub(crate) refill: Refill,
    pub(crate) counters: Counters,
    batch: usize,
    suspends: bool,
    tended_at_ended: u64,
}

impl<H: Host> Core<H> {
    pub(crate) fn new(host: H, suspends: bool, options: WorkerOptions, bell: Arc<Bell>) -> Self {
        let batch_max = if suspends { options.batch_max.max(1) } else { 1 };
        let slots = Slots::new(&host, batch_max, batch_max + options.parked_max, bell);
        Core {
            slots,
            host,
            parked: 0,
            parked_stamped: 0,
            batch_max,
            held_max: options.held_max,
            refill: options.refill,
            counters: Counters::default(),
            batch: options.batch.clamp(1, batch_max),
            suspends,
            tended_at_ended: 0,
        }
    }

    /// Futures to keep open: 1 where operations do not suspend, for there is nothing to overlap.
    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    pub(crate) fn set_batch(&mut self, batch: usize) {
        debug_assert!(self.suspends || self.batch_max == 1);
        self.batch = batch.clamp(1, self.batch_max);
    }

    /// An array that could hold every slot.
    pub(crate) fn live_list(&self) -> LiveList<H::Mailbox> {
        let first = self.slots.at(0).expect("there is a slot");
        vec![first; self.slots.slots_max()].into()
    }

    pub(crate) fn enter(&self) {
        if !self.host.local().is_entered() {
            self.host.enter();
        }
    }

    /// Nothing runs: leaves the epoch, unless a parked future still holds a result that needs it.
    pub(crate) fn settle(&self) {
        let local = self.host.local();
        if !local.is_entered() {
            return;
        }
        match self.oldest_stamp(&[]) {
            None => self.host.leave(),
            oldest => self.host.refresh(oldest),
        }
    }

    /// Brings woken futures back among the `n` live ones. Returns how many these are now, and whether one of
    /// them is to be polled although its operations are not done.
    #[cold]
    pub(crate) fn wake(&mut self, live: &mut LiveList<H::Mailbox>, mut n: usize) -> (usize, bool) {
        let (wakes, mut hasty) = (self.slots.wakes.clone(), false);
        wakes.take(|index| {
            let Some(at) = self.slots.at(index) else { return };
            // SAFETY: slots live as long as the worker.
            let slot = unsafe { at.as_ref() };
            match slot.state.get() {
                State::Parked => {
                    self.unpark(slot);
                    slot.state.set(State::Live);
                    live[n] = at;
                    n += 1;
                }
                State::Live => {
                    slot.woken.set(true);
                    hasty = true;
                }
                State::Vacant => {} // woken after its end
            }
        });
        (n, hasty)
    }

    /// Once per round over `live`.
    #[inline(always)]
    pub(crate) fn count_round(&mut self, live: &[NonNull<Slot<H::Mailbox>>]) {
        self.counters.rounds += 1;
        self.counters.visits += live.len() as u64;
        if self.counters.rounds.is_multiple_of(REFRESH_EVERY_ROUNDS) {
            self.keep_house(live);
        }
    }

    /// The oldest stamp of an operation in flight, of live and of parked futures.
    fn oldest_stamp(&self, live: &[NonNull<Slot<H::Mailbox>>]) -> Option<u64> {
        // SAFETY: slots live as long as the worker.
        let of_live = live.iter().map(|slot| unsafe { slot.as_ref() }.stamp.get()).min();
        let of_all =
            if self.parked_stamped > 0 { self.slots.iter().map(|slot| slot.stamp.get()).min() } else { None };
        of_all.or(of_live).filter(|&stamp| stamp != NO_STAMP)
    }

    #[cold]
    #[inline(never)]
    fn keep_house(&mut self, live: &[NonNull<Slot<H::Mailbox>>]) {
        self.host.refresh(self.oldest_stamp(live));
        if self.counters.ended - self.tended_at_ended >= TEND_EVERY_ENDED {
            self.tend();
        }
    }

    /// Calls `Host::tend`; true: there is more to do.
    pub(crate) fn tend(&mut self) -> bool {
        self.tended_at_ended = self.counters.ended;
        self.enter();
        let mut pulse = Pulse { counters: self.counters, batch: self.batch };
        let more = self.host.tend(&mut pulse);
        self.set_batch(pulse.batch);
        more
    }

    /// Housekeeping while nothing runs; then the epoch is left. True: there is more to do.
    pub(crate) fn tend_idle(&mut self) -> bool {
        let more = (0..TEND_IN_A_ROW_MAX).all(|_| self.tend());
        self.settle();
        // What is retired is due when others have moved on: give it some chances, then wait for better times.
        for _ in 0..TEND_IN_A_ROW_MAX {
            self.host.local().refresh(self.oldest_stamp(&[])); // takes over what departed workers have left
            if self.host.local().pending() == 0 {
                break;
            }
        }
        more
    }

    /// For `Bell::sleep`: the host will ring when something is released that is held until `first`, if anything
    /// is.
    pub(crate) fn awaits_release(&self, first: Option<u64>) -> bool {
        let waker = || Waker::from(self.slots.wakes.bell.clone());
        first.is_none_or(|until| self.host.wake_when_released(until, &waker()))
    }

    /// Parks a slot that the caller has taken out of the live list.
    pub(crate) fn park(&mut self, slot: &Slot<H::Mailbox>) {
        debug_assert_eq!(slot.state.get(), State::Live);
        slot.state.set(State::Parked);
        self.parked += 1;
        self.parked_stamped += usize::from(slot.stamp.get() != NO_STAMP);
        self.counters.parkings += 1;
    }

    /// Takes a slot out of the parked ones.
    pub(crate) fn unpark(&mut self, slot: &Slot<H::Mailbox>) {
        debug_assert_eq!(slot.state.get(), State::Parked);
        self.parked -= 1;
        self.parked_stamped -= usize::from(slot.stamp.get() != NO_STAMP);
    }

    /// Drops every future, also on the way out of a panic: none outlives what it borrows.
    pub(crate) fn clear(&mut self) {
        struct Settled<'c, H: Host>(&'c mut Core<H>);
        impl<H: Host> Drop for Settled<'_, H> {
            fn drop(&mut self) {
                (self.0.parked, self.0.parked_stamped) = (0, 0);
                self.0.settle();
            }
        }
        self.enter();
        let me = Settled(self);
        me.0.slots.clear();
    }
}
