//! The suspension policy of the stage's workers, which decides what the schedule of a run leaves open.

use braiddb::metrics::Clock;
use braiddb::suspend::{Seeded, Suspend};
use std::cell::Cell;
use std::rc::Rc;

/// Suspends at every probable miss. Between the phases of a commit it stays for some time or not at all, or until there
/// is a permit to continue.
#[derive(Debug)]
pub(super) struct EveryMiss {
    random: Seeded,
    stay: u64,
    phases: Rc<Phases>,
}

impl EveryMiss {
    /// Makes the policy of one worker.
    pub(super) fn new(seed: u64, phases: &Rc<Phases>) -> EveryMiss {
        EveryMiss { random: Seeded::new(seed), stay: 0, phases: phases.clone() }
    }
}

/// How far the commit on a worker may go. A worker has at most one.
#[derive(Debug, Default)]
pub(super) struct Phases {
    /// `None`: the policy decides. `u32::MAX`: the commit may go to its end.
    permits: Cell<Option<u32>>,
    /// True if a commit waits for a permit.
    is_refused: Cell<bool>,
}

impl Phases {
    /// Returns true if a commit may enter its next phase now.
    fn pass(&self, permits: u32) -> bool {
        let may_pass = permits > 0;
        if may_pass && permits < u32::MAX {
            self.permits.set(Some(permits - 1));
        }
        self.is_refused.set(!may_pass);
        may_pass
    }

    /// Makes commits continue only by permits. The phase with which a commit begins gets a permit.
    pub(super) fn part(&self) {
        self.permits.set(Some(1));
    }

    /// Returns true if a commit was just refused a permit: nothing moves on this worker until there is one.
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused.take()
    }

    /// Permits one more phase. The last permit is for everything up to the end.
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

/// A clock that stands still.
pub(super) struct Still;

impl Clock for Still {
    fn now_ns(&self) -> u64 {
        0
    }

    fn unix_ns(&self) -> u64 {
        0
    }
}
