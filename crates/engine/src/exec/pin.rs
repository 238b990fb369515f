//! Ties a worker's thread to a core, so that its caches stay its own.

use rustix::thread::{CpuSet, sched_setaffinity};

/// Ties the calling thread to `core` (numbered as the system does). False: the system would not; the thread runs
/// on as before, only less predictably.
pub fn pin_to_core(core: usize) -> bool {
    if core >= CpuSet::MAX_CPU {
        return false;
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).is_ok()
}
