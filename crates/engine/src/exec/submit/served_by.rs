//! Which executor a thread serves. A worker's thread must not wait for a future that it has to run itself.

use crate::exec::blocking::thread_local;
use std::cell::Cell;

thread_local! {
    /// The executor that the thread serves. A call that waits for a worker must fail on that worker's own thread,
    /// however deep it is in user code. Only the thread itself can carry this to the call.
    static SERVED: Cell<usize> = const { Cell::new(0) };
}

/// Says whether a thread serves a given executor. This compares addresses only, because an executor that is served is
/// alive.
#[derive(Clone, Copy)]
pub(crate) struct ServedBy(usize);

impl ServedBy {
    pub(crate) fn of<X>(executor: &X) -> ServedBy {
        ServedBy(std::ptr::from_ref(executor).addr())
    }

    /// Makes the calling thread serve the executor from now on. Returns what the thread served before.
    pub(crate) fn enter(self) -> ServedBy {
        ServedBy(SERVED.with(|served| served.replace(self.0)))
    }

    /// Returns true if the calling thread is one of the executor's workers.
    pub(crate) fn is_here(self) -> bool {
        SERVED.with(Cell::get) == self.0
    }
}
