//! Numbers of threads, as threads themselves ask for them. An address or a handle would cost more, or could recur.

use crate::sync::thread_local;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// This counter is the process's own, so a model checker does not see it.
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// 0 means that the thread has not asked for its number.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of the calling thread. It is not 0, and no other thread of the process ever has it.
#[inline]
pub fn thread_number() -> u64 {
    match HERE.with(Cell::get) {
        0 => draw(),
        number => number,
    }
}

#[cold]
fn draw() -> u64 {
    let number = NEXT.fetch_add(1, Ordering::Relaxed); // only difference counts
    HERE.with(|here| here.set(number));
    number
}
