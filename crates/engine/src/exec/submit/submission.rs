//! A job that waits until an inbox has room for it.
//!
//! Invariant: a submission that was woken for room takes the room, waits again, or passes the wake-up on. A submission
//! that has stopped waiting is not woken any more.

use crate::exec::submit::handle::TaskError;
use crate::exec::submit::inbox::{Executor, Queued};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that queues a job as soon as an inbox has room, and blocks no thread. After `close`, the job is answered
/// `Closed`.
#[must_use = "a future does nothing until it is polled"]
pub struct Submission<'e, M: 'static> {
    executor: &'e Executor<M>,
    /// `None` if the job is queued or rejected.
    job: Option<Queued<M>>,
    /// The submission's number among the waiting futures.
    number: Option<u64>,
}

impl<'e, M: 'static> Submission<'e, M> {
    /// Makes a submission. Nothing happens before it is polled.
    pub fn new(executor: &'e Executor<M>, job: Queued<M>) -> Submission<'e, M> {
        Submission { executor, job: Some(job), number: None }
    }
}

impl<M: 'static> Future for Submission<'_, M> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Some(job) = &this.job else { return Poll::Ready(()) };
        // A submission that has been woken takes the room below, or waits again if another submission has taken it.
        this.number = this.number.filter(|&number| this.executor.waiting.has(number));
        let mut submitted = this.executor.try_submit(job.clone());
        if let Err(TaskError::Full) = submitted {
            this.executor.waiting.wait(&mut this.number, context.waker());
            // Tries once more, because room that was made before has woken no one.
            submitted = this.executor.try_submit(job.clone());
        }
        match submitted {
            Err(TaskError::Full) => return Poll::Pending,
            Err(why) => job.reject(why),
            Ok(()) => {}
        }
        this.job = None;
        this.leave();
        Poll::Ready(())
    }
}

impl<M: 'static> Submission<'_, M> {
    /// Stops waiting. A wake-up that came meanwhile may be for room that this submission does not take, so it is passed
    /// on.
    fn leave(&mut self) {
        if let Some(number) = self.number.take()
            && !self.executor.waiting.forget(number)
        {
            self.executor.waiting.wake(1);
        }
    }
}

impl<M: 'static> Drop for Submission<'_, M> {
    fn drop(&mut self) {
        self.leave();
    }
}
