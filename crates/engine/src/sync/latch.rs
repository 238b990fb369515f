//! A four-byte spin latch for cold paths, without fairness or poisoning. It is never held across a suspension.

use super::Backoff;
use super::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;

/// A mutual exclusion without data.
#[derive(Debug)]
pub struct Latch(AtomicU32);

/// Holds a [`Latch`] until dropped.
#[derive(Debug)]
pub struct LatchGuard<'a>(&'a Latch);

impl Default for Latch {
    fn default() -> Latch {
        Latch::new()
    }
}

impl Latch {
    /// Makes a free latch.
    pub fn new() -> Latch {
        Latch(AtomicU32::new(FREE))
    }

    /// Waits for the holder of the latch, if there is one, and takes the latch.
    #[inline]
    pub fn lock(&self) -> LatchGuard<'_> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            // Relaxed: this only waits; `try_lock` decides. Meanwhile, reads keep the cache line shared.
            while self.0.load(Ordering::Relaxed) == HELD {
                backoff.wait();
            }
        }
    }

    /// Takes the latch if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<LatchGuard<'_>> {
        // Acquire: pairs with the Release in `LatchGuard::drop`.
        match self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(LatchGuard(self)),
            Err(_) => None,
        }
    }
}

impl Drop for LatchGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `Latch::try_lock`.
        self.0.0.store(FREE, Ordering::Release);
    }
}
