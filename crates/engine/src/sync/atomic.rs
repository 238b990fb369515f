//! Atomics, in three forms:
//!
//! - By default they are the standard library's.
//! - Under `--cfg braid_shuttle` they are a model checker's, which treats every operation as sequentially consistent. A
//!   fence adds nothing there.
//! - Under `--cfg braid_loom` they are those of a model checker that knows weak memory.

#[cfg(braid_loom)]
pub use super::loom::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(any(braid_shuttle, braid_loom)))]
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

#[cfg(braid_shuttle)]
pub use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Does nothing, because every operation is sequentially consistent already.
#[cfg(braid_shuttle)]
#[inline]
pub fn fence(_: Ordering) {}
