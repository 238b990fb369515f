//! The loop over futures of one type, without a queue, type erasure or allocation. The futures may borrow from the
//! caller. The rounds are in `round.rs`.

use crate::exec::contract::{Fate, Host, Operations};
use crate::exec::core::{Core, LiveList, Refill};
use crate::exec::order::hint::Hint;
use crate::exec::order::source::{Hinted, Plain, Source};
use crate::exec::pending_output::PendingOutputs;
use crate::exec::round::{Parts, Round};
use crate::exec::slot::Slot;
use crate::exec::worker::Worker;
use crate::suspend::Suspend;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::task::{Context, Poll};

/// Drops the futures on return and on unwinding. No future outlives what it borrows.
struct Emptied<'w, H: Host, S: Suspend>(&'w mut Worker<H, S>);

impl<H: Host, S: Suspend> Drop for Emptied<'_, H, S> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

impl<H: Host, S: Suspend> Worker<H, S> {
    /// Runs the futures that `next` returns, a batch of them at once, until it returns `None`, all have ended and
    /// `sink` has got all their outputs. `sink` gets outputs as futures end, or, if outputs are held back, as they
    /// are released, in the order in which the futures ended. The thread sleeps while all open futures are parked, or
    /// while none is open but outputs are held.
    ///
    /// `next` gets the operations beside the place of the new future. A panic of a future, of `next` or of `sink`
    /// drops all futures and the held outputs, and is passed on. The worker is then empty and usable. A future whose
    /// output was dropped has still ended: its effects are not undone.
    ///
    /// # Panics
    /// Panics if spawned futures are open or wait for a place. Held outputs of spawned futures stay held.
    #[inline(always)]
    pub fn stream<'s, F: Future>(
        &'s mut self,
        next: impl FnMut(&'s H::Operations) -> Option<F>,
        sink: impl FnMut(F::Output, Fate),
    ) {
        self.stream_from(Plain(next), sink);
    }

    /// Runs futures like [`stream`](Self::stream), which `make` makes of inputs. Futures whose hints overlap are not
    /// open together, and are admitted in the order of the inputs. Inputs that must wait are put aside, at most
    /// `ASIDE_MAX`, while later ones continue.
    pub fn stream_hinted<'s, I: Iterator, F: Future>(
        &'s mut self,
        inputs: I,
        hint: impl FnMut(&I::Item) -> Hint,
        make: impl FnMut(&'s H::Operations, I::Item) -> F,
        sink: impl FnMut(F::Output, Fate),
    ) {
        self.stream_from(Hinted::new(inputs, hint, make), sink);
    }

    #[inline(always)]
    fn stream_from<'s, N: Source<'s, H::Operations>>(
        &'s mut self,
        source: N,
        sink: impl FnMut(<N::Future as Future>::Output, Fate),
    ) {
        assert_eq!(self.open() + self.queued(), 0, "the worker has spawned futures");
        self.event_sleep.end(&self.core.slots.wakes.notifier);
        let emptied = Emptied(self);
        let Worker { core, live, policy, .. } = &mut *emptied.0;
        core.enter();
        let held = PendingOutputs::new(core.held_max);
        let mut stream = Stream {
            core,
            live,
            policy,
            source,
            sink,
            held,
            open: 0,
            has_next: true,
            admits: true,
            has_early_wake: false,
            of: PhantomData,
        };
        loop {
            stream.take_woken();
            stream.release();
            stream.admit();
            if stream.open > 0 {
                stream.go_round();
            } else if stream.core.parked > 0 || !stream.held.is_empty() {
                stream.sleep();
            } else {
                break;
            }
        }
        debug_assert!(!stream.has_next, "what was put aside can go when nothing is open");
        stream.core.rest();
        stream.core.settle();
        drop(stream);
        mem::forget(emptied); // nothing is left
    }
}

/// The most futures that end at their first poll and run one after the other in one slot before the other slots get
/// their turn. If no other future is open, the limit is one, so that the round ends at times.
const RENEWALS_PER_VISIT_MAX: u32 = 8;

/// The content of the slot after a poll.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Polled {
    /// A future that has posted something.
    Posted,
    /// A new future.
    Renewed,
    /// No live future.
    Gone,
}

/// A stream under way. The first `open` of `live` are live.
struct Stream<'w, 's, H: Host<Operations: 's>, S, N: Source<'s, H::Operations>, K> {
    core: &'w mut Core<H>,
    live: &'w mut LiveList<H::Operations>,
    policy: &'w mut S,
    source: N,
    sink: K,
    held: PendingOutputs<<N::Future as Future>::Output>,
    open: usize,
    /// True if the source is not known to be exhausted.
    has_next: bool,
    /// True if `has_next`, the source does not wait for a future to end, and not too many outputs are held.
    admits: bool,
    /// One of the live futures may be woken although its operations are not done.
    has_early_wake: bool,
    of: PhantomData<&'s ()>,
}

