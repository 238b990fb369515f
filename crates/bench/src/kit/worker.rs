//! What one worker does in one slice: a stream of transactions, counted and timed by kind.

use super::args::HintsKind;
use super::plan::{Form, Variant};
use super::{Conflicts, Kit};
use crate::args::RefillKind;
use crate::engine::{self, Database, Never, OnMiss, PrefetchOnly, Result, Scheme, Txn};
use braiddb::Error;
use braiddb::suspend::Suspend;
use braiddb::worker::Hint;
use hdrhistogram::Histogram;
use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

/// One transaction in this many has its latency measured; the clock is read for no other, except at the end.
pub(crate) const LATENCY_SAMPLE_EVERY: u32 = 8;

/// A worker's work.
pub(crate) struct Job<'a, C: Scheme, K: Kit> {
    pub(crate) db: &'a Database<C>,
    pub(crate) kit: &'a K,
    pub(crate) variant: &'a Variant,
    /// The worker's number.
    pub(crate) worker: usize,
    pub(crate) length: Length,
    pub(crate) seed: u64,
}

/// How long a worker works.
#[derive(Clone, Copy)]
pub(crate) enum Length {
    /// What comes before the slice is not counted.
    Time { warm_up: Duration, slice: Duration },
    /// So many transactions.
    Transactions(u64),
}

/// How often a transaction is run again. Where few rows are fought for, conflicts are the rule; and where another
/// program has the core of the worker that is in the way, thousands of attempts pass before it is back.
const RETRIES_MAX: u32 = 1_000_000;

/// What came of it.
pub(crate) struct Measured {
    /// In the order of the kit's kinds.
    pub(crate) kinds: Vec<Counts>,
    pub(crate) elapsed: Duration,
    /// Transactions that conflicts have kept from committing in a million attempts.
    pub(crate) given_up: u64,
    pub(crate) error: Option<Error>,
    effects: i64,
}

/// What became of the transactions of one kind.
#[derive(Clone)]
pub(crate) struct Counts {
    pub(crate) committed: u64,
    /// Ended by their closures on purpose.
    pub(crate) rolled_back: u64,
    /// How often closures ran: those that did neither had a conflict.
    pub(crate) attempts: u64,
    /// Nanoseconds from a transaction's start in its slot to its end, retries included; with hints, its wait for its
    /// turn before that as well.
    pub(crate) latency_ns: Histogram<u64>,
}

impl Counts {
    pub(crate) fn new() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid");
        Counts { committed: 0, rolled_back: 0, attempts: 0, latency_ns }
    }

    /// Transactions that ended as they were meant to.
    pub(crate) fn done(&self) -> u64 {
        self.committed + self.rolled_back
    }

    /// Attempts that a conflict ended.
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

/// Runs the job in its mode.
pub(crate) fn execute<C: Scheme, K: Kit>(job: &Job<'_, C, K>) -> Measured {
    match job.variant.form {
        Form::Naive => drive(job, Never, false),
        Form::Prefetch => drive(job, PrefetchOnly, false),
        Form::Interleaved => drive(job, OnMiss, false),
        Form::Hybrid => drive(job, OnMiss, true),
        Form::Auto => drive(job, OnMiss, false),
    }
}

