//! How long an operation waits where it is polled.

use crate::sync::Backoff;

/// How long an operation in place waits for a commit on another thread: it is that thread's turn to go on, or
/// this one's, if the other transaction is suspended on it. So there is an end to it.
#[derive(Debug, Default)]
pub(crate) struct BoundedWait {
    backoff: Backoff,
    waits: u32,
}

impl BoundedWait {
    const WAITS_MAX: u32 = 10_000;

    /// It has been long enough.
    pub(crate) fn is_over(&self) -> bool {
        self.waits >= BoundedWait::WAITS_MAX
    }

    /// Waits a little; returns false if it has been long enough.
    #[cold]
    pub(crate) fn wait(&mut self) -> bool {
        self.backoff.wait();
        self.waits += 1;
        self.waits < BoundedWait::WAITS_MAX
    }
}
