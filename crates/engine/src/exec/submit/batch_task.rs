//! Many futures of one kind, one per input, with one allocation and one answer. The job's copies in several inboxes are
//! tickets: each worker that holds a ticket draws inputs until none is left.
//!
//! Invariants: input `i` belongs to the worker that drew `i` from `next`. Result `i` belongs to the same worker, or to
//! the queue that holds it. At the end the results belong to the worker that brings `left` to zero.

use crate::exec::contract::{Fate, Operations};
use crate::exec::panics::{message, quietly};
use crate::exec::pending_output::Announce;
use crate::exec::submit::handle::{Handle, Outcome, ResultCell, TaskError, lose};
use crate::exec::submit::inbox::Executor;
use crate::exec::submit::job::{Job, Started};
use crate::exec::submit::served_by::ServedBy;
use crate::exec::submit::task::{Sink, submit};
use crate::exec::vacancy::Vacancy;
use crate::sync::atomic::{AtomicUsize, Ordering::*};
use std::cell::UnsafeCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Context;

struct Place<I, T, E> {
    input: UnsafeCell<Option<I>>,
    result: UnsafeCell<Option<Result<T, E>>>,
}

/// One shared value, many inputs, and the function that makes a future of both.
pub struct BatchTask<C, I, P, T, E> {
    shared: C,
    make: P,
    places: Box<[Place<I, T, E>]>,
    next: AtomicUsize,
    left: AtomicUsize,
    result_cell: ResultCell<Result<Vec<Result<T, E>>, E>>,
}

// SAFETY: one thread at a time touches a place (see above). Several threads touch `shared` and `make`, which are Sync.
unsafe impl<C: Send + Sync, I: Send, P: Send + Sync, T: Send, E: Send> Sync for BatchTask<C, I, P, T, E> {}

impl<C, I, P, T, E> Outcome<Result<Vec<Result<T, E>>, E>> for BatchTask<C, I, P, T, E>
where
    C: Send + Sync,
    I: Send,
    P: Send + Sync,
    T: Send,
    E: Send,
{
    fn result_cell(&self) -> &ResultCell<Result<Vec<Result<T, E>>, E>> {
        &self.result_cell
    }
}

impl<C, I, P, T, E> BatchTask<C, I, P, T, E>
where
    C: Send + Sync + 'static,
    I: Send + 'static,
    P: Send + Sync + 'static,
    T: Send + 'static,
    E: From<TaskError> + Send + 'static,
{
    /// Makes a job of one future per input, to be submitted to `executor`, and the handle of its results, in the order
    /// of the inputs. A job that is dropped without being submitted never answers.
    ///
    /// # Safety
    /// Only the future uses the references that `make` is given. They are valid until the future is dropped.
    #[expect(clippy::type_complexity, reason = "a batch has a result, and so has each of its futures")]
    pub unsafe fn job<M, F>(
        executor: &Executor<M>,
        shared: C,
        inputs: Vec<I>,
        make: P,
    ) -> (Arc<dyn Job<M>>, Handle<Vec<Result<T, E>>, E>)
    where
        M: Operations + 'static,
        P: Fn(&'static M, &'static C, I) -> F,
        F: Future<Output = Result<T, E>> + 'static,
    {
        let place = |input| Place { input: UnsafeCell::new(Some(input)), result: UnsafeCell::new(None) };
        let task = Arc::new(BatchTask {
            shared,
            make,
            left: AtomicUsize::new(inputs.len()),
            places: inputs.into_iter().map(place).collect(),
            next: AtomicUsize::new(0),
            result_cell: ResultCell::new(ServedBy::of(executor)),
        });
        if task.places.is_empty() {
            task.result_cell.set(Ok(Vec::new()));
        }
        (task.clone(), Handle::new(task))
    }
}

impl<C, I, P, T, E: From<TaskError>> BatchTask<C, I, P, T, E> {
    /// # Safety
    /// The caller has drawn `i` and has not called `finish` for it yet.
    unsafe fn set(&self, i: usize, result: Result<T, E>) {
        // SAFETY: result `i` is the caller's.
        unsafe { *self.places[i].result.get() = Some(result) };
    }

    /// # Safety
    /// Like `set`.
    unsafe fn is_set(&self, i: usize) -> bool {
        // SAFETY: result `i` is the caller's.
        unsafe { (*self.places[i].result.get()).is_some() }
    }

    /// Notes that `n` more futures have their results.
    fn finish(&self, n: usize) {
        // AcqRel: each Release pairs with the Acquire of the last call.
        let before = self.left.fetch_sub(n, AcqRel);
        debug_assert!(before >= n);
        if before == n && n > 0 {
            let take = |place: &Place<I, T, E>| {
                // SAFETY: the last call is alone with the results.
                let result = unsafe { (*place.result.get()).take() };
                result.expect("a finished future has a result")
            };
            self.result_cell.set(Ok(self.places.iter().map(take).collect()));
        }
    }

