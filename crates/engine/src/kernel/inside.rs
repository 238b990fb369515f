//! Says which database's workers run code on the calling thread: closures of transactions, and functions that receive
//! their results.

use crate::sync::thread_local;
use std::cell::Cell;

thread_local! {
    /// The engine of the innermost such worker; 0 means none. A call that blocks must fail on the worker's own thread,
    /// however deep it is in a user's code. Only the thread itself can carry this to the call.
    static ENGINE: Cell<u64> = const { Cell::new(0) };
}

/// While this value exists, the calling thread works for a worker of one database.
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
