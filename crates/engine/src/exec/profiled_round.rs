//! Unusual rounds: those in which a woken future may be polled before its operations are done, and those that are
//! timed for the host's profile. Out of line, so that usual rounds do not pay for them.

use crate::exec::contract::{Host, Operations};
use crate::exec::slot::Slot;
use crate::profile::{Activity, Profile};
use crate::suspend::{PrefetchOnly, Suspend, Timed};
use std::ptr::NonNull;

/// Steps operations like `step_until_ready` of `round.rs`, in an unusual round. `has_early_wake`: one of the futures
/// may have been woken. The worker then polls it, and the second part of the result is true if operations are left.
#[cold]
#[inline(never)]
pub(crate) fn step_slow_path<H: Host, S: Suspend>(
    host: &H,
    live: &[NonNull<Slot<H::Operations>>],
    at: usize,
    policy: &mut S,
    has_early_wake: bool,
) -> (usize, bool) {
    match host.profile().filter(|profile| profile.is_timing()) {
        None => step_each(live, at, policy, has_early_wake, |_| {}),
        // Alone there is nothing to overlap with.
        Some(profile) if S::SUSPENDS && live.len() == 1 => {
            step_each_timed(profile, live, at, &mut PrefetchOnly, has_early_wake)
        }
        Some(profile) => step_each_timed(profile, live, at, policy, has_early_wake),
    }
}

fn step_each_timed<M: Operations, S: Suspend>(
    profile: &Profile,
    live: &[NonNull<Slot<M>>],
    at: usize,
    policy: &mut S,
    has_early_wake: bool,
) -> (usize, bool) {
    let found = step_each(live, at, &mut Timed::new(policy, profile), has_early_wake, |slot| {
        profile.enter(Activity::Scheduling);
        profile.set_slot(slot.index as usize);
    });
    // The poll comes next, if there is one. The operations in it report themselves.
    profile.enter(if found.0 < live.len() { Activity::Useful } else { Activity::Scheduling });
    found
}

#[inline(always)]
fn step_each<M: Operations, S: Suspend>(
    live: &[NonNull<Slot<M>>],
    at: usize,
    policy: &mut S,
    has_early_wake: bool,
    turn: impl Fn(&Slot<M>),
) -> (usize, bool) {
    for (i, slot) in live.iter().enumerate().skip(at) {
        // SAFETY: slots live as long as the worker, and are reached by `&` only.
        let slot = unsafe { slot.as_ref() };
        turn(slot);
        let is_woken = has_early_wake && slot.woken.take();
        let is_done = slot.step(policy);
        if is_done || is_woken {
            return (i, !is_done);
        }
    }
    (live.len(), false)
}
