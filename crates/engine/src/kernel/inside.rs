//! Which database's workers run code on the calling thread: closures of transactions, and what is given their results.

use crate::sync::thread_local;
use std::cell::Cell;

thread_local! {
    /// The engine of the innermost one; 0: none. What blocks must be told on the worker's own thread, however deep in a user's code;
    /// nothing but the thread itself could pass it there.
    static ENGINE: Cell<u64> = const { Cell::new(0) };
}

/// While this is there, the calling thread works for a worker of one database.
pub(crate) struct Inside(u64);

impl Inside {
    pub(crate) fn of(engine: u64) -> Inside {
        Inside(ENGINE.with(|inside| inside.replace(engine)))
    }

    /// Returns true if the calling thread works for a worker of this engine.
    pub(crate) fn is_here(engine: u64) -> bool {
        ENGINE.with(Cell::get) == engine
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        ENGINE.with(|inside| inside.set(self.0));
    }
}
