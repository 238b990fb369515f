//! The transactions of the workloads, once each, and the loop that runs a worker over them for a slice of
//! time.
//!
//! A transaction draws its requests itself, from the seed in its input: a retry does the same again, and
//! nothing is allocated or copied per transaction. What differs between modes is the policy and, for reads,
//! the form of `get`.

use crate::args::{Mode, RefillKind};
use crate::distribution::{Rng, Source};
use crate::engine::{self, Access, Database, Never, OnMiss, PrefetchOnly, Result, Scheme, Txn, first};
use crate::payload::Payload;
use crate::workload::{Mix, Operation, Shape};
use braiddb::suspend::Suspend;
use braiddb::worker::BatchSize;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What one worker does in one slice.
pub(crate) struct Job<'a, C: Scheme> {
    pub(crate) db: &'a Database<C>,
    /// Transactions that only read say so.
    pub(crate) declares: bool,
    pub(crate) shape: Shape,
    pub(crate) mode: Mode,
    pub(crate) batch: usize,
    pub(crate) refill: RefillKind,
    pub(crate) source: &'a Source,
    pub(crate) payload: &'a Payload,
    /// The number of the next record to insert; numbers below it are taken.
    pub(crate) next_number: &'a AtomicU64,
    /// How far behind `next_number` records are surely committed.
    pub(crate) slack: u64,
    pub(crate) slice: Duration,
    pub(crate) warm_up: Duration,
    /// The slice ends after so many transactions, if it has not by then.
    pub(crate) transactions_max: u64,
    pub(crate) seed: u64,
}

/// What came of it.
pub(crate) struct Measured {
    pub(crate) transactions: u64,
    pub(crate) missing: u64,
    pub(crate) elapsed: Duration,
    /// Nanoseconds from a transaction's start in its slot to its end, retries included.
    pub(crate) latency_ns: Histogram<u64>,
    pub(crate) error: Option<braiddb::Error>,
}

impl Measured {
    pub(crate) fn new() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid");
        Measured { transactions: 0, missing: 0, elapsed: Duration::ZERO, latency_ns, error: None }
    }
}

/// One transaction's input.
pub(crate) struct Input {
    pub(crate) seed: u64,
    /// Nanoseconds from the start of the slice; 0: this transaction's latency is not measured.
    pub(crate) started_ns: u64,
}

/// One transaction's result.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) started_ns: u64,
    pub(crate) missing: u64,
    pub(crate) sum: u64,
}

impl Outcome {
    #[inline(always)]
    fn of(input: &Input) -> Self {
        Outcome { started_ns: input.started_ns, missing: 0, sum: 0 }
    }
    #[inline(always)]
    fn saw(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.sum = self.sum.wrapping_add(first(value)),
            None => self.missing += 1,
        }
    }
}

/// Reads a record by `$get` and writes what depends on it. Not a function: a coroutine of its own would cost.
macro_rules! modify {
    ($job:ident, $table:ident.$get:ident, $tx:ident, $rng:ident, $outcome:ident) => {
        let number = $job.draw(&mut $rng);
        $outcome.saw($table.$get($tx, number).await?);
        $table.put($tx, number, $job.payload.value($outcome.sum.wrapping_add(number))).await?;
    };
}

/// Runs the job in its mode. None: the mode has no form of this workload.
pub(crate) fn execute<C: Scheme, A: Access>(job: &Job<'_, C>, table: A) -> Option<Measured> {
    match job.shape {
        Shape::Point { reads, rmws } => point(job, table, reads, rmws),
        Shape::Update { updates } => plain(job, async |tx: &Txn<C>, input: &Input| {
            let (mut rng, mut outcome) = (Rng::new(input.seed), Outcome::of(input));
            for _ in 0..updates {
                let number = job.draw(&mut rng);
                outcome.missing += u64::from(!table.update(tx, number, job.payload.value(input.seed)).await?);
            }
            Ok(outcome)
        }),
        Shape::Scan { rows } => plain(job, async |tx: &Txn<C>, input: &Input| {
            let mut outcome = Outcome::of(input);
            job.declare(tx, true);
            outcome.sum = table.scan(tx, job.draw(&mut Rng::new(input.seed)), rows).await?;
            Ok(outcome)
        }),
        Shape::Insert { inserts } => plain(job, async |tx: &Txn<C>, input: &Input| {
            for _ in 0..inserts {
                table.insert(tx, job.fresh(), job.payload.value(input.seed)).await?;
            }
            Ok(Outcome::of(input))
        }),
        Shape::Probe { probes } => plain(job, async |tx: &Txn<C>, input: &Input| {
            let (mut rng, mut outcome) = (Rng::new(input.seed), Outcome::of(input));
            for _ in 0..probes {
                outcome.missing += u64::from(!table.probe(tx, job.draw(&mut rng)).await?);
            }
            Ok(outcome)
        }),
        Shape::Mixed { mix, operations } => mixed(job, table, mix, operations),
    }
}

