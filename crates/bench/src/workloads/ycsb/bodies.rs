//! The transactions of the workloads, each written once.
//!
//! A transaction draws its requests from the seed in its input. A retry therefore repeats the same requests, and
//! nothing is allocated or copied per transaction. Modes differ in the policy and, for reads, in the form of `get`.

use super::access::{Access, first};
use super::table::{Draws, Ycsb};
use super::workload::{Mix, Operation, Shape};
use crate::args::Mode;
use crate::distribution::Rng;
use crate::engine::{Never, OnMiss, PrefetchOnly, Result, Scheme, Teams, Txn};
use crate::suite::worker::{self, Done, Measured, Ticket};
use braiddb::suspend::Suspend;

type Job<'a, C> = worker::Job<'a, C, Ycsb>;
type Input = Ticket<u64>;

/// The result of a transaction.
struct Outcome {
    missing: i64,
    sum: u64,
}

impl Outcome {
    /// Counts an attempt, and returns an empty outcome.
    #[inline(always)]
    fn of(draws: &Draws<'_>) -> Self {
        draws.attempted();
        Outcome { missing: 0, sum: 0 }
    }
    #[inline(always)]
    fn saw(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.sum = self.sum.wrapping_add(first(value)),
            None => self.missing += 1,
        }
    }
    #[inline(always)]
    fn done(self, input: &Input) -> Result<Done> {
        std::hint::black_box(self.sum);
        Ok(Done { kind: 0, started_ns: input.started_ns, effect: self.missing })
    }
}

/// Reads a record by `$get` and writes what depends on it. It is a macro because a function would be a coroutine of its
/// own, which would cost time.
macro_rules! modify {
    ($draws:ident, $table:ident.$get:ident, $tx:ident, $rng:ident, $outcome:ident) => {
        let number = $draws.draw(&mut $rng);
        $outcome.saw($table.$get($tx, number).await?);
        $table.put($tx, number, $draws.payload.value($outcome.sum.wrapping_add(number))).await?;
    };
}

/// Runs the job in its mode. Returns `None` if the mode does not support this workload, or does not exist under this
/// scheme.
pub(crate) fn execute<C: Scheme, A: Access>(
    job: &Job<'_, C>,
    draws: &Draws<'_>,
    table: A,
) -> Option<Measured> {
    match draws.shape {
        Shape::Point { reads, rmws } => point(job, draws, table, reads, rmws),
        Shape::Update { updates } => plain(job, draws, async |tx: &Txn<C>, input: &Input| {
            let (mut rng, mut outcome) = (Rng::new(input.input), Outcome::of(draws));
            for _ in 0..updates {
                let number = draws.draw(&mut rng);
                outcome.missing +=
                    i64::from(!table.update(tx, number, draws.payload.value(input.input)).await?);
            }
            outcome.done(input)
        }),
        Shape::Increase { rows } => plain(job, draws, async |tx: &Txn<C>, input: &Input| {
            let (mut rng, outcome) = (Rng::new(input.input), Outcome::of(draws));
            for _ in 0..rows {
                table.increase(tx, draws.draw(&mut rng))?;
            }
            outcome.done(input)
        }),
        Shape::Scan { rows, for_each: false } => plain(job, draws, async |tx: &Txn<C>, input: &Input| {
            let mut outcome = Outcome::of(draws);
            draws.declare(tx, true);
            outcome.sum = table.scan(tx, draws.draw(&mut Rng::new(input.input)), rows).await?;
            outcome.done(input)
        }),
        Shape::Scan { rows, for_each: true } => plain(job, draws, async |tx: &Txn<C>, input: &Input| {
            let mut outcome = Outcome::of(draws);
            draws.declare(tx, true);
            outcome.sum = table.scan_each(tx, draws.draw(&mut Rng::new(input.input)), rows).await?;
            outcome.done(input)
        }),
        Shape::Insert { inserts } => plain(job, draws, async |tx: &Txn<C>, input: &Input| {
            let outcome = Outcome::of(draws);
            for _ in 0..inserts {
                table.insert(tx, draws.fresh(), draws.payload.value(input.input)).await?;
            }
            outcome.done(input)
        }),
        Shape::Probe { probes } => plain(job, draws, async |tx: &Txn<C>, input: &Input| {
            let (mut rng, mut outcome) = (Rng::new(input.input), Outcome::of(draws));
            for _ in 0..probes {
                outcome.missing += i64::from(!table.probe(tx, draws.draw(&mut rng)).await?);
            }
            outcome.done(input)
        }),
        Shape::Mixed { mix, operations } => mixed(job, draws, table, mix, operations),
    }
}

/// Runs operations drawn from a mix.
fn mixed<C: Scheme, A: Access>(
    job: &Job<'_, C>,
    draws: &Draws<'_>,
    table: A,
    mix: Mix,
    operations: usize,
) -> Option<Measured> {
    plain(job, draws, async |tx: &Txn<C>, input: &Input| {
        let (mut rng, mut outcome) = (Rng::new(input.input), Outcome::of(draws));
        for _ in 0..operations {
            match mix.pick(rng.below(100)) {
                Operation::Read => outcome.saw(table.get(tx, draws.draw(&mut rng)).await?),
                Operation::Update => {
                    let number = draws.draw(&mut rng);
                    outcome.missing +=
                        i64::from(!table.update(tx, number, draws.payload.value(input.input)).await?);
                }
                Operation::Insert => {
                    table.insert(tx, draws.fresh(), draws.payload.value(input.input)).await?
                }
                Operation::Scan => {
                    let rows = 1 + rng.below(100) as usize;
                    let sum = table.scan(tx, draws.draw(&mut rng), rows).await?;
                    outcome.sum = outcome.sum.wrapping_add(sum);
                }
                Operation::ReadModifyWrite => {
                    modify!(draws, table.get, tx, rng, outcome);
                }
            }
        }
        outcome.done(input)
    })
}