/// A worker over the transactions, first to warm up, then for the slice.
fn drive<C: Scheme, K: Kit, S: Suspend>(job: &Job<'_, C, K>, policy: S, many: bool) -> Measured {
    let (kit, variant) = (job.kit, job.variant);
    let declares = variant.cc.declares;
    let mut worker = engine::worker(job.db, policy, variant.batch_size(), RefillKind::Immediate);
    worker.set_retries_max(RETRIES_MAX);
    let mut source = kit.source(job.worker, variant.workers, job.seed);
    let mut run = |length: Duration, left: u64| {
        let attempts: Vec<Cell<u64>> = kit.kinds().iter().map(|_| Cell::new(0)).collect();
        let mut measured = Measured::new(attempts.len());
        let clock = Instant::now();
        let inputs = Inputs { kit, source: &mut source, clock, length, left, until_next: 0 };
        let body = async |tx: &Txn<C>, ticket: &Ticket<K::Input>| {
            let (input, count) = (&ticket.input, &attempts[ticket.kind]);
            count.set(count.get() + 1);
            if declares && kit.only_reads(input) {
                tx.declare_read_only();
            }
            let result = kit.run(tx, input, many).await;
            let done = Done { kind: ticket.kind, started_ns: ticket.started_ns, effect: kit.effect(input) };
            match result {
                Ok(()) => Ok(done),
                Err(Error::User(_)) if kit.rolls_back(input) => Err(Error::user(RolledBack(done))),
                Err(error) => Err(error),
            }
        };
        if variant.hints == HintsKind::On {
            let hint = |ticket: &Ticket<K::Input>| hint(kit.conflicts(&ticket.input));
            worker.run_each_hinted(inputs, hint, body, |result| measured.ended(clock, result));
        } else {
            worker.run_each(inputs, body, |result| measured.ended(clock, result));
        }
        measured.elapsed = clock.elapsed();
        for (kind, attempts) in measured.kinds.iter_mut().zip(&attempts) {
            kind.attempts = attempts.get();
        }
        kit.settle(measured.kinds.iter().map(|kind| kind.committed).sum(), measured.effects);
        measured
    };
    let (warm_up, slice) = match job.length {
        Length::Time { warm_up, slice } => (warm_up, slice),
        Length::Transactions(transactions) => return run(Duration::MAX, transactions),
    };
    let warmed = run(warm_up, u64::MAX);
    if warmed.error.is_some() { warmed } else { run(slice, u64::MAX) }
}

#[inline(always)]
fn hint((keys, count): Conflicts) -> Hint {
    keys[..count].iter().fold(Hint::default(), |hint, &key| hint.touches(key))
}

/// An input with what is to be known of it when the transaction ends.
struct Ticket<I> {
    input: I,
    kind: usize,
    /// Nanoseconds from the start of the slice; 0: this transaction's latency is not measured.
    started_ns: u64,
}

/// A transaction that has ended.
#[derive(Debug)]
struct Done {
    kind: usize,
    started_ns: u64,
    effect: i64,
}

/// The error of a transaction that was to roll back: the only way out for what is known of it.
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
            Ok(done) => {
                self.effects += done.effect;
                self.kinds[done.kind].committed += 1;
                self.timed(clock, &done);
            }
            Err(error) => self.failed(clock, error),
        }
    }

    #[cold]
    fn failed(&mut self, clock: Instant, error: Error) {
        match error {
            Error::Conflict | Error::Deadlock(_) => self.given_up += 1,
            Error::User(why) => match why.downcast::<RolledBack>() {
                Ok(rolled_back) => {
                    self.kinds[rolled_back.0.kind].rolled_back += 1;
                    self.timed(clock, &rolled_back.0);
                }
                Err(why) => self.error = Some(Error::User(why)),
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

/// Inputs until the slice is over or none are left, made as places become free. The clock is read once in a few transactions,
/// for both the end and the latency.
struct Inputs<'a, K: Kit> {
    kit: &'a K,
    source: &'a mut K::Source,
    clock: Instant,
    length: Duration,
    left: u64,
    until_next: u32,
}

impl<K: Kit> Iterator for Inputs<'_, K> {
    type Item = Ticket<K::Input>;

    #[inline(always)]
    fn next(&mut self) -> Option<Ticket<K::Input>> {
        let mut started_ns = 0;
        self.left = self.left.checked_sub(1)?;
        if self.until_next > 0 {
            self.until_next -= 1;
        } else {
            let now = self.clock.elapsed();
            if now >= self.length {
                return None;
            }
            self.until_next = LATENCY_SAMPLE_EVERY - 1;
            started_ns = now.as_nanos() as u64 | 1;
        }
        let input = self.kit.next(self.source);
        Some(Ticket { kind: self.kit.kind(&input), input, started_ns })
    }
}
