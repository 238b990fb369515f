//! A submitted future. What makes it, on the way in, and its result, on the way out, share one allocation. The worker
//! sees the allocation as a [`Job`], and the submitter sees it as an outcome.

use crate::exec::contract::{Fate, Operations};
use crate::exec::panics::{message, quietly};
use crate::exec::pending_output::{Announce, OutputQueue, PendingOutput};
use crate::exec::submit::handle::{Handle, Outcome, ResultCell, TaskError, lose};
use crate::exec::submit::inbox::Executor;
use crate::exec::submit::job::{Job, Started};
use crate::exec::submit::served_by::ServedBy;
use crate::exec::vacancy::Vacancy;
use crate::sync::atomic::{AtomicBool, Ordering::*};
use std::cell::UnsafeCell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Fills the vacancy with a submitted future, whose result goes to `sink`.
pub(crate) fn submit<M, T, E, F, K>(vacancy: Vacancy<'_, M>, future: F, sink: K)
where
    M: Operations,
    E: From<TaskError>,
    F: Future<Output = Result<T, E>> + 'static,
    K: Sink<Result<T, E>> + 'static,
{
    let (future, sink) = (ManuallyDrop::new(future), ManuallyDrop::new(sink));
    let (operations, outputs) = (vacancy.operations(), vacancy.outputs());
    vacancy.fill(Submitted { future, has_future: true, operations, outputs, sink });
}

/// The destination of a submitted future's result. If it is dropped without `set`, it answers that the future was
/// cancelled.
pub(crate) trait Sink<R> {
    fn set(&self, result: R);
    /// Like `set`, but the waiter is not told before the task announces this part of its result.
    fn hold(&mut self, result: R) -> (Arc<dyn Announce>, usize);
    fn is_cancelled(&self) -> bool;
    /// See `ResultCell::park`.
    fn park(&self, context: &Context<'_>) -> bool;
}

/// A submitted future. It is polled and dropped under `catch_unwind`, and not polled again once it is cancelled. It is
/// written by hand because an `async fn` keeps a future that it is given twice.
pub(crate) struct Submitted<M: 'static, F, K> {
    future: ManuallyDrop<F>,
    has_future: bool,
    operations: &'static M,
    outputs: Rc<OutputQueue>,
    sink: ManuallyDrop<K>, // dropped last: `future` may borrow from what it keeps alive
}

impl<M, F, K> Submitted<M, F, K> {
    /// Drops the future before its answer goes out. Returns the message of a panic, if there is one.
    fn drop_future(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.has_future) {
            return Ok(());
        }
        // SAFETY: the future was there, and is dropped once.
        quietly(|| unsafe { ManuallyDrop::drop(&mut self.future) })
    }
}

impl<M, T, E, F, K> Future for Submitted<M, F, K>
where
    M: Operations,
    E: From<TaskError>,
    F: Future<Output = Result<T, E>>,
    K: Sink<Result<T, E>>,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `future` is pinned with this value, and nothing else ever is.
        let me = unsafe { self.get_unchecked_mut() };
        if me.sink.is_cancelled() && !me.operations.must_finish() {
            return Poll::Ready(()); // the drop undoes the future and answers
        }
        // SAFETY: `future` stays where it is until it is dropped there.
        let future = unsafe { Pin::new_unchecked(&mut *me.future) };
        let (result, until) = match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
            Ok(Poll::Pending) if me.operations.has_pending() || me.sink.park(context) => {
                return Poll::Pending;
            }
            Ok(Poll::Pending) => return Poll::Ready(()), // cancelled meanwhile
            Ok(Poll::Ready(result)) => (result, me.operations.held_until()),
            Err(payload) => (Err(TaskError::Panicked(message(payload)).into()), 0),
        };
        // The future has ended. A panic when it is dropped does not change that.
        let _ = me.drop_future();
        if me.outputs.must_hold(until) {
            let (task, part) = me.sink.hold(result);
            me.outputs.push(until, PendingOutput::Submitted(task, part));
        } else {
            me.sink.set(result);
        }
        Poll::Ready(())
    }
}

impl<M, F, K> Drop for Submitted<M, F, K> {
    fn drop(&mut self) {
        // A result that no caller wants may be dropped here, and panic. There is no caller to tell.
        let _ = self.drop_future();
        // SAFETY: dropped once, here.
        let _ = quietly(|| unsafe { ManuallyDrop::drop(&mut self.sink) });
    }
}

/// One future, which `P` makes on a worker.
pub struct Task<P, T, E> {
    make: UnsafeCell<Option<P>>,
    is_taken: AtomicBool,
    result_cell: ResultCell<Result<T, E>>,
}

