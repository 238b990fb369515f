//! The hot loop of the engine: one round, a look at every live future. It is the same for streams, whose futures are
//! of one type, and for spawned and submitted futures, whose types are erased. Rare cases are out of line, in
//! `core.rs` and `profiled_round.rs`.

use crate::exec::contract::{Host, Operations};
use crate::exec::core::{Core, LiveList};
use crate::exec::profiled_round::step_slow_path;
use crate::exec::slot::Slot;
use crate::suspend::{PrefetchOnly, Suspend};
use std::ptr::NonNull;

/// The state of a round. The first `open` of `live` are live.
pub(crate) struct Parts<'p, H: Host, S> {
    pub(crate) core: &'p mut Core<H>,
    pub(crate) live: &'p mut LiveList<H::Operations>,
    pub(crate) policy: &'p mut S,
    pub(crate) open: &'p mut usize,
    /// One of the live futures may be woken although its operations are not done.
    pub(crate) has_early_wake: &'p mut bool,
}

/// Something that runs rounds.
pub(crate) trait Round<H: Host, S: Suspend> {
    fn parts(&mut self) -> Parts<'_, H, S>;

    /// Polls the future at `at`, perhaps more than once, or others in its place after it, and counts the polls in
    /// `polls`. `early`: its operations may not be done. Returns true if a future is live at `at` then. Returns false
    /// if the last of the live futures, or none, has taken that place.
    fn visit(&mut self, at: usize, early: bool, polls: &mut u64) -> bool;

    /// Brings woken futures back among the live ones.
    #[inline(always)]
    fn take_woken(&mut self) {
        let Parts { core, live, open, has_early_wake, .. } = self.parts();
        if core.slots.wakes.notifier.take() {
            let (live_now, early) = core.wake(live, *open);
            *open = live_now;
            *has_early_wake |= early;
        }
    }

    /// Takes the slot at `at` out of the live ones. The last of them takes its place.
    #[inline(always)]
    fn take_out(&mut self, at: usize) -> NonNull<Slot<H::Operations>> {
        let Parts { live, open, .. } = self.parts();
        debug_assert!(at < *open);
        let slot = live[at];
        *open -= 1;
        live[at] = live[*open];
        slot
    }

    /// Visits every live future once, including futures that take the place of others.
    #[inline(always)]
    fn go_round(&mut self) {
        let Parts { core, live, open, has_early_wake, .. } = self.parts();
        core.count_round(&live[..*open]);
        if S::GATHERS {
            core.counters.teams += gather(&mut live[..*open]);
        }
        let is_rare = *has_early_wake | core.is_timing;
        let (mut at, mut polls, mut suspensions) = (0, 0, 0);
        while at < *self.parts().open {
            let Parts { core, live, policy, open, has_early_wake } = self.parts();
            let live = &live[..*open];
            let (found, early) = match is_rare {
                false => (step_until_ready(live, at, policy), false),
                true => step_slow_path(&core.host, live, at, policy, *has_early_wake),
            };
            suspensions += (found - at) as u64;
            at = found;
            if at == live.len() {
                break;
            }
            at += usize::from(self.visit(at, early, &mut polls));
        }
        let Parts { core, has_early_wake, .. } = self.parts();
        core.counters.polls += polls;
        core.counters.suspensions += suspensions;
        *has_early_wake = false;
    }
}

/// Steps the operations of `live` from number `at` on, up to the first slot that has nothing left. Returns that
/// slot's number, or `live.len()` if there is none.
#[inline(always)]
fn step_until_ready<M: Operations, S: Suspend>(
    live: &[NonNull<Slot<M>>],
    at: usize,
    policy: &mut S,
) -> usize {
    if S::SUSPENDS && live.len() == 1 {
        scan(live, at, &mut PrefetchOnly) // alone there is nothing to overlap with
    } else {
        scan(live, at, policy)
    }
}

/// The innermost loop. It is a function of its own so that everything it uses stays in registers, and so that the
/// operations' code exists once for futures of all types.
#[inline(never)]
fn scan<M: Operations, S: Suspend>(live: &[NonNull<Slot<M>>], at: usize, policy: &mut S) -> usize {
    let mut i = at;
    while i < live.len() {
        // SAFETY: slots live as long as the worker, and are reached by `&` only.
        if unsafe { live[i].as_ref() }.step(policy) {
            break;
        }
        i += 1;
    }
    i
}

/// Brings futures with the same next step together, and returns the number of groups.
fn gather<M: Operations>(live: &mut [NonNull<Slot<M>>]) -> u64 {
    // SAFETY: slots live as long as the worker, and are reached by `&` only.
    let kind = |slot: &NonNull<Slot<M>>| unsafe { slot.as_ref() }.operations.next_kind();
    live.sort_unstable_by_key(kind);
    live.chunk_by(|one, other| kind(one) == kind(other)).count() as u64
}
