//! A counter behind a file descriptor, which is readable while the counter is not 0: what wakes a thread that waits for
//! descriptors. The system's, or under a model checker one of its mutexes.

#[cfg(any(braid_shuttle, braid_loom))]
use crate::exec::blocking::{Condvar, Mutex, lock, wait};
#[cfg(not(any(braid_shuttle, braid_loom)))]
use crate::exec::wake::descriptor::Signals;
use std::io;

/// The system's.
#[cfg(not(any(braid_shuttle, braid_loom)))]
#[derive(Debug)]
pub(crate) struct Event(Signals);

#[cfg(not(any(braid_shuttle, braid_loom)))]
impl Event {
    /// A counter at 0. Fails if the process or the system has no descriptor left, or knows none.
    pub(crate) fn new() -> io::Result<Event> {
        Signals::new().map(Event)
    }

    /// Adds 1.
    pub(crate) fn signal(&self) {
        self.0.add();
    }

    /// Sets it to 0, and returns what it was. Never blocks.
    pub(crate) fn take(&self) -> u64 {
        self.0.take()
    }

    #[cfg(unix)]
    pub(crate) fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0)
    }
}

/// The model's counter.
#[cfg(any(braid_shuttle, braid_loom))]
pub(crate) struct Event {
    count: Mutex<u64>,
    changed: Condvar,
}

#[cfg(any(braid_shuttle, braid_loom))]
impl Event {
    pub(crate) fn new() -> io::Result<Event> {
        Ok(Event { count: Mutex::new(0), changed: Condvar::new() })
    }

    pub(crate) fn signal(&self) {
        *lock(&self.count) += 1;
        self.changed.notify_all();
    }

    pub(crate) fn take(&self) -> u64 {
        std::mem::take(&mut *lock(&self.count))
    }

    /// What a thread does that waits for the descriptor.
    #[cfg(test)]
    pub(crate) fn wait_readable(&self) {
        let mut count = lock(&self.count);
        while *count == 0 {
            count = wait(&self.changed, count);
        }
    }
}
