//! The work of one worker in one slice: a stream of transactions, counted and timed by kind.

use super::args::HintsKind;
use super::plan::Variant;
use super::{Conflicts, Suite, Transactions};
use crate::args::Mode;
use crate::engine::{self, Database, Never, OnMiss, PrefetchOnly, Result, Scheme, Teams, Txn, Worker};
use braiddb::Error;
use braiddb::suspend::Suspend;
use braiddb::worker::Hint;
use hdrhistogram::Histogram;
use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

/// The job of a worker.
pub(crate) struct Job<'a, C: Scheme, W: Suite> {
    pub(crate) db: &'a Database<C>,
    pub(crate) suite: &'a W,
    pub(crate) variant: &'a Variant,
    /// The worker's number.
    pub(crate) worker: usize,
    pub(crate) length: Length,
    pub(crate) seed: u64,
}

/// How long a worker works.
#[derive(Clone, Copy)]
pub(crate) struct Length {
    /// Runs before the slice and is not counted. It may be zero.
    pub(crate) warm_up: Duration,
    pub(crate) slice: Duration,
    /// The slice ends after this many transactions, unless its time is over earlier.
    pub(crate) transactions_max: u64,
}

/// The most retries of a transaction. If many transactions want few rows, most attempts fail. If another program has
/// the core of the worker that holds the row, thousands of attempts pass before that worker runs again.
pub(crate) const RETRIES_MAX: u32 = 1_000_000;

/// The result of a job.
pub(crate) struct Measured {
    /// Counts, in the order of the suite's kinds.
    pub(crate) kinds: Vec<Counts>,
    pub(crate) elapsed: Duration,
    /// Transactions that did not commit within a million attempts because of conflicts.
    pub(crate) given_up: u64,
    pub(crate) error: Option<Error>,
    effects: i64,
}

/// Counts of the transactions of one kind.
#[derive(Clone)]
pub(crate) struct Counts {
    pub(crate) committed: u64,
    /// Transactions that their closures ended on purpose.
    pub(crate) rolled_back: u64,
    /// How often closures ran. A run that neither committed nor rolled back had a conflict.
    pub(crate) attempts: u64,
    /// Nanoseconds from a transaction's start in its slot to its end, retries included. With hints, the wait for its
    /// turn is included.
    pub(crate) latency_ns: Histogram<u64>,
}

impl Counts {
    pub(crate) fn new() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid");
        Counts { committed: 0, rolled_back: 0, attempts: 0, latency_ns }
    }

    /// Returns the number of transactions that ended as intended.
    pub(crate) fn done(&self) -> u64 {
        self.committed + self.rolled_back
    }

    /// Returns the number of attempts that ended with a conflict.
    pub(crate) fn aborts(&self) -> u64 {
        self.attempts.saturating_sub(self.done())
    }

    pub(crate) fn add(&mut self, other: &Counts) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.attempts += other.attempts;
        self.latency_ns.add(&other.latency_ns).expect("histograms have the same bounds");
    }
}

/// Runs the job in its mode. Returns `None` if the mode does not support these transactions.
pub(crate) fn execute<C: Scheme, W: Transactions>(job: &Job<'_, C, W>) -> Option<Measured> {
    match job.variant.mode {
        Mode::Naive => Some(alone(job, Never)),
        Mode::Prefetch if C::HAS_PAPERS_MODES => Some(alone(job, PrefetchOnly)),
        Mode::Interleaved | Mode::Auto => Some(together(job, OnMiss, false)),
        Mode::Hybrid => Some(together(job, OnMiss, true)),
        Mode::Teams if C::HAS_PAPERS_MODES => Some(together(job, Teams, false)),
        _ => None,
    }
}

/// Runs one transaction after the other.
fn alone<C: Scheme, W: Transactions, S: Suspend>(job: &Job<'_, C, W>, policy: S) -> Measured {
    let attempts = attempts(job.suite.kinds().len());
    drive(job, policy, &attempts, body(job, &attempts, false))
}

/// Runs several transactions at once.
fn together<C: Scheme, W: Transactions, S: Suspend>(job: &Job<'_, C, W>, policy: S, many: bool) -> Measured {
    let attempts = attempts(job.suite.kinds().len());
    let body = body(job, &attempts, many);
    if job.variant.hints == HintsKind::Off {
        return drive(job, policy, &attempts, body);
    }
    let mut worker = worker(job, policy);
    let hint = |ticket: &Ticket<W::Input>| hint(job.suite.conflicts(&ticket.input));
    slices(job, &attempts, |inputs, clock, measured| {
        worker.run_each_hinted(inputs, hint, &body, |result| measured.ended(clock, result));
    })
}

/// Returns the closure of a transaction of any kind. It returns what is counted when the transaction has ended.
fn body<C: Scheme, W: Transactions>(
    job: &Job<'_, C, W>,
    attempts: &[Cell<u64>],
    many: bool,
) -> impl AsyncFn(&Txn<C>, &Ticket<W::Input>) -> Result<Done> {
    let (suite, declares) = (job.suite, job.variant.cc.declares);
    async move |tx: &Txn<C>, ticket: &Ticket<W::Input>| {
        let (input, count) = (&ticket.input, &attempts[ticket.kind]);
        count.set(count.get() + 1);
        if declares && suite.only_reads(input) {
            tx.declare_read_only();
        }
        let result = suite.run(tx, input, many).await;
        let done = Done { kind: ticket.kind, started_ns: ticket.started_ns, effect: suite.effect(input) };
        match result {
            Ok(()) => Ok(done),
            Err(Error::User(_)) if suite.rolls_back(input) => Err(Error::user(RolledBack(done))),
            Err(error) => Err(error),
        }
    }
}