    /// Answers the inputs that are not drawn yet.
    fn answer_rest(&self, why: &TaskError) {
        let first = self.next.swap(self.places.len(), Relaxed).min(self.places.len());
        for i in first..self.places.len() {
            // SAFETY: this call has drawn `i` together with all later inputs.
            let input = unsafe { (*self.places[i].input.get()).take() };
            let _ = quietly(|| drop(input));
            // SAFETY: as above.
            unsafe { self.set(i, Err(why.clone().into())) };
        }
        self.finish(self.places.len() - first);
    }
}

impl<M, C, I, P, F, T, E> Job<M> for BatchTask<C, I, P, T, E>
where
    M: Operations + 'static,
    C: Send + Sync + 'static,
    I: Send + 'static,
    P: Fn(&'static M, &'static C, I) -> F + Send + Sync + 'static,
    F: Future<Output = Result<T, E>> + 'static,
    T: Send + 'static,
    E: From<TaskError> + Send + 'static,
{
    fn start(self: Arc<Self>, at: Vacancy<'_, M>) -> Started {
        if self.result_cell.is_cancelled() {
            self.answer_rest(&TaskError::Cancelled);
            return Started::Last;
        }
        // Relaxed: the inputs came through an inbox's lock. Each ticket makes at most one futile draw, so the number
        // cannot overflow.
        let i = self.next.fetch_add(1, Relaxed);
        let Some(place) = self.places.get(i) else { return Started::Last };
        let more = if i + 1 < self.places.len() { Started::More } else { Started::Last };
        // SAFETY: this call has drawn input `i`.
        let input = unsafe { (*place.input.get()).take() }.expect("an input is drawn once");
        let (operations, task) = (at.operations(), Arc::as_ptr(&self));
        let part = Part { task: Some(self), i };
        // SAFETY: `part` keeps the task alive, and is dropped after the future.
        let task: &'static Self = unsafe { &*task };
        match catch_unwind(AssertUnwindSafe(|| (task.make)(operations, &task.shared, input))) {
            Ok(future) => submit(at, future, part),
            Err(payload) => part.set(Err(TaskError::Panicked(message(payload)).into())),
        }
        more
    }

    fn reject(&self, why: TaskError) {
        self.answer_rest(&why);
    }
}

impl<C, I, P, T, E: From<TaskError>> Announce for BatchTask<C, I, P, T, E> {
    unsafe fn announce(&self, part: usize, fate: Fate) {
        if let Some(why) = fate.error() {
            // SAFETY: the part is drawn and not finished: `hold` has returned it, and this is called once.
            lose(unsafe { &mut *self.places[part].result.get() }, why);
        }
        self.finish(1);
    }
}

type Shared<C, I, P, T, E> = Arc<BatchTask<C, I, P, T, E>>;

/// The way back to one result of a batch. Has no task when the result is held.
struct Part<C, I, P, T, E: From<TaskError>> {
    task: Option<Shared<C, I, P, T, E>>,
    i: usize,
}

impl<C, I, P, T, E: From<TaskError>> Part<C, I, P, T, E> {
    fn task(&self) -> &BatchTask<C, I, P, T, E> {
        self.task.as_ref().expect("the future has not ended")
    }
}

impl<C, I, P, T, E> Sink<Result<T, E>> for Part<C, I, P, T, E>
where
    C: 'static,
    I: 'static,
    P: 'static,
    T: 'static,
    E: From<TaskError> + 'static,
{
    fn set(&self, result: Result<T, E>) {
        // SAFETY: `i` belongs to this part.
        unsafe { self.task().set(self.i, result) };
    }
    fn hold(&mut self, result: Result<T, E>) -> (Arc<dyn Announce>, usize) {
        self.set(result);
        (self.task.take().expect("the future has not ended"), self.i)
    }
    fn is_cancelled(&self) -> bool {
        self.task().result_cell.is_cancelled()
    }
    fn park(&self, context: &Context<'_>) -> bool {
        self.task().result_cell.park(context.waker())
    }
}

impl<C, I, P, T, E: From<TaskError>> Drop for Part<C, I, P, T, E> {
    fn drop(&mut self) {
        let Some(task) = &self.task else { return };
        // SAFETY: `i` belongs to this part.
        if !unsafe { task.is_set(self.i) } {
            // SAFETY: as above.
            unsafe { task.set(self.i, Err(TaskError::Cancelled.into())) };
        }
        task.finish(1);
    }
}
