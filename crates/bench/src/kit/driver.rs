//! Loads a database for each scheme and durability, runs all variants in turns, as often as is asked for, so
//! that what the machine does meanwhile falls on all of them alike, and checks the conditions after each turn.

use super::plan::{Form, Home, Plan, Variant};
use super::report::{DatabaseLine, Part, Row};
use super::worker::{self, Counts, Job, Length, Measured};
use super::{Benchmark, Condition, Kit, Loaded, Parameters};
use crate::engine::{self, Breakdown, Database, Scheme};
use crate::hardware::{Counting, Events};
use crate::machine::{pin, progress};
use crate::scheme::WithScheme;
use crate::{Failure, Result};
use std::time::Duration;

/// A slice is preceded by this share of it, not counted, or by `WARM_UP_MAX`.
const WARM_UP_SHARE: f64 = 0.1;
const WARM_UP_MAX: Duration = Duration::from_millis(100);
/// A mode that looks for its level has this instead.
const WARM_UP_AUTO: Duration = Duration::from_millis(500);

/// Runs the plan.
pub(crate) fn run<B: Benchmark>(benchmark: &B, plan: &Plan) -> Result<Part> {
    let mut databases = Vec::new();
    for home in plan.homes() {
        databases.push((home, home.scheme.with(Load { benchmark, home, plan })?));
    }
    let of = |home: Home| {
        let found = databases.iter().find(|(other, _)| *other == home);
        &*found.expect("a database is loaded for each home of the variants").1
    };
    let kits = databases.first().map_or(0, |(_, database)| database.kits());
    let works: Vec<(usize, &Variant)> =
        (0..kits).flat_map(|kit| plan.variants.iter().map(move |variant| (kit, variant))).collect();
    let mut slices: Vec<Vec<Slice>> = works.iter().map(|_| Vec::new()).collect();
    let mut conditions = Vec::new();
    let bar =
        progress(works.len() as u64 * u64::from(plan.repeats), "running {msg} [{bar:40}] {pos}/{len} {eta}");
    for repeat in 0..plan.repeats {
        for (&(kit, variant), slices) in works.iter().zip(&mut slices) {
            bar.set_message(variant.form.name());
            slices.push(run_slice(of(variant.home()), kit, variant, plan, repeat)?);
            bar.inc(1);
        }
        conditions.clear();
        for (home, database) in &databases {
            conditions.push(checked(benchmark.name(), *home, &**database, repeat)?);
        }
    }
    bar.finish_and_clear();
    let lines = databases.iter().zip(conditions).map(|((home, database), conditions)| DatabaseLine {
        home: *home,
        parameters: in_common((0..database.kits()).map(|kit| database.parameters(kit))),
        memory_before_bytes: database.memory_before_bytes(),
        memory_after_bytes: database.memory_bytes(),
        conditions,
    });
    let lines = lines.collect();
    let of_work = |(&(kit, variant), slices): (&(usize, &Variant), Vec<Slice>)| {
        let database = of(variant.home());
        Row::of(database.parameters(kit), variant, database.kinds(kit), &slices)
    };
    let rows = works.iter().zip(slices).flat_map(of_work).collect();
    Ok(Part { rows, databases: lines })
}

/// The parameters that all have, with the same values.
fn in_common<'a>(mut all: impl Iterator<Item = &'a Parameters>) -> Parameters {
    let mut common = all.next().cloned().unwrap_or_default();
    all.for_each(|other| common.retain(|parameter| other.contains(parameter)));
    common
}

/// What all workers did together in one slice.
pub(crate) struct Slice {
    /// In the order of the kit's kinds.
    pub(crate) kinds: Vec<Counts>,
    /// Transactions done per second, likewise.
    pub(crate) per_s: Vec<f64>,
    pub(crate) given_up: u64,
    /// Where the workers' time went, if that was asked for.
    pub(crate) breakdown: Breakdown,
    pub(crate) events: Events,
}

/// A loaded database under any scheme.
trait Runs: Sync {
    /// How many kits it has, all over the same tables.
    fn kits(&self) -> usize;
    fn kinds(&self, kit: usize) -> &'static [&'static str];
    fn parameters(&self, kit: usize) -> &Parameters;
    /// One worker's slice.
    fn run(&self, kit: usize, variant: &Variant, worker: usize, slice: Duration, seed: u64) -> Measured;
    fn check(&self) -> Result<Vec<Condition>>;
    fn memory_before_bytes(&self) -> u64;
    fn memory_bytes(&self) -> u64;
    fn breakdown(&self) -> Breakdown;
}

struct Ready<C: Scheme, K: Kit> {
    db: Database<C>,
    kits: Vec<Loaded<K>>,
    memory_before_bytes: u64,
    /// Removed after the database.
    _directory: Option<engine::Directory>,
}

