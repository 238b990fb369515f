//! The loop over futures of one type: no queue, no erasure, no allocation; the futures may borrow from the caller.
//! THE hot loop of the engine. What is rare is out of line in `core.rs`.

use super::Refill;
use super::op::{Host, Mailbox};
use super::slot::Slot;
use super::worker::{Worker, find_done, polls_per_visit_max};
use crate::suspend::Suspend;
use std::future::Future;
use std::task::{Context, Poll};

/// Drops the futures on the way out, also on unwinding: none outlives what it borrows.
struct Emptied<'w, H: Host, S: Suspend>(&'w mut Worker<H, S>);

impl<H: Host, S: Suspend> Drop for Emptied<'_, H, S> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

impl<H: Host, S: Suspend> Worker<H, S> {
    /// Runs the futures that `next` returns, a batch of them at once, until it returns `None` and all have ended;
    /// `sink` gets their outputs, as they end. While all open futures are parked, the thread sleeps.
    ///
    /// `next` is given the mailbox beside the place of the new future. A panic of a future, of `next` or of `sink`
    /// drops all futures and is passed on; the worker is empty and good for use then.
    ///
    /// Panics if futures are open that were placed otherwise.
    #[inline(always)]
    pub fn stream<'s, F: Future>(
        &'s mut self,
        mut next: impl FnMut(&'s H::Mailbox) -> Option<F>,
        mut sink: impl FnMut(F::Output),
    ) {
        assert_eq!(self.open(), 0, "the worker has spawned futures open");
        let emptied = Emptied(self);
        let Worker { core, live, policy, .. } = &mut *emptied.0;
        let mut put = |slot: &'s Slot<H::Mailbox>| {
            let Some(future) = next(&slot.mailbox) else { return false };
            // SAFETY: the slot is vacant and does not move; `emptied` goes before 's ends, and `F` outlives that.
            unsafe { slot.future.put(future) };
            slot.occupied();
            true
        };
        let (mut open, mut has_next, mut hasty) = (0, true, false); // the first `open` of `live` are live
        core.enter();
        loop {
            // -- between rounds
            if core.slots.wakes.bell.heard() {
                (open, hasty) = core.wake(live, open);
            }
            let batch = core.batch();
            let is_immediate = core.refill == Refill::Immediate;
            if has_next && open < batch && (is_immediate || open + core.parked == 0) {
                while has_next && open < batch {
                    let Some(slot) = core.slots.vacant(&core.host) else { break };
                    // SAFETY: slots are boxed and live as long as the worker, which is borrowed for 's.
                    if put(unsafe { &*slot.as_ptr() }) {
                        live[open] = slot;
                        open += 1;
                    } else {
                        core.slots.give_back(slot);
                        has_next = false;
                    }
                }
            }
            if open == 0 {
                if core.parked == 0 {
                    break;
                }
                if !core.tend_idle() {
                    core.slots.wakes.bell.sleep(|| true);
                }
                core.enter();
                continue;
            }
            core.count_round(&live[..open]);
            let polls_max = polls_per_visit_max::<S>(open);

            // -- a round
            let (mut at, mut polls, mut suspensions, mut polls_left) = (0, 0, 0, polls_max);
            while at < open {
                let (found, early) = find_done(&live[..open], at, policy, hasty);
                if found > at {
                    suspensions += (found - at) as u64;
                    at = found;
                    polls_left = polls_max;
                    if at == open {
                        break;
                    }
                }
                let place = live[at];
                // SAFETY: as above.
                let slot: &'s Slot<H::Mailbox> = unsafe { &*place.as_ptr() };
                polls += 1;
                // SAFETY: a live slot holds an `F`.
                let stays = match unsafe { slot.future.poll_as::<F>(&mut Context::from_waker(&slot.waker)) } {
                    Poll::Pending => {
                        let posted = slot.pended(core.host.local(), early);
                        if !posted {
                            core.park(slot);
                        }
                        posted
                    }
                    Poll::Ready(output) => {
                        // SAFETY: as above.
                        unsafe { slot.vacate_as::<F>() };
                        core.counters.ended += 1;
                        sink(output);
                        let refills = is_immediate && has_next && open <= batch;
                        let refilled = refills && put(slot);
                        if !refilled {
                            has_next &= !refills;
                            core.slots.give_back(place);
                        }
                        refilled
                    }
                };
                polls_left -= 1;
                if !stays {
                    open -= 1;
                    live[at] = live[open]; // to be visited in its place
                    polls_left = polls_max;
                } else if polls_left == 0 {
                    at += 1;
                    polls_left = polls_max;
                }
            }
            core.counters.polls += polls;
            core.counters.suspensions += suspensions;
            hasty = false;
        }
        core.settle();
    }
}
