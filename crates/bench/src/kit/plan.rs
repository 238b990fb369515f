//! The variants that a command line asks for, in the order in which they are run and shown.

use super::args::{HintsKind, KitArgs};
use crate::args::{DurabilityKind, Mode};
use crate::scheme::{Cc, SchemeKind};
use crate::{Failure, Result};
use braiddb::IndexKind;
use braiddb::worker::BatchSize;
use std::path::PathBuf;
use std::time::Duration;

/// The modes that kits have a form for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One after the other, no prefetching.
    Naive,
    /// One after the other, prefetching.
    Prefetch,
    /// Interleaved.
    Interleaved,
    /// Interleaved, with multi-gets inside.
    Hybrid,
    /// Interleaved or not, as each worker finds out to be best.
    Auto,
}

impl Form {
    /// The form of a mode; an error where kits have none.
    pub(crate) fn of(mode: Mode) -> Result<Form> {
        match mode {
            Mode::Naive => Ok(Form::Naive),
            Mode::Prefetch => Ok(Form::Prefetch),
            Mode::Interleaved => Ok(Form::Interleaved),
            Mode::Hybrid => Ok(Form::Hybrid),
            Mode::Auto => Ok(Form::Auto),
            _ => Err(Failure::new(format!(
                "mode {} has no form of these transactions: choose from naive, prefetch, interleaved, hybrid and \
                 auto",
                mode.name()
            ))),
        }
    }

    /// The mode's name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::Naive => Mode::Naive.name(),
            Form::Prefetch => Mode::Prefetch.name(),
            Form::Interleaved => Mode::Interleaved.name(),
            Form::Hybrid => Mode::Hybrid.name(),
            Form::Auto => Mode::Auto.name(),
        }
    }

    /// True if more than one transaction of a worker can be open.
    pub(crate) fn may_interleave(self) -> bool {
        self.interleaves() || self == Form::Auto
    }

    /// True if a number of transactions of one worker is open at once.
    pub(crate) fn interleaves(self) -> bool {
        matches!(self, Form::Interleaved | Form::Hybrid)
    }
}

/// One combination of all that can be varied without loading other tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) workers: usize,
    pub(crate) cc: Cc,
    pub(crate) durability: DurabilityKind,
    pub(crate) form: Form,
    /// Transactions open at once per worker.
    pub(crate) batch: usize,
    /// Off where one comes after the other.
    pub(crate) hints: HintsKind,
}

/// What tells the databases of a benchmark apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) scheme: SchemeKind,
    pub(crate) durability: DurabilityKind,
}

impl Variant {
    /// Transactions open at once per worker.
    pub(crate) fn batch_size(&self) -> BatchSize {
        if self.form == Form::Auto { BatchSize::Auto } else { BatchSize::Fixed(self.batch) }
    }

    /// The database that it runs in.
    pub(crate) fn home(&self) -> Home {
        Home { scheme: self.cc.scheme, durability: self.durability }
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
    /// The kind of index of all tables.
    pub(crate) index: IndexKind,
    /// Where durable databases are made.
    pub(crate) directory: PathBuf,
    pub(crate) seed: u64,
    /// Whether workers tell where their time goes.
    pub(crate) breakdown: bool,
}

/// Beyond, a run would take days.
const VARIANTS_MAX: usize = 1000;

impl Plan {
    /// Unfolds the lists of a command line.
    pub(crate) fn new(args: &KitArgs) -> Result<Plan> {
        let mut variants = Vec::new();
        for &workers in &args.workers {
            for &mode in &args.mode {
                let form = Form::of(mode)?;
                for (&batch, &hints) in
                    args.batch.iter().flat_map(|batch| args.hints.iter().map(move |hints| (batch, hints)))
                {
                    let batch = if form.interleaves() { batch } else { 1 };
                    let hints = if form.may_interleave() { hints } else { HintsKind::Off };
                    for &cc in &args.run.cc {
                        variants.extend(args.run.durability.iter().map(|&durability| Variant {
                            workers,
                            cc,
                            durability,
                            form,
                            batch,
                            hints,
                        }));
                    }
                }
            }
        }
        let mut seen = Vec::new();
        variants.retain(|one| {
            !seen.contains(one) && {
                seen.push(*one);
                true
            }
        });
        if variants.len() > VARIANTS_MAX {
            return Err(Failure::new(format!("{} variants are more than {VARIANTS_MAX}", variants.len())));
        }
        let (slice, index, directory) = (args.run.slice(), args.run.index, args.run.parent());
        let (repeats, seed, breakdown) = (args.run.repeats, args.seed, args.run.breakdown);
        Ok(Plan { variants, repeats, slice, index, directory, seed, breakdown })
    }

    /// The databases that the variants run in.
    pub(crate) fn homes(&self) -> Vec<Home> {
        let mut homes = Vec::new();
        for home in self.variants.iter().map(Variant::home) {
            if !homes.contains(&home) {
                homes.push(home);
            }
        }
        homes
    }
}
