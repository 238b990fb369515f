//! How other threads get a worker's attention, and how its thread sleeps until they do.

pub(crate) mod doze;
pub(crate) mod event;
pub(crate) mod notifier;
