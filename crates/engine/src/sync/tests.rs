use super::{CachePadded, Fixed, Latch};
use std::cell::UnsafeCell;
use std::sync::Arc;

struct Shared(Latch, UnsafeCell<u64>);
// SAFETY: the cell is touched only under the latch.
unsafe impl Sync for Shared {}

/// Proves that the latch excludes: no increment under it is lost.
#[test]
fn latch_excludes() {
    const THREADS: u64 = 4;
    const TURNS: u64 = 10_000;
    let shared = Arc::new(Shared(Latch::new(), UnsafeCell::new(0)));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                for _ in 0..TURNS {
                    let _held = shared.0.lock();
                    // SAFETY: this thread holds the latch.
                    unsafe { *shared.1.get() += 1 };
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    // SAFETY: all threads have ended.
    assert_eq!(unsafe { *shared.1.get() }, THREADS * TURNS);
}

/// Proves that a held latch is refused and a dropped guard frees it.
#[test]
fn try_lock_refuses_while_held() {
    let latch = Latch::default();
    let guard = latch.try_lock();
    assert!(guard.is_some());
    assert!(latch.try_lock().is_none());
    drop(guard);
    assert!(latch.try_lock().is_some());
}

/// Proves that padded neighbors share no pair of cache lines.
#[test]
fn padding_separates() {
    let pair = [CachePadded::new(1u64), CachePadded::new(2u64)];
    let (a, b) = (&raw const *pair[0], &raw const *pair[1]);
    assert_eq!(b.addr() - a.addr(), 128);
    assert_eq!(a.addr() % 128, 0);
}

/// Proves that a fixed value stays at its address while its owner moves, and is dropped once, with its owner.
#[test]
fn fixed_stays() {
    let dropped = Arc::new(());
    let fixed = Fixed::new((7u64, Arc::clone(&dropped)));
    let address = Fixed::as_non_null(&fixed);
    let moved = vec![fixed].pop().expect("pushed just now");
    // SAFETY: the owner is alive.
    assert_eq!(unsafe { address.as_ref() }.0, moved.0);
    assert_eq!((&raw const *moved).addr(), address.addr().get());
    drop(moved);
    assert_eq!(Arc::strong_count(&dropped), 1);
}
