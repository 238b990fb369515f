//! Atomics: the standard library's, or under `--cfg braid_shuttle` the model checker's, which
//! treats every operation as sequentially consistent; a fence adds nothing there.

#[cfg(not(braid_shuttle))]
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

#[cfg(braid_shuttle)]
pub use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Adds nothing where every operation is sequentially consistent already.
#[cfg(braid_shuttle)]
#[inline]
pub fn fence(_: Ordering) {}
