//! A worker's surroundings, as the executor asks for them.

use super::engine::{Context, Engine, Log};
use super::handle::Txn;
use super::mailbox::{Desk, InPlace};
use crate::cc::ConcurrencyControl;
use crate::epoch::Local;
use crate::exec::{Host, Pulse, Released};
use crate::suspend::Suspend;
use crate::wal::Lsn;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

/// The engine's part of a worker: the context that its transactions share.
pub(crate) struct WorkerHost<C: ConcurrencyControl> {
    context: Box<Context<C>>,
    in_place: InPlace,
    pauses_commits: bool,
}

impl<C: ConcurrencyControl> WorkerHost<C> {
    /// Of a worker with policy `S`.
    pub(crate) fn new<S: Suspend>(engine: &Arc<Engine<C>>) -> Self {
        let in_place = match (S::SUSPENDS, S::PREFETCHES) {
            (true, _) => InPlace::Not,
            (false, true) => InPlace::Prefetching,
            (false, false) => InPlace::Naive,
        };
        WorkerHost { context: engine.context(), in_place, pauses_commits: S::PAUSES }
    }

    pub(crate) fn context(&self) -> &Context<C> {
        &self.context
    }
}

impl<C: ConcurrencyControl> Host for WorkerHost<C> {
    type Mailbox = Txn<C>;

    fn mailbox(&self, _: usize) -> Txn<C> {
        let desk = Desk::new(NonNull::from(&*self.context), self.in_place, self.pauses_commits);
        Txn { desk: desk.expect("fewer transactions than a million are open at once") }
    }

    fn local(&self) -> &Local {
        &self.context.local
    }

    fn enter(&self) {
        self.context.enter();
    }

    fn leave(&self) {
        self.context.leave();
    }

    fn refresh(&self, oldest: Option<u64>) {
        self.context.local.refresh(oldest);
        C::refresh(self.context.env());
    }

    #[inline(always)]
    fn released(&self) -> Released {
        match self.context.engine.log.get() {
            // (In this order: once it has ended, nothing more becomes durable.)
            Some(Log { writer, .. }) => {
                let is_final = writer.has_ended();
                Released { until: writer.durable_lsn().0, is_final }
            }
            None => Released { until: u64::MAX, is_final: false },
        }
    }

    fn wake_when_released(&self, until: u64, waker: &Waker) -> bool {
        let log = self.context.engine.log.get().expect("without a log nothing is held");
        log.writer.poll_durable(Lsn(until), waker).is_pending()
    }

    fn wait_released(&self, until: u64) {
        if let Some(log) = self.context.engine.log.get() {
            // What is not durable then is answered so.
            let _ = log.wait(Lsn(until));
        }
    }

    fn tend(&self, pulse: &mut Pulse) -> bool {
        let metrics = &self.context.metrics;
        metrics.suspensions.set(pulse.counters.suspensions);
        metrics.polls.set(pulse.counters.polls);
        metrics.rounds.set(pulse.counters.rounds);
        metrics.visits.set(pulse.counters.visits);
        metrics.parkings.set(pulse.counters.parkings);
        C::tend(self.context.env())
    }
}
