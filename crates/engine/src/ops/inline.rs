//! Operations that are run to their ends where they are begun: by sequential execution, and where no
//! operation slot is free.

use super::bounded_wait::BoundedWait;
use super::point::run_all;
use super::state::TxnState;
use crate::exec::Execution;
//SELF super::point::
use super::indexed_write::IndexedWrite;
use super::point::Point;
use super::scan_batch::ScanBatch;
use crate::cc::ConcurrencyControl;
use crate::kernel::Context;
use crate::profile::Activity;
use crate::suspend::{Never, OnMiss, PrefetchOnly, Suspend, Timed};

/// What is run in place. Its maker sees to what its steps need: polls happen inside the worker's epoch, calls of a
/// `Transaction` inside its context's.
trait Steps {
    /// Goes on; returns true if done. Without suspensions it does not come to its end only while another transaction is about to
    /// commit.
    fn step<S: Suspend>(&mut self, s: &mut S) -> bool;
}

/// A thing to be stepped, and what for.
struct On<'d, C: ConcurrencyControl, O>(&'d mut O, &'d Context<C>, &'d mut C::Txn);
/// A search of the index alone.
struct Probe<'d, C: ConcurrencyControl>(&'d mut Point<C>);

impl<C: ConcurrencyControl> Steps for On<'_, C, Point<C>> {
    #[inline(always)]
    fn step<S: Suspend>(&mut self, s: &mut S) -> bool {
        // SAFETY: see `Steps`; the transaction is open.
        unsafe { self.0.step(self.1, self.2, s) }
    }
}

impl<C: ConcurrencyControl> Steps for On<'_, C, ScanBatch<C>> {
    #[inline(always)]
    fn step<S: Suspend>(&mut self, s: &mut S) -> bool {
        // SAFETY: as above.
        unsafe { self.0.step(self.1, self.2, s) }
    }
}

impl<C: ConcurrencyControl> Steps for On<'_, C, IndexedWrite<C>> {
    #[inline(always)]
    fn step<S: Suspend>(&mut self, s: &mut S) -> bool {
        // SAFETY: as above.
        unsafe { self.0.step(self.1, self.2, s) }
    }
}

impl<C: ConcurrencyControl> Steps for Probe<'_, C> {
    #[inline(always)]
    fn step<S: Suspend>(&mut self, s: &mut S) -> bool {
        // SAFETY: as above.
        unsafe { self.0.probe(s) }
    }
}

/// The sequential mode: the same machine in a loop. Returns false if it has waited as long as an operation may.
#[inline(always)]
fn finish<S: Suspend>(operation: &mut impl Steps, s: &mut S) -> bool {
    if operation.step(s) {
        return true;
    }
    let mut patience = BoundedWait::default();
    while patience.wait() {
        if operation.step(s) {
            return true;
        }
    }
    false
}

impl<C: ConcurrencyControl> TxnState<C> {
    #[inline(always)]
    fn on<'d, O>(&'d self, operation: &'d mut O) -> On<'d, C, O> {
        // SAFETY: not borrowed outside of single calls.
        On(operation, self.context(), unsafe { &mut *self.scheme.get() })
    }

    #[inline(always)]
    fn run(&self, mut operation: impl Steps) -> bool {
        if self.context().profile.is_timing() {
            return self.run_timed(operation);
        }
        match self.execution.get() {
            Execution::Sequential => finish(&mut operation, &mut Never),
            _ => finish(&mut operation, &mut PrefetchOnly),
        }
    }

    #[cold]
    #[inline(never)]
    fn run_timed(&self, mut operation: impl Steps) -> bool {
        let profile = &self.context().profile;
        let is_done = match self.execution.get() {
            Execution::Sequential => finish(&mut operation, &mut Timed::new(&mut Never, profile)),
            _ => finish(&mut operation, &mut Timed::new(&mut PrefetchOnly, profile)),
        };
        self.enter(Activity::Useful); // the closure's again
        is_done
    }

    /// Runs a point operation to its end, here and now. Returns false if it has waited as long as an operation may.
    #[inline(always)]
    #[must_use]
    pub(crate) fn run_point(&self, point: &mut Point<C>) -> bool {
        self.run(self.on(point))
    }

    /// Runs an index search to its end, here and now.
    pub(crate) fn probe_now(&self, point: &mut Point<C>) {
        let is_done = self.run(Probe(point));
        debug_assert!(is_done, "an index waits for nobody");
    }

    /// Runs a scan's run to its end, here and now. Returns false if it has waited as long as an operation may.
    #[must_use]
    pub(crate) fn run_run(&self, run: *mut ScanBatch<C>) -> bool {
        // SAFETY: the run is this scan's alone.
        self.run(self.on(unsafe { &mut *run }))
    }

    /// Runs what a write looks for to its end, here and now. Returns false if it has waited as long as an operation may.
    #[must_use]
    pub(crate) fn run_upkeep(&self, upkeep: &mut IndexedWrite<C>) -> bool {
        self.run(self.on(upkeep))
    }

    /// Runs several point operations to their ends, their misses overlapped. Returns false if one of them has waited as long as an operation may.
    #[must_use]
    pub(crate) fn run_points(&self, points: &mut [Option<Point<C>>]) -> bool {
        let profile = &self.context().profile;
        let is_done = match profile.is_timing() {
            false => self.run_points_as(points, &mut OnMiss),
            true => self.run_points_as(points, &mut Timed::new(&mut OnMiss, profile)),
        };
        self.enter(Activity::Useful);
        is_done
    }

    fn run_points_as<S: Suspend>(&self, points: &mut [Option<Point<C>>], s: &mut S) -> bool {
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *self.scheme.get() };
        let mut patience = BoundedWait::default();
        // SAFETY: see `Steps`.
        unsafe { run_all(points, self.context(), txn, s, || patience.wait()) }
    }

    /// Steps a point operation that is in no place.
    #[inline(always)]
    pub(crate) fn step_point<S: Suspend>(&self, point: &mut Point<C>, s: &mut S) -> bool {
        match self.context().profile.is_timing() {
            false => self.on(point).step(s),
            true => self.step_point_timed(point, s),
        }
    }

    #[cold]
    #[inline(never)]
    fn step_point_timed<S: Suspend>(&self, point: &mut Point<C>, s: &mut S) -> bool {
        let is_done = self.on(point).step(&mut Timed::new(s, &self.context().profile));
        self.enter(Activity::Useful);
        is_done
    }
}
