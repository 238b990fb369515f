//! What a transaction does when memory is refused: it cleans up, waits for the epochs that have to pass, or fails.

use super::blocker::{Blocker, Wanted};
use super::point::Point;
use super::state::TxnState;
use crate::cc::{Abort, ConcurrencyControl, Refused};
use crate::index::DERIVED;
use crate::table::Fault;
use std::time::Duration;

/// How many times a transaction waits for memory and tries again: once for what is found to be garbage only then, and
/// some more because others may take at once what is given back.
const RELIEFS_MAX: u32 = 8;
/// How long the other transactions of a worker fail at once, after one has waited `RELIEFS_MAX` times in vain. Without
/// this limit a full database would take a tenth of a second to refuse each write.
const RELIEF_REST_NS: u64 = 1_000_000_000;
/// The most rounds of each wait. With their pauses they take some tens of milliseconds. In that time a thread that has
/// lost its core inside the epoch gets it back.
pub(crate) const RELIEF_ROUNDS_MAX: u32 = 256;
/// The number of first rounds that only yield. A thread that is running leaves the epoch within them.
const RELIEF_YIELDS: u32 = 16;
/// How long each later round sleeps.
const RELIEF_PAUSE: Duration = Duration::from_micros(200);

/// Waits one round for other threads to leave the epoch.
pub(crate) fn let_others_leave(round: u32) {
    match round < RELIEF_YIELDS {
        true => std::thread::yield_now(),
        false => std::thread::sleep(RELIEF_PAUSE),
    }
}

impl<C: ConcurrencyControl> TxnState<C> {
    /// Cleans up because memory is short, and waits for the epochs that have to pass before memory is given back. Does
    /// so only in an interactive transaction that has nothing else in flight. Returns true if memory may have been
    /// given back. What was found before must then be looked for again.
    pub(crate) fn relieve_in_place(&self, point: &Point<C>) -> bool {
        let context = self.context();
        // SAFETY: tables live as long as their database.
        let table = unsafe { &*point.table };
        // The upkeep of an index has looked at more than this row, and needs the epoch for it.
        let is_alone = table.indexes.is_empty() && table.index.number() != DERIVED && self.used.get() == 0;
        if !self.is_interactive.get() || !is_alone || !self.may_wait_for_memory(self.reliefs.get()) {
            return false;
        }
        self.reliefs.set(self.reliefs.get() + 1);
        let more = C::relieve(context.env());
        context.local.adopt();
        if !more && !context.local.awaits_memory() {
            return false;
        }
        let epochs = &context.engine.epochs;
        let moment = epochs.moment();
        context.leave();
        for round in 0..RELIEF_ROUNDS_MAX {
            context.local.refresh(None);
            let is_past = epochs.is_past(moment) && context.local.pending() == 0;
            if is_past && round >= 1 << self.reliefs.get() {
                break;
            }
            let_others_leave(round);
        }
        context.enter();
        true
    }

    /// Returns true if the transaction, which has waited for memory `reliefs` times, may do so once more. Notes it if a
    /// transaction has waited as often as it may.
    #[cold]
    pub(crate) fn may_wait_for_memory(&self, reliefs: u32) -> bool {
        let context = self.context();
        let now_ns = context.engine.clock.now_ns();
        if now_ns < context.waits_from_ns.get() {
            return false;
        }
        if reliefs >= RELIEFS_MAX {
            context.waits_from_ns.set(now_ns.saturating_add(RELIEF_REST_NS));
        }
        reliefs < RELIEFS_MAX
    }

    /// Dooms the transaction, because the scheme has refused an operation.
    #[cold]
    pub(crate) fn refuse(&self, refused: Refused) -> Fault {
        if refused == Refused::OutOfMemory {
            let context = self.context();
            let more = C::relieve(context.env());
            context.engine.notice_stalls();
            context.local.adopt();
            self.is_relieved.set(more || context.local.awaits_memory());
        }
        self.doom(Fault::refused(refused, self.context().engine.memory.limit_bytes()))
    }

    /// Returns the place by which the transaction's waits are known.
    pub(crate) fn place(&self) -> u32 {
        // SAFETY: not borrowed outside of single calls.
        C::place(unsafe { &*self.scheme.get() })
    }

    /// Notes the transaction that has had a partition for as long as this one may wait. This is needed when this
    /// transaction is run again.
    #[cold]
    fn note_partition(&self) {
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *self.scheme.get() };
        let awaited = C::awaited(self.shared(), txn);
        self.blocker.set(awaited.map(|(row, holder)| Blocker::new(Wanted::partition(row), row, holder)));
    }

    /// Dooms the transaction: it can no longer commit, because one of its operations has failed half-way or has to
    /// abort.
    #[cold]
    pub(crate) fn doom(&self, fault: Fault) -> Fault {
        if C::has_partitions(self.shared()) && fault == Fault::Abort(Abort::WaitTimeout) {
            self.note_partition();
        }
        self.doomed.set(Some(fault));
        if self.waits.get() > 0 {
            C::waits(self.shared()).call(self.place());
        }
        fault
    }
}
