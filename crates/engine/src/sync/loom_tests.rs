//! The latch under weak memory.

use super::loom::{Planted, check};
use super::{Arc, Latch};
use loom::cell::UnsafeCell;
use loom::thread;

struct Shared(Latch, UnsafeCell<u32>);
// SAFETY: the cell is touched under the latch. The checker looks whether this is true.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

fn count(shared: &Shared) {
    let _held = shared.0.lock();
    // SAFETY: this thread holds the latch.
    shared.1.with_mut(|n| unsafe { *n += 1 });
}

/// Proves that what is done under the latch happens before what is done under it later.
#[test]
fn latch_orders() {
    check("latch", &[Planted::Stores, Planted::Updates], || {
        let shared = Arc::new(Shared(Latch::new(), UnsafeCell::new(0)));
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                count(&shared);
                count(&shared);
            }
        });
        count(&shared);
        other.join().expect("no panic");
        // SAFETY: the other thread has ended.
        shared.1.with(|n| assert_eq!(unsafe { *n }, 3));
    });
}
