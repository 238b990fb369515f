//! Kits: workloads of transactions of several kinds over tables of their own, with conditions that have to
//! hold afterwards.
//!
//! A kit says what its transactions are, once; `plan` unfolds the command line into variants, `driver` loads a
//! database for each scheme and durability and runs the variants in turns, `worker` is what one thread does
//! in one slice, and `report` shows what came out, by kind of transaction. `tpcb`, `smallbank` and `micro` are
//! kits; one that takes more than a file has a folder beside this one: `tpcc`.

pub mod args;

mod load;
mod text;

pub(crate) mod driver;
pub(crate) mod micro;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod smallbank;
pub(crate) mod tpcb;
pub(crate) mod worker;

#[cfg(test)]
mod tests;

use crate::engine::{Database, Result, Scheme, Txn};
use args::KitArgs;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

pub(crate) use load::{fill, read_all};
pub(crate) use report::{Outcome, page};

/// A workload of transactions of several kinds over tables of its own.
///
/// A kit belongs to the database that it was loaded into. It is shared by all workers; what changes from
/// transaction to transaction is in the sources, one for each worker and slice.
pub(crate) trait Kit: Sized + Send + Sync {
    /// What one transaction is told; made before it starts. Making one allocates nothing.
    type Input: Send;
    /// Makes inputs; one per worker.
    type Source: Send;

    /// The kinds of transactions, for counts and latencies by kind; one or more.
    fn kinds(&self) -> &'static [&'static str];

    /// The source of a worker for a slice. Two sources never make inputs that insert the same key.
    fn source(&self, worker: usize, workers: usize, seed: u64) -> Self::Source;

    /// The next input.
    fn next(&self, source: &mut Self::Source) -> Self::Input;

    /// Which of `kinds` an input is of.
    fn kind(&self, input: &Self::Input) -> usize;

    /// True if the transaction may end with [`Error::user`](braiddb::Error::user) on purpose: that counts as
    /// done. Where this is false such an error fails the run.
    fn rolls_back(&self, input: &Self::Input) -> bool {
        let _ = input;
        false
    }

    /// Keys of what the transaction is likely to fight for with others, and how many of them: two inputs that share
    /// one are not open together on one worker. Keys of different tables differ, in their high bits.
    fn conflicts(&self, input: &Self::Input) -> Conflicts {
        let _ = input;
        ([0; 4], 0)
    }

    /// True if the transaction writes nothing, and may say so when it begins (`--cc declared`).
    fn only_reads(&self, input: &Self::Input) -> bool {
        let _ = input;
        false
    }

    /// The transaction; `many`: reads that do not depend on each other go together where they can. It may be
    /// run several times with the same input, of which one commits.
    fn run<C: Scheme>(
        &self,
        tx: &Txn<C>,
        input: &Self::Input,
        many: bool,
    ) -> impl Future<Output = Result<()>>;

    /// What the transaction, if it commits, has added to the sum that [`settle`](Self::settle) is told. Asked
    /// when `run` has ended, so that `run` can leave it in the input where it depends on what was read.
    fn effect(&self, input: &Self::Input) -> i64 {
        let _ = input;
        0
    }

    /// Takes note that `commits` more transactions have committed, and of the sum of their effects. Called by
    /// each worker after it has run, before `check`.
    fn settle(&self, commits: u64, effects: i64) {
        let _ = (commits, effects);
    }

    /// What has to hold while no transaction is open. A condition that does not hold fails the run.
    fn check<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Condition>>;
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
    /// The figures that say so.
    pub(crate) detail: String,
}

impl Condition {
    /// That two figures are equal, each with its name.
    pub(crate) fn equal(name: &str, a: (&str, i128), b: (&str, i128)) -> Condition {
        let detail = format!("{}: {}, {}: {}", a.0, a.1, b.0, b.1);
        Condition { name: name.to_owned(), holds: a.1 == b.1, detail }
    }
}

/// A benchmark: its tables, and the kits that run on them.
pub(crate) trait Benchmark {
    /// What runs.
    type Kit: Kit + 'static;

    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Makes and fills the tables in an empty database. All kits that are returned work on them; the first
    /// speaks for all in [`Kit::check`].
    fn load<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Loaded<Self::Kit>>>;
}

/// A kit with the parameters that tell it from others, under the names of their flags.
pub(crate) struct Loaded<K> {
    pub(crate) parameters: Parameters,
    pub(crate) kit: K,
}

/// The name of a flag, with the value as JSON has it.
pub(crate) type Parameter = (&'static str, serde_json::Value);
pub(crate) type Parameters = Vec<Parameter>;

/// What workers say they have committed, outside of the database: what `check` compares its sums to.
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

/// Runs a benchmark by the common flags.
pub(crate) fn run(benchmark: &impl Benchmark, args: &KitArgs) -> crate::Result<Outcome> {
    let plan = plan::Plan::new(args)?;
    let mut outcome = Outcome::new(benchmark.name(), &plan);
    outcome.extend(driver::run(benchmark, &plan)?);
    Ok(outcome)
}

/// The same, and shows what came out.
fn bench(benchmark: &impl Benchmark, title: &str, args: &KitArgs) -> crate::Result<()> {
    report::show(&run(benchmark, args)?, title, args)
}
