//! The handle of a submitted transaction.

use crate::error::{Error, Result};
use crate::exec;
use crate::kernel::Inside;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A handle to a submitted transaction, returned by [`Database::run`](crate::Database::run) and similar methods.
///
/// The handle is a future that any runtime can await. A program without a runtime calls [`wait`](Handle::wait).
/// Dropping the handle before the result is available cancels the transaction at its next `await`, unless it has
/// committed. [`detach`](Handle::detach) lets it run.
///
/// # Panics
/// Panics if it is polled again after it has returned the result.
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
    /// The id of the database's engine.
    engine: u64,
}

/// The results of [`Database::run_each`](crate::Database::run_each), in the order of the inputs. The outer [`Result`]
/// is an error only for [`Error::WouldDeadlock`]. Each input has its own result, even when the database is closed or
/// the batch is cancelled.
pub type Batch<R> = Handle<Vec<Result<R>>>;

impl<R> Handle<R> {
    pub(super) fn new(engine: u64, submitted: exec::Handle<R, Error>) -> Handle<R> {
        Handle { submitted, engine }
    }

    /// Blocks the calling thread until the result is available.
    ///
    /// # Errors
    /// Returns the transaction's errors. Returns [`Error::WouldDeadlock`] in code that a worker of the same database
    /// runs, unless the result is already available: the worker's other transactions would stand still, and the
    /// submitted transaction may wait for one of them. The submitted transaction is then cancelled. Await the handle
    /// instead.
    pub fn wait(self) -> Result<R> {
        // The executor knows its own threads. This check also finds the workers that the program steps.
        if !self.is_done() && Inside::is_here(self.engine) {
            return Err(Error::WouldDeadlock);
        }
        self.submitted.wait()
    }

    /// Returns true if the result is available. Then neither `wait` nor a poll blocks.
    pub fn is_done(&self) -> bool {
        self.submitted.is_done()
    }

    /// Requests cancellation. The result is [`Error::Cancelled`] if the transaction had not committed.
    pub fn cancel(&self) {
        self.submitted.cancel();
    }

    /// Lets the transaction run to its end, and discards its result.
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
