//! How other threads get a worker's attention, and how its thread sleeps until they do.

#[cfg(not(any(braid_shuttle, braid_loom)))]
pub(crate) mod descriptor;
pub(crate) mod event;
pub(crate) mod event_sleep;
pub(crate) mod notifier;
