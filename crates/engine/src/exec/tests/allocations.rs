//! Counts the calling thread's allocations.

use super::stream::worker;
use super::toy::Toy;
use crate::exec::Refill;
use crate::suspend::OnMiss;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's allocator, counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|n| n.set(n.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn streaming_does_not_allocate() {
    // Proves: after the first futures, neither small nor big ones cost an allocation.
    fn check<const BYTES: usize>() {
        let mut w = worker(OnMiss, 8, Refill::Immediate);
        let mut round = || {
            let (mut left, mut ended) = (200, 0);
            let next = |toy| {
                left -= 1;
                (left >= 0).then_some(async move {
                    let bytes = [left as u8; BYTES];
                    Toy::operation(toy, 2).await;
                    std::hint::black_box(&bytes);
                })
            };
            w.stream(next, |()| ended += 1);
            assert_eq!(ended, 200);
        };
        (0..20).for_each(|_| round()); // until every queue has the size it needs
        let before = COUNT.get();
        round();
        // At most one, the toy host's own: it allocates when it is called to tend.
        assert!(COUNT.get() - before <= 1, "with {BYTES} bytes");
    }
    check::<8>();
    check::<2000>();
}
