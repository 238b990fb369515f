//! Calls of the program's functions on the program's own thread: the function that defines an index or a projection,
//! the function that says when a row expires, the decoding of a value. A panic of such a function becomes an error of
//! the call, like a closure's panic on a worker. What the call has begun is undone as after any other error.

use crate::error::{Error, Result};
use crate::exec::quietly;

/// Makes a call that may run functions of the program. A panic becomes [`Error::Panicked`], with `where_from` and the
/// panic's message.
pub(crate) fn guarded<R>(where_from: impl FnOnce() -> String, call: impl FnOnce() -> Result<R>) -> Result<R> {
    let mut result = None;
    match quietly(|| result = Some(call())) {
        Ok(()) => result.expect("it has returned"),
        Err(message) => Err(Error::Panicked(format!("{}: {message}", where_from()))),
    }
}
