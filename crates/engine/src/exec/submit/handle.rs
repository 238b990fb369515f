//! A result on its way out: set once by a worker, awaited by a future or a thread.
//!
//! Invariant: `value` is written before `state` becomes `DONE`, and read by the one handle after.

use crate::exec::blocking::{Mutex, SPINS, SPINS_PER_YIELD, Thread, lock, thread};
use crate::exec::contract::{Fate, Stall};
use crate::exec::panics::quietly;
use crate::exec::submit::served_by::Home;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::cell::UnsafeCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Why there is no result of the submitted future itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It panicked, with this message.
    Panicked(String),
    /// It was cancelled, or its worker went, before it ended.
    Cancelled,
    /// The executor is closed; the future was never started.
    Closed,
    /// A worker's thread would wait for what it has to run itself. The future is cancelled.
    WouldDeadlock,
    /// Every inbox is full, and a worker's thread must not wait for room. The future was never started.
    Full,
    /// It has ended, but its output was held back, and will never be released.
    Unknown,
    /// It has ended, but its output was held back for as long as anybody is to wait.
    Stalled(Stall),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Panicked(message) => write!(f, "the transaction panicked: {message}"),
            Lost::Cancelled => f.write_str("the transaction was cancelled"),
            Lost::Closed => f.write_str("the database is closed"),
            Lost::WouldDeadlock => f.write_str("a worker thread cannot wait for a transaction"),
            Lost::Full => f.write_str("too many transactions are queued"),
            Lost::Stalled(_) => f.write_str("whether the transaction lasts is not known yet"),
            Lost::Unknown => f.write_str("whether the transaction lasts is not known"),
        }
    }
}

impl std::error::Error for Lost {}

const WAITED: u32 = 1;
const DONE: u32 = 2;

enum Waiter {
    Thread(Thread),
    Task(Waker),
}

pub(crate) struct Once<T> {
    state: AtomicU32,
    cancelled: AtomicBool,
    pub(crate) home: Home,
    links: Mutex<Links>,
    value: UnsafeCell<Option<T>>,
}

/// What is rarely needed.
#[derive(Default)]
struct Links {
    waiter: Option<Waiter>,
    /// Wakers of parked futures: what a cancellation has to reach. At most one per slot.
    parked: Vec<Waker>,
}

// SAFETY: `value` goes from the one that sets it to the one handle, in the order of `state`.
unsafe impl<T: Send> Sync for Once<T> {}

impl<T> Once<T> {
    pub(crate) fn new(home: Home) -> Self {
        Once {
            state: AtomicU32::new(0),
            cancelled: AtomicBool::new(false),
            home,
            links: Mutex::new(Links::default()),
            value: UnsafeCell::new(None),
        }
    }

    /// Sets the value, which nobody has done yet, and wakes who waits.
    pub(crate) fn set(&self, value: T) {
        self.put(value);
        self.announce();
    }

    /// Sets the value, which nobody has done yet, for the same thread to [`announce`](Self::announce).
    pub(crate) fn put(&self, value: T) {
        self.revise(|empty| *empty = Some(value));
    }

    /// Changes the value between `put` and `announce`.
    pub(crate) fn revise(&self, change: impl FnOnce(&mut Option<T>)) {
        debug_assert!(!self.is_done(), "set once");
        // SAFETY: not `DONE`, so nobody reads it; one thread puts, revises and announces, so nobody else writes it.
        change(unsafe { &mut *self.value.get() });
    }

    /// Shows the value that was put, and wakes who waits.
    pub(crate) fn announce(&self) {
        debug_assert!(!self.is_done(), "announced once");
        // AcqRel: the Release pairs with the Acquire in `take`, for the value; the Acquire with the Release
        // in `wait`, for the waiter (which the lock orders, too).
        if self.state.swap(DONE, AcqRel) & WAITED != 0 {
            let waiter = lock(&self.links).waiter.take();
            match waiter {
                Some(Waiter::Thread(thread)) => thread.unpark(),
                Some(Waiter::Task(waker)) => waker.wake(),
                None => {} // it has seen `DONE` by itself
            }
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state.load(Acquire) & DONE != 0 // Acquire: pairs with the Release in `set`
    }

    /// The value, if it is set. For the one handle only.
    fn take(&self) -> Option<T> {
        if !self.is_done() {
            return None;
        }
        // SAFETY: `DONE`, and the one handle is asking.
        let value = unsafe { &mut *self.value.get() };
        Some(value.take().expect("a result is taken once"))
    }

    /// Registers who waits; the value, if it has come meanwhile.
    fn wait(&self, waiter: Waiter) -> Option<T> {
        lock(&self.links).waiter = Some(waiter);
        self.state.fetch_or(WAITED, AcqRel); // Release: pairs with the Acquire in `set`
        self.take()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed) // a hint; `park` orders it by the lock
    }

