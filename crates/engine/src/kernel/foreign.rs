//! Functions of the program that calls run on its own thread: what an index or a projection is made by, when a row expires, how a value
//! is decoded. One that panics is an error of the call, as a closure's panic is on a worker: what the call has begun is undone by the way
//! that errors go.

use crate::error::{Error, Result};
use crate::exec::quietly;

/// Calls what may run functions of the program. A panic is [`Error::Panicked`], which says `where_from` and what the panic says.
pub(crate) fn guarded<R>(where_from: impl FnOnce() -> String, call: impl FnOnce() -> Result<R>) -> Result<R> {
    let mut result = None;
    match quietly(|| result = Some(call())) {
        Ok(()) => result.expect("it has returned"),
        Err(message) => Err(Error::Panicked(format!("{}: {message}", where_from()))),
    }
}
