//! The parts that the engine's concurrent code is built from. Everything here has three forms: the standard library's;
//! under `--cfg braid_shuttle` a model checker's, which tries many interleavings; and under `--cfg braid_loom` another
//! checker's, which tries everything that weak memory may do to small pieces of code.

pub mod atomic;
mod background;
mod backoff;
mod exact;
mod fixed;
mod latch;
#[cfg(braid_loom)]
pub mod loom;
#[cfg(all(test, braid_loom))]
mod loom_tests;
mod padded;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests;
mod thread_number;
mod ticks;
pub mod unmodelled;

pub use background::Background;
pub use backoff::Backoff;
pub use exact::{ExactU64, switch};
pub use fixed::Fixed;
pub use latch::Latch;
pub use padded::CachePadded;
pub use thread_number::thread_number;
pub use ticks::ticks;

#[cfg(braid_loom)]
pub use ::loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(braid_shuttle)]
pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
#[cfg(braid_shuttle)]
pub use shuttle::thread_local;
pub use std::sync::Arc;
#[cfg(not(any(braid_shuttle, braid_loom)))]
pub use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(braid_shuttle))] // no model of the other kind has a worker
pub use std::thread_local;

/// Returns the number of schedules that a model is run in: `few`, times the value of `BRAID_SCHEDULES` if that is set.
///
/// # Panics
/// If the value is not a number.
#[cfg(all(test, braid_shuttle))]
pub fn schedules(few: usize) -> usize {
    let times = std::env::var("BRAID_SCHEDULES")
        .map_or(1, |times| times.parse().expect("BRAID_SCHEDULES is a number"));
    few * times
}

/// Locks a mutex, whether or not a holder panicked. What the engine keeps under a mutex is consistent between any two
/// statements of its holders.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits for a condition's signal, and treats panics like [`lock`].
#[inline]
pub fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits like [`wait`], at most for the given time. Returns true if that time has passed. In a model no time passes.
#[inline]
pub fn wait_timeout<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    at_most: std::time::Duration,
) -> (MutexGuard<'a, T>, bool) {
    #[cfg(not(braid_shuttle))]
    {
        let waited = condition.wait_timeout(guard, at_most);
        let (guard, result) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        (guard, result.timed_out())
    }
    #[cfg(braid_shuttle)]
    {
        let _ = at_most;
        (wait(condition, guard), false)
    }
}

/// Locks like [`lock`], if the mutex is free.
#[inline]
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    use std::sync::TryLockError::{Poisoned, WouldBlock};
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(WouldBlock) => None,
    }
}
