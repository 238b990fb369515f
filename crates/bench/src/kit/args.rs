//! The command lines of the kits: what all of them have, and what each has of its own.

use crate::args::{Mode, RunArgs, parse_batch, parse_count, parse_within, parse_workers};
use clap::{Args, ValueEnum};

/// What every kit takes. Lists with commas give a sweep.
#[derive(Args, Clone, Debug)]
pub struct KitArgs {
    /// Worker threads, or `all` for one per processor
    #[arg(long, default_value = "1", value_delimiter = ',', value_parser = parse_workers)]
    pub workers: Vec<usize>,
    /// How transactions are executed: naive, prefetch, interleaved, hybrid, auto; ratios are against the first
    #[arg(long, default_value = "naive,prefetch,interleaved", value_delimiter = ',')]
    pub mode: Vec<Mode>,
    /// Transactions open at once per worker, in the interleaved modes
    #[arg(long, default_value = "48", value_delimiter = ',', value_parser = parse_batch)]
    pub batch: Vec<usize>,
    /// Whether workers are told which transactions would conflict, and do not have them open together, in the
    /// interleaved modes and auto; with both, they run side by side
    #[arg(long, default_value = "on", value_delimiter = ',')]
    pub hints: Vec<HintsKind>,
    /// What the inputs are drawn from: equal seeds, equal inputs
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// What every workload takes.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Whether workers are told what conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HintsKind {
    /// They are
    On,
    /// They find out
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

/// `braid bench tpcb`.
#[derive(Args, Clone, Debug)]
pub struct TpcbArgs {
    /// Branches, with 10 tellers each
    #[arg(long, default_value = "10", value_parser = parse_scale)]
    pub scale: u64,
    /// Accounts of a branch
    #[arg(long, default_value = "100K", value_parser = parse_rows)]
    pub accounts: u64,
    /// What every kit takes.
    #[command(flatten)]
    pub kit: KitArgs,
}

/// `braid bench smallbank`.
#[derive(Args, Clone, Debug)]
pub struct SmallbankArgs {
    /// Customers, each with a savings and a checking account; 2 or more
    #[arg(long, default_value = "1M", value_parser = parse_rows)]
    pub accounts: u64,
    /// How many customers are the hot ones [default: none]
    #[arg(long, value_parser = parse_rows)]
    pub hot: Option<u64>,
    /// Share of the transactions that go to hot customers alone
    #[arg(long, default_value = "0.9", value_parser = parse_share)]
    pub hot_share: f64,
    /// What every kit takes.
    #[command(flatten)]
    pub kit: KitArgs,
}

/// `braid bench micro`.
#[derive(Args, Clone, Debug)]
pub struct MicroArgs {
    /// Rows that a transaction reads or updates
    #[arg(long, default_value = "1,10,100", value_delimiter = ',', value_parser = parse_rows_touched)]
    pub rows: Vec<u64>,
    /// Bytes of the table's keys and values together, for instance 1Mi, 10Mi, 1Gi
    #[arg(long, default_value = "1Mi,10Mi,100Mi", value_delimiter = ',', value_parser = parse_count)]
    pub size: Vec<u64>,
    /// What both columns are
    #[arg(long, default_value = "long", value_delimiter = ',')]
    pub column: Vec<ColumnKind>,
    /// Has transactions update the rows instead of only reading them
    #[arg(long)]
    pub write: bool,
    /// What every kit takes.
    #[command(flatten)]
    pub kit: KitArgs,
}

/// The columns of the micro-benchmark's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColumnKind {
    /// Whole numbers of 8 bytes
    Long,
    /// Strings of 50 bytes
    Text50,
}

fn parse_scale(text: &str) -> Result<u64, String> {
    parse_within(text, 1, 1_000_000).map(|n| n as u64)
}

fn parse_rows(text: &str) -> Result<u64, String> {
    parse_within(text, 1, 4_000_000_000).map(|n| n as u64)
}

fn parse_rows_touched(text: &str) -> Result<u64, String> {
    parse_within(text, 1, 100_000).map(|n| n as u64)
}

fn parse_share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "expected 0 to 1".into())
}