// SAFETY: only the thread that sets `is_taken` touches `make`, which is sent there.
unsafe impl<P: Send, T: Send, E: Send> Sync for Task<P, T, E> {}

impl<P, T, E> Outcome<Result<T, E>> for Task<P, T, E>
where
    P: Send,
    T: Send,
    E: Send,
{
    fn result_cell(&self) -> &ResultCell<Result<T, E>> {
        &self.result_cell
    }
}

impl<P, T, E> Task<P, T, E>
where
    P: Send + 'static,
    T: Send + 'static,
    E: From<TaskError> + Send + 'static,
{
    /// Makes a job of one future, to be submitted to `executor`, and the handle of its result. A job that is dropped
    /// without being submitted never answers.
    ///
    /// # Safety
    /// Only the future uses the reference that `make` is given. It is valid until the future is dropped.
    pub unsafe fn job<M, F>(executor: &Executor<M>, make: P) -> (Arc<dyn Job<M>>, Handle<T, E>)
    where
        M: Operations + 'static,
        P: FnOnce(&'static M) -> F,
        F: Future<Output = Result<T, E>> + 'static,
    {
        let task = Arc::new(Task {
            make: UnsafeCell::new(Some(make)),
            is_taken: AtomicBool::new(false),
            result_cell: ResultCell::new(ServedBy::of(executor)),
        });
        (task.clone(), Handle::new(task))
    }
}

impl<P, T, E> Task<P, T, E> {
    fn take(&self) -> Option<P> {
        // Relaxed: the thread that takes it got the job through an inbox's lock.
        if self.is_taken.swap(true, Relaxed) {
            return None;
        }
        // SAFETY: only the first call gets here.
        unsafe { (*self.make.get()).take() }
    }
}

impl<M, P, F, T, E> Job<M> for Task<P, T, E>
where
    M: Operations + 'static,
    P: FnOnce(&'static M) -> F + Send + 'static,
    F: Future<Output = Result<T, E>> + 'static,
    T: Send + 'static,
    E: From<TaskError> + Send + 'static,
{
    fn start(self: Arc<Self>, at: Vacancy<'_, M>) -> Started {
        let Some(make) = self.take() else { return Started::Last };
        if self.result_cell.is_cancelled() {
            let _ = quietly(|| drop(make));
            self.result_cell.set(Err(TaskError::Cancelled.into()));
            return Started::Last;
        }
        let operations = at.operations();
        match catch_unwind(AssertUnwindSafe(|| make(operations))) {
            Ok(future) => submit(at, future, Answer(Some(self))),
            Err(payload) => self.result_cell.set(Err(TaskError::Panicked(message(payload)).into())),
        }
        Started::Last
    }

    fn reject(&self, why: TaskError) {
        if let Some(make) = self.take() {
            let _ = quietly(|| drop(make));
            self.result_cell.set(Err(why.into()));
        }
    }
}

impl<P, T, E: From<TaskError>> Announce for Task<P, T, E> {
    unsafe fn announce(&self, _: usize, fate: Fate) {
        if let Some(why) = fate.error() {
            self.result_cell.revise(|result| lose(result, why));
        }
        self.result_cell.announce();
    }
}

/// The way back to a task's handle. Empty when the result is held.
struct Answer<P, T, E: From<TaskError>>(Option<Arc<Task<P, T, E>>>);

impl<P, T, E: From<TaskError>> Answer<P, T, E> {
    fn result_cell(&self) -> &ResultCell<Result<T, E>> {
        &self.0.as_ref().expect("the future has not ended").result_cell
    }
}

impl<P, T, E> Sink<Result<T, E>> for Answer<P, T, E>
where
    P: 'static,
    T: 'static,
    E: From<TaskError> + 'static,
{
    fn set(&self, result: Result<T, E>) {
        self.result_cell().set(result);
    }
    fn hold(&mut self, result: Result<T, E>) -> (Arc<dyn Announce>, usize) {
        let task = self.0.take().expect("the future has not ended");
        task.result_cell.put(result);
        (task, 0)
    }
    fn is_cancelled(&self) -> bool {
        self.result_cell().is_cancelled()
    }
    fn park(&self, context: &Context<'_>) -> bool {
        self.result_cell().park(context.waker())
    }
}

impl<P, T, E: From<TaskError>> Drop for Answer<P, T, E> {
    fn drop(&mut self) {
        if let Some(task) = &self.0
            && !task.result_cell.is_done()
        {
            task.result_cell.set(Err(TaskError::Cancelled.into()));
        }
    }
}
