//! How a thread that has descriptors of its own to wait for waits for its worker at the same time.

use super::event::Event;
use super::op::Host;
use super::worker::Worker;
use crate::suspend::Suspend;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long a worker sleeps that has something to clean up, which others may still see: so that an idle one gives memory back soon,
/// at next to no cost.
const TENDS_AGAIN: Duration = Duration::from_millis(100);

/// Whether a worker has anything to do before it is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// It has: look at descriptors without waiting for them, then go on with it.
    NotNow,
    /// It has not.
    UntilWoken {
        /// It needs its thread again after so long at the latest; `None`: only when it is woken.
        at_most: Option<Duration>,
    },
}

impl Sleep {
    /// How long to wait for descriptors; `None`: until one is ready.
    pub fn timeout(self) -> Option<Duration> {
        match self {
            Sleep::NotNow => Some(Duration::ZERO),
            Sleep::UntilWoken { at_most } => at_most,
        }
    }
}

/// A file descriptor that is readable while a sleeping worker is wanted by others: made by `Worker::wake_fd`, to be put into a
/// set of `epoll` or `poll`. Only its readability is of use: the worker itself reads it. It stays open until all clones
/// are dropped, and the worker with all wakers of its transactions.
#[derive(Clone)]
pub struct WakeFd(
    #[cfg_attr(any(braid_shuttle, braid_loom), allow(dead_code, reason = "models have no descriptors"))]
    Arc<Event>,
);

impl std::fmt::Debug for WakeFd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WakeFd").finish_non_exhaustive()
    }
}

#[cfg(not(any(braid_shuttle, braid_loom)))]
impl std::os::fd::AsFd for WakeFd {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.descriptor()
    }
}

#[cfg(not(any(braid_shuttle, braid_loom)))]
impl std::os::fd::AsRawFd for WakeFd {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        std::os::fd::AsRawFd::as_raw_fd(&self.0.descriptor())
    }
}

#[cfg(all(test, braid_shuttle))]
impl WakeFd {
    pub(super) fn wait_readable(&self) {
        self.0.wait_readable();
    }
}

/// A worker's side of its event.
///
/// Invariant: `signals` is how often the event has been or is about to be signalled, less what has been taken from it.
#[derive(Default)]
pub(super) struct Doze {
    event: Option<Arc<Event>>,
    /// The worker has announced that it sleeps on the event.
    pub(super) is_announced: bool,
    signals: u64,
}

impl<H: Host, S: Suspend> Worker<H, S> {
    /// The descriptor that wakes the worker's thread: always the same one. Fails if the system has none left.
    pub fn wake_fd(&mut self) -> io::Result<WakeFd> {
        if let Some(event) = &self.doze.event {
            return Ok(WakeFd(event.clone()));
        }
        let event = Arc::new(Event::new()?);
        self.core.slots.wakes.bell.set_event(event.clone());
        self.doze.event = Some(event.clone());
        Ok(WakeFd(event))
    }

    /// Cleans up a bounded amount, and announces that the thread is going to wait for descriptors, [`wake_fd`](Self::wake_fd)
    /// among them, if the worker has nothing to do. From then on whatever gives it something to do makes that readable,
    /// once; until the next call of the worker, which ends the sleep.
    ///
    /// `NotNow` as well where `wake_fd` was never asked for: nothing could wake the thread.
    pub fn prepare_to_sleep(&mut self) -> Sleep {
        self.end_sleep();
        let held = self.held();
        // (An output that was given out may have given the caller something to do.)
        let is_busy = self.doze.event.is_none() || self.has_live() || self.tend() || self.held() != held;
        if is_busy || self.can_admit() {
            return Sleep::NotNow;
        }
        let at_most = self.sleep_max(); // may wake futures: so before the announcement
        let bell = &self.core.slots.wakes.bell;
        self.doze.is_announced = bell.doze(!self.is_full());
        if !self.doze.is_announced {
            return Sleep::NotNow;
        }
        if !self.awaits_release() {
            self.end_sleep();
            return Sleep::NotNow;
        }
        Sleep::UntilWoken { at_most }
    }

    /// The thread is back from a sleep that was announced, if one was.
    #[inline(always)]
    pub(super) fn end_sleep(&mut self) {
        if self.doze.is_announced {
            self.wake_up();
        }
    }

    #[cold]
    fn wake_up(&mut self) {
        self.doze.is_announced = false;
        self.doze.signals += u64::from(self.core.slots.wakes.bell.wake_up());
        // (One that is still to come will end a later sleep at once, and is taken then.)
        if self.doze.signals > 0
            && let Some(event) = &self.doze.event
        {
            self.doze.signals = self.doze.signals.saturating_sub(event.take());
        }
    }

    /// The worker has been given something to do after it has announced that it sleeps.
    #[inline(always)]
    pub(super) fn reconsider_sleep(&self) {
        if self.doze.is_announced {
            self.core.slots.wakes.bell.ring();
        }
    }

    /// How long the worker may sleep: until a wait is over, or what it has to clean up may be due. `None`: until it is woken.
    pub(crate) fn sleep_max(&self) -> Option<Duration> {
        let wait = if self.core.parked == 0 { None } else { self.core.host.expire() };
        let tend = (!self.core.host.is_tended()).then_some(TENDS_AGAIN);
        wait.into_iter().chain(tend).min()
    }
}
