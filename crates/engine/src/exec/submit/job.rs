//! A submitted job, as an inbox and a worker see it.

use crate::exec::submit::handle::TaskError;
use crate::exec::vacancy::Vacancy;
use std::sync::Arc;

/// The contents of an inbox: one or more futures to be made on a worker.
pub trait Job<M: 'static>: Send + Sync {
    /// Fills the vacancy with the next future. May leave it vacant if there is no future (any more). Lets no panic out.
    fn start(self: Arc<Self>, at: Vacancy<'_, M>) -> Started;
    /// The job will not be started, or not again. The futures that were not started are answered with `why`.
    fn reject(&self, why: TaskError);
}

/// What is left of a job after a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// Nothing. The job need not be kept.
    Last,
    /// Perhaps more futures.
    More,
}
