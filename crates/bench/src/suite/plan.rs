//! The variants that a command line asks for, in the order in which they are run and shown.

use super::args::{HintsKind, KindsArgs, SuiteArgs};
use crate::args::{DurabilityKind, Mode, RefillKind, RunArgs};
use crate::engine::{AUTO_BATCH_MAX, BatchSize, Front, IndexKind, TableOptions};
use crate::scheme::{Cc, SchemeKind};
use crate::{Failure, Result};
use std::path::PathBuf;
use std::time::Duration;

/// One combination of all that can be varied without loading other tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) workers: usize,
    pub(crate) cc: Cc,
    pub(crate) durability: DurabilityKind,
    /// The kind of index of all tables.
    pub(crate) index: IndexKind,
    /// What is in front of it.
    pub(crate) front: Front,
    pub(crate) mode: Mode,
    /// Transactions open at once per worker; 1 where that is not given.
    pub(crate) batch: usize,
    /// When places are filled again.
    pub(crate) refill: RefillKind,
    /// Off where one transaction comes after the other.
    pub(crate) hints: HintsKind,
}

/// The databases of a benchmark differ in these.
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

    /// The most transactions of one worker that may be open at once.
    pub(crate) fn open_max(&self) -> usize {
        if self.mode == Mode::Auto { AUTO_BATCH_MAX } else { self.batch }
    }

    /// The database that it runs in.
    pub(crate) fn database(&self) -> DatabaseKind {
        let Variant { cc, durability, index, front, .. } = *self;
        DatabaseKind { scheme: cc.scheme, durability, index, front }
    }
}

impl DatabaseKind {
    /// The options of its tables.
    pub(crate) fn tables(&self) -> TableOptions {
        TableOptions { index: self.index, front: self.front }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// In order: by workers, then by mode.
    pub(crate) variants: Vec<Variant>,
    /// How often each runs.
    pub(crate) repeats: u32,
    /// How long each runs in one repeat.
    pub(crate) slice: Duration,
    /// Transactions that a worker runs at most in one repeat.
    pub(crate) transactions_max: u64,
    /// Where durable databases are made.
    pub(crate) directory: PathBuf,
    pub(crate) seed: u64,
    /// Checkpoints are made meanwhile.
    pub(crate) checkpoints: bool,
    /// Workers measure where their time goes.
    pub(crate) breakdown: bool,
}

/// Beyond, a run would take days.
pub(crate) const VARIANTS_MAX: usize = 10_000;

/// A slice is preceded by this share of it, not counted, or by `WARM_UP_MAX`.
const WARM_UP_SHARE: f64 = 0.1;
const WARM_UP_MAX: Duration = Duration::from_millis(100);
/// A mode that looks for its level has this instead.
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

    /// Unfolds a command line of a workload whose transactions are of several kinds.
    pub(crate) fn of_kinds(args: &KindsArgs) -> Result<Plan> {
        if let Some(mode) = args.suite.mode.iter().find(|mode| !mode.has_form_of_kinds()) {
            return Err(no_form(*mode));
        }
        Plan::new(&args.suite, &[RefillKind::Immediate], &args.hints)
    }

    /// Adds a variant that is not yet in the plan.
    fn push(&mut self, variant: Variant) {
        if !self.variants.contains(&variant) {
            self.variants.push(variant);
        }
    }

    /// Adds the variants of another plan that are not yet in this one.
    pub(crate) fn extend(&mut self, other: Plan) {
        other.variants.into_iter().for_each(|variant| self.push(variant));
    }

    /// How long each variant runs unmeasured before a slice. Not at all where transactions are counted.
    pub(crate) fn warm_up(&self, mode: Mode) -> Duration {
        match mode {
            _ if self.transactions_max < u64::MAX => Duration::ZERO,
            Mode::Auto => WARM_UP_AUTO,
            _ => self.slice.mul_f64(WARM_UP_SHARE).min(WARM_UP_MAX),
        }
    }

    /// The databases that the variants run in.
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

/// The databases that the lists of a command line ask for; a scheme may come in several forms.
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

/// The batches, refills and hints that a mode has.
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

/// The error of a mode that transactions of several kinds have no form for.
pub(crate) fn no_form(mode: Mode) -> Failure {
    Failure::new(format!(
        "mode {} has no form of these transactions: choose from naive, prefetch, interleaved, hybrid and auto",
        mode.name()
    ))
}
