//! Panics of users' code, caught where they must not continue.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code that may run a user's `Drop`. Returns the message of a panic.
pub(crate) fn quietly(act: impl FnOnce()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(message)
}

pub(crate) fn message(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
    // Forget a payload whose own drop panics.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    text
}
