//! Flags that all workloads share. A list with commas makes a sweep.

use crate::args::{Mode, RunArgs, parse_batch, parse_count, parse_workers};
use clap::{Args, ValueEnum};

/// Flags of every workload.
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
    /// Maximum number of transactions per worker and repeat, without warm-up, to count instructions; the repeat also
    /// ends when its time is over
    #[arg(long, value_parser = parse_count)]
    pub transactions: Option<u64>,
    /// Seed of the inputs: equal seeds make equal inputs
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// How variants are run, and where the results go.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Flags of every workload with several kinds of transactions. The modes are naive, prefetch, interleaved, hybrid and
/// auto.
#[derive(Args, Clone, Debug)]
pub struct KindsArgs {
    /// Hints to workers about which transactions would conflict; a worker does not keep these open together, in the
    /// interleaved modes and auto; both are compared
    #[arg(long, default_value = "on", value_delimiter = ',')]
    pub hints: Vec<HintsKind>,
    /// Flags of every workload.
    #[command(flatten)]
    pub suite: SuiteArgs,
}

/// The choice of hints on conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HintsKind {
    /// Workers get hints
    On,
    /// Workers get no hints: transactions conflict and are retried
    Off,
}

impl HintsKind {
    /// Returns the name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            HintsKind::On => "on",
            HintsKind::Off => "off",
        }
    }
}
