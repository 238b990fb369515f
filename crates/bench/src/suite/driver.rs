//! The driver of all runs. It loads a database for each scheme and durability, runs all variants in turns, and checks
//! the conditions after each repeat. Because variants take turns, other load on the machine affects all of them
//! equally.

use super::outcome::{DatabaseLine, Part, Row, Work};
use super::plan::{DatabaseKind, Plan, Variant};
use super::slice::{Slice, together};
use super::worker::{Job, Length, Measured};
use super::{Benchmark, Condition, Loaded, Parameters, Suite};
use crate::args::DurabilityKind;
use crate::engine::{self, Database, Scheme};
use crate::machine::progress;
use crate::report::environment::{memory_available_bytes, memory_bytes};
use crate::report::hardware::Counting;
use crate::scheme::WithScheme;
use crate::{Failure, Result};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the plan.
pub(crate) fn run<B: Benchmark>(benchmark: &B, plan: &Plan) -> Result<Part> {
    let kinds = plan.databases();
    // Refuses what a scheme cannot do on disk, before anything is loaded.
    kinds.iter().try_for_each(|&kind| kind.scheme.with(TryOpen { kind, plan }))?;
    let mut databases = Vec::new();
    let mut memory = Memory::new(memory_bytes());
    for kind in kinds {
        databases.push((kind, memory.watch(|| kind.scheme.with(Load { benchmark, kind, plan }))?));
    }
    let of = |variant: &Variant| {
        let found = databases.iter().find(|(kind, _)| *kind == variant.database());
        &*found.expect("a database is loaded for each variant").1
    };
    let suites = databases.first().map_or(0, |(_, database)| database.suites());
    let works: Vec<(usize, &Variant)> =
        (0..suites).flat_map(|suite| plan.variants.iter().map(move |variant| (suite, variant))).collect();
    let mut slices: Vec<Vec<Slice>> = works.iter().map(|_| Vec::new()).collect();
    let mut conditions = Vec::new();
    let bar =
        progress(works.len() as u64 * u64::from(plan.repeats), "running {msg} [{bar:40}] {pos}/{len} {eta}");
    for repeat in 0..plan.repeats {
        for (&(suite, variant), slices) in works.iter().zip(&mut slices) {
            bar.set_message(variant.mode.name());
            slices.extend(memory.watch(|| run_slice(of(variant), suite, variant, plan, repeat))?);
            bar.inc(1);
        }
        conditions.clear();
        for (kind, database) in &databases {
            conditions.push(memory.watch(|| checked(benchmark.name(), *kind, &**database, repeat))?);
        }
    }
    bar.finish_and_clear();
    let lines = databases.iter().zip(conditions).map(|((kind, database), conditions)| DatabaseLine {
        kind: *kind,
        parameters: in_common((0..database.suites()).map(|suite| database.work(suite).parameters)),
        memory_before_bytes: database.memory_before_bytes(),
        memory_after_bytes: database.counters().memory_bytes,
        conditions,
    });
    let lines = lines.collect();
    let of_work = |(&(suite, variant), slices): (&(usize, &Variant), Vec<Slice>)| {
        let database = of(variant);
        Row::of(&database.work(suite), variant, database.memory_before_bytes(), &slices)
    };
    let rows = works.iter().zip(slices).flat_map(of_work).collect();
    Ok(Part { rows, databases: lines })
}

/// The memory that must be left before each step. On a small machine it is a share of the memory.
const SPARE_BYTES: u64 = 1 << 30;
const SPARE_SHARE: u64 = 16;

/// The memory that a step of a run may need. All databases that are compared exist at the same time, and many workloads
/// grow. If the system ran out of memory, it would end the process without a message.
struct Memory {
    needed_bytes: u64,
}

impl Memory {
    /// `total` is the machine's memory in bytes, if known.
    fn new(total: Option<u64>) -> Memory {
        Memory { needed_bytes: total.map_or(0, |bytes| SPARE_BYTES.min(bytes / SPARE_SHARE)) }
    }

