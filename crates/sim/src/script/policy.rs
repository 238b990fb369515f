//! How the stage's workers suspend: what the schedules of a run leave to them.

use braiddb::metrics::Clock;
use braiddb::suspend::{Seeded, Suspend};
use std::cell::Cell;
use std::rc::Rc;

/// Leaves at every probable miss, and stays between the phases of a commit: not at all, or for a while; or until
/// it may go on.
#[derive(Debug)]
pub(super) struct EveryMiss {
    random: Seeded,
    stay: u64,
    phases: Rc<Phases>,
}

impl EveryMiss {
    /// The policy of one worker.
    pub(super) fn new(seed: u64, phases: &Rc<Phases>) -> EveryMiss {
        EveryMiss { random: Seeded::new(seed), stay: 0, phases: phases.clone() }
    }
}

/// How far the commits on a worker may go, which are one at most.
#[derive(Debug, Default)]
pub(super) struct Phases {
    /// `None`: the policy decides. `u32::MAX`: to the end.
    permits: Cell<Option<u32>>,
    /// A commit stays where it is for want of a permit.
    is_refused: Cell<bool>,
}

impl Phases {
    /// May a commit's next phase be? False: not yet.
    fn pass(&self, permits: u32) -> bool {
        let may_pass = permits > 0;
        if may_pass && permits < u32::MAX {
            self.permits.set(Some(permits - 1));
        }
        self.is_refused.set(!may_pass);
        may_pass
    }

    /// Commits go on by permits from now on; there is one for the phase with which a commit begins.
    pub(super) fn part(&self) {
        self.permits.set(Some(1));
    }

    /// A commit has just stayed where it is: nothing moves on this worker until there is a permit.
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused.take()
    }

    /// One phase more; the last one is to the end.
    pub(super) fn permit(&self, is_last: bool) {
        let permits = self.permits.get().expect("commits are parted");
        self.permits.set(Some(if is_last { u32::MAX } else { permits.saturating_add(1) }));
    }
}

impl Suspend for EveryMiss {
    const SUSPENDS: bool = true;
    const PREFETCHES: bool = false;
    const PAUSES: bool = true;
    fn pause(&mut self) -> bool {
        if let Some(permits) = self.phases.permits.get() {
            return !self.phases.pass(permits);
        }
        if self.stay > 0 {
            self.stay -= 1;
            return true;
        }
        self.stay = [0, 0, 0, 4, 16, 64][(self.random.next_u64() % 6) as usize];
        false
    }
    fn miss<const LINES: usize>(&mut self, _: *const u8) -> bool {
        true
    }
}

/// Time stands still.
pub(super) struct Still;

impl Clock for Still {
    fn now_ns(&self) -> u64 {
        0
    }

    fn unix_ns(&self) -> u64 {
        0
    }
}
