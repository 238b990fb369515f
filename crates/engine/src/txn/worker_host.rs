//! A worker's environment, as the executor asks for it.

use crate::cc::ConcurrencyControl;
use crate::epoch::Local;
use crate::events::{IS_ON, event, text};
use crate::exec::{
    self, Counters, Execution, Host, Known, Level, OutputGate, Reading, Released, SharedLevel, Tuning,
};
use crate::kernel::{Context, Engine, Log};
use crate::memory::Kind;
use crate::ops::{TxnState, WorkerHere};
use crate::profile::Profile;
use crate::suspend::Suspend;
use crate::sync::Fixed;
use crate::sync::atomic::Ordering::Relaxed;
use crate::wal::{self, Lsn};
use std::cell::Cell;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// The engine's part of a worker: the context that its transactions share.
pub(crate) struct WorkerHost<C: ConcurrencyControl> {
    /// The slots hold the context's address, so it must not move when this value does.
    context: Fixed<Context<C>>,
    execution: Execution,
    pauses: bool,
    /// The counts that were already added to the metrics. The metrics may have belonged to another worker before.
    told: Cell<Counters>,
    _here: WorkerHere,
}

impl<C: ConcurrencyControl> WorkerHost<C> {
    /// Makes the host of a worker with policy `S`.
    pub(crate) fn new<S: Suspend>(engine: &Arc<Engine<C>>) -> Self {
        let execution = match (S::SUSPENDS, S::PREFETCHES) {
            (true, _) => Execution::Interleaved,
            (false, true) => Execution::Prefetching,
            (false, false) => Execution::Sequential,
        };
        let context = engine.context();
        context.execution.set(execution);
        context.may_interleave.set(S::SUSPENDS);
        WorkerHost {
            context,
            execution,
            pauses: S::PAUSES,
            told: Cell::default(),
            _here: WorkerHere::begin(),
        }
    }

    pub(crate) fn context(&self) -> &Context<C> {
        &self.context
    }
}

impl<C: ConcurrencyControl> Host for WorkerHost<C> {
    type Operations = TxnState<C>;

    fn operations(&self, slot: usize) -> TxnState<C> {
        let context = Fixed::as_non_null(&self.context);
        TxnState::new(context, slot, self.execution, self.pauses)
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

    fn paused(&self) {
        C::leave(self.context.env());
    }

    fn resumed(&self) {
        C::enter(self.context.env());
    }

    fn refresh(&self, oldest: Option<u64>) {
        self.context.local.refresh(oldest);
        C::refresh(self.context.env());
    }

    fn profile(&self) -> Option<&Profile> {
        Some(&self.context.profile)
    }

    fn expire(&self) -> Option<Duration> {
        let engine = &self.context.engine;
        let waits = C::waits(&engine.shared);
        let first_ns = waits.first_deadline_ns()?;
        let now_ns = engine.clock.now_ns();
        if first_ns <= now_ns {
            waits.expire(now_ns);
        }
        let left_ns = waits.first_deadline_ns()?.saturating_sub(now_ns);
        Some(Duration::from_nanos(left_ns))
    }

    fn waiting(&self) -> usize {
        C::waits(&self.context.engine.shared).waiting()
    }

    fn is_maintained(&self) -> bool {
        let context = &self.context;
        C::garbage(&context.engine.shared, &context.worker) + context.local.pending() == 0
    }

    fn charge(&self, bytes: usize) -> bool {
        self.context.engine.memory.charge_transaction(bytes as u64, false).is_ok()
    }

    fn uncharge(&self, bytes: usize) {
        self.context.engine.memory.release(Kind::Transactions, bytes as u64);
    }

    fn maintain(&self, counters: &Counters) -> bool {
        let metrics = &self.context.metrics;
        let told = self.told.replace(*counters);
        metrics.suspensions.add(counters.suspensions - told.suspensions);
        metrics.teams.add(counters.teams - told.teams);
        metrics.polls.add(counters.polls - told.polls);
        metrics.rounds.add(counters.rounds - told.rounds);
        metrics.visits.add(counters.visits - told.visits);
        metrics.parkings.add(counters.parkings - told.parkings);
        if self.context.local.has_much_retired() {
            self.context.engine.notice_stalls();
        }
        C::maintain(self.context.env())
    }
}

impl<C: ConcurrencyControl> Tuning for WorkerHost<C> {
    fn set_level(&self, level: Level) {
        self.context.execution.set(match level.style {
            Execution::Interleaved => Execution::Interleaved,
            Execution::Prefetching => Execution::Prefetching,
            Execution::Sequential => Execution::Sequential,
        });
        self.context.turns.borrow_mut().set_places(level.batch);
    }

    fn reading(&self) -> Reading {
        Reading {
            ns: self.context.engine.clock.now_ns(),
            work: self.context.work.get(),
            conflicts: self.context.metrics.aborts_conflict.get(),
        }
    }

    fn longs(&self) -> usize {
        self.context.longs.get()
    }

    fn shared_level(&self) -> Option<Arc<SharedLevel>> {
        Some(self.context.engine.shared_level.clone())
    }

    fn known(&self) -> Option<Known> {
        Known::from_bits(self.context.engine.known.load(Relaxed))
    }

    fn learn(&self, known: Known) {
        let before = || self.known().map(|before| before.level);
        if IS_ON && before() != Some(known.level) {
            event!(
                DEBUG,
                WORKER,
                "a worker has found another level to be the best",
                database = self.context.engine.id,
                from = before().map(text),
                to = text(known.level)
            );
        }
        self.context.engine.known.store(known.to_bits(), Relaxed); // a hint for later workers
    }
}

impl<C: ConcurrencyControl> OutputGate for WorkerHost<C> {
    #[inline(always)]
    fn released(&self) -> Released {
        match self.context.engine.log.get() {
            // The order matters: once the log has ended, nothing more becomes durable.
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

    #[inline(always)]
    fn stall(&self) -> Option<exec::Stall> {
        self.context.engine.log.get()?.writer.stall().map(|stall| match stall {
            wal::Stall::NoRoom => exec::Stall::NoRoom,
            wal::Stall::Slow => exec::Stall::Slow,
        })
    }

    fn wait_released(&self, until: u64) {
        if let Some(log) = self.context.engine.log.get() {
            // Outputs that are still not durable afterwards are answered as such.
            let _ = log.wait(Lsn(until));
        }
    }
}
