//! How other threads get a worker's attention: one bell per worker, one bit per slot.
//!
//! Invariants:
//! - Whoever leaves something for a worker (a bit, a job) does so before it rings; the worker, before it sleeps,
//!   announces that it will, and then looks once more. So nothing is left unseen.
//! - A worker announces as well whether it could take a job. One that could not is never rung for a job: only what
//!   gives it room again wakes it.
//! - A worker that sleeps on its [`Event`] announces that, too. The event is signalled once for each such sleep that a ring
//!   ends, by the thread that ended it, and at no other time: so a ring of a worker that is awake costs no system call,
//!   and the worker knows how many signals there have been or are still to come.

use crate::exec::blocking::{Mutex, Thread, lock, park_timeout, thread};
use crate::exec::wake::event::Event;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

const QUIET: u32 = 0;
const RUNG: u32 = 1;
/// Asleep, with room for a job.
const ASLEEP: u32 = 2;
/// Asleep without room: too many of its futures are parked, or too many outputs are held.
const FULL: u32 = 3;
/// Added to either: asleep on the event, not parked.
const ON_EVENT: u32 = 4;

/// Rung by others, heard by one thread.
pub(crate) struct Bell {
    state: AtomicU32,
    sleeper: Mutex<Sleeper>,
}

/// How the thread that hears the bell is woken. Set before the first sleep of the kind.
#[derive(Default)]
struct Sleeper {
    thread: Option<Thread>,
    event: Option<Arc<Event>>,
}

impl Bell {
    pub(crate) fn new() -> Arc<Bell> {
        Arc::new(Bell { state: AtomicU32::new(QUIET), sleeper: Mutex::new(Sleeper::default()) })
    }

    /// The calling thread is the one that hears it from now on.
    pub(crate) fn belongs_here(&self) {
        lock(&self.sleeper).thread = Some(thread::current());
    }

    /// What is signalled when a sleep is to end that was announced with [`doze`](Self::doze).
    pub(crate) fn set_event(&self, event: Arc<Event>) {
        lock(&self.sleeper).event = Some(event);
    }

    /// Makes the worker look, waking it if it sleeps.
    pub(crate) fn ring(&self) {
        // AcqRel: the Release pairs with the Acquire in `heard`, for what was left before ringing; the
        // Acquire with the Release in `announce`, for `sleeper`.
        let before = self.state.swap(RUNG, AcqRel);
        if before >= ASLEEP {
            self.rouse(before);
        }
    }

    #[cold]
    fn rouse(&self, asleep: u32) {
        let sleeper = lock(&self.sleeper);
        match (&*sleeper, asleep & ON_EVENT != 0) {
            (Sleeper { event: Some(event), .. }, true) => event.signal(),
            (Sleeper { thread: Some(thread), .. }, false) => thread.unpark(),
            _ => debug_assert!(false, "a sleep is announced when it is known how to end it"),
        }
    }

    /// Has announced that it sleeps and has room for a job. A caller that has left something under a lock which
    /// the sleeper takes after announcing, may rely on it.
    pub(crate) fn is_asleep(&self) -> bool {
        self.state.load(Relaxed) & !ON_EVENT == ASLEEP // ordered by that lock
    }

    /// Has announced that it sleeps and could not take a job; ordered as [`is_asleep`](Self::is_asleep).
    pub(crate) fn is_full(&self) -> bool {
        self.state.load(Relaxed) & !ON_EVENT == FULL
    }

    /// Has it been rung? Then it is quiet again.
    #[inline(always)]
    pub(crate) fn heard(&self) -> bool {
        self.state.load(Relaxed) == RUNG && self.hear()
    }

    #[cold]
    fn hear(&self) -> bool {
        // Acquire: pairs with the Release in `ring`.
        self.state.swap(QUIET, Acquire) == RUNG
    }

    /// Announces a sleep. Returns false if the bell has been rung: the worker has to look first.
    fn announce(&self, asleep: u32) -> bool {
        // Release: pairs with the Acquire in `ring`.
        self.state.compare_exchange(QUIET, asleep, AcqRel, Relaxed).is_ok()
    }

    /// The worker is awake again, and looks at what there is by itself. Returns false if the bell was rung since the sleep
    /// was announced; that is still to be heard.
    fn retract(&self) -> bool {
        let asleep = self.state.load(Relaxed);
        // (What it has to see is ordered by the exchange in `hear`.)
        asleep != RUNG && self.state.compare_exchange(asleep, QUIET, Relaxed, Relaxed).is_ok()
    }

    /// Sleeps until rung, unless it has been; `still_idle` looks once more after sleep is announced. Leaves
    /// the ringing to be heard. `has_room`: the sleeper would take a job. Returns after `at_most`, if given.
    pub(crate) fn sleep(&self, has_room: bool, at_most: Option<Duration>, still_idle: impl FnOnce() -> bool) {
        let asleep = if has_room { ASLEEP } else { FULL };
        if !self.announce(asleep) {
            return;
        }
        if !still_idle() {
            self.retract(); // if it was rung meanwhile, it stays so
            return;
        }
        while self.state.load(Relaxed) == asleep {
            let Some(at_most) = at_most else {
                thread::park();
                continue;
            };
            park_timeout(at_most);
            // Whether rung, out of time or for no reason: the caller looks, and comes back with the time that is left.
            self.retract();
        }
    }

    /// Announces that the worker sleeps on its event from now on, until [`wake_up`](Self::wake_up). Returns false if the
    /// bell has been rung: then it must not. The caller looks once more afterwards.
    pub(crate) fn doze(&self, has_room: bool) -> bool {
        self.announce(ON_EVENT | if has_room { ASLEEP } else { FULL })
    }

    /// The sleep that was announced with `doze` is over, for whatever reason. Returns true if the event has been signalled
    /// for it, or is about to be.
    pub(crate) fn wake_up(&self) -> bool {
        !self.retract()
    }
}

/// For who has something for the worker as a whole.
impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

/// The bell of a worker and which of its slots are woken.
pub(crate) struct Wakes {
    pub(crate) bell: Arc<Bell>,
    woken: Box<[AtomicU64]>,
}

impl Wakes {
    pub(crate) fn new(bell: Arc<Bell>, slots_max: usize) -> Wakes {
        Wakes { bell, woken: (0..slots_max.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    fn wake(&self, index: usize) {
        let bit = 1 << (index % 64);
        // Release: pairs with the Acquire in `take`. Who finds the bit set need not ring: the one who set it
        // does, or has done so and the worker has yet to look.
        if self.woken[index / 64].fetch_or(bit, AcqRel) & bit == 0 {
            self.bell.ring();
        }
    }

    /// Takes the woken slots' numbers, in order.
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

/// What a slot's waker points to.
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
