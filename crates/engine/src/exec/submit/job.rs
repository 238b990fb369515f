//! What is submitted, as an inbox and a worker see it.

use crate::exec::submit::handle::TaskError;
use crate::exec::vacancy::Vacancy;
use std::sync::Arc;

/// What an inbox holds: one or more futures to be made on a worker.
pub trait Job<M: 'static>: Send + Sync {
    /// Fills the vacancy with the next future; may leave it vacant if there is none (any more). Lets no panic
    /// out.
    fn start(self: Arc<Self>, at: Vacancy<'_, M>) -> Started;
    /// It will not be started, or not again: what was not started is answered with `why`.
    fn reject(&self, why: TaskError);
}

/// What is left of a job after a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// Nothing: it need not be kept.
    Last,
    /// Perhaps more futures.
    More,
}
