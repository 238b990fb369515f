//! The result of a submitted future: a worker sets it once, and a future or a thread awaits it.
//!
//! Invariant: `value` is written before `state` becomes `DONE`. Afterwards only the one handle reads it.

use crate::exec::blocking::{Mutex, SPINS, SPINS_PER_YIELD, Thread, lock, thread};
use crate::exec::contract::{Fate, Stall};
use crate::exec::panics::quietly;
use crate::exec::submit::served_by::ServedBy;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::cell::UnsafeCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The reason why there is no result of the submitted future itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskError {
    /// The future panicked, with this message.
    Panicked(String),
    /// The future was cancelled, or its worker ended, before the future did.
    Cancelled,
    /// The executor is closed. The future was never started.
    Closed,
    /// A worker's thread would wait for a future that it has to run itself. The future is cancelled.
    WouldDeadlock,
    /// Every inbox is full, and a worker's thread must not wait for room. The future was never started.
    Full,
    /// The future has ended, but its output was held back and will never be released.
    Unknown,
    /// The future has ended, but its output was held back for longer than a caller waits.
    Stalled(Stall),
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskError::Panicked(message) => write!(f, "the transaction panicked: {message}"),
            TaskError::Cancelled => f.write_str("the transaction was cancelled"),
            TaskError::Closed => f.write_str("the database is closed"),
            TaskError::WouldDeadlock => f.write_str("a worker thread cannot wait for a transaction"),
            TaskError::Full => f.write_str("too many transactions are queued"),
            TaskError::Stalled(_) => f.write_str("whether the transaction lasts is not known yet"),
            TaskError::Unknown => f.write_str("whether the transaction lasts is not known"),
        }
    }
}

impl std::error::Error for TaskError {}

const WAITED: u32 = 1;
const DONE: u32 = 2;

enum Waiter {
    Thread(Thread),
    Task(Waker),
}

pub(crate) struct ResultCell<T> {
    state: AtomicU32,
    cancelled: AtomicBool,
    pub(crate) served_by: ServedBy,
    links: Mutex<Links>,
    value: UnsafeCell<Option<T>>,
}

/// Rarely needed state.
#[derive(Default)]
struct Links {
    waiter: Option<Waiter>,
    /// Wakers of parked futures, which a cancellation must reach. At most one per slot.
    parked: Vec<Waker>,
}

// SAFETY: `value` passes from the thread that sets it to the one handle, ordered by `state`.
unsafe impl<T: Send> Sync for ResultCell<T> {}

impl<T> ResultCell<T> {
    pub(crate) fn new(served_by: ServedBy) -> Self {
        ResultCell {
            state: AtomicU32::new(0),
            cancelled: AtomicBool::new(false),
            served_by,
            links: Mutex::new(Links::default()),
            value: UnsafeCell::new(None),
        }
    }

    /// Sets the value, once, and wakes the waiter.
    pub(crate) fn set(&self, value: T) {
        self.put(value);
        self.announce();
    }

    /// Sets the value, once. The same thread must call [`announce`](Self::announce) afterwards.
    pub(crate) fn put(&self, value: T) {
        self.revise(|empty| *empty = Some(value));
    }

    /// Changes the value between `put` and `announce`.
    pub(crate) fn revise(&self, change: impl FnOnce(&mut Option<T>)) {
        debug_assert!(!self.is_done(), "set once");
        // SAFETY: `state` is not `DONE`, so no thread reads the value. One thread puts, revises and announces, so no
        // other thread writes it.
        change(unsafe { &mut *self.value.get() });
    }

    /// Makes the value that was put visible, and wakes the waiter.
    pub(crate) fn announce(&self) {
        debug_assert!(!self.is_done(), "announced once");
        // AcqRel: the Release pairs with the Acquire in `take`, for the value. The Acquire pairs with the Release in
        // `wait`, for the waiter, which the lock orders too.
        if self.state.swap(DONE, AcqRel) & WAITED != 0 {
            let waiter = lock(&self.links).waiter.take();
            match waiter {
                Some(Waiter::Thread(thread)) => thread.unpark(),
                Some(Waiter::Task(waker)) => waker.wake(),
                None => {} // the waiter has seen `DONE` by itself
            }
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state.load(Acquire) & DONE != 0 // Acquire: pairs with the Release in `set`
    }

    /// Returns the value, if it is set. Only the one handle may call this.
    fn take(&self) -> Option<T> {
        if !self.is_done() {
            return None;
        }
        // SAFETY: the state is `DONE`, and only the one handle calls this.
        let value = unsafe { &mut *self.value.get() };
        Some(value.take().expect("a result is taken once"))
    }

    /// Registers the waiter. Returns the value if it has been set meanwhile.
    fn wait(&self, waiter: Waiter) -> Option<T> {
        lock(&self.links).waiter = Some(waiter);
        self.state.fetch_or(WAITED, AcqRel); // Release: pairs with the Acquire in `set`
        self.take()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed) // a hint; the lock orders it for `park`
    }

