//! Operations that run where they are begun: in sequential execution, and when no operation slot is free.
//!
//! If such an operation has to wait for another transaction, it waits here only in an interactive transaction. On a
//! worker it is left, and its caller posts it ([`TxnState::post_waiting`]).

use super::bounded_wait::BoundedWait;
use super::change::open_holder;
use super::indexed_write::IndexedWrite;
use super::point::{Point, run_all};
use super::scan_batch::ScanBatch;
use super::state::TxnState;
use crate::cc::{Admission, ConcurrencyControl, Holder};
use crate::exec::Execution;
use crate::kernel::Context;
use crate::profile::Activity;
use crate::record::Record;
use crate::suspend::{Never, OnMiss, PrefetchOnly, Suspend, Timed};

/// Work that can be done under any policy.
pub(crate) trait UnderPolicy {
    type Output;

    fn call<S: Suspend>(self, s: &mut S) -> Self::Output;
}

/// A machine that is run in place. The caller provides what its steps need: polls happen inside the worker's epoch,
/// calls of a `Transaction` inside its context's epoch.
trait Steps {
    /// Goes on. Returns true if done. Without suspensions, it returns false only while another transaction is in the
    /// way.
    fn step<S: Suspend>(&mut self, s: &mut S) -> bool;

    /// Returns the open transaction that was in the way of the last step and is not committing.
    fn holder(&self) -> Option<Holder>;
}

/// A machine to be stepped, with the context and the transaction that it is stepped for.
struct On<'d, C: ConcurrencyControl, O>(&'d mut O, &'d Context<C>, &'d mut C::Txn);
/// Partitions that the transaction waits for.
pub(crate) struct Admit(pub(crate) u64);
/// A search of the index alone.
struct Probe<'d, C: ConcurrencyControl>(&'d mut Point<C>);

macro_rules! steps {
    ($($what:ty: |$me:ident, $s:ident| $step:expr, $awaited:expr;)*) => {$(
        impl<C: ConcurrencyControl> Steps for $what {
            #[inline(always)]
            fn step<S: Suspend>(&mut self, $s: &mut S) -> bool {
                let $me = self;
                // SAFETY: see `Steps`; the transaction is open.
                #[allow(unused_unsafe, reason = "one of them needs none")]
                unsafe {
                    $step
                }
            }

            #[cold]
            fn holder(&self) -> Option<Holder> {
                let $me = self;
                let record: Option<*const Record> = $awaited;
                // SAFETY: as above; the record was found in this operation.
                record.and_then(|record| unsafe { open_holder::<C>($me.1, $me.2, record) })
            }
        }
    )*};
}

steps! {
    On<'_, C, Point<C>>: |me, s| me.0.step(me.1, me.2, s), Some(me.0.record);
    On<'_, C, ScanBatch<C>>: |me, s| me.0.step(me.1, me.2, s), me.0.awaited_record();
    On<'_, C, IndexedWrite<C>>: |me, s| me.0.step(me.1, me.2, s), me.0.awaited().map(|point| point.record);
    On<'_, C, Admit>: |me, s| C::admit(me.1.env(), me.2, me.0.0, true, s) != Admission::Suspended,
        Some(std::ptr::null());
}

impl<C: ConcurrencyControl> Steps for Probe<'_, C> {
    #[inline(always)]
    fn step<S: Suspend>(&mut self, s: &mut S) -> bool {
        // SAFETY: see `Steps`.
        unsafe { self.0.probe(s) }
    }

    fn holder(&self) -> Option<Holder> {
        None // an index waits for no transaction
    }
}

/// One step.
struct Once<O>(O);
/// The sequential mode: the same machine in a loop. Returns false if the machine has to wait longer than it may in
/// place.
struct ToItsEnd<'d, C: ConcurrencyControl, O>(O, &'d TxnState<C>);
/// Rounds over several machines.
struct All<'d, C: ConcurrencyControl>(&'d mut [Option<Point<C>>], &'d TxnState<C>);

impl<O: Steps> UnderPolicy for Once<O> {
    type Output = bool;

    #[inline(always)]
    fn call<S: Suspend>(mut self, s: &mut S) -> bool {
        self.0.step(s)
    }
}

impl<C: ConcurrencyControl, O: Steps> UnderPolicy for ToItsEnd<'_, C, O> {
    type Output = bool;

    #[inline(always)]
    fn call<S: Suspend>(mut self, s: &mut S) -> bool {
        self.0.step(s) || self.go_on(s)
    }
}

impl<C: ConcurrencyControl, O: Steps> ToItsEnd<'_, C, O> {
    /// Goes on after the first step has met another transaction's commit.
    #[cold]
    #[inline(never)]
    fn go_on<S: Suspend>(mut self, s: &mut S) -> bool {
        let mut wait = BoundedWait::default();
        while self.1.wait_in_place(&mut wait, || self.0.holder()) {
            if self.0.step(s) {
                return true;
            }
        }
        false
    }
}

