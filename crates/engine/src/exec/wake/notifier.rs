//! How other threads get a worker's attention: one notifier per worker, one bit per slot.
//!
//! Invariants:
//! - A thread that leaves something for a worker (a bit, a job) leaves it before it notifies the worker. The worker
//!   announces its sleep, and then looks once more before it sleeps. Therefore nothing is overlooked.
//! - A worker also announces whether it could take a job. A worker that could not is never notified for a job. Only
//!   what gives it room again wakes it.
//! - A worker that sleeps on its [`Event`] announces that, too. If a notification ends such a sleep, the thread that
//!   ended it signals the event once. The event is signalled at no other time. Therefore a notification of an awake
//!   worker costs no system call, and the worker knows how many signals have come or are still to come.

use crate::exec::blocking::{Mutex, Thread, lock, park_timeout, thread};
use crate::exec::wake::event::Event;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

const QUIET: u32 = 0;
const NOTIFIED: u32 = 1;
/// Asleep, with room for a job.
const ASLEEP: u32 = 2;
/// Asleep without room: too many of its futures are parked, or too many outputs are held.
const FULL: u32 = 3;
/// Added to either: asleep on the event instead of parked.
const ON_EVENT: u32 = 4;

/// Any thread notifies. Only the worker's thread takes the notification.
pub(crate) struct Notifier {
    state: AtomicU32,
    sleeper: Mutex<Sleeper>,
}

/// How the worker's thread is woken. Set before the first sleep of the kind.
#[derive(Default)]
struct Sleeper {
    thread: Option<Thread>,
    event: Option<Arc<Event>>,
}

impl Notifier {
    pub(crate) fn new() -> Arc<Notifier> {
        Arc::new(Notifier { state: AtomicU32::new(QUIET), sleeper: Mutex::new(Sleeper::default()) })
    }

    /// Makes the calling thread the worker's thread from now on.
    pub(crate) fn set_thread(&self) {
        lock(&self.sleeper).thread = Some(thread::current());
    }

    /// Sets the event that ends a sleep announced with [`announce_on_event`](Self::announce_on_event).
    pub(crate) fn set_event(&self, event: Arc<Event>) {
        lock(&self.sleeper).event = Some(event);
    }

    /// Makes the worker look, and wakes it if it sleeps.
    pub(crate) fn notify(&self) {
        // AcqRel: the Release pairs with the Acquire in `take`, for what was left before notifying. The Acquire pairs
        // with the Release in `announce`, for `sleeper`.
        let before = self.state.swap(NOTIFIED, AcqRel);
        if before >= ASLEEP {
            self.wake_sleeper(before);
        }
    }

    #[cold]
    fn wake_sleeper(&self, asleep: u32) {
        let sleeper = lock(&self.sleeper);
        match (&*sleeper, asleep & ON_EVENT != 0) {
            (Sleeper { event: Some(event), .. }, true) => event.signal(),
            (Sleeper { thread: Some(thread), .. }, false) => thread.unpark(),
            _ => debug_assert!(false, "a sleep is announced when it is known how to end it"),
        }
    }

    /// Returns true if the worker has announced that it sleeps and has room for a job. A caller may rely on this if it
    /// has left something under a lock that the sleeper takes after announcing.
    pub(crate) fn is_asleep(&self) -> bool {
        self.state.load(Relaxed) & !ON_EVENT == ASLEEP // ordered by that lock
    }

    /// Returns true if the worker has announced that it sleeps and could not take a job. Ordered like
    /// [`is_asleep`](Self::is_asleep).
    pub(crate) fn is_full(&self) -> bool {
        self.state.load(Relaxed) & !ON_EVENT == FULL
    }

    /// Returns true if the worker has been notified since the last call.
    #[inline(always)]
    pub(crate) fn take(&self) -> bool {
        self.state.load(Relaxed) == NOTIFIED && self.take_notice()
    }

