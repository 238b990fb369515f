//! YCSB and the workloads of the CoroBase paper, on one table, in every mode.
//!
//! - `workload` defines the named workloads, and `plan` unfolds the command line.
//! - `table` loads records, and `access` has the operations on them.
//! - `bodies` has the transactions, and `interactive` the transactions driven by calls.
//! - `handwritten` has the yardsticks: the same reads without the engine's transactions, on the structures that
//!   `reader` exposes.

mod access;
mod args;
mod bodies;
#[allow(unsafe_code, reason = "the yardsticks written by hand read the engine's structures")]
mod handwritten;
mod interactive;
mod plan;
#[allow(unsafe_code, reason = "the engine's structures below transactions promise little")]
mod reader;
mod table;
#[cfg(test)]
mod tests;
pub mod workload;

pub(crate) use access::{Access, AnyTable, FixedKeys, first, open_table};
pub use args::YcsbArgs;
pub(crate) use plan::YcsbPlan;

use crate::args::Mode;
use crate::distribution::Rng;
use crate::engine::{Database, Scheme};
use crate::suite::outcome::Outcome;
use crate::suite::worker::{Job, Measured};
use crate::suite::{Benchmark, Condition, Loaded, Suite, driver, show};
use plan::TableSetup;
use table::{Draws, Ycsb};

/// Runs `braid bench ycsb`.
pub(crate) fn bench(args: &YcsbArgs) -> crate::Result<()> {
    show::show(&run(&YcsbPlan::new(args)?)?, "YCSB", &args.suite.run)
}

/// Runs the benchmark without showing its results.
pub(crate) fn run(plan: &YcsbPlan) -> crate::Result<Outcome> {
    let mut outcome = Outcome::new("ycsb", &plan.plan);
    for table in &plan.tables {
        outcome.extend(driver::run(table, &plan.plan)?);
    }
    Ok(outcome)
}

impl Benchmark for TableSetup {
    type Suite = Ycsb;

    fn name(&self) -> &'static str {
        "ycsb"
    }

    fn load<C: Scheme>(&self, db: &Database<C>) -> crate::Result<Vec<Loaded<Ycsb>>> {
        table::load(db, self)
    }
}

impl Suite for Ycsb {
    /// The seed from which a transaction draws its requests.
    type Input = u64;
    type Source = Rng;

    fn kinds(&self) -> &'static [&'static str] {
        &["transaction"]
    }

    fn source(&self, _: usize, _: usize, seed: u64) -> Rng {
        Rng::new(seed)
    }

    #[inline(always)]
    fn next(&self, source: &mut Rng) -> u64 {
        source.next_u64()
    }

    fn operations(&self) -> Option<usize> {
        Some(self.shape.operations())
    }

    /// Measures one in 16 transactions that touch few records, and all others.
    fn sample_every(&self) -> u32 {
        if self.shape.weight() >= 50 { 1 } else { 16 }
    }

    fn settle(&self, commits: u64, missing: i64) {
        // If records are added, a requested record may not have been committed yet.
        self.shared.ledger.add(commits, if self.shape.inserts() { 0 } else { missing });
    }

    fn check<C: Scheme>(&self, _: &Database<C>) -> crate::Result<Vec<Condition>> {
        let missed = self.shared.ledger.effects();
        Ok(vec![Condition::equal("every record was found", ("missed", missed), ("expected", 0))])
    }

    fn execute<C: Scheme>(&self, job: &Job<'_, C, Ycsb>) -> Option<Measured> {
        let draws = Draws::new(self, job.variant);
        match (job.variant.mode, self.table) {
            (Mode::HandSequential | Mode::HandInterleaved, AnyTable::Fixed(table)) => {
                handwritten::execute(job, &draws, table)
            }
            (Mode::Interactive, AnyTable::Fixed(table)) => interactive::execute(job, &draws, table),
            (Mode::HandSequential | Mode::HandInterleaved | Mode::Interactive, AnyTable::Long(_)) => None,
            (_, AnyTable::Fixed(table)) => bodies::execute(job, &draws, table),
            (_, AnyTable::Long(table)) => bodies::execute(job, &draws, table),
        }
    }
}
