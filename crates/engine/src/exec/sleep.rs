//! How a thread waits for descriptors of its own and for its worker at the same time.

use crate::exec::contract::Host;
use crate::exec::wake::event_sleep::{Sleep, WakeFd};
use crate::exec::worker::Worker;
use crate::suspend::Suspend;
use std::io;
use std::time::Duration;

/// How long a worker sleeps that has something to clean up that others may still see. An idle worker thus frees
/// memory soon, at next to no cost.
const MAINTAINS_AGAIN: Duration = Duration::from_millis(100);

impl<H: Host, S: Suspend> Worker<H, S> {
    /// Returns the descriptor that wakes the worker's thread, always the same one. Fails if the system has none left.
    pub fn wake_fd(&mut self) -> io::Result<WakeFd> {
        self.event_sleep.wake_fd(&self.core.slots.wakes.notifier)
    }

    /// Cleans up a bounded amount. If the worker then has nothing to do, announces that the thread is going to wait
    /// for descriptors, including [`wake_fd`](Self::wake_fd). From then on, whatever gives the worker something to do
    /// makes that descriptor readable, once, until the next call of the worker, which ends the sleep.
    ///
    /// Also returns `NotNow` if `wake_fd` was never called, because nothing could wake the thread.
    pub fn prepare_to_sleep(&mut self) -> Sleep {
        self.event_sleep.end(&self.core.slots.wakes.notifier);
        let held = self.held();
        // An output that was given out may have given the caller something to do.
        let is_busy =
            !self.event_sleep.has_event() || self.has_live() || self.maintain() || self.held() != held;
        if is_busy || self.can_admit() {
            return Sleep::NotNow;
        }
        let at_most = self.sleep_max(); // may wake futures: so before the announcement
        let has_room = !self.is_full();
        if !self.event_sleep.announce(&self.core.slots.wakes.notifier, has_room) {
            return Sleep::NotNow;
        }
        if !self.awaits_release() {
            self.event_sleep.end(&self.core.slots.wakes.notifier);
            return Sleep::NotNow;
        }
        Sleep::UntilWoken { at_most }
    }

    /// Returns how long the worker may sleep: until a wait is over, or what it has to clean up may be due. `None`:
    /// until it is woken.
    pub(crate) fn sleep_max(&self) -> Option<Duration> {
        let wait = if self.core.parked == 0 { None } else { self.core.host.expire() };
        let maintain = (!self.core.host.is_maintained()).then_some(MAINTAINS_AGAIN);
        wait.into_iter().chain(maintain).min()
    }
}