/// Operations drawn from a mix.
fn mixed<C: Scheme, A: Access>(job: &Job<'_, C>, table: A, mix: Mix, operations: usize) -> Option<Measured> {
    plain(job, async |tx: &Txn<C>, input: &Input| {
        let (mut rng, mut outcome) = (Rng::new(input.seed), Outcome::of(input));
        for _ in 0..operations {
            match mix.pick(rng.below(100)) {
                Operation::Read => outcome.saw(table.get(tx, job.draw(&mut rng)).await?),
                Operation::Update => {
                    let number = job.draw(&mut rng);
                    outcome.missing +=
                        u64::from(!table.update(tx, number, job.payload.value(input.seed)).await?);
                }
                Operation::Insert => table.insert(tx, job.fresh(), job.payload.value(input.seed)).await?,
                Operation::Scan => {
                    let rows = 1 + rng.below(100) as usize;
                    let sum = table.scan(tx, job.draw(&mut rng), rows).await?;
                    outcome.sum = outcome.sum.wrapping_add(sum);
                }
                Operation::ReadModifyWrite => {
                    modify!(job, table.get, tx, rng, outcome);
                }
            }
        }
        Ok(outcome)
    })
}

/// Point reads and read-modify-writes: the workloads that have every form.
fn point<C: Scheme, A: Access>(job: &Job<'_, C>, table: A, reads: usize, rmws: usize) -> Option<Measured> {
    let single = async |tx: &Txn<C>, input: &Input| {
        let (mut rng, mut outcome) = (Rng::new(input.seed), Outcome::of(input));
        job.declare(tx, rmws == 0);
        for _ in 0..reads {
            outcome.saw(table.get(tx, job.draw(&mut rng)).await?);
        }
        for _ in 0..rmws {
            modify!(job, table.get, tx, rng, outcome);
        }
        Ok(outcome)
    };
    match job.mode {
        Mode::Naive => Some(drive(job, Never, single)),
        Mode::Prefetch => Some(drive(job, PrefetchOnly, single)),
        Mode::Interleaved | Mode::Auto => Some(drive(job, OnMiss, single)),
        Mode::CorobaseFn => Some(drive(job, OnMiss, async |tx: &Txn<C>, input: &Input| {
            let (mut rng, mut outcome) = (Rng::new(input.seed), Outcome::of(input));
            job.declare(tx, rmws == 0);
            for _ in 0..reads {
                outcome.saw(table.get_nested(tx, job.draw(&mut rng)).await?);
            }
            for _ in 0..rmws {
                modify!(job, table.get_nested, tx, rng, outcome);
            }
            Ok(outcome)
        })),
        // The widest multi-get that divides the reads.
        _ if reads == 0 => None,
        _ if reads.is_multiple_of(10) => Some(multi::<C, A, 10>(job, table, reads, rmws)),
        _ if reads.is_multiple_of(8) => Some(multi::<C, A, 8>(job, table, reads, rmws)),
        _ if reads.is_multiple_of(4) => Some(multi::<C, A, 4>(job, table, reads, rmws)),
        _ if reads.is_multiple_of(2) => Some(multi::<C, A, 2>(job, table, reads, rmws)),
        _ => Some(multi::<C, A, 1>(job, table, reads, rmws)),
    }
}

/// The body of a transaction whose reads are multi-gets of N by `$get`.
macro_rules! multi_body {
    ($job:ident, $table:ident, $get:ident, $n:ident, $reads:ident, $rmws:ident) => {
        async |tx: &Txn<C>, input: &Input| {
            let (mut rng, mut outcome) = (Rng::new(input.seed), Outcome::of(input));
            $job.declare(tx, $rmws == 0);
            for _ in 0..$reads / $n {
                let mut numbers = [0; $n];
                numbers.fill_with(|| $job.draw(&mut rng));
                for value in $table.$get::<C, $n>(tx, &numbers).await? {
                    outcome.saw(value);
                }
            }
            for _ in 0..$rmws {
                modify!($job, $table.get, tx, rng, outcome);
            }
            Ok(outcome)
        }
    };
}

/// The modes with multi-gets.
fn multi<C: Scheme, A: Access, const N: usize>(
    job: &Job<'_, C>,
    table: A,
    reads: usize,
    rmws: usize,
) -> Measured {
    let machines = multi_body!(job, table, get_many, N, reads, rmws);
    match job.mode {
        Mode::Hybrid => drive(job, OnMiss, machines),
        Mode::CoroMk => {
            drive(job, PrefetchOnly, multi_body!(job, table, get_many_coroutines, N, reads, rmws))
        }
        Mode::CoroFnMk => drive(job, PrefetchOnly, multi_body!(job, table, get_many_nested, N, reads, rmws)),
        _ => drive(job, PrefetchOnly, machines),
    }
}