    /// The result is not wanted any more.
    fn cancel(&self) {
        let mut links = lock(&self.links);
        self.cancelled.store(true, Relaxed);
        let parked = std::mem::take(&mut links.parked);
        drop(links);
        parked.into_iter().for_each(Waker::wake);
    }

    /// A future that works for this result is going to be parked. False: it is cancelled and must not.
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

/// A shared allocation with a result in it.
pub(crate) trait Outcome<R>: Send + Sync {
    fn once(&self) -> &Once<R>;
}

/// The result of a submitted future: a future itself, or [`wait`](Handle::wait). Dropped before that, it
/// cancels what was submitted, where that has not ended yet: at its next poll, and at once if it is parked.
/// [`detach`](Handle::detach) lets it run.
#[must_use = "dropping the handle cancels what was submitted"]
pub struct Handle<T, E> {
    outcome: Arc<dyn Outcome<Result<T, E>>>,
    is_armed: bool,
}

impl<T, E: From<Lost>> Handle<T, E> {
    pub(crate) fn new(outcome: Arc<dyn Outcome<Result<T, E>>>) -> Self {
        Handle { outcome, is_armed: true }
    }

    /// Blocks the calling thread until the result is there. On a worker's thread of the same executor: an
    /// error, unless it is there already; await the handle instead.
    pub fn wait(mut self) -> Result<T, E> {
        let once = self.outcome.once();
        let result = match once.take() {
            Some(result) => result,
            None if once.home.is_here() => return Err(Lost::WouldDeadlock.into()),
            None => block_on(once),
        };
        self.is_armed = false;
        result
    }

    /// The result is there: neither `wait` nor a poll would block.
    pub fn is_done(&self) -> bool {
        self.outcome.once().is_done()
    }

    /// Asks for cancellation; the result tells whether it came in time.
    pub fn cancel(&self) {
        self.outcome.once().cancel();
    }

    /// Lets what was submitted run on without anyone waiting.
    pub fn detach(mut self) {
        self.is_armed = false;
    }
}

fn block_on<T>(once: &Once<T>) -> T {
    for spin in 1..=SPINS {
        if let Some(value) = once.take() {
            return value;
        }
        if spin.is_multiple_of(SPINS_PER_YIELD) {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    let mut value = once.wait(Waiter::Thread(thread::current()));
    loop {
        match value {
            Some(value) => return value,
            None => thread::park(),
        }
        value = once.take();
    }
}

impl<T, E> Future for Handle<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let once = self.outcome.once();
        match once.take().or_else(|| once.wait(Waiter::Task(context.waker().clone()))) {
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
        if self.is_armed && !self.outcome.once().is_done() {
            self.outcome.once().cancel();
        }
    }
}

impl<T, E> fmt::Debug for Handle<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("is_done", &self.outcome.once().is_done()).finish()
    }
}

impl Fate {
    /// What a handle gets in place of the result, if that is not kept.
    pub(crate) fn lost(self) -> Option<Lost> {
        match self {
            Fate::Kept => None,
            Fate::Unknown => Some(Lost::Unknown),
            Fate::Stalled(stall) => Some(Lost::Stalled(stall)),
        }
    }
}

/// What a handle gets in place of a result of unknown fate. (An error that is held back rests on what may be lost.)
pub(crate) fn lose<T, E: From<Lost>>(result: &mut Option<Result<T, E>>, why: Lost) {
    if result.is_some() {
        let lost = result.replace(Err(why.into()));
        let _ = quietly(|| drop(lost));
    }
}