    /// Runs a step if enough memory is left, and records how much the step has taken, because the next step may take as
    /// much.
    fn watch<R>(&mut self, step: impl FnOnce() -> Result<R>) -> Result<R> {
        let before = memory_available_bytes();
        self.check(before)?;
        let result = step();
        self.note(before, memory_available_bytes());
        result
    }

    fn note(&mut self, before: Option<u64>, after: Option<u64>) {
        if let (Some(before), Some(after)) = (before, after) {
            self.needed_bytes = self.needed_bytes.max(before.saturating_sub(after));
        }
    }

    fn check(&self, available: Option<u64>) -> Result<()> {
        match available {
            Some(bytes) if bytes < self.needed_bytes => Err(Failure::new(format!(
                "memory runs out: {} MiB are left, and the next step may take {}; measure fewer schemes, fronts or durabilities \
                 beside each other, take smaller tables, or a shorter time",
                bytes >> 20,
                self.needed_bytes >> 20
            ))),
            _ => Ok(()),
        }
    }
}

/// Returns the parameters that all have with the same values.
fn in_common<'a>(mut all: impl Iterator<Item = &'a Parameters>) -> Parameters {
    let mut common = all.next().cloned().unwrap_or_default();
    all.for_each(|other| common.retain(|parameter| other.contains(parameter)));
    common
}

/// A loaded database under some scheme.
trait Runs: Sync {
    /// Returns the number of suites, all of which use the same tables.
    fn suites(&self) -> usize;
    fn work(&self, suite: usize) -> Work<'_>;
    /// Runs one worker's slice. Returns `None` if the mode does not support the workload.
    fn run(
        &self,
        suite: usize,
        variant: &Variant,
        worker: usize,
        length: Length,
        seed: u64,
    ) -> Option<Measured>;
    fn check(&self) -> Result<Vec<Condition>>;
    fn checkpoint(&self) -> Result<()>;
    fn memory_before_bytes(&self) -> u64;
    fn counters(&self) -> engine::Counters;
}

struct Ready<C: Scheme, S: Suite> {
    db: Database<C>,
    suites: Vec<Loaded<S>>,
    memory_before_bytes: u64,
    /// Declared last, so that it is removed after the database is dropped.
    _directory: Option<engine::Directory>,
}

/// Opens an empty database on disk, and removes it.
struct TryOpen<'a> {
    kind: DatabaseKind,
    plan: &'a Plan,
}

impl WithScheme for TryOpen<'_> {
    type Output = Result<()>;
    fn with<C: Scheme>(self) -> Result<()> {
        if self.kind.durability == DurabilityKind::Memory {
            return Ok(());
        }
        let (plan, DatabaseKind { scheme, durability, .. }) = (self.plan, self.kind);
        engine::open::<C>(self.kind.tables(), durability, &plan.directory).map(|_| ()).map_err(|error| {
            let (scheme, durability) = (scheme.name(), durability.name());
            Failure::new(format!("--cc {scheme} with --durability {durability}: {error}"))
        })
    }
}

/// Loads the tables of a benchmark.
struct Load<'a, B> {
    benchmark: &'a B,
    kind: DatabaseKind,
    plan: &'a Plan,
}

impl<B: Benchmark> WithScheme for Load<'_, B> {
    type Output = Result<Box<dyn Runs>>;
    fn with<C: Scheme>(self) -> Self::Output {
        let plan = self.plan;
        let (db, directory) = engine::open::<C>(self.kind.tables(), self.kind.durability, &plan.directory)?;
        let suites = self.benchmark.load(&db)?;
        assert!(suites.iter().all(|one| !one.suite.kinds().is_empty()), "a suite has kinds of transactions");
        let memory_before_bytes = engine::counters(&db).memory_bytes;
        db.checkpoint().map_err(engine::failure)?; // so that the log is short
        db.set_profiling(plan.breakdown);
        Ok(Box::new(Ready { db, suites, memory_before_bytes, _directory: directory }))
    }
}

