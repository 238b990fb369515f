//! The variants that a command line asks for, in the order in which they are run and shown.

use crate::args::{DurabilityKind, Mode, RefillKind, YcsbArgs};
use crate::distribution::Kind;
use crate::scheme::Cc;
use crate::workload::Workload;
use crate::{Failure, Result};
use braiddb::IndexKind;
use std::path::PathBuf;
use std::time::Duration;

/// One combination of all that can be varied.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The work.
    pub workload: Workload,
    /// The request distribution.
    pub distribution: Kind,
    /// Its skew; 0 where it has none.
    pub theta: f64,
    /// How transactions are executed.
    pub mode: Mode,
    /// The scheme.
    pub cc: Cc,
    /// What a crash leaves of them.
    pub durability: DurabilityKind,
    /// Worker threads.
    pub workers: usize,
    /// Transactions open at once per worker.
    pub batch: usize,
    /// When places are filled again.
    pub refill: RefillKind,
    /// Records in the table.
    pub records: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
}

impl Variant {
    /// True if both run on the same loaded table.
    pub fn same_table(&self, other: &Variant) -> bool {
        (self.records, self.key_bytes, self.value_bytes)
            == (other.records, other.key_bytes, other.value_bytes)
    }

    /// True if both do the same work with the same means, so that their throughputs make a ratio.
    pub fn same_group(&self, other: &Variant) -> bool {
        self.same_table(other)
            && (&self.workload, self.distribution, self.theta, self.workers)
                == (&other.workload, other.distribution, other.theta, other.workers)
    }
}

/// A slice is preceded by this share of it, not counted, or by `WARM_UP_MAX`.
const WARM_UP_SHARE: f64 = 0.1;
const WARM_UP_MAX: Duration = Duration::from_millis(100);
/// A mode that looks for its level has this instead.
const WARM_UP_AUTO: Duration = Duration::from_millis(500);

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In order; variants of one table stand together.
    pub variants: Vec<Variant>,
    /// How often each runs.
    pub repeats: u32,
    /// How long each runs in one repeat.
    pub slice: Duration,
    /// Transactions that a worker runs at most in one repeat.
    pub transactions_max: u64,
    /// Loading stops here, with fewer records; None: never.
    pub load_time_max: Option<Duration>,
    /// The kind of index of all tables.
    pub index: IndexKind,
    /// Where durable databases are made.
    pub directory: PathBuf,
    /// Whether checkpoints are made meanwhile.
    pub checkpoints: bool,
    /// Whether workers tell where their time goes.
    pub breakdown: bool,
}

impl Plan {
    /// Unfolds the lists of a command line.
    pub fn new(args: &YcsbArgs) -> Result<Self> {
        let mut variants = Vec::new();
        for &records in &args.records {
            for &key_bytes in &args.key_bytes {
                for &value_bytes in &args.value_bytes {
                    for (workload, distribution, theta, workers) in works(args)? {
                        for (durability, cc, mode, batch, refill) in means(args) {
                            let workload = workload.clone();
                            variants.push(Variant {
                                workload,
                                distribution,
                                theta,
                                mode,
                                cc,
                                durability,
                                workers,
                                batch,
                                refill,
                                records,
                                key_bytes,
                                value_bytes,
                            });
                        }
                    }
                }
            }
        }
        if variants.len() > 10_000 {
            return Err(Failure::new(format!("{} variants are more than 10,000", variants.len())));
        }
        let by_hand = args.mode.iter().find(|mode| mode.is_by_hand());
        if let Some(mode) = by_hand.filter(|_| args.run.index != IndexKind::default()) {
            let (mode, index, known) = (mode.name(), args.run.index.name(), IndexKind::default().name());
            return Err(Failure::new(format!("mode {mode} reads the nodes of {known}, not of {index}")));
        }
        let (slice, index, directory) = (args.run.slice(), args.run.index, args.run.parent());
        let (repeats, checkpoints, breakdown) = (args.run.repeats, args.checkpoints, args.run.breakdown);
        let transactions_max = args.transactions.unwrap_or(u64::MAX);
        let load_time_max = None;
        Ok(Plan {
            variants,
            repeats,
            slice,
            transactions_max,
            load_time_max,
            index,
            directory,
            checkpoints,
            breakdown,
        })
    }

    /// How long each variant runs unmeasured before a slice. Not at all where transactions are counted.
    pub(crate) fn warm_up(&self, mode: Mode) -> Duration {
        if self.transactions_max < u64::MAX {
            return Duration::ZERO;
        }
        if mode == Mode::Auto {
            return WARM_UP_AUTO;
        }
        self.slice.mul_f64(WARM_UP_SHARE).min(WARM_UP_MAX)
    }

