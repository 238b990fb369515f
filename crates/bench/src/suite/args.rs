//! The flags that workloads have in common. Lists with commas give a sweep.

use crate::args::{Mode, RunArgs, parse_batch, parse_count, parse_workers};
use clap::{Args, ValueEnum};

/// What every workload takes.
#[derive(Args, Clone, Debug)]
pub struct SuiteArgs {
    /// Worker threads, or `all` for one per processor
    #[arg(long, default_value = "1", value_delimiter = ',', value_parser = parse_workers)]
    pub workers: Vec<usize>,
    /// How transactions are executed; ratios are to the first
    #[arg(long, default_value = "naive,prefetch,interleaved", value_delimiter = ',')]
    pub mode: Vec<Mode>,
    /// Transactions open at once per worker, in the interleaved modes
    #[arg(long, default_value = "48", value_delimiter = ',', value_parser = parse_batch)]
    pub batch: Vec<usize>,
    /// Transactions of each worker and repeat, without warm-up, if they end before its time does: for counting
    /// instructions
    #[arg(long, value_parser = parse_count)]
    pub transactions: Option<u64>,
    /// What the inputs are drawn from: equal seeds, equal inputs
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// How variants are run, and where the results go.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What every workload with transactions of several kinds takes. The modes are naive, prefetch, interleaved, hybrid and
/// auto.
#[derive(Args, Clone, Debug)]
pub struct KindsArgs {
    /// Whether workers get hints on which transactions would conflict, and do not keep these open together, in the
    /// interleaved modes and auto; both are compared
    #[arg(long, default_value = "on", value_delimiter = ',')]
    pub hints: Vec<HintsKind>,
    /// What every workload takes.
    #[command(flatten)]
    pub suite: SuiteArgs,
}

/// Whether workers get hints on conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HintsKind {
    /// Workers get hints
    On,
    /// Transactions conflict and are retried
    Off,
}

impl HintsKind {
    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            HintsKind::On => "on",
            HintsKind::Off => "off",
        }
    }
}
