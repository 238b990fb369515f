//! Locks and atomics that the checker of weak memory leaves out of its models, although the modelled code uses them.
//! They are the standard library's there, and the same as everywhere else in every other build. The account of memory
//! and the pools use them: they have hundreds of atomics that no model is about.

#[cfg(braid_loom)]
pub use std::sync::{Mutex, atomic};

#[cfg(not(braid_loom))]
pub use super::{Mutex, atomic, lock, try_lock};

/// Locks like [`super::try_lock`].
#[cfg(braid_loom)]
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<std::sync::MutexGuard<'_, T>> {
    mutex.try_lock().ok()
}

/// Locks like [`super::lock`].
#[cfg(braid_loom)]
pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