    /// Notes that the result is not wanted any more.
    fn cancel(&self) {
        let mut links = lock(&self.links);
        self.cancelled.store(true, Relaxed);
        let parked = std::mem::take(&mut links.parked);
        drop(links);
        parked.into_iter().for_each(Waker::wake);
    }

    /// Prepares to park a future that works for this result. Returns false if the result is cancelled. The future must
    /// not be parked then.
    pub(crate) fn park(&self, waker: &Waker) -> bool {
        let mut links = lock(&self.links);
        if self.is_cancelled() {
            return false;
        }
        if !links.parked.iter().any(|w| w.will_wake(waker)) {
            links.parked.push(waker.clone());
        }
        true
    }
}

/// A shared allocation that contains a result.
pub(crate) trait Outcome<R>: Send + Sync {
    fn result_cell(&self) -> &ResultCell<R>;
}

/// The result of a submitted future. Await it, or call [`wait`](Handle::wait). A handle that is dropped earlier cancels
/// what was submitted, if that has not ended yet: at its next poll, or at once if it is parked.
/// [`detach`](Handle::detach) lets it run.
#[must_use = "dropping the handle cancels what was submitted"]
pub struct Handle<T, E> {
    outcome: Arc<dyn Outcome<Result<T, E>>>,
    is_armed: bool,
}

impl<T, E: From<TaskError>> Handle<T, E> {
    pub(crate) fn new(outcome: Arc<dyn Outcome<Result<T, E>>>) -> Self {
        Handle { outcome, is_armed: true }
    }

    /// Blocks the calling thread until the result is there. On a worker's thread of the same executor this returns an
    /// error unless the result is already there. Await the handle instead.
    pub fn wait(mut self) -> Result<T, E> {
        let result_cell = self.outcome.result_cell();
        let result = match result_cell.take() {
            Some(result) => result,
            None if result_cell.served_by.is_here() => return Err(TaskError::WouldDeadlock.into()),
            None => block_on(result_cell),
        };
        self.is_armed = false;
        result
    }

    /// Returns true if the result is there, so that neither `wait` nor a poll would block.
    pub fn is_done(&self) -> bool {
        self.outcome.result_cell().is_done()
    }

    /// Asks for cancellation. The result says whether it came in time.
    pub fn cancel(&self) {
        self.outcome.result_cell().cancel();
    }

    /// Lets what was submitted run on, although no caller waits for it.
    pub fn detach(mut self) {
        self.is_armed = false;
    }
}

fn block_on<T>(result_cell: &ResultCell<T>) -> T {
    for spin in 1..=SPINS {
        if let Some(value) = result_cell.take() {
            return value;
        }
        if spin.is_multiple_of(SPINS_PER_YIELD) {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    let mut value = result_cell.wait(Waiter::Thread(thread::current()));
    loop {
        match value {
            Some(value) => return value,
            None => thread::park(),
        }
        value = result_cell.take();
    }
}

impl<T, E> Future for Handle<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result_cell = self.outcome.result_cell();
        match result_cell.take().or_else(|| result_cell.wait(Waiter::Task(context.waker().clone()))) {
            Some(result) => {
                self.is_armed = false;
                Poll::Ready(result)
            }
            None => Poll::Pending,
        }
    }
}

impl<T, E> Drop for Handle<T, E> {
    fn drop(&mut self) {
        if self.is_armed && !self.outcome.result_cell().is_done() {
            self.outcome.result_cell().cancel();
        }
    }
}

impl<T, E> fmt::Debug for Handle<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("is_done", &self.outcome.result_cell().is_done()).finish()
    }
}

impl Fate {
    /// Returns the error that a handle gets instead of a result that is not kept.
    pub(crate) fn error(self) -> Option<TaskError> {
        match self {
            Fate::Durable => None,
            Fate::Unknown => Some(TaskError::Unknown),
            Fate::Stalled(stall) => Some(TaskError::Stalled(stall)),
        }
    }
}

/// Replaces a result of unknown fate by the error that the handle gets. An error that is held back is replaced too,
/// because it may rest on changes that are lost.
pub(crate) fn lose<T, E: From<TaskError>>(result: &mut Option<Result<T, E>>, why: TaskError) {
    if result.is_some() {
        let unknown = result.replace(Err(why.into()));
        let _ = quietly(|| drop(unknown));
    }
}
