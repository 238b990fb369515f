//! Short waits for another thread: first by spinning, then by giving the core away.

#[cfg(braid_loom)]
use loom::{hint::spin_loop, thread::yield_now};
#[cfg(not(any(braid_shuttle, braid_loom)))]
use std::{hint::spin_loop, thread::yield_now};

#[cfg(braid_shuttle)]
use shuttle::{hint::spin_loop, thread::yield_now};

/// The number of doublings of the spin before the core is given away: at most 2^6 pauses at a time. Loom would try all
/// ways to be interrupted in each.
const SPIN_STEPS_MAX: u32 = if cfg!(braid_loom) { 0 } else { 6 };

/// One wait. Make a new one for each.
#[derive(Debug, Default)]
pub struct Backoff {
    step: u32,
}

impl Backoff {
    /// Makes a wait that has not begun.
    #[inline]
    pub fn new() -> Backoff {
        Backoff::default()
    }

    /// Waits a little, longer than the time before. With more threads than cores, the holder of a latch may not be
    /// running, so a long wait yields.
    #[inline]
    pub fn wait(&mut self) {
        if self.step > SPIN_STEPS_MAX {
            yield_now();
            return;
        }
        for _ in 0..1u32 << self.step {
            spin_loop();
        }
        self.step += 1;
    }

    /// Returns true once spinning has not helped. A caller that has something else to do should then do it.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.step > SPIN_STEPS_MAX
    }
}