/// Loads the tables of a benchmark.
struct Load<'a, B> {
    benchmark: &'a B,
    home: Home,
    plan: &'a Plan,
}

impl<B: Benchmark> WithScheme for Load<'_, B> {
    type Output = Result<Box<dyn Runs>>;
    fn with<C: Scheme>(self) -> Self::Output {
        Ok(Box::new(Ready::<C, B::Kit>::load(self.benchmark, self.home, self.plan)?))
    }
}

impl<C: Scheme, K: Kit> Ready<C, K> {
    fn load<B: Benchmark<Kit = K>>(benchmark: &B, home: Home, plan: &Plan) -> Result<Self> {
        let (db, directory) = engine::open::<C>(plan.index, home.durability, &plan.directory)?;
        let kits = benchmark.load(&db)?;
        assert!(kits.iter().all(|one| !one.kit.kinds().is_empty()), "a kit has kinds of transactions");
        let memory_before_bytes = engine::counters(&db).memory_bytes;
        db.checkpoint().map_err(engine::failure)?; // so that the log is short
        db.set_profiling(plan.breakdown);
        Ok(Ready { db, kits, memory_before_bytes, _directory: directory })
    }
}

impl<C: Scheme, K: Kit> Runs for Ready<C, K> {
    fn kits(&self) -> usize {
        self.kits.len()
    }
    fn kinds(&self, kit: usize) -> &'static [&'static str] {
        self.kits[kit].kit.kinds()
    }
    fn parameters(&self, kit: usize) -> &Parameters {
        &self.kits[kit].parameters
    }
    fn run(&self, kit: usize, variant: &Variant, worker: usize, slice: Duration, seed: u64) -> Measured {
        let warm_up = match variant.form {
            Form::Auto => WARM_UP_AUTO,
            _ => slice.mul_f64(WARM_UP_SHARE).min(WARM_UP_MAX),
        };
        let length = Length::Time { warm_up, slice };
        worker::execute(&Job { db: &self.db, kit: &self.kits[kit].kit, variant, worker, length, seed })
    }
    fn check(&self) -> Result<Vec<Condition>> {
        self.kits.first().map_or(Ok(Vec::new()), |loaded| loaded.kit.check(&self.db))
    }
    fn memory_before_bytes(&self) -> u64 {
        self.memory_before_bytes
    }
    fn memory_bytes(&self) -> u64 {
        engine::counters(&self.db).memory_bytes
    }
    fn breakdown(&self) -> Breakdown {
        engine::counters(&self.db).breakdown
    }
}

/// One variant for one slice.
fn run_slice(database: &dyn Runs, kit: usize, variant: &Variant, plan: &Plan, repeat: u32) -> Result<Slice> {
    let (before, counting) = (database.breakdown(), plan.breakdown.then(Counting::start));
    let slice = together(variant.workers, database.kinds(kit).len(), |worker| {
        // Every mode gets the same inputs in the same repeat.
        let seed = plan.seed.wrapping_add((u64::from(repeat) << 32) + worker as u64);
        database.run(kit, variant, worker, plan.slice, engine::mix(seed))
    })?;
    let events = counting.map(Counting::end).unwrap_or_default();
    Ok(Slice { breakdown: database.breakdown().since(&before), events, ..slice })
}

/// So many workers at once, each on a processor of its own, and what all of them did.
pub(crate) fn together(
    workers: usize,
    kinds: usize,
    run: impl Fn(usize) -> Measured + Sync,
) -> Result<Slice> {
    let measured: Vec<Measured> = std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || {
                    pin(worker);
                    run(worker)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
    });
    let (counts, per_s) = ((0..kinds).map(|_| Counts::new()).collect(), vec![0.0; kinds]);
    let (breakdown, events) = (Breakdown::default(), Events::default());
    let mut all = Slice { kinds: counts, per_s, given_up: 0, breakdown, events };
    for one in measured {
        if let Some(error) = one.error {
            return Err(engine::failure(error));
        }
        all.given_up += one.given_up;
        for (kind, counts) in one.kinds.iter().enumerate() {
            all.per_s[kind] += counts.done() as f64 / one.elapsed.as_secs_f64();
            all.kinds[kind].add(counts);
        }
    }
    Ok(all)
}

/// The conditions of a database, all of which hold.
fn checked(benchmark: &str, home: Home, database: &dyn Runs, repeat: u32) -> Result<Vec<Condition>> {
    let conditions = database.check()?;
    match conditions.iter().find(|condition| !condition.holds) {
        None => Ok(conditions),
        Some(broken) => Err(Failure::new(format!(
            "{benchmark} under {}, durability {}, after repeat {}: it does not hold that {}: {}",
            home.scheme.name(),
            home.durability.name(),
            repeat + 1,
            broken.name,
            broken.detail
        ))),
    }
}
