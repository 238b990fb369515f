//! The harness of all workloads. A [`Suite`] is a workload: its transactions, over tables of its own, and the conditions
//! that have to hold afterwards.
//!
//! `plan` unfolds a command line into variants, `driver` loads a database for each scheme and durability and runs the
//! variants in turns, `worker` is what one thread does in one slice, `slice` sums up the threads, `outcome` the slices,
//! and `show` presents the results as text, charts and a page. `load` fills tables and reads them back.

pub(crate) mod args;
pub(crate) mod driver;
pub(crate) mod load;
pub(crate) mod outcome;
pub(crate) mod plan;
pub(crate) mod show;
pub(crate) mod slice;
pub(crate) mod worker;

use crate::engine::{Database, Result, Scheme, Txn};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use worker::{Job, Measured};

/// A workload in a loaded database.
///
/// It belongs to the database that it was loaded into, and all workers share it. What changes from transaction to
/// transaction is in the sources, one for each worker and slice.
pub(crate) trait Suite: Sized + Send + Sync {
    /// The parameters of one transaction, made before it starts. Making one allocates nothing.
    type Input: Send;
    /// Makes inputs; one per worker.
    type Source: Send;

    /// The kinds of transactions, for counts and latencies by kind; one or more.
    fn kinds(&self) -> &'static [&'static str];

    /// The source of a worker for a slice. Two sources never make inputs that insert the same key.
    fn source(&self, worker: usize, workers: usize, seed: u64) -> Self::Source;

    /// The next input.
    fn next(&self, source: &mut Self::Source) -> Self::Input;

    /// The index in `kinds` of an input.
    fn kind(&self, input: &Self::Input) -> usize {
        let _ = input;
        0
    }

    /// Operations of a transaction, where all have the same number: for operations per second.
    fn operations(&self) -> Option<usize> {
        None
    }

    /// The latency of one transaction in this many is measured. The clock is read for no other, except at the end.
    fn sample_every(&self) -> u32 {
        8
    }

    /// Takes note that `commits` more transactions have committed, and of the sum of their effects. Called by
    /// each worker after it has run, before `check`.
    fn settle(&self, commits: u64, effects: i64) {
        let _ = (commits, effects);
    }

    /// What has to hold while no transaction is open. A condition that does not hold fails the run.
    fn check<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Condition>>;

    /// Runs one worker for one slice; `None`: the mode has no form of this workload. Suites that are [`Transactions`]
    /// call [`worker::execute`].
    fn execute<C: Scheme>(&self, job: &Job<'_, C, Self>) -> Option<Measured>;
}

/// A suite whose transactions are written once for all modes.
pub(crate) trait Transactions: Suite {
    /// The transaction; `many`: reads that do not depend on each other go together where they can. It may be
    /// run several times with the same input, of which one commits.
    fn run<C: Scheme>(
        &self,
        tx: &Txn<C>,
        input: &Self::Input,
        many: bool,
    ) -> impl Future<Output = Result<()>>;

    /// The transaction's share, if it commits, of the sum that [`settle`](Suite::settle) gets. Called when `run` has
    /// ended, so that `run` can leave it in the input where it depends on what was read.
    fn effect(&self, input: &Self::Input) -> i64 {
        let _ = input;
        0
    }

    /// Returns true if the transaction may end with [`Error::user`](braiddb::Error::user) on purpose: that counts as
    /// done. Where this is false such an error fails the run.
    fn rolls_back(&self, input: &Self::Input) -> bool {
        let _ = input;
        false
    }

    /// Keys of the rows that the transaction is likely to conflict on with others, and how many of them: two inputs that
    /// share one are not open together on one worker. Keys of different tables differ, in their high bits.
    fn conflicts(&self, input: &Self::Input) -> Conflicts {
        let _ = input;
        ([0; 4], 0)
    }

    /// Returns true if the transaction writes nothing, and may declare that when it begins (`--cc declared`).
    fn only_reads(&self, input: &Self::Input) -> bool {
        let _ = input;
        false
    }
}

/// Keys, and how many of them count.
pub(crate) type Conflicts = ([u64; 4], usize);

/// What has to hold of a database after a run, and whether it does.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Condition {
    /// What has to hold, in words.
    pub(crate) name: String,
    /// Whether it does.
    pub(crate) holds: bool,
    /// The figures that show it.
    pub(crate) detail: String,
}

impl Condition {
    /// That two figures are equal, each with its name.
    pub(crate) fn equal(name: &str, a: (&str, i128), b: (&str, i128)) -> Condition {
        let detail = format!("{}: {}, {}: {}", a.0, a.1, b.0, b.1);
        Condition { name: name.to_owned(), holds: a.1 == b.1, detail }
    }
}

/// A benchmark: its tables, and the suites that run on them.
pub(crate) trait Benchmark {
    /// What runs.
    type Suite: Suite + 'static;

    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Makes and fills the tables in an empty database. All suites that are returned work on them, and their conditions
    /// are those of the first.
    fn load<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Loaded<Self::Suite>>>;
}

/// A suite with its parameters, under the names of their flags.
pub(crate) struct Loaded<S> {
    pub(crate) parameters: Parameters,
    pub(crate) suite: S,
}

/// The name of a flag, with the value as JSON has it.
pub(crate) type Parameter = (&'static str, serde_json::Value);
pub(crate) type Parameters = Vec<Parameter>;

/// The commits that were reported to workers, counted outside of the database: `check` compares its sums to them.
#[derive(Default)]
pub(crate) struct Ledger {
    commits: AtomicU64,
    effects: AtomicI64,
}

impl Ledger {
    /// Adds what a worker has done.
    pub(crate) fn add(&self, commits: u64, effects: i64) {
        // Relaxed: read when the workers have been joined.
        self.commits.fetch_add(commits, Ordering::Relaxed);
        self.effects.fetch_add(effects, Ordering::Relaxed);
    }

    /// Transactions committed.
    pub(crate) fn commits(&self) -> i128 {
        i128::from(self.commits.load(Ordering::Relaxed))
    }

    /// The sum of their effects.
    pub(crate) fn effects(&self) -> i128 {
        i128::from(self.effects.load(Ordering::Relaxed))
    }
}

/// Runs a benchmark whose suites are [`Transactions`].
pub(crate) fn run(benchmark: &impl Benchmark, args: &args::KindsArgs) -> crate::Result<outcome::Outcome> {
    let plan = plan::Plan::of_kinds(args)?;
    let mut outcome = outcome::Outcome::new(benchmark.name(), &plan);
    outcome.extend(driver::run(benchmark, &plan)?);
    Ok(outcome)
}
