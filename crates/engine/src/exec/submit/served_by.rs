//! Which executor a thread serves: a worker's thread must not wait for what it has to run itself.

use crate::exec::blocking::thread_local;
use std::cell::Cell;

thread_local! {
    /// The executor that the thread serves. Waiting for a worker must be told on that worker's own thread,
    /// however deep in user code; nothing but the thread itself could pass it there.
    static SERVED: Cell<usize> = const { Cell::new(0) };
}

/// Tells whether a thread serves a given executor. Compares addresses only: an executor that is served is
/// alive.
#[derive(Clone, Copy)]
pub(crate) struct ServedBy(usize);

impl ServedBy {
    pub(crate) fn of<X>(executor: &X) -> ServedBy {
        ServedBy(std::ptr::from_ref(executor).addr())
    }

    /// Has the calling thread serve it from now on. Returns what it has served before.
    pub(crate) fn enter(self) -> ServedBy {
        ServedBy(SERVED.with(|served| served.replace(self.0)))
    }

    /// The calling thread is one of its workers'.
    pub(crate) fn is_here(self) -> bool {
        SERVED.with(Cell::get) == self.0
    }
}
