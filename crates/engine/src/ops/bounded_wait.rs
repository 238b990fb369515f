//! How long an operation of an interactive transaction waits where it is called.
//!
//! Such an operation waits for a commit that is under way, and has nothing to suspend to. A transaction on a worker
//! does not wait in place: see [`post_waiting`](super::TxnState::post_waiting).
//!
//! The other thread makes its commit in microseconds, unless it has lost its core or the log has no room. The wait
//! therefore has a limit in time, which a busy machine does not use up. A limit in turns of the core would be over in
//! milliseconds on an idle machine, and last for minutes on a machine with more threads than cores.

use crate::cc::{ConcurrencyControl, Holder};
use crate::kernel::Engine;
use crate::sync::Backoff;
use std::cell::Cell;

/// A wait for another thread's commit. A worker in sequential execution also waits by it, without a limit, between the
/// steps of what it has posted.
#[derive(Debug, Default)]
pub(crate) struct BoundedWait {
    backoff: Backoff,
    waits: u32,
    /// The time since which spinning has not helped.
    long_since_ns: Option<u64>,
    /// The open transaction that had the row after the last wait, and since when.
    held: Option<(Holder, u64)>,
}

/// The least limit, even if the options of the database have a lower limit for rows, because a thread may be off its
/// core for that long.
const WAIT_NS_MIN: u64 = 1_000_000_000;
/// The limit on a thread that has workers. The commit may be suspended on one of them, and only this thread can step
/// it.
const WAIT_BESIDE_WORKERS_NS: u64 = 10_000_000;
/// The limit if the transaction in the way is open and does not commit. Such a transaction is waited for asleep, if at
/// all.
const WAIT_FOR_HOLDER_NS: u64 = 10_000_000;
/// How many waits of a worker give the core away each time, and after how many further waits it does so again. Each of
/// these may take as long as other threads have work, and what the worker waits for may be idle.
const TURNS_MAX: u32 = 16;
const WAITS_PER_TURN: u32 = 2048;
/// The limit in turns of a loop, if no other thread could end the wait.
const WAITS_ALONE_MAX: u32 = 10_000;

/// How often a commit waits for another commit before it is taken to wait for room in the log, and waits for a flush of
/// the log.
pub(crate) const WAITS_FOR_COMMIT: u32 = 1000;

thread_local! {
    /// Only its limit could end a wait.
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
    /// The number of workers that this thread has made. It alone steps them.
    static WORKERS: Cell<usize> = const { Cell::new(0) };
}

impl BoundedWait {
    /// Waits a little. Returns false if the wait has been long enough. `holder` finds the open transaction that is in
    /// the way and is not committing.
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

    /// Returns true if one open transaction has had the row for [`WAIT_FOR_HOLDER_NS`]. A single look does not show
    /// that. The last try may have failed because of a commit that has ended since, and the holder that is found now
    /// may be in no reader's way. A holder that is found at two looks was there at the try between them.
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

    /// Waits a little on a worker. There is no limit here, because the worker itself looks after waits with a limit.
    #[cold]
    pub(crate) fn pass(&mut self) {
        self.waits = self.waits.saturating_add(1);
        if !IS_ALONE.get() && (self.waits <= TURNS_MAX || self.waits.is_multiple_of(WAITS_PER_TURN)) {
            self.backoff.wait();
        }
    }

    /// Returns the number of waits so far.
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

/// Counts a worker of this thread for as long as the worker has this value.
#[derive(Debug)]
pub(crate) struct WorkerHere(());

impl WorkerHere {
    /// Counts one more worker of this thread.
    pub(crate) fn begin() -> WorkerHere {
        WORKERS.set(WORKERS.get() + 1);
        WorkerHere(())
    }
}

impl Drop for WorkerHere {
    fn drop(&mut self) {
        // A thread may drop its worker among its last values, when this variable is gone.
        let _ = WORKERS.try_with(|workers| workers.set(workers.get() - 1));
    }
}

/// While this is held, waits in place on this thread are turns of a loop, which never give the processor away. This is
/// for simulations, where no other thread could end such a wait. The number of the waits is limited instead of their
/// time, so the outcome of an operation is the same in each run.
#[derive(Debug)]
pub struct SpinningWaits(());

impl SpinningWaits {
    /// Begins on this thread.
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