    #[cold]
    fn take_notice(&self) -> bool {
        // Acquire: pairs with the Release in `notify`.
        self.state.swap(QUIET, Acquire) == NOTIFIED
    }

    /// Announces a sleep. Returns false if the worker has been notified and must look first.
    fn announce(&self, asleep: u32) -> bool {
        // Release: pairs with the Acquire in `notify`.
        self.state.compare_exchange(QUIET, asleep, AcqRel, Relaxed).is_ok()
    }

    /// Ends the announced sleep: the worker is awake again and looks by itself. Returns false if the worker was
    /// notified since the sleep was announced. That notification is still to be taken.
    fn retract(&self) -> bool {
        let asleep = self.state.load(Relaxed);
        // The exchange in `take_notice` orders what the worker has to see.
        asleep != NOTIFIED && self.state.compare_exchange(asleep, QUIET, Relaxed, Relaxed).is_ok()
    }

    /// Sleeps until notified, unless the worker is notified already. `still_idle` looks once more after the sleep is
    /// announced. Leaves the notification to be taken. `has_room`: the sleeper would take a job. Returns after
    /// `at_most`, if given.
    pub(crate) fn sleep(&self, has_room: bool, at_most: Option<Duration>, still_idle: impl FnOnce() -> bool) {
        let asleep = if has_room { ASLEEP } else { FULL };
        if !self.announce(asleep) {
            return;
        }
        if !still_idle() {
            self.retract(); // a notification that came meanwhile stays
            return;
        }
        while self.state.load(Relaxed) == asleep {
            let Some(at_most) = at_most else {
                thread::park();
                continue;
            };
            park_timeout(at_most);
            // The thread was notified, ran out of time, or woke for no reason. In each case the caller looks, and comes
            // back with the time that is left.
            self.retract();
        }
    }

    /// Announces that the worker sleeps on its event from now on, until
    /// [`end_sleep_on_event`](Self::end_sleep_on_event). Returns false if the worker has been notified and must not
    /// sleep. The caller looks once more afterwards.
    pub(crate) fn announce_on_event(&self, has_room: bool) -> bool {
        self.announce(ON_EVENT | if has_room { ASLEEP } else { FULL })
    }

    /// Ends a sleep that was announced with `announce_on_event`, for whatever reason. Returns true if the event has
    /// been or is about to be signalled for it.
    pub(crate) fn end_sleep_on_event(&self) -> bool {
        !self.retract()
    }
}

/// For callers that have something for the worker as a whole.
impl Wake for Notifier {
    fn wake(self: Arc<Self>) {
        self.notify();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}

/// The notifier of a worker, and which of its slots are woken.
pub(crate) struct Wakes {
    pub(crate) notifier: Arc<Notifier>,
    woken: Box<[AtomicU64]>,
}

impl Wakes {
    pub(crate) fn new(notifier: Arc<Notifier>, slots_max: usize) -> Wakes {
        Wakes { notifier, woken: (0..slots_max.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    fn wake(&self, index: usize) {
        let bit = 1 << (index % 64);
        // Release: pairs with the Acquire in `take`. A thread that finds the bit set need not notify. The thread that
        // set the bit does, or has done it and the worker has yet to look.
        if self.woken[index / 64].fetch_or(bit, AcqRel) & bit == 0 {
            self.notifier.notify();
        }
    }

    /// Takes the numbers of the woken slots, in order.
    pub(crate) fn take(&self, mut each: impl FnMut(usize)) {
        for (i, word) in self.woken.iter().enumerate() {
            if word.load(Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, AcqRel); // Acquire: pairs with the Release in `wake`
            while bits != 0 {
                each(i * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}

/// The target of a slot's waker.
pub(crate) struct SlotWaker {
    wakes: Arc<Wakes>,
    index: usize,
}

impl SlotWaker {
    pub(crate) fn new(wakes: &Arc<Wakes>, index: usize) -> Self {
        SlotWaker { wakes: wakes.clone(), index }
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wakes.wake(self.index);
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.wakes.wake(self.index);
    }
}
