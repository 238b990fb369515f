//! The variants that a command line requests, in the order in which they run and are shown.

use super::args::{HintsKind, KindsArgs, SuiteArgs};
use crate::args::{DurabilityKind, Mode, RefillKind, RunArgs};
use crate::engine::{AUTO_BATCH_MAX, BatchSize, Front, IndexKind, TableOptions};
use crate::scheme::{Cc, SchemeKind};
use crate::{Failure, Result};
use std::path::PathBuf;
use std::time::Duration;

/// A combination of everything that can vary on the same tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) workers: usize,
    pub(crate) cc: Cc,
    pub(crate) durability: DurabilityKind,
    /// The kind of index of all tables.
    pub(crate) index: IndexKind,
    /// The kind of front of that index.
    pub(crate) front: Front,
    pub(crate) mode: Mode,
    /// Transactions open at once per worker; 1 if the mode has no batch.
    pub(crate) batch: usize,
    /// When slots are filled again.
    pub(crate) refill: RefillKind,
    /// Off if transactions run one after the other.
    pub(crate) hints: HintsKind,
}

/// The properties that distinguish the databases of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseKind {
    pub(crate) scheme: SchemeKind,
    pub(crate) durability: DurabilityKind,
    pub(crate) index: IndexKind,
    pub(crate) front: Front,
}

impl Variant {
    /// Transactions open at once per worker.
    pub(crate) fn batch_size(&self) -> BatchSize {
        if self.mode == Mode::Auto { BatchSize::Auto } else { BatchSize::Fixed(self.batch) }
    }

    /// Returns the largest number of transactions that one worker may have open at once.
    pub(crate) fn open_max(&self) -> usize {
        if self.mode == Mode::Auto { AUTO_BATCH_MAX } else { self.batch }
    }

    /// Returns the database that the variant runs in.
    pub(crate) fn database(&self) -> DatabaseKind {
        let Variant { cc, durability, index, front, .. } = *self;
        DatabaseKind { scheme: cc.scheme, durability, index, front }
    }
}

impl DatabaseKind {
    /// Returns the options of its tables.
    pub(crate) fn tables(&self) -> TableOptions {
        TableOptions { index: self.index, front: self.front }
    }
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Ordered by workers, then by mode.
    pub(crate) variants: Vec<Variant>,
    /// How often each variant runs.
    pub(crate) repeats: u32,
    /// How long each variant runs in one repeat.
    pub(crate) slice: Duration,
    /// The most transactions that a worker runs in one repeat.
    pub(crate) transactions_max: u64,
    /// The directory in which durable databases are made.
    pub(crate) directory: PathBuf,
    pub(crate) seed: u64,
    /// True if checkpoints are made while variants run.
    pub(crate) checkpoints: bool,
    /// True if workers measure where their time goes.
    pub(crate) breakdown: bool,
}

/// With more variants, a run would take days.
pub(crate) const VARIANTS_MAX: usize = 10_000;

/// The share of a slice that runs before it and is not counted, at most `WARM_UP_MAX`.
const WARM_UP_SHARE: f64 = 0.1;
const WARM_UP_MAX: Duration = Duration::from_millis(100);
/// The warm-up of a mode that looks for its level.
const WARM_UP_AUTO: Duration = Duration::from_millis(500);

impl Plan {
    /// Unfolds the lists of a command line.
    pub(crate) fn new(args: &SuiteArgs, refill: &[RefillKind], hints: &[HintsKind]) -> Result<Plan> {
        let mut plan = Plan {
            variants: Vec::new(),
            repeats: args.run.repeats,
            slice: args.run.slice(),
            transactions_max: args.transactions.unwrap_or(u64::MAX),
            directory: args.run.parent(),
            seed: args.seed,
            checkpoints: false,
            breakdown: args.run.breakdown,
        };
        for &workers in &args.workers {
            for &mode in &args.mode {
                for (batch, refill, hints) in ways(mode, &args.batch, refill, hints) {
                    for (cc, durability, index, front) in databases(&args.run) {
                        plan.push(Variant {
                            workers,
                            cc,
                            durability,
                            index,
                            front,
                            mode,
                            batch,
                            refill,
                            hints,
                        });
                    }
                }
            }
        }
        if plan.variants.len() > VARIANTS_MAX {
            let count = plan.variants.len();
            return Err(Failure::new(format!("{count} variants are more than {VARIANTS_MAX}")));
        }
        Ok(plan)
    }

    /// Unfolds a command line of a workload with several kinds of transactions.
    pub(crate) fn of_kinds(args: &KindsArgs) -> Result<Plan> {
        if let Some(mode) = args.suite.mode.iter().find(|mode| !mode.has_form_of_kinds()) {
            return Err(no_form(*mode));
        }
        Plan::new(&args.suite, &[RefillKind::Immediate], &args.hints)
    }

    /// Adds a variant unless the plan has it already.
    fn push(&mut self, variant: Variant) {
        if !self.variants.contains(&variant) {
            self.variants.push(variant);
        }
    }

    /// Adds the variants of another plan that this plan does not have.
    pub(crate) fn extend(&mut self, other: Plan) {
        other.variants.into_iter().for_each(|variant| self.push(variant));
    }

    /// Returns how long a variant runs unmeasured before a slice. If transactions are counted, there is no warm-up.
    pub(crate) fn warm_up(&self, mode: Mode) -> Duration {
        match mode {
            _ if self.transactions_max < u64::MAX => Duration::ZERO,
            Mode::Auto => WARM_UP_AUTO,
            _ => self.slice.mul_f64(WARM_UP_SHARE).min(WARM_UP_MAX),
        }
    }

    /// Returns the databases that the variants run in.
    pub(crate) fn databases(&self) -> Vec<DatabaseKind> {
        let mut databases = Vec::new();
        for database in self.variants.iter().map(Variant::database) {
            if !databases.contains(&database) {
                databases.push(database);
            }
        }
        databases
    }
}

/// Returns the databases that the lists of a command line request. A scheme can occur in several forms.
fn databases(args: &RunArgs) -> Vec<(Cc, DurabilityKind, IndexKind, Front)> {
    let mut databases = Vec::new();
    for &cc in &args.cc {
        for &durability in &args.durability {
            for &index in &args.index {
                databases.extend(args.front.iter().map(|&front| (cc, durability, index, front)));
            }
        }
    }
    databases
}

/// Returns the batches, refills and hints that a mode has.
fn ways(
    mode: Mode,
    batches: &[usize],
    refills: &[RefillKind],
    hints: &[HintsKind],
) -> Vec<(usize, RefillKind, HintsKind)> {
    let mut ways = Vec::new();
    for &batch in batches {
        for &refill in refills {
            for &hints in hints {
                let (batch, refill) =
                    if mode.interleaves() { (batch, refill) } else { (1, RefillKind::Immediate) };
                let hints = if mode.may_interleave() { hints } else { HintsKind::Off };
                ways.push((batch, refill, hints));
            }
        }
    }
    ways
}

/// The error for a mode that does not support several kinds of transactions.
pub(crate) fn no_form(mode: Mode) -> Failure {
    Failure::new(format!(
        "mode {} has no form of these transactions: choose from naive, prefetch, interleaved, hybrid and auto",
        mode.name()
    ))
}
