//! Panics of users' code, caught where they must not go on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does what may run a user's `Drop`. A panic of that comes back as its message.
pub(crate) fn quietly(act: impl FnOnce()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(message)
}

pub(crate) fn message(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
    // A payload whose own drop panics is let go.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    text
}
