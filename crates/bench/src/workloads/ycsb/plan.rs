//! The plan of a command line: tables, the work on each, and the variants that do it.

use super::args::YcsbArgs;
use super::workload::Workload;
use crate::distribution::Kind;
use crate::engine::IndexKind;
use crate::suite::args::HintsKind;
use crate::suite::plan::{Plan, VARIANTS_MAX};
use crate::{Failure, Result};
use std::time::Duration;

/// The plan of a run.
pub(crate) struct YcsbPlan {
    pub(crate) plan: Plan,
    /// The tables, one after the other. All variants run on each.
    pub(crate) tables: Vec<TableSetup>,
}

/// How a table is made, and the work on it.
#[derive(Clone)]
pub(crate) struct TableSetup {
    pub(crate) records: u64,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    /// After this time loading stops, with fewer records.
    pub(crate) load_time_max: Option<Duration>,
    pub(crate) works: Vec<Work>,
}

/// A workload with the distribution of its requests.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) workload: Workload,
    pub(crate) distribution: Kind,
    /// The skew; 0 if the distribution has none.
    pub(crate) theta: f64,
}

impl YcsbPlan {
    /// Unfolds the lists of a command line.
    pub(crate) fn new(args: &YcsbArgs) -> Result<YcsbPlan> {
        let mut plan = Plan::new(&args.suite, &args.refill, &[HintsKind::Off])?;
        plan.checkpoints = args.checkpoints;
        let works = works(args)?;
        let mut tables = Vec::new();
        for &records in &args.records {
            for &key_bytes in &args.key_bytes {
                tables.extend(args.value_bytes.iter().map(|&value_bytes| {
                    let works = works.clone();
                    TableSetup { records, key_bytes, value_bytes, load_time_max: None, works }
                }));
            }
        }
        let count = plan.variants.len() * works.len() * tables.len();
        if count > VARIANTS_MAX {
            return Err(Failure::new(format!("{count} variants are more than {VARIANTS_MAX}")));
        }
        let other = args.suite.run.index.iter().find(|index| **index != IndexKind::default());
        let by_hand = args.suite.mode.iter().find(|mode| mode.is_by_hand());
        if let (Some(mode), Some(index)) = (by_hand, other) {
            let (mode, index, known) = (mode.name(), index.name(), IndexKind::default().name());
            return Err(Failure::new(format!("mode {mode} reads the nodes of {known}, not of {index}")));
        }
        Ok(YcsbPlan { plan, tables })
    }

    /// Returns the number of slices in one repeat.
    pub(crate) fn slices(&self) -> usize {
        self.tables.iter().map(|table| table.works.len()).sum::<usize>() * self.plan.variants.len()
    }
}

/// Returns the combinations of workload, distribution and skew.
fn works(args: &YcsbArgs) -> Result<Vec<Work>> {
    let operations: Vec<Option<usize>> =
        if args.reads.is_empty() { vec![None] } else { args.reads.iter().copied().map(Some).collect() };
    let mut all = Vec::new();
    for name in &args.workload {
        for &operations in &operations {
            let workload = Workload::parse(name, operations)?;
            for (distribution, theta) in skews(args, workload.distribution)? {
                all.push(Work { workload: workload.clone(), distribution, theta });
            }
        }
    }
    all.sort_by_key(|work| work.workload.shape.inserts()); // stable: what adds records comes last
    Ok(all)
}

/// Returns the distributions and skews for a workload, whose default distribution is `own`.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(flags: &str) -> Result<YcsbPlan> {
        YcsbPlan::new(&YcsbArgs::of_line(flags).unwrap())
    }

    #[test]
    fn lists_unfold_and_sequential_modes_have_one_batch() {
        // Proves that lists multiply, except for the batches of modes without batches.
        let got = plan("--records 1K,2K --mode naive,interleaved --batch 8,16,48 --workload r10,m").unwrap();
        assert_eq!((got.tables.len(), got.tables[0].works.len(), got.plan.variants.len()), (2, 2, 1 + 3));
    }

    #[test]
    fn theta_implies_a_skewed_distribution() {
        // Proves the defaults of distribution and skew, and that contradictions are refused.
        let skew = |line: &str| {
            let work = &plan(line).unwrap().tables[0].works[0];
            (work.distribution, work.theta)
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