/// Runs point reads and read-modify-writes, which every mode supports.
fn point<C: Scheme, A: Access>(
    job: &Job<'_, C>,
    draws: &Draws<'_>,
    table: A,
    reads: usize,
    rmws: usize,
) -> Option<Measured> {
    let single = async |tx: &Txn<C>, input: &Input| {
        let (mut rng, mut outcome) = (Rng::new(input.input), Outcome::of(draws));
        draws.declare(tx, rmws == 0);
        for _ in 0..reads {
            outcome.saw(table.get(tx, draws.draw(&mut rng)).await?);
        }
        for _ in 0..rmws {
            modify!(draws, table.get, tx, rng, outcome);
        }
        outcome.done(input)
    };
    match job.variant.mode {
        Mode::Naive => drive(job, draws, Never, single),
        Mode::Prefetch if C::HAS_PAPERS_MODES => drive(job, draws, PrefetchOnly, single),
        Mode::Interleaved | Mode::Auto => drive(job, draws, OnMiss, single),
        Mode::Teams if C::HAS_PAPERS_MODES => drive(job, draws, Teams, single),
        Mode::CorobaseFn if C::HAS_PAPERS_MODES => {
            drive(job, draws, OnMiss, async |tx: &Txn<C>, input: &Input| {
                let (mut rng, mut outcome) = (Rng::new(input.input), Outcome::of(draws));
                draws.declare(tx, rmws == 0);
                for _ in 0..reads {
                    outcome.saw(table.get_nested(tx, draws.draw(&mut rng)).await?);
                }
                for _ in 0..rmws {
                    modify!(draws, table.get_nested, tx, rng, outcome);
                }
                outcome.done(input)
            })
        }
        // The widest multi-get that divides the number of reads.
        _ if reads == 0 => None,
        _ if reads.is_multiple_of(10) => multi::<C, A, 10>(job, draws, table, reads, rmws),
        _ if reads.is_multiple_of(8) => multi::<C, A, 8>(job, draws, table, reads, rmws),
        _ if reads.is_multiple_of(4) => multi::<C, A, 4>(job, draws, table, reads, rmws),
        _ if reads.is_multiple_of(2) => multi::<C, A, 2>(job, draws, table, reads, rmws),
        _ => multi::<C, A, 1>(job, draws, table, reads, rmws),
    }
}

/// The body of a transaction whose reads are multi-gets of N by `$get`.
macro_rules! multi_body {
    ($draws:ident, $table:ident, $get:ident, $n:ident, $reads:ident, $rmws:ident) => {
        async |tx: &Txn<C>, input: &Input| {
            let (mut rng, mut outcome) = (Rng::new(input.input), Outcome::of($draws));
            $draws.declare(tx, $rmws == 0);
            for _ in 0..$reads / $n {
                let mut numbers = [0; $n];
                numbers.fill_with(|| $draws.draw(&mut rng));
                for value in $table.$get::<C, $n>(tx, &numbers).await? {
                    outcome.saw(value);
                }
            }
            for _ in 0..$rmws {
                modify!($draws, $table.get, tx, rng, outcome);
            }
            outcome.done(input)
        }
    };
}

/// Runs the modes with multi-gets.
fn multi<C: Scheme, A: Access, const N: usize>(
    job: &Job<'_, C>,
    draws: &Draws<'_>,
    table: A,
    reads: usize,
    rmws: usize,
) -> Option<Measured> {
    let machines = multi_body!(draws, table, get_many, N, reads, rmws);
    match job.variant.mode {
        Mode::Hybrid => drive(job, draws, OnMiss, machines),
        Mode::CoroMk if C::HAS_PAPERS_MODES => {
            drive(job, draws, PrefetchOnly, multi_body!(draws, table, get_many_coroutines, N, reads, rmws))
        }
        Mode::CoroFnMk if C::HAS_PAPERS_MODES => {
            drive(job, draws, PrefetchOnly, multi_body!(draws, table, get_many_nested, N, reads, rmws))
        }
        Mode::AmacMk if C::HAS_PAPERS_MODES => drive(job, draws, PrefetchOnly, machines),
        _ => None,
    }
}

/// Runs the modes that have no body of their own.
fn plain<C: Scheme>(
    job: &Job<'_, C>,
    draws: &Draws<'_>,
    body: impl AsyncFn(&Txn<C>, &Input) -> Result<Done>,
) -> Option<Measured> {
    match job.variant.mode {
        Mode::Naive => drive(job, draws, Never, body),
        Mode::Prefetch if C::HAS_PAPERS_MODES => drive(job, draws, PrefetchOnly, body),
        Mode::Interleaved | Mode::Auto => drive(job, draws, OnMiss, body),
        Mode::Teams if C::HAS_PAPERS_MODES => drive(job, draws, Teams, body),
        _ => None,
    }
}

/// Runs the transactions on a worker.
fn drive<C: Scheme, S: Suspend>(
    job: &Job<'_, C>,
    draws: &Draws<'_>,
    policy: S,
    body: impl AsyncFn(&Txn<C>, &Input) -> Result<Done>,
) -> Option<Measured> {
    Some(worker::drive(job, policy, &draws.attempts, body))
}