impl<C: Scheme, S: Suite> Runs for Ready<C, S> {
    fn suites(&self) -> usize {
        self.suites.len()
    }
    fn work(&self, suite: usize) -> Work<'_> {
        let Loaded { parameters, suite } = &self.suites[suite];
        let (operations, sample_every) = (suite.operations(), suite.sample_every());
        Work { parameters, kinds: suite.kinds(), operations, sample_every }
    }
    fn run(
        &self,
        suite: usize,
        variant: &Variant,
        worker: usize,
        length: Length,
        seed: u64,
    ) -> Option<Measured> {
        let suite = &self.suites[suite].suite;
        suite.execute(&Job { db: &self.db, suite, variant, worker, length, seed })
    }
    fn check(&self) -> Result<Vec<Condition>> {
        self.suites.first().map_or(Ok(Vec::new()), |loaded| loaded.suite.check(&self.db))
    }
    fn checkpoint(&self) -> Result<()> {
        self.db.checkpoint().map_err(engine::failure)
    }
    fn memory_before_bytes(&self) -> u64 {
        self.memory_before_bytes
    }
    fn counters(&self) -> engine::Counters {
        engine::counters(&self.db)
    }
}

/// Runs one variant for one slice. Returns `None` if its mode does not support the workload.
fn run_slice(
    database: &dyn Runs,
    suite: usize,
    variant: &Variant,
    plan: &Plan,
    repeat: u32,
) -> Result<Option<Slice>> {
    let (before, is_over) = (database.counters(), AtomicBool::new(false));
    let counting = plan.breakdown.then(Counting::start);
    let (warm_up, transactions_max) = (plan.warm_up(variant.mode), plan.transactions_max);
    let length = Length { warm_up, slice: plan.slice, transactions_max };
    let slice = std::thread::scope(|scope| {
        let checkpoints = plan.checkpoints.then(|| {
            scope.spawn(|| {
                // Relaxed: only the end of the loop depends on it.
                while !is_over.load(Ordering::Relaxed) {
                    database.checkpoint()?;
                }
                Ok(())
            })
        });
        let slice = together(variant.workers, |worker| {
            // Every mode gets the same inputs in the same repeat.
            let seed = plan.seed.wrapping_add((u64::from(repeat) << 32) + worker as u64);
            database.run(suite, variant, worker, length, engine::mix(seed))
        });
        is_over.store(true, Ordering::Relaxed); // a checkpoint under way is waited for
        if let Some(checkpoints) = checkpoints {
            checkpoints.join().expect("checkpoints do not panic")?;
        }
        slice
    })?;
    let events = counting.map(Counting::end).unwrap_or_default();
    let after = database.counters();
    let (log, breakdown) = (after.log.since(&before.log), after.breakdown.since(&before.breakdown));
    Ok(slice.map(|slice| Slice { log, breakdown, events, ..slice }))
}

/// Returns the conditions, or an error if one does not hold.
fn checked(benchmark: &str, kind: DatabaseKind, database: &dyn Runs, repeat: u32) -> Result<Vec<Condition>> {
    let conditions = database.check()?;
    match conditions.iter().find(|condition| !condition.holds) {
        None => Ok(conditions),
        Some(broken) => Err(Failure::new(format!(
            "{benchmark} under {}, durability {}, after repeat {}: it does not hold that {}: {}",
            kind.scheme.name(),
            kind.durability.name(),
            repeat + 1,
            broken.name,
            broken.detail
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_runs_out_is_an_error() {
        // Proves that the error says how much is left and what to do, that a step may take as much as an earlier one,
        // and that nothing is refused if enough memory is left or its amount is unknown.
        let mut memory = Memory::new(Some(24 << 30));
        let error = memory.check(Some(700 << 20)).unwrap_err().to_string();
        assert!(error.contains("700 MiB are left") && error.contains("fewer schemes"), "{error}");
        assert!(memory.check(Some(1 << 30)).is_ok() && memory.check(None).is_ok());
        memory.note(Some(8 << 30), Some(6 << 30));
        assert!(memory.check(Some((2 << 30) - 1)).is_err() && memory.check(Some(2 << 30)).is_ok());
        assert!(Memory::new(Some(2 << 30)).check(Some(200 << 20)).is_ok());
        assert!(Memory::new(None).check(Some(0)).is_ok());
    }
}