    /// Adds the variants of another plan that are not yet in this one.
    pub fn extend(&mut self, other: Plan) {
        for variant in other.variants {
            if !self.variants.contains(&variant) {
                self.variants.push(variant);
            }
        }
    }
}

/// The combinations that make groups: what is done, and by how many.
fn works(args: &YcsbArgs) -> Result<Vec<(Workload, Kind, f64, usize)>> {
    let operations: Vec<Option<usize>> =
        if args.reads.is_empty() { vec![None] } else { args.reads.iter().copied().map(Some).collect() };
    let mut all = Vec::new();
    for name in &args.workload {
        for &operations in &operations {
            let workload = Workload::parse(name, operations)?;
            for (distribution, theta) in skews(args, workload.distribution)? {
                all.extend(
                    args.workers.iter().map(|&workers| (workload.clone(), distribution, theta, workers)),
                );
            }
        }
    }
    all.sort_by_key(|(workload, ..)| workload.shape.inserts()); // stable: those of one table stand together
    Ok(all)
}

/// The distributions and skews for a workload that has one of its own.
fn skews(args: &YcsbArgs, own: Kind) -> Result<Vec<(Kind, f64)>> {
    let asked = args.distribution;
    if asked == Some(Kind::Uniform) && args.theta.iter().any(|&theta| theta != 0.0) {
        return Err(Failure::new("--theta has no meaning with --distribution uniform"));
    }
    let kind = asked.unwrap_or(own);
    if args.theta.is_empty() {
        let theta = if kind == Kind::Uniform { 0.0 } else { 0.99 };
        return Ok(vec![(kind, theta)]);
    }
    let skewed = if kind == Kind::Uniform { Kind::Zipfian } else { kind };
    let kind_of = |theta: f64| if theta == 0.0 && skewed == Kind::Zipfian { Kind::Uniform } else { skewed };
    Ok(args.theta.iter().map(|&theta| (kind_of(theta), theta)).collect())
}

/// Modes with their batches, schemes and durability; a mode that has one transaction open at a time has one
/// batch.
fn means(args: &YcsbArgs) -> Vec<(DurabilityKind, Cc, Mode, usize, RefillKind)> {
    let mut all = Vec::new();
    for &mode in &args.mode {
        for &batch in &args.batch {
            for &refill in &args.refill {
                let (batch, refill) =
                    if mode.interleaves() { (batch, refill) } else { (1, RefillKind::Immediate) };
                for &cc in &args.run.cc {
                    all.extend(args.run.durability.iter().map(|&of| (of, cc, mode, batch, refill)));
                }
            }
        }
    }
    let mut seen = Vec::new();
    all.retain(|one| {
        !seen.contains(one) && {
            seen.push(*one);
            true
        }
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        ycsb: YcsbArgs,
    }

    fn plan(line: &str) -> Result<Plan> {
        let words = std::iter::once("ycsb").chain(line.split_whitespace());
        Plan::new(&Line::try_parse_from(words).expect("the line is valid").ycsb)
    }

    #[test]
    fn lists_unfold_and_sequential_modes_have_one_batch() {
        // Proves that lists multiply, except batches of modes that have none.
        let got = plan("--records 1K,2K --mode naive,interleaved --batch 8,16,48 --workload r10,m").unwrap();
        assert_eq!(got.variants.len(), 2 * 2 * (1 + 3));
        assert!(got.variants.windows(2).filter(|w| !w[0].same_table(&w[1])).count() == 1);
    }

    #[test]
    fn theta_implies_a_skewed_distribution() {
        // Proves the defaults of distribution and skew, and that a contradiction is refused.
        let skew = |line: &str| {
            let v = &plan(line).unwrap().variants[0];
            (v.distribution, v.theta)
        };
        assert_eq!(skew("--workload r10"), (Kind::Uniform, 0.0));
        assert_eq!(skew("--workload r10 --theta 0.9"), (Kind::Zipfian, 0.9));
        assert_eq!(skew("--workload r10 --theta 0"), (Kind::Uniform, 0.0));
        assert_eq!(skew("--workload a"), (Kind::Zipfian, 0.99));
        assert_eq!(skew("--workload a --distribution uniform"), (Kind::Uniform, 0.0));
        assert_eq!(skew("--workload d"), (Kind::Latest, 0.99));
        assert!(plan("--distribution uniform --theta 0.9").is_err());
    }
}