/// The modes without forms of their own.
fn plain<C: Scheme>(
    job: &Job<'_, C>,
    body: impl AsyncFn(&Txn<C>, &Input) -> Result<Outcome>,
) -> Option<Measured> {
    match job.mode {
        Mode::Naive => Some(drive(job, Never, body)),
        Mode::Prefetch => Some(drive(job, PrefetchOnly, body)),
        Mode::Interleaved | Mode::Auto => Some(drive(job, OnMiss, body)),
        _ => None,
    }
}

/// How often a transaction is run again; see `kit::worker`.
const RETRIES_MAX: u32 = 1_000_000;

/// A worker over the transactions, first to warm up, then for the slice.
fn drive<C: Scheme, S: Suspend>(
    job: &Job<'_, C>,
    policy: S,
    body: impl AsyncFn(&Txn<C>, &Input) -> Result<Outcome>,
) -> Measured {
    let batch = if job.mode == Mode::Auto { BatchSize::Auto } else { job.batch.into() };
    let mut worker = engine::worker(job.db, policy, batch, job.refill);
    worker.set_retries_max(RETRIES_MAX);
    let mut run = |length: Duration, seed: u64| {
        let mut measured = Measured::new();
        let clock = Instant::now();
        let inputs = Inputs::new(job, clock, length, seed);
        worker.run_each(inputs, &body, |result| measured.ended(clock, result));
        measured.elapsed = clock.elapsed();
        measured
    };
    run(job.warm_up, job.seed);
    run(job.slice, !job.seed)
}

impl Measured {
    #[inline(always)]
    fn ended(&mut self, clock: Instant, result: Result<Outcome>) {
        match result {
            Ok(outcome) => self.committed(clock, &outcome),
            Err(error) => self.error = Some(error),
        }
    }

    /// Counts a committed transaction.
    #[inline(always)]
    pub(crate) fn committed(&mut self, clock: Instant, outcome: &Outcome) {
        self.transactions += 1;
        self.missing += outcome.missing;
        std::hint::black_box(outcome.sum);
        if outcome.started_ns != 0 {
            self.latency_ns.saturating_record(clock.elapsed().as_nanos() as u64 - outcome.started_ns);
        }
    }
}

impl<C: Scheme> Job<'_, C> {
    /// Declares a transaction read-only, if it is and the job is to say so.
    #[inline(always)]
    fn declare(&self, tx: &Txn<C>, only_reads: bool) {
        if self.declares && only_reads {
            tx.declare_read_only();
        }
    }

    /// The number of a record to work on.
    #[inline(always)]
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        let newest = if self.source.follows_inserts() {
            // Relaxed: only a number; that its record is there is seen through the table.
            self.next_number.load(Ordering::Relaxed).saturating_sub(1 + self.slack)
        } else {
            0
        };
        self.source.number(rng, newest)
    }

    /// A number that no record has.
    #[inline(always)]
    fn fresh(&self) -> u64 {
        // Relaxed: only uniqueness is asked for.
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }
}

/// Inputs until the slice is over. The clock is read once in `stride` transactions, for both the end and the
/// latency.
pub(crate) struct Inputs {
    seeds: Rng,
    clock: Instant,
    length: Duration,
    /// Strides left.
    left: u64,
    stride: u32,
    until_next: u32,
}

/// Of transactions touching few records, one in this many has its latency measured.
pub(crate) const LATENCY_SAMPLE_EVERY: u32 = 16;

impl Inputs {
    pub(crate) fn new<C: Scheme>(job: &Job<'_, C>, clock: Instant, length: Duration, seed: u64) -> Self {
        let stride = if job.shape.weight() >= 50 { 1 } else { LATENCY_SAMPLE_EVERY };
        let left = job.transactions_max.div_ceil(u64::from(stride));
        Inputs { seeds: Rng::new(seed), clock, length, left, stride, until_next: 0 }
    }
}

impl Iterator for Inputs {
    type Item = Input;

    #[inline(always)]
    fn next(&mut self) -> Option<Input> {
        let seed = self.seeds.next_u64();
        if self.until_next > 0 {
            self.until_next -= 1;
            return Some(Input { seed, started_ns: 0 });
        }
        let now = self.clock.elapsed();
        if now >= self.length || self.left == 0 {
            return None;
        }
        self.left -= 1;
        self.until_next = self.stride - 1;
        Some(Input { seed, started_ns: now.as_nanos() as u64 | 1 })
    }
}
