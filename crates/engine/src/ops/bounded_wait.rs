//! How long an operation of an interactive transaction waits where it is called.
//!
//! It waits for a commit that is under way, and has nothing to suspend to. (A transaction on a worker does not wait in place: see
//! [`post_waiting`](super::TxnState::post_waiting).) The other thread makes its commit in microseconds, unless it has lost its core or
//! the log has no room. So the wait has a limit in time, which a busy machine does not use up: turns of the core would be over in
//! milliseconds on an idle machine, and last for minutes on one that has more threads than cores.

use crate::cc::{ConcurrencyControl, Holder};
use crate::kernel::Engine;
use crate::sync::Backoff;
use std::cell::Cell;

/// A wait for another thread's commit. (A worker in sequential execution waits by it as well, between the steps of what it has posted, and
/// regards no limit.)
#[derive(Debug, Default)]
pub(crate) struct BoundedWait {
    backoff: Backoff,
    waits: u32,
    /// Since when spinning has not helped.
    long_since_ns: Option<u64>,
    /// The open transaction that had the row after the last wait, and since when.
    held: Option<(Holder, u64)>,
}

/// The limit, where the database's options have a lower one for rows: a thread may be off its core for that long.
const WAIT_NS_MIN: u64 = 1_000_000_000;
/// The limit on a thread that has workers: the commit may be suspended on one of them, and only this thread can move it.
const WAIT_BESIDE_WORKERS_NS: u64 = 10_000_000;
/// The limit where the transaction in the way is open and does not commit: it is waited for asleep, if at all.
const WAIT_FOR_HOLDER_NS: u64 = 10_000_000;
/// Waits of a worker in which it gives the core away each time, and how seldom it does so after that: each may take as long as other
/// threads have work, and what the worker waits for may be idle.
const TURNS_MAX: u32 = 16;
const WAITS_PER_TURN: u32 = 2048;
/// The limit in turns of a loop where no other thread could end the wait.
const WAITS_ALONE_MAX: u32 = 10_000;

/// A commit waits so often for another one, before it is taken to wait for room in the log, and waits for a flush of that.
pub(crate) const WAITS_FOR_COMMIT: u32 = 1000;

thread_local! {
    /// Nothing could end a wait but its limit.
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
    /// Workers that the thread has made, which it alone steps.
    static WORKERS: Cell<usize> = const { Cell::new(0) };
}

impl BoundedWait {
    /// Waits a little. Returns false if the wait has been long enough. `holder` finds the open transaction that is in the way and is not
    /// committing.
    #[cold]
    pub(crate) fn wait<C: ConcurrencyControl>(
        &mut self,
        engine: &Engine<C>,
        holder: impl FnOnce() -> Option<Holder>,
    ) -> bool {
        self.waits = self.waits.saturating_add(1);
        if IS_ALONE.get() {
            return self.waits < WAITS_ALONE_MAX;
        }
        self.backoff.wait();
        if !self.backoff.is_long() {
            return true;
        }
        let now_ns = engine.clock.now_ns();
        let waited_ns = now_ns.saturating_sub(*self.long_since_ns.get_or_insert(now_ns));
        waited_ns < limit_ns(engine) && !self.is_held_long(now_ns, holder())
    }

    /// Returns true if one open transaction has had the row for [`WAIT_FOR_HOLDER_NS`]. A single look does not show that: the last try
    /// may have failed because of a commit that has ended since, and the holder that is found now may be in no reader's way. A holder
    /// that is found at two looks was there at the try between them.
    fn is_held_long(&mut self, now_ns: u64, holder: Option<Holder>) -> bool {
        match (holder, self.held) {
            (Some(holder), Some((before, since_ns))) if holder == before => {
                now_ns.saturating_sub(since_ns) >= WAIT_FOR_HOLDER_NS
            }
            _ => {
                self.held = holder.map(|holder| (holder, now_ns));
                false
            }
        }
    }

    /// A wait of a worker, which looks after what has a limit itself.
    #[cold]
    pub(crate) fn pass(&mut self) {
        self.waits = self.waits.saturating_add(1);
        if !IS_ALONE.get() && (self.waits <= TURNS_MAX || self.waits.is_multiple_of(WAITS_PER_TURN)) {
            self.backoff.wait();
        }
    }

    /// The number of waits so far.
    pub(crate) fn waits(&self) -> u32 {
        self.waits
    }
}

fn limit_ns<C: ConcurrencyControl>(engine: &Engine<C>) -> u64 {
    match WORKERS.get() {
        0 => engine.options.lock_wait_ms.saturating_mul(1_000_000).max(WAIT_NS_MIN),
        _ => WAIT_BESIDE_WORKERS_NS,
    }
}

/// A worker of this thread, for as long as it has this.
#[derive(Debug)]
pub(crate) struct WorkerHere(());

impl WorkerHere {
    /// One more.
    pub(crate) fn begin() -> WorkerHere {
        WORKERS.set(WORKERS.get() + 1);
        WorkerHere(())
    }
}

impl Drop for WorkerHere {
    fn drop(&mut self) {
        // (A thread may drop its worker among its last values, when this one is gone.)
        let _ = WORKERS.try_with(|workers| workers.set(workers.get() - 1));
    }
}

/// While this is held, waits in place on this thread are turns of a loop, which leave the processor to nobody: for simulations, where no
/// other thread could end them. Their number is limited instead of their time, so what comes of an operation is the same in each run.
#[derive(Debug)]
pub struct SpinningWaits(());

impl SpinningWaits {
    /// Begins here, on this thread.
    pub fn begin() -> SpinningWaits {
        IS_ALONE.set(true);
        SpinningWaits(())
    }
}

impl Drop for SpinningWaits {
    fn drop(&mut self) {
        IS_ALONE.set(false);
    }
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    #[test]
    fn one_holder_is_waited_for_less_long_than_many() {
        let holder = |id| Some(Holder { id, place: 1, is_ending: false });
        let mut wait = BoundedWait::default();
        assert!(!wait.is_held_long(WAIT_FOR_HOLDER_NS, holder(1)), "the first look");
        assert!(!wait.is_held_long(3 * WAIT_FOR_HOLDER_NS, holder(2)), "another holder");
        assert!(!wait.is_held_long(4 * WAIT_FOR_HOLDER_NS - 1, holder(2)), "not long yet");
        assert!(wait.is_held_long(4 * WAIT_FOR_HOLDER_NS, holder(2)));
        assert!(!wait.is_held_long(5 * WAIT_FOR_HOLDER_NS, None), "it has ended, or commits");
        assert!(!wait.is_held_long(6 * WAIT_FOR_HOLDER_NS, holder(2)), "the first look again");
    }
}
