//! Rounds that are out of the ordinary: those in which a woken future may be polled before its operations are done,
//! and those that are timed for the host's profile. Out of line, so that the others know nothing of it.

use crate::exec::contract::{Host, Mailbox};
use crate::exec::slot::Slot;
use crate::profile::{Activity, Profile};
use crate::suspend::{PrefetchOnly, Suspend, Timed};
use std::ptr::NonNull;

/// As `find_done` of `worker.rs`, in a round in which not everything is as usual. `hasty`: one of the futures may have
/// been woken; then it is to be polled, and the second part of the result is true if its operations are not done.
#[cold]
#[inline(never)]
pub(crate) fn find_rarely<H: Host, S: Suspend>(
    host: &H,
    live: &[NonNull<Slot<H::Mailbox>>],
    at: usize,
    policy: &mut S,
    hasty: bool,
) -> (usize, bool) {
    match host.profile().filter(|profile| profile.is_timing()) {
        None => find(live, at, policy, hasty, |_| {}),
        // Alone there is nothing to overlap with.
        Some(profile) if S::SUSPENDS && live.len() == 1 => {
            find_timed(profile, live, at, &mut PrefetchOnly, hasty)
        }
        Some(profile) => find_timed(profile, live, at, policy, hasty),
    }
}

fn find_timed<M: Mailbox, S: Suspend>(
    profile: &Profile,
    live: &[NonNull<Slot<M>>],
    at: usize,
    policy: &mut S,
    hasty: bool,
) -> (usize, bool) {
    let found = find(live, at, &mut Timed::new(policy, profile), hasty, |slot| {
        profile.enter(Activity::Scheduling);
        profile.set_slot(slot.index as usize);
    });
    // What comes next is the poll, if there is one; the operations in it say so themselves.
    profile.enter(if found.0 < live.len() { Activity::Useful } else { Activity::Scheduling });
    found
}

#[inline(always)]
fn find<M: Mailbox, S: Suspend>(
    live: &[NonNull<Slot<M>>],
    at: usize,
    policy: &mut S,
    hasty: bool,
    turn: impl Fn(&Slot<M>),
) -> (usize, bool) {
    for (i, slot) in live.iter().enumerate().skip(at) {
        // SAFETY: slots live as long as the worker, and are reached by `&` only.
        let slot = unsafe { slot.as_ref() };
        turn(slot);
        let is_woken = hasty && slot.woken.take();
        let is_done = slot.mailbox.step(policy);
        if is_done || is_woken {
            return (i, !is_done);
        }
    }
    (live.len(), false)
}
