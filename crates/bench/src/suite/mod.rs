//! The harness of all workloads. A [`Suite`] is a workload: its transactions, over its own tables, and the conditions
//! that must hold afterwards.
//!
//! - `plan` unfolds a command line into variants.
//! - `driver` loads a database for each scheme and durability, and runs the variants in turns.
//! - `worker` runs one thread in one slice.
//! - `slice` sums up the threads, and `outcome` sums up the slices.
//! - `show` presents the results as text, charts and a page.
//! - `load` fills tables and reads them back.

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
/// It belongs to the database that it was loaded into, and all workers share it. The sources, one for each worker and
/// slice, hold what changes from transaction to transaction.
pub(crate) trait Suite: Sized + Send + Sync {
    /// The parameters of one transaction, made before it starts. Making them allocates nothing.
    type Input: Send;
    /// Makes inputs. Each worker has one.
    type Source: Send;

    /// Returns the kinds of transactions, at least one. Counts and latencies are kept by kind.
    fn kinds(&self) -> &'static [&'static str];

    /// Returns a worker's source for a slice. Two sources never make inputs that insert the same key.
    fn source(&self, worker: usize, workers: usize, seed: u64) -> Self::Source;

    /// Makes the next input.
    fn next(&self, source: &mut Self::Source) -> Self::Input;

    /// Returns the index in `kinds` of an input.
    fn kind(&self, input: &Self::Input) -> usize {
        let _ = input;
        0
    }

    /// Returns the operations per transaction if all have the same number. Operations per second are computed from it.
    fn operations(&self) -> Option<usize> {
        None
    }

    /// Returns n if the latency of one in n transactions is measured. Only for these, and at the end, is the clock
    /// read.
    fn sample_every(&self) -> u32 {
        8
    }

    /// Records that `commits` more transactions have committed, and the sum of their effects. Each worker calls it
    /// after it has run, before `check`.
    fn settle(&self, commits: u64, effects: i64) {
        let _ = (commits, effects);
    }

    /// Checks what must hold while no transaction is open. A condition that does not hold fails the run.
    fn check<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Condition>>;

    /// Runs one worker for one slice. Returns `None` if the mode does not support this workload. Suites that are
    /// [`Transactions`] call [`worker::execute`].
    fn execute<C: Scheme>(&self, job: &Job<'_, C, Self>) -> Option<Measured>;
}

/// A suite whose transactions are written once for all modes.
pub(crate) trait Transactions: Suite {
    /// Runs the transaction. If `many` is true, reads that do not depend on each other are issued together where
    /// possible. The function may run several times with the same input, of which one run commits.
    fn run<C: Scheme>(
        &self,
        tx: &Txn<C>,
        input: &Self::Input,
        many: bool,
    ) -> impl Future<Output = Result<()>>;

    /// Returns the transaction's share, if it commits, of the sum that [`settle`](Suite::settle) gets. It is called
    /// after `run` has ended. If the share depends on what was read, `run` can store it in the input.
    fn effect(&self, input: &Self::Input) -> i64 {
        let _ = input;
        0
    }

    /// Returns true if the transaction may end with [`Error::user`](braiddb::Error::user) on purpose, which then counts
    /// as done. If this is false, such an error fails the run.
    fn rolls_back(&self, input: &Self::Input) -> bool {
        let _ = input;
        false
    }

    /// Returns the keys of rows on which the transaction is likely to conflict with others, and how many there are. Two
    /// inputs that share a key are not open together on one worker. Keys of different tables differ in their high bits.
    fn conflicts(&self, input: &Self::Input) -> Conflicts {
        let _ = input;
        ([0; 4], 0)
    }

    /// Returns true if the transaction writes nothing, and may declare so when it begins (`--cc declared`).
    fn only_reads(&self, input: &Self::Input) -> bool {
        let _ = input;
        false
    }
}

/// Keys, and how many of them are valid.
pub(crate) type Conflicts = ([u64; 4], usize);

/// A condition that must hold after a run, and whether it does.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Condition {
    /// The condition in words.
    pub(crate) name: String,
    /// True if the condition holds.
    pub(crate) holds: bool,
    /// The figures that show it.
    pub(crate) detail: String,
}

impl Condition {
    /// Makes the condition that two figures are equal. Each has a name.
    pub(crate) fn equal(name: &str, a: (&str, i128), b: (&str, i128)) -> Condition {
        let detail = format!("{}: {}, {}: {}", a.0, a.1, b.0, b.1);
        Condition { name: name.to_owned(), holds: a.1 == b.1, detail }
    }
}

/// A benchmark: its tables, and the suites that run on them.
pub(crate) trait Benchmark {
    /// The type of its suites.
    type Suite: Suite + 'static;

    /// Returns the name on the command line.
    fn name(&self) -> &'static str;

    /// Makes and fills the tables in an empty database. All returned suites use these tables. The conditions of the
    /// first suite apply to all.
    fn load<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Loaded<Self::Suite>>>;
}

/// A suite with its parameters, which have the names of their flags.
pub(crate) struct Loaded<S> {
    pub(crate) parameters: Parameters,
    pub(crate) suite: S,
}

/// The name of a flag, and its value in JSON.
pub(crate) type Parameter = (&'static str, serde_json::Value);
pub(crate) type Parameters = Vec<Parameter>;

/// Commits reported to workers, counted outside the database. `check` compares the database's sums with them.
#[derive(Default)]
pub(crate) struct Ledger {
    commits: AtomicU64,
    effects: AtomicI64,
}

impl Ledger {
    /// Adds the work of one worker.
    pub(crate) fn add(&self, commits: u64, effects: i64) {
        // Relaxed: the values are read after the workers have been joined.
        self.commits.fetch_add(commits, Ordering::Relaxed);
        self.effects.fetch_add(effects, Ordering::Relaxed);
    }

    /// Returns the number of committed transactions.
    pub(crate) fn commits(&self) -> i128 {
        i128::from(self.commits.load(Ordering::Relaxed))
    }

    /// Returns the sum of their effects.
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
