//! Pins a worker's thread to a processor, so that its caches stay its own. If the system has no such call, or the
//! thread may not choose, the thread runs as before.

#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins the calling thread to one of the processors in its affinity mask, chosen by `worker` modulo their number, so
/// that `taskset` and containers are respected. Returns the processor's number, or `None` if the thread was not
/// pinned.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
pub fn pin_within_mask(worker: usize) -> Option<usize> {
    let allowed = sched_getaffinity(None).ok()?;
    let count = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).count();
    let cpu = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).nth(worker.checked_rem(count)?)?;
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one).ok().map(|()| cpu)
}

/// The system has no such call, or threads have no processors (in an interpreter).
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
pub fn pin_within_mask(_: usize) -> Option<usize> {
    None
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    /// Proves that a thread is pinned to a processor that it was allowed to use, whatever worker it is, also after
    /// its choice has been narrowed, and that neighboring workers take different processors if there are several.
    #[test]
    fn pinning_keeps_within_the_inherited_mask() {
        let allowed = sched_getaffinity(None).expect("the system tells");
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        let pinned = |worker| std::thread::spawn(move || pin_within_mask(worker)).join().expect("no panic");
        for worker in [0, 1, cpus.len(), usize::MAX] {
            // The system may refuse altogether.
            assert!(pinned(worker).is_none_or(|cpu| cpu == cpus[worker % cpus.len()]), "worker {worker}");
        }
        let last = *cpus.last().expect("a thread runs somewhere");
        let narrowed = std::thread::spawn(move || {
            let mut one = CpuSet::new();
            one.set(last);
            sched_setaffinity(None, &one).ok()?;
            pin_within_mask(0)
        });
        assert!(narrowed.join().expect("no panic").is_none_or(|cpu| cpu == last));
    }
}