impl<C: ConcurrencyControl> UnderPolicy for All<'_, C> {
    type Output = Result<(), usize>;

    fn call<S: Suspend>(self, s: &mut S) -> Result<(), usize> {
        let All(points, state) = self;
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *state.scheme.get() };
        let mut wait = BoundedWait::default();
        // SAFETY: see `Steps`.
        unsafe {
            run_all(points, state.context(), txn, s, |waiting, txn| {
                // SAFETY: as above; the record was found in this operation.
                state.wait_in_place(&mut wait, || open_holder::<C>(state.context(), txn, waiting.record))
            })
        }
    }
}

impl<C: ConcurrencyControl> TxnState<C> {
    /// Waits a little for another thread's commit, or for `holder`, a transaction that may be idle. Returns false if
    /// the wait has been long enough; on a worker it returns false at once.
    #[cold]
    fn wait_in_place(&self, wait: &mut BoundedWait, holder: impl FnOnce() -> Option<Holder>) -> bool {
        self.is_interactive.get() && wait.wait(&self.context().engine, holder)
    }

    /// Does `work` under a policy. If the worker notes where time goes, the time of `work` is noted, and `after` comes
    /// next.
    #[inline(always)]
    pub(crate) fn with_policy<S: Suspend, W: UnderPolicy>(
        &self,
        s: &mut S,
        after: Activity,
        work: W,
    ) -> W::Output {
        match self.context().profile.is_timing() {
            false => work.call(s),
            true => self.with_timed_policy(s, after, work),
        }
    }

    #[cold]
    #[inline(never)]
    fn with_timed_policy<S: Suspend, W: UnderPolicy>(
        &self,
        s: &mut S,
        after: Activity,
        work: W,
    ) -> W::Output {
        let output = work.call(&mut Timed::new(s, &self.context().profile));
        self.enter(after);
        output
    }

    #[inline(always)]
    fn on<'d, O>(&'d self, operation: &'d mut O) -> On<'d, C, O> {
        // SAFETY: not borrowed outside of single calls.
        On(operation, self.context(), unsafe { &mut *self.scheme.get() })
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn run(&self, operation: impl Steps) -> bool {
        match self.execution.get() {
            Execution::Sequential => {
                self.with_policy(&mut Never, Activity::Useful, ToItsEnd(operation, self))
            }
            _ => self.with_policy(&mut PrefetchOnly, Activity::Useful, ToItsEnd(operation, self)),
        }
    }

    /// Runs a point operation to its end in place. Returns false if it has to wait longer than it may in place.
    #[inline(always)]
    #[must_use]
    pub(crate) fn run_point(&self, point: &mut Point<C>) -> bool {
        self.run(self.on(point)) || self.waited_at(Some(point))
    }

    /// Runs an index search to its end in place.
    pub(crate) fn probe_now(&self, point: &mut Point<C>) {
        let is_done = self.run(Probe(point));
        debug_assert!(is_done, "an index waits for no transaction");
    }

    /// Runs a scan's run to its end in place. Returns false if it has to wait longer than it may in place.
    #[must_use]
    pub(crate) fn run_run(&self, run: *mut ScanBatch<C>) -> bool {
        // SAFETY: the run belongs to this scan alone.
        let run = unsafe { &mut *run };
        self.run(self.on(run)) || self.waited_in(run)
    }

    /// Notes the transaction that may be in the way at one of the run's rows, after a run in place has waited as long
    /// as it may. Returns false.
    #[cold]
    fn waited_in(&self, run: &ScanBatch<C>) -> bool {
        if let Some((index, key, record)) = run.awaited().filter(|_| self.is_interactive.get()) {
            self.note_blocker(index, &key, record);
        }
        false
    }

    /// Runs what an indexed write looks for to its end in place. Returns false if it has to wait longer than it may in
    /// place.
    #[must_use]
    pub(crate) fn run_upkeep(&self, upkeep: &mut IndexedWrite<C>) -> bool {
        self.run(self.on(upkeep)) || self.waited_at(upkeep.awaited())
    }

    /// Runs several point operations to their ends in place, with their misses overlapped. Returns false if one of them
    /// has to wait longer than it may in place.
    #[must_use]
    pub(crate) fn run_points(&self, points: &mut [Option<Point<C>>]) -> bool {
        match self.with_policy(&mut OnMiss, Activity::Useful, All(points, self)) {
            Ok(()) => true,
            Err(waiting) => self.waited_at(points[waiting].as_ref()),
        }
    }

    /// Waits for partitions in place. Returns false if that takes longer than it may in place.
    #[must_use]
    pub(crate) fn run_admission(&self, admit: &mut Admit) -> bool {
        self.run(self.on(admit))
    }

    /// Steps a point operation that is in no slot.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn step_point<S: Suspend>(&self, point: &mut Point<C>, s: &mut S) -> bool {
        self.with_policy(s, Activity::Useful, Once(self.on(point)))
    }
}
