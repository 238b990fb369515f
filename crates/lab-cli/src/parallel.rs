//! Runs numbered pieces of work on several threads, with results that do not depend on the number of threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Runs pieces 0 to `pieces` on `threads` threads. Returns their results in order, up to the first for which `ends`
/// returns true.
pub fn in_order<T: Send>(
    pieces: u64,
    threads: usize,
    work: impl Fn(u64) -> T + Sync,
    ends: impl Fn(&T) -> bool + Sync,
) -> Vec<T> {
    // Each number is drawn once, and all pieces below `end` are run. Relaxed: joining the threads hands over the
    // results.
    let (next, end) = (AtomicU64::new(0), AtomicU64::new(pieces));
    let run = || {
        let mut done = Vec::new();
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= end.load(Ordering::Relaxed) {
                return done;
            }
            let result = work(piece);
            if ends(&result) {
                end.fetch_min(piece + 1, Ordering::Relaxed);
            }
            done.push((piece, result));
        }
    };
    let mut all = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut all = run();
        all.extend(others.into_iter().flat_map(|other| other.join().expect("the work does not panic")));
        all
    });
    let end = end.into_inner();
    all.retain(|(piece, _)| *piece < end);
    all.sort_unstable_by_key(|(piece, _)| *piece);
    assert_eq!(all.len() as u64, end);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that results come in order and end with the first one that `ends` accepts, on any number of threads.
    #[test]
    fn threads_make_no_difference() {
        for threads in [1, 2, 7] {
            let squares = |ends: fn(&u64) -> bool| in_order(1000, threads, |piece| piece * piece, ends);
            assert_eq!(squares(|_| false), (0..1000).map(|piece| piece * piece).collect::<Vec<_>>());
            assert_eq!(squares(|square| *square > 50), [0, 1, 4, 9, 16, 25, 36, 49, 64]);
        }
        assert!(in_order(0, 2, |piece| piece, |_| true).is_empty());
    }
}
