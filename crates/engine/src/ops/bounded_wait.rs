//! How long an operation waits where it is polled.

use crate::sync::Backoff;
use std::cell::Cell;

/// How long an operation in place waits for a commit on another thread: it is that thread's turn to go on, or
/// this one's, if the other transaction is suspended on it. So there is an end to it.
#[derive(Debug, Default)]
pub(crate) struct BoundedWait {
    backoff: Backoff,
    waits: u32,
}

const WAITS_MAX: u32 = 10_000;

/// Some, so that what comes after a wait is still run.
const WAITS_ALONE: u32 = 4;

thread_local! {
    static LIMIT: Cell<u32> = const { Cell::new(WAITS_MAX) };
}

impl BoundedWait {
    /// It has been long enough.
    pub(crate) fn is_over(&self) -> bool {
        self.waits >= LIMIT.get()
    }

    /// Waits a little; returns false if it has been long enough.
    #[cold]
    pub(crate) fn wait(&mut self) -> bool {
        self.backoff.wait();
        self.waits += 1;
        !self.is_over()
    }
}

/// While this is held, waits in place on this thread are short: for simulations, where no other thread could end them. What
/// comes of an operation is the same.
#[derive(Debug)]
pub struct ShortWaits(());

impl ShortWaits {
    /// Begins here, on this thread.
    pub fn begin() -> ShortWaits {
        LIMIT.set(WAITS_ALONE);
        ShortWaits(())
    }
}

impl Drop for ShortWaits {
    fn drop(&mut self) {
        LIMIT.set(WAITS_MAX);
    }
}
