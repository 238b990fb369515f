//! Ties a worker's thread to a core, so that its caches stay its own.

#[cfg(not(miri))]
use rustix::thread::{CpuSet, sched_setaffinity};

/// Ties the calling thread to `core` (numbered as the system does). Returns false if the system would not; the thread
/// runs on as before, only less predictably.
#[cfg(not(miri))]
pub fn pin_to_core(core: usize) -> bool {
    if core >= CpuSet::MAX_CPU {
        return false;
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).is_ok()
}

/// The interpreter's threads have no cores.
#[cfg(miri)]
pub fn pin_to_core(_: usize) -> bool {
    false
}

#[cfg(test)]
mod tests {
    #[test]
    fn pinning_tells_whether_it_could() {
        // Proves: no core is too large to ask for, and a thread pinned to a core that it may use runs on.
        std::thread::spawn(|| {
            assert!(!super::pin_to_core(usize::MAX));
            let _depends_on_the_system = super::pin_to_core(0);
        })
        .join()
        .unwrap();
    }
}
