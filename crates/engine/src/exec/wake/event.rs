//! A counter behind a file descriptor that is readable while the counter is not 0. It wakes a thread that waits for
//! descriptors. It is the system's counter, or under a model checker one of the checker's mutexes.

#[cfg(any(braid_shuttle, braid_loom))]
use crate::exec::blocking::{Condvar, Mutex, lock, wait};
#[cfg(not(any(braid_shuttle, braid_loom)))]
use crate::exec::wake::descriptor::Signals;
use std::io;

/// The system's counter.
#[cfg(not(any(braid_shuttle, braid_loom)))]
#[derive(Debug)]
pub(crate) struct Event(Signals);

#[cfg(not(any(braid_shuttle, braid_loom)))]
impl Event {
    /// Makes a counter at 0. Fails if the process or the system has no descriptor left, or if the system knows none.
    pub(crate) fn new() -> io::Result<Event> {
        Signals::new().map(Event)
    }

    /// Adds 1.
    pub(crate) fn signal(&self) {
        self.0.add();
    }

    /// Sets the counter to 0 and returns its old value. Never blocks.
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

    /// Does what a thread does that waits for the descriptor.
    #[cfg(test)]
    pub(crate) fn wait_readable(&self) {
        let mut count = lock(&self.count);
        while *count == 0 {
            count = wait(&self.changed, count);
        }
    }
}