/// Returns counters of attempts, by kind.
pub(crate) fn attempts(kinds: usize) -> Vec<Cell<u64>> {
    vec![Cell::new(0); kinds]
}

fn worker<C: Scheme, W: Suite, S: Suspend>(job: &Job<'_, C, W>, policy: S) -> Worker<C, S> {
    let mut worker = engine::worker(job.db, policy, job.variant.batch_size(), job.variant.refill);
    worker.set_retries_max(RETRIES_MAX);
    worker
}

/// Runs a worker, first to warm up, then for the slice.
pub(crate) fn drive<C: Scheme, W: Suite, S: Suspend>(
    job: &Job<'_, C, W>,
    policy: S,
    attempts: &[Cell<u64>],
    body: impl AsyncFn(&Txn<C>, &Ticket<W::Input>) -> Result<Done>,
) -> Measured {
    let mut worker = worker(job, policy);
    slices(job, attempts, |inputs, clock, measured| {
        worker.run_each(inputs, &body, |result| measured.ended(clock, result));
    })
}

/// Calls `run` with the inputs of the warm-up, then with those of the slice, and returns the result of the slice.
pub(crate) fn slices<C: Scheme, W: Suite>(
    job: &Job<'_, C, W>,
    attempts: &[Cell<u64>],
    mut run: impl FnMut(Inputs<'_, W>, Instant, &mut Measured),
) -> Measured {
    let (suite, length) = (job.suite, job.length);
    let mut source = suite.source(job.worker, job.variant.workers, job.seed);
    let mut slice = |length: Duration, left: u64| {
        let (mut measured, clock) = (Measured::new(suite.kinds().len()), Instant::now());
        let stride = suite.sample_every();
        run(
            Inputs { suite, source: &mut source, clock, length, left, stride, until_next: 0 },
            clock,
            &mut measured,
        );
        measured.elapsed = clock.elapsed();
        for (kind, attempts) in measured.kinds.iter_mut().zip(attempts) {
            kind.attempts = attempts.take();
        }
        suite.settle(measured.kinds.iter().map(|kind| kind.committed).sum(), measured.effects);
        measured
    };
    if !length.warm_up.is_zero() {
        let warmed = slice(length.warm_up, u64::MAX);
        if warmed.error.is_some() {
            return warmed;
        }
    }
    slice(length.slice, length.transactions_max)
}

#[inline(always)]
fn hint((keys, count): Conflicts) -> Hint {
    keys[..count].iter().fold(Hint::default(), |hint, &key| hint.touches(key))
}

/// An input, with the data needed when the transaction has ended.
pub(crate) struct Ticket<I> {
    pub(crate) input: I,
    pub(crate) kind: usize,
    /// Nanoseconds from the start of the slice; 0 if this transaction's latency is not measured.
    pub(crate) started_ns: u64,
}

/// A transaction that has ended.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) kind: usize,
    pub(crate) started_ns: u64,
    pub(crate) effect: i64,
}

/// The error of a transaction that was meant to roll back. An error is the only way to return what is known of it.
#[derive(Debug)]
struct RolledBack(Done);

impl fmt::Display for RolledBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rolled back on purpose")
    }
}

impl std::error::Error for RolledBack {}

impl Measured {
    fn new(kinds: usize) -> Self {
        let kinds = (0..kinds).map(|_| Counts::new()).collect();
        Measured { kinds, elapsed: Duration::ZERO, given_up: 0, error: None, effects: 0 }
    }

    #[inline(always)]
    fn ended(&mut self, clock: Instant, result: Result<Done>) {
        match result {
            Ok(done) => self.committed(clock, &done),
            Err(error) => self.failed(clock, error),
        }
    }

    /// Counts a committed transaction.
    #[inline(always)]
    pub(crate) fn committed(&mut self, clock: Instant, done: &Done) {
        self.effects += done.effect;
        self.kinds[done.kind].committed += 1;
        self.timed(clock, done);
    }

    #[cold]
    fn failed(&mut self, clock: Instant, error: Error) {
        match error {
            Error::Conflict | Error::Deadlock(_) => self.given_up += 1,
            Error::User(why) => match why.downcast_ref::<RolledBack>() {
                Some(RolledBack(done)) => {
                    self.kinds[done.kind].rolled_back += 1;
                    self.timed(clock, done);
                }
                None => self.error = Some(Error::User(why)),
            },
            error => self.error = Some(error),
        }
    }

    #[inline(always)]
    fn timed(&mut self, clock: Instant, done: &Done) {
        if done.started_ns != 0 {
            let ns = clock.elapsed().as_nanos() as u64 - done.started_ns;
            self.kinds[done.kind].latency_ns.saturating_record(ns);
        }
    }
}

/// Inputs, made as slots become free, until the slice is over or none are left. The clock is read once in a few
/// transactions, for both the end of the slice and the latency.
pub(crate) struct Inputs<'a, W: Suite> {
    suite: &'a W,
    source: &'a mut W::Source,
    clock: Instant,
    length: Duration,
    left: u64,
    /// The clock is read once in this many inputs.
    stride: u32,
    until_next: u32,
}

impl<W: Suite> Iterator for Inputs<'_, W> {
    type Item = Ticket<W::Input>;

    #[inline(always)]
    fn next(&mut self) -> Option<Ticket<W::Input>> {
        let mut started_ns = 0;
        self.left = self.left.checked_sub(1)?;
        if self.until_next > 0 {
            self.until_next -= 1;
        } else {
            let now = self.clock.elapsed();
            if now >= self.length {
                return None;
            }
            self.until_next = self.stride - 1;
            started_ns = now.as_nanos() as u64 | 1;
        }
        let input = self.suite.next(self.source);
        Some(Ticket { kind: self.suite.kind(&input), input, started_ns })
    }
}
