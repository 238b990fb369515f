//! Numbers of threads, as threads themselves ask for them: an address or a handle would be dearer, or could come again.

use crate::sync::thread_local;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// (The process's own, so no part of what a model checker sees.)
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// 0: none was asked for.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

/// The number of the calling thread. It is not 0, and no other thread of the process ever has it.
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