impl<'s, H, S, N, K> Stream<'_, 's, H, S, N, K>
where
    H: Host<Operations: 's>,
    S: Suspend,
    N: Source<'s, H::Operations>,
    K: FnMut(<N::Future as Future>::Output, Fate),
{
    /// Gives out the held outputs that are due.
    #[inline(always)]
    fn release(&mut self) {
        if !self.held.is_empty() {
            self.release_due();
        }
    }

    #[inline(never)]
    fn release_due(&mut self) {
        self.held.ask(&self.core.host);
        while let Some((output, fate)) = self.held.pop() {
            (self.sink)(output, fate);
        }
        self.admits = self.has_next && !self.held.is_full();
    }

    /// Fills the batch, if it is time to.
    #[inline(always)]
    fn admit(&mut self) {
        let is_time = self.core.refill == Refill::Immediate || self.open + self.core.parked == 0;
        while self.admits && is_time && self.core.free_places(self.open) > 0 {
            let Some(place) = self.core.slots.vacant(&self.core.host) else { break };
            // SAFETY: slots are boxed and live as long as the worker, which `stream` has borrowed for 's.
            if self.put(unsafe { &*place.as_ptr() }) {
                self.live[self.open] = place;
                self.open += 1;
            } else {
                self.core.slots.give_back(place);
            }
        }
    }

    /// Puts the next future into a vacant slot. Returns false if there is none.
    #[inline(always)]
    fn put(&mut self, slot: &'s Slot<H::Operations>) -> bool {
        let Some(future) = self.source.next(&slot.operations, slot.index, self.core.batch()) else {
            (self.has_next, self.admits) = (!self.source.is_exhausted(), false);
            self.core.counters.turned_away += u64::from(self.has_next);
            return false;
        };
        // SAFETY: the slot is vacant and does not move. `stream` empties it before 's ends, and before
        // anything ends that the caller of `stream` lends to its futures.
        unsafe { slot.future.put(future) };
        slot.started();
        if self.source.is_long(slot.index) {
            slot.operations.set_long();
            self.core.make_room_beside_longs();
        }
        true
    }

    /// Polls the future at `at`, and puts the next one there if it has ended.
    #[inline(always)]
    fn poll(&mut self, at: usize, early: bool) -> Polled {
        let place = self.live[at];
        // SAFETY: as in `admit`.
        let slot: &'s Slot<H::Operations> = unsafe { &*place.as_ptr() };
        // SAFETY: a live slot holds a future of the source.
        match unsafe { slot.future.poll_as::<N::Future>(&mut Context::from_waker(&slot.waker)) } {
            Poll::Pending => {
                if slot.pended(self.core.host.local(), early) {
                    return Polled::Posted;
                }
                self.core.park(slot);
                Polled::Gone
            }
            Poll::Ready(output) => {
                let until = slot.operations.held_until();
                // SAFETY: as above.
                unsafe { slot.vacate_as::<N::Future>() };
                self.core.counters.ended += 1;
                self.source.ended(slot.index);
                if N::WAITS {
                    self.admits = self.has_next && !self.held.is_full();
                }
                if self.held.must_hold(until) {
                    self.held.push(until, output);
                    self.admits &= !self.held.is_full();
                } else {
                    (self.sink)(output, Fate::Durable);
                }
                let is_immediate = self.core.refill == Refill::Immediate;
                if is_immediate && self.admits && self.core.free_places(self.open - 1) > 0 && self.put(slot) {
                    return Polled::Renewed;
                }
                self.core.slots.give_back(place);
                Polled::Gone
            }
        }
    }

    /// Sleeps until a future is woken or an output is released, outside the epoch. All futures are parked or their
    /// outputs held.
    #[cold]
    fn sleep(&mut self) {
        // If inputs wait for open futures to end, and these wait for rows, there is enough to do. The time counts
        // against the level.
        let is_obstructed = self.has_next && !self.admits && !self.held.is_full();
        if !is_obstructed {
            self.core.interrupt();
        }
        if !self.core.maintain_idle() {
            let at_most = self.core.host.expire();
            self.core
                .slots
                .wakes
                .notifier
                .sleep(true, at_most, || self.core.awaits_release(self.held.first()));
        }
        self.core.enter();
    }
}

impl<'s, H, S, N, K> Round<H, S> for Stream<'_, 's, H, S, N, K>
where
    H: Host<Operations: 's>,
    S: Suspend,
    N: Source<'s, H::Operations>,
    K: FnMut(<N::Future as Future>::Output, Fate),
{
    #[inline(always)]
    fn parts(&mut self) -> Parts<'_, H, S> {
        let Stream { core, live, policy, open, has_early_wake, .. } = self;
        Parts { core, live, policy, open, has_early_wake }
    }

    #[inline(always)]
    fn visit(&mut self, at: usize, mut early: bool, polls: &mut u64) -> bool {
        // A future that has posted operations has asked for its memory already. Continue with the next one.
        let mut polled = Polled::Renewed;
        let renewals_max = if self.open > 1 { RENEWALS_PER_VISIT_MAX } else { 1 };
        for _ in 0..renewals_max {
            *polls += 1;
            polled = self.poll(at, early);
            if polled != Polled::Renewed {
                break;
            }
            early = false;
        }
        if polled == Polled::Gone {
            self.take_out(at);
        }
        polled != Polled::Gone
    }
}
