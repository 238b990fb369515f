//! Every mix in every way of execution, briefly, and what holds afterwards.

use crate::args::{DurabilityKind, Mode, RefillKind};
use crate::engine::{self, Database, Scheme};
use crate::scheme::{Cc, WithScheme};
use crate::suite::args::HintsKind;
use crate::suite::plan::{Variant, no_form};
use crate::suite::slice::{Slice, together};
use crate::suite::worker::{Job, Length};
use crate::suite::{Suite, Transactions};
use crate::{Failure, Result};
use braid_tpcc::{CONDITIONS, KINDS, Mix, Scale, Settings, Tpcc};
use braiddb::{Front, IndexKind, TableOptions};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The size of the database.
    pub scale: Scale,
    /// Schemes; each has a database of its own for each durability.
    pub cc: Vec<Cc>,
    /// Durabilities. A database that is in a directory is closed after each run and opened again: conditions are checked
    /// on what has been recovered, with the indexes that were made anew.
    pub durability: Vec<DurabilityKind>,
    /// The kind of index of all tables.
    pub index: IndexKind,
    /// Where directories of durable databases are made.
    pub directory: PathBuf,
    /// Mixes, one after the other on the same database.
    pub mix: Vec<Mix>,
    /// Ways to execute each mix: naive, prefetch, interleaved, hybrid or auto.
    pub mode: Vec<Mode>,
    /// Threads.
    pub workers: usize,
    /// Transactions open at once per worker, in the interleaved modes.
    pub batch: usize,
    /// Transactions of each worker.
    pub transactions: u64,
    /// The first seed.
    pub seed: u64,
}

/// What one mix did in one way, and what held afterwards.
#[derive(Clone, Debug)]
pub struct Run {
    /// The scheme.
    pub cc: Cc,
    /// What a crash would leave.
    pub durability: DurabilityKind,
    /// Which transactions.
    pub mix: Mix,
    /// How they were executed.
    pub mode: Mode,
    /// Those that have committed, by the kinds of the mix.
    pub commits: Vec<(&'static str, u64)>,
    /// Orders rolled back on purpose.
    pub rolled_back: u64,
    /// Attempts that gave way to another transaction.
    pub aborts: u64,
    /// From the first transaction to the last, the start of the workers included.
    pub elapsed: Duration,
    /// Conditions that were checked.
    pub conditions: usize,
    /// Those that do not hold, and where.
    pub violations: Vec<String>,
}

/// Runs everything that the plan asks for, and shows each run as it ends. A condition that does not hold is no error
/// here; a transaction that fails is one.
pub fn run_all(plan: &RunPlan, show: &mut dyn FnMut(&Run)) -> Result<Vec<Run>> {
    plan.scale.check().map_err(Failure::new)?;
    let mut runs = Vec::new();
    let homes = plan.cc.iter().flat_map(|one| plan.durability.iter().map(move |other| (*one, *other)));
    for (cc, durability) in homes {
        runs.extend(cc.scheme.with(InOneDatabase { plan, cc, durability, show })?);
    }
    if runs.is_empty() {
        return Err(Failure::new("none of the modes can be run under these schemes"));
    }
    Ok(runs)
}

/// The runs under one scheme and durability.
struct InOneDatabase<'a> {
    plan: &'a RunPlan,
    cc: Cc,
    durability: DurabilityKind,
    show: &'a mut dyn FnMut(&Run),
}

impl WithScheme for InOneDatabase<'_> {
    type Output = Result<Vec<Run>>;
    fn with<C: Scheme>(self) -> Result<Vec<Run>> {
        run_home::<C>(self.plan, (self.cc, self.durability), self.show)
    }
}

fn run_home<C: Scheme>(
    plan: &RunPlan,
    (cc, durability): (Cc, DurabilityKind),
    show: &mut dyn FnMut(&Run),
) -> Result<Vec<Run>> {
    let settings = Settings::new(plan.scale);
    let tables = TableOptions { index: plan.index, ..TableOptions::default() };
    let (mut db, directory) = engine::open::<C>(tables, durability, &plan.directory)?;
    let mut suite = super::load(&db, settings, plan.seed, plan.workers, &|_, _| {})?;
    let mut runs = Vec::new();
    let modes = plan.mode.iter().filter(|mode| mode.is_there(cc.scheme));
    for (mix, mode) in plan.mix.iter().flat_map(|mix| modes.clone().map(move |mode| (*mix, *mode))) {
        let work = Work { cc, mode, workers: plan.workers, batch: plan.batch };
        let start = Instant::now();
        let seed = plan.seed.wrapping_add(runs.len() as u64);
        let slice = run(&db, &suite.with(Settings { mix, ..settings }), &work, plan.transactions, seed)?;
        let elapsed = start.elapsed();
        if let Some(directory) = &directory {
            db.close().map_err(engine::failure)?;
            db = engine::open_again(directory, tables, durability)?;
            suite = suite.of(&db).map_err(engine::failure)?;
        }
        let conditions = suite.check(&db)?;
        let violated = conditions.iter().filter(|condition| !condition.holds);
        let kinds = KINDS[mix.kinds()].iter().zip(&slice.kinds);
        let run = Run {
            cc,
            durability,
            mix,
            mode,
            commits: kinds.map(|(name, kind)| (*name, kind.committed)).collect(),
            rolled_back: slice.kinds.iter().map(|kind| kind.rolled_back).sum(),
            aborts: slice.kinds.iter().map(|kind| kind.aborts()).sum(),
            elapsed,
            conditions: CONDITIONS.len(),
            violations: violated
                .map(|condition| format!("{}: {}", condition.name, condition.detail))
                .collect(),
        };
        show(&run);
        runs.push(run);
    }
    Ok(runs)
}

/// How transactions are run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) cc: Cc,
    pub(super) mode: Mode,
    pub(super) workers: usize,
    pub(super) batch: usize,
}

/// Runs this many transactions on each worker, and checks that the orders rolled back are those that had to be.
pub(super) fn run<C: Scheme>(
    db: &Database<C>,
    suite: &Tpcc,
    work: &Work,
    transactions: u64,
    seed: u64,
) -> Result<Slice> {
    let &Work { cc, mode, workers, batch } = work;
    let batch = if mode.interleaves() { batch } else { 1 };
    let hints = if mode.may_interleave() { HintsKind::On } else { HintsKind::Off };
    let (durability, refill) = (DurabilityKind::Memory, RefillKind::Immediate);
    let (index, front) = (IndexKind::default(), Front::None);
    let variant = &Variant { workers, cc, durability, index, front, mode, batch, refill, hints };
    let length = Length { warm_up: Duration::ZERO, slice: Duration::MAX, transactions_max: transactions };
    let slice = together(workers, |worker| suite.execute(&Job { db, suite, variant, worker, length, seed }))?;
    let slice = slice.ok_or_else(|| no_form(mode))?;
    if slice.given_up > 0 {
        return Err(Failure::new(format!(
            "{} transactions failed with a conflict at every attempt",
            slice.given_up
        )));
    }
    let to_roll_back = |worker: usize| {
        let mut source = suite.source(worker, workers, seed);
        (0..transactions).filter(|_| suite.rolls_back(&suite.next(&mut source))).count() as u64
    };
    let to: u64 = (0..workers).map(to_roll_back).sum();
    let rolled_back: u64 = slice.kinds.iter().map(|kind| kind.rolled_back).sum();
    if rolled_back == to {
        Ok(slice)
    } else {
        Err(Failure::new(format!("{rolled_back} orders were rolled back, not {to}")))
    }
}
