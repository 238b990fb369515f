//! How an attempt ends, and what is counted of it.

use super::state::TxnState;
use crate::cc::{Abort, ConcurrencyControl};
use crate::error::Error;
use crate::exec::Execution;
use crate::options::Durability;
use crate::profile::Activity;
use crate::table::Fault;
use crate::wal::Lsn;

/// How many operations the beginning and the end of a transaction count for.
const WORK_OF_ENDS: u64 = 2;

// ---- life of one attempt
impl<C: ConcurrencyControl> TxnState<C> {
    /// Undoes the attempt, and cancels what the operation slots hold, whose futures may have been leaked.
    pub(crate) fn abort(&self) {
        self.enter(Activity::Control);
        // SAFETY: the attempt's futures are gone, or leaked and never polled again.
        C::abort(self.context().env(), unsafe { &mut *self.scheme.get() });
        self.clear();
        self.reclaim_leaked();
        if self.context().profile.is_on() {
            self.context().profile.undo(self.slot);
        }
    }

    /// Takes back the boxes that leaked operations have taken. No operation is left.
    #[inline(always)]
    pub(crate) fn reclaim_leaked(&self) {
        self.runs.reclaim();
        self.upkeeps.reclaim();
    }

    /// Ends an attempt that has committed.
    #[inline(always)]
    pub(crate) fn after_commit(&self) {
        if self.durability.get() == Durability::Sync {
            // SAFETY: not borrowed outside of single calls.
            let state = unsafe { &*self.scheme.get() };
            let engine = &self.context().engine;
            self.held_until.set(engine.hold_committed(self.end_lsn.get(), state));
        }
        self.clear();
        if self.context().profile.is_on() {
            self.context().profile.keep(self.slot);
        }
    }

    /// Ends an attempt whose closure has failed. Its error may rest on what the closure has seen, so it is held back
    /// like the output of a commit.
    #[cold]
    pub(crate) fn after_failure(&self, error: &Error) {
        let tells = matches!(
            error,
            Error::KeyExists | Error::UniqueViolation { .. } | Error::User(_) | Error::Malformed { .. }
        );
        if tells && self.durability.get() == Durability::Sync {
            self.held_until.set(self.context().engine.hold(Lsn(0)));
        }
    }

    /// Returns the error of a commit that failed.
    #[cold]
    pub(crate) fn commit_error(&self, fault: Fault) -> Error {
        match fault {
            Fault::Abort(Abort::Unlogged(why)) => self.context().engine.unlogged(why),
            Fault::Abort(Abort::OutOfMemory) => self.context().engine.out_of_memory(),
            Fault::Update => self.at_commits.borrow_mut().error.take().expect("kept before"),
            fault => fault.into(),
        }
    }
}

// ---- what is counted
impl<C: ConcurrencyControl> TxnState<C> {
    /// Returns the time at which the transaction begins, if it is to be measured.
    #[inline(always)]
    pub(crate) fn sample_start(&self) -> Option<u64> {
        let context = self.context();
        context.metrics.samples_now().then(|| context.engine.clock.now_ns())
    }

    #[inline(always)]
    pub(crate) fn count_commit(&self, sample: Option<u64>) {
        let context = self.context();
        context.metrics.commits.add(1);
        self.count_work();
        if let Some(start_ns) = sample {
            context.metrics.record_latency(context.engine.clock.now_ns().saturating_sub(start_ns));
        }
    }

    #[cold]
    pub(crate) fn count_conflict(&self, is_retried: bool) {
        let metrics = &self.context().metrics;
        metrics.aborts_conflict.add(1);
        metrics.retries.add(u64::from(is_retried));
        self.operations.set(0); // they are undone
    }

    #[cold]
    pub(crate) fn count_failure(&self, error: &Error) {
        let metrics = &self.context().metrics;
        match error {
            Error::Conflict | Error::Deadlock(_) => self.count_conflict(false),
            Error::OutOfMemory { .. } => {
                metrics.aborts_out_of_memory.add(1);
                self.context().engine.tell_out_of_memory();
            }
            _ => {
                metrics.aborts_user.add(1);
                self.count_work(); // the transaction ended as it wanted
            }
        }
    }

    /// Counts a failure of a transaction that is not run again, and emits it if other transactions were the cause.
    #[cold]
    pub(crate) fn count_given_up(&self, error: &Error, retries: u32) {
        self.tell_given_up(error, retries);
        self.count_failure(error);
    }

    /// Counts and emits that the transaction, which is not run again, has failed because of other transactions, if it
    /// has.
    #[cold]
    pub(crate) fn tell_given_up(&self, error: &Error, retries: u32) {
        let context = self.context();
        context.engine.tell_given_up(&context.metrics, error, retries);
    }

    /// Counts what the transaction has done as work.
    #[inline(always)]
    fn count_work(&self) {
        let work = &self.context().work;
        work.set(work.get() + WORK_OF_ENDS + u64::from(self.operations.get()));
    }

    pub(crate) fn is_inline(&self) -> bool {
        self.execution.get() != Execution::Interleaved
    }
}
