//! A brief run of every mix in every mode, with a check of the conditions afterwards.

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

/// The plan of a check.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The size of the database.
    pub scale: Scale,
    /// Schemes. For each durability, each scheme has its own database.
    pub cc: Vec<Cc>,
    /// Durabilities. A database on disk is closed after each run and opened again. Conditions are then checked on the
    /// recovered data, with rebuilt indexes.
    pub durability: Vec<DurabilityKind>,
    /// The kind of index of all tables.
    pub index: IndexKind,
    /// The directory in which durable databases are made.
    pub directory: PathBuf,
    /// Mixes, run one after the other on the same database.
    pub mix: Vec<Mix>,
    /// Modes of each mix: naive, prefetch, interleaved, hybrid or auto.
    pub mode: Vec<Mode>,
    /// Number of worker threads.
    pub workers: usize,
    /// Transactions open at once per worker, in the interleaved modes.
    pub batch: usize,
    /// Transactions per worker.
    pub transactions: u64,
    /// The first seed.
    pub seed: u64,
}

/// The result of one mix in one mode.
#[derive(Clone, Debug)]
pub struct Run {
    /// The scheme.
    pub cc: Cc,
    /// The data that survives a crash of the machine.
    pub durability: DurabilityKind,
    /// The mix.
    pub mix: Mix,
    /// The mode.
    pub mode: Mode,
    /// Committed transactions, by kind.
    pub commits: Vec<(&'static str, u64)>,
    /// Orders rolled back on purpose.
    pub rolled_back: u64,
    /// Attempts that ended with a conflict.
    pub aborts: u64,
    /// Time from the first transaction to the last, including the start of the workers.
    pub elapsed: Duration,
    /// Number of conditions that were checked.
    pub conditions: usize,
    /// The conditions that do not hold, and where.
    pub violations: Vec<String>,
}

/// Runs everything that the plan requests, and shows each run when it ends. A condition that does not hold is no error
/// here, but a transaction that fails is.
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

/// The runs with one scheme and durability.
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

/// Runs this many transactions on each worker, and checks that exactly the orders that had to roll back did so.
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
