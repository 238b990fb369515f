//! Threads and what blocks them: std's, or those of a model checker when it schedules.

#[cfg(braid_loom)]
pub(crate) use loom::{
    sync::Condvar,
    thread::{self, Thread},
};
#[cfg(braid_shuttle)]
pub(crate) use shuttle::{
    sync::Condvar,
    thread::{self, Thread},
};
#[cfg(not(any(braid_shuttle, braid_loom)))]
pub(crate) use std::{
    sync::Condvar,
    thread::{self, Thread},
};

pub(crate) use crate::sync::{Mutex, MutexGuard, lock, thread_local};
use std::sync::PoisonError;
use std::time::Duration;

/// How often a waiting thread looks before it blocks. The model checker would only waste schedules on it.
pub(crate) const SPINS: u32 = if cfg!(any(braid_shuttle, braid_loom)) { 1 } else { 2000 };

/// After so many looks the thread yields the processor, perhaps to the thread that it waits for.
pub(crate) const SPINS_PER_YIELD: u32 = 64;

/// Parks the thread for this long at most. In a model, where no time passes, parks it until it is unparked.
pub(crate) fn park_timeout(at_most: Duration) {
    #[cfg(not(any(braid_shuttle, braid_loom)))]
    thread::park_timeout(at_most);
    #[cfg(any(braid_shuttle, braid_loom))]
    {
        let _ = at_most;
        thread::park();
    }
}

/// Waits on `condition`. May return spuriously. As with `lock`, poisoning means nothing.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
