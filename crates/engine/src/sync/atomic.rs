//! Atomics: the standard library's, or under `--cfg braid_shuttle` the model checker's, which
//! treats every operation as sequentially consistent; a fence adds nothing there. Under `--cfg braid_loom` those of one
//! that knows weak memory.

#[cfg(braid_loom)]
pub use super::loom::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(any(braid_shuttle, braid_loom)))]
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

#[cfg(braid_shuttle)]
pub use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Adds nothing where every operation is sequentially consistent already.
#[cfg(braid_shuttle)]
#[inline]
pub fn fence(_: Ordering) {}
