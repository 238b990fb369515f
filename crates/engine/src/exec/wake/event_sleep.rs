//! A worker's side of a sleep in which its caller waits for file descriptors.

use super::event::Event;
use super::notifier::Notifier;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Says whether a worker has anything to do before it is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// The worker has something to do. Look at descriptors without waiting for them, then continue with the worker.
    NotNow,
    /// The worker has nothing to do.
    UntilWoken {
        /// The worker needs its thread again after this time at the latest. `None`: only when it is woken.
        at_most: Option<Duration>,
    },
}

impl Sleep {
    /// Returns how long to wait for descriptors. `None` means until one is ready.
    pub fn timeout(self) -> Option<Duration> {
        match self {
            Sleep::NotNow => Some(Duration::ZERO),
            Sleep::UntilWoken { at_most } => at_most,
        }
    }
}

/// A file descriptor that is readable while other threads want a sleeping worker. `Worker::wake_fd` makes it; put it
/// into a set of `epoll` or `poll`. Use only its readability: the worker itself reads it. The descriptor stays open
/// until all clones, the worker, and all wakers of the worker's transactions are dropped. On Windows `wake_fd` returns
/// an error.
#[derive(Clone)]
pub struct WakeFd(
    #[cfg_attr(
        any(braid_shuttle, braid_loom, not(unix)),
        allow(dead_code, reason = "models and Windows have no descriptors")
    )]
    Arc<Event>,
);

impl std::fmt::Debug for WakeFd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WakeFd").finish_non_exhaustive()
    }
}

#[cfg(all(unix, not(any(braid_shuttle, braid_loom))))]
impl std::os::fd::AsFd for WakeFd {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.descriptor()
    }
}

#[cfg(all(unix, not(any(braid_shuttle, braid_loom))))]
impl std::os::fd::AsRawFd for WakeFd {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        std::os::fd::AsRawFd::as_raw_fd(&self.0.descriptor())
    }
}

#[cfg(all(test, braid_shuttle))]
impl WakeFd {
    pub(crate) fn wait_readable(&self) {
        self.0.wait_readable();
    }
}

/// A worker's side of its event.
///
/// Invariant: `signals` is how often the event has been or is about to be signalled, less the signals that were taken
/// from it.
#[derive(Default)]
pub(crate) struct EventSleep {
    event: Option<Arc<Event>>,
    /// True if the worker has announced that it sleeps on the event.
    is_announced: bool,
    signals: u64,
}

impl EventSleep {
    pub(crate) fn has_event(&self) -> bool {
        self.event.is_some()
    }

    /// Returns the worker's descriptor, and makes it if necessary.
    pub(crate) fn wake_fd(&mut self, notifier: &Notifier) -> io::Result<WakeFd> {
        if let Some(event) = &self.event {
            return Ok(WakeFd(event.clone()));
        }
        let event = Arc::new(Event::new()?);
        notifier.set_event(event.clone());
        self.event = Some(event.clone());
        Ok(WakeFd(event))
    }

    /// Announces that the worker sleeps. Returns false if there is something to look at first.
    pub(crate) fn announce(&mut self, notifier: &Notifier, has_room: bool) -> bool {
        debug_assert!(!self.is_announced && self.has_event());
        self.is_announced = notifier.announce_on_event(has_room);
        self.is_announced
    }

    /// Ends the announced sleep, if there is one, because the thread is back.
    #[inline(always)]
    pub(crate) fn end(&mut self, notifier: &Notifier) {
        if self.is_announced {
            self.wake_up(notifier);
        }
    }

    #[cold]
    fn wake_up(&mut self, notifier: &Notifier) {
        self.is_announced = false;
        self.signals += u64::from(notifier.end_sleep_on_event());
        // A signal that is still to come ends a later sleep at once, and is taken then.
        if self.signals > 0
            && let Some(event) = &self.event
        {
            self.signals = self.signals.saturating_sub(event.take());
        }
    }

    /// Notes that the worker has been given something to do after it announced its sleep.
    #[inline(always)]
    pub(crate) fn reconsider(&self, notifier: &Notifier) {
        if self.is_announced {
            notifier.notify();
        }
    }
}
