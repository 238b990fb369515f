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

thread_local! {
    /// Nothing could end a wait but its limit.
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
}

impl BoundedWait {
    /// It has been long enough.
    pub(crate) fn is_over(&self) -> bool {
        self.waits >= WAITS_MAX
    }

    /// Waits a little; returns false if it has been long enough.
    #[cold]
    pub(crate) fn wait(&mut self) -> bool {
        if !IS_ALONE.get() {
            self.backoff.wait();
        }
        self.waits += 1;
        !self.is_over()
    }
}

/// While this is held, waits in place on this thread are turns of a loop, which leave the processor to nobody: for simulations, where no
/// other thread could end them. There are as many, so what comes of an operation is the same.
#[derive(Debug)]
pub struct SpinningWaits(());

impl SpinningWaits {
    /// Begins here, on this thread.
    pub fn begin() -> SpinningWaits {
        IS_ALONE.set(true);
        SpinningWaits(())
    }
}

impl Drop for SpinningWaits {
    fn drop(&mut self) {
        IS_ALONE.set(false);
    }
}
