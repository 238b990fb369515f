//! What a program holds of a transaction that it has submitted.

use crate::error::{Error, Result};
use crate::exec;
use crate::kernel::Inside;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A handle to a submitted transaction, returned by [`Database::run`](crate::Database::run) and similar methods.
///
/// It is a future that any runtime can await; a program without one calls [`wait`](Handle::wait). Dropping it before the result is
/// available cancels the transaction at its next `await`, unless it has committed. [`detach`](Handle::detach) lets it run.
///
/// # Panics
/// If it is polled again after it has returned the result.
///
/// ```
/// # use braiddb::{Database, Options, Table};
/// # let db = Database::in_memory(Options { workers: 1, ..Options::default() })?;
/// let t: Table<u64, u64> = db.table("t")?;
/// let put = db.run(async move |tx| tx.put(t, 1, 10).await);
/// put.wait()?;
///
/// let sum = async {
///     let (one, two) = (db.run(async move |tx| tx.get(t, 1).await), db.run(async move |tx| tx.get(t, 2).await));
///     Ok::<_, braiddb::Error>(one.await?.unwrap_or(0) + two.await?.unwrap_or(0))
/// };
/// assert_eq!(futures::executor::block_on(sum)?, 10);
/// # Ok::<(), braiddb::Error>(())
/// ```
#[must_use = "dropping the handle cancels what was submitted"]
pub struct Handle<R> {
    submitted: exec::Handle<R, Error>,
    /// The id of its database's engine.
    engine: u64,
}

/// The results of [`Database::run_each`](crate::Database::run_each), in the order of the inputs. The outer [`Result`] is an error only for
/// [`Error::WouldDeadlock`]: each input has its own result, also when the database is closed or the batch cancelled.
pub type Batch<R> = Handle<Vec<Result<R>>>;

impl<R> Handle<R> {
    pub(super) fn new(engine: u64, submitted: exec::Handle<R, Error>) -> Handle<R> {
        Handle { submitted, engine }
    }

    /// Blocks the calling thread until the result is available.
    ///
    /// # Errors
    /// Those of the transaction. [`Error::WouldDeadlock`] in code that a worker of the same database runs, unless the result is
    /// available already: the worker's other transactions would stand still, and what is waited for may wait for one of them. What was
    /// submitted is cancelled then; await the handle instead.
    pub fn wait(self) -> Result<R> {
        // (The executor knows its own threads. This finds the workers that the program steps as well.)
        if !self.is_done() && Inside::is_here(self.engine) {
            return Err(Error::WouldDeadlock);
        }
        self.submitted.wait()
    }

    /// Returns true if the result is available: neither `wait` nor a poll would block.
    pub fn is_done(&self) -> bool {
        self.submitted.is_done()
    }

    /// Requests cancellation. The result is [`Error::Cancelled`] if the transaction had not committed.
    pub fn cancel(&self) {
        self.submitted.cancel();
    }

    /// Lets the transaction run to its end; its result is discarded.
    pub fn detach(self) {
        self.submitted.detach();
    }
}

impl<R> Future for Handle<R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<R>> {
        Pin::new(&mut self.submitted).poll(context)
    }
}

impl<R> fmt::Debug for Handle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("is_done", &self.is_done()).finish()
    }
}
