//! The way in and out for other threads: inboxes, the worker threads that serve them, and the handles of results.

pub(crate) mod batch_task;
pub(crate) mod handle;
pub(crate) mod inbox;
pub(crate) mod job;
pub(crate) mod serve;
pub(crate) mod served_by;
pub(crate) mod submission;
pub(crate) mod task;
pub(crate) mod waiting;
