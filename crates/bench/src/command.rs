//! The command line of `braid bench`.

use crate::args::{parse_count, parse_seconds, parse_workers};
use crate::cells::CcArgs;
use crate::experiments::blocks::BlocksArgs;
use crate::experiments::classes::ClassesArgs;
use crate::experiments::commit::CommitArgs;
use crate::experiments::recovery::RecoveryArgs;
use crate::experiments::robust::RobustArgs;
use crate::experiments::settle::SettleArgs;
use crate::experiments::stock_level::StockLevelArgs;
use crate::index_args::IndexArgs;
use crate::scheme::Cc;
use crate::workloads::micro::MicroArgs;
use crate::workloads::smallbank::SmallbankArgs;
use crate::workloads::tpcb::TpcbArgs;
use crate::workloads::tpcc::TpccArgs;
use crate::workloads::ycsb::YcsbArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `braid bench`. Without a subcommand it runs the main job: reads and a mix, in all modes, on a table larger than the
/// caches, in under three minutes.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// The command to run instead of the main job.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
}

/// The commands of `braid bench`.
#[derive(Subcommand, Clone, Debug)]
pub enum BenchCommand {
    /// YCSB and the workloads of the papers
    Ycsb(Box<YcsbArgs>),
    /// A figure or table of a paper, with the paper's ratios beside Braid's
    Paper(PaperArgs),
    /// The latency of a single client's commits, compared with plain writes and syncs of the disk
    Commit(CommitArgs),
    /// Auto compared with the best fixed mode, over sizes, skews and workloads
    Robust(RobustArgs),
    /// Concurrency control schemes side by side, from no contention to a single hot row
    Cc(CcArgs),
    /// Kinds of index side by side: inserts, lookups, scans and a mix, uniform and skewed
    Index(IndexArgs),
    /// Scans of columns: sums over all rows, by records and by layouts of blocks, compared with plain arrays
    Blocks(BlocksArgs),
    /// TPC-C's StockLevel by records and by layouts of blocks, for several numbers of warehouses
    StockLevel(StockLevelArgs),
    /// Latency of short transactions while long ones run, with and without hints
    Classes(ClassesArgs),
    /// How soon `auto` reaches its full speed after the work has changed, compared with fixed modes
    Settle(SettleArgs),
    /// Recovery from a checkpoint and from a log: records and transactions per second
    Recovery(RecoveryArgs),
    /// TPC-B: a transfer to an account through a teller of a branch
    Tpcb(Box<TpcbArgs>),
    /// SmallBank: six short transactions on customers' accounts
    Smallbank(Box<SmallbankArgs>),
    /// Reads or updates of a few random rows in a table of two columns
    Micro(Box<MicroArgs>),
    /// TPC-C, TPC-CR and TPC-CH: orders, payments and deliveries of a wholesaler
    Tpcc(Box<TpccArgs>),
}

/// `braid bench paper`.
#[derive(Args, Clone, Debug)]
pub struct PaperArgs {
    /// The paper
    pub paper: Paper,
    /// The figure's number
    #[arg(long, required_unless_present = "table", conflicts_with = "table")]
    pub figure: Option<u32>,
    /// The table's number
    #[arg(long)]
    pub table: Option<u32>,
    /// Records in the table of YCSB (the paper's had a billion)
    #[arg(long, default_value = "50M", value_parser = parse_count)]
    pub records: u64,
    /// Bytes of the micro-benchmark's largest table (the paper's had 100 GB)
    #[arg(long, default_value = "1Gi", value_parser = parse_count)]
    pub size: u64,
    /// Warehouses of TPC-C, about 100 MB each (the papers' had 1000)
    #[arg(long, default_value = "8", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub warehouses: u32,
    /// Branches of TPC-B, about 10 MB each
    #[arg(long, default_value = "50", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub branches: u32,
    /// Worker threads, or `all` for one per processor [default: 1, or all if workers are swept]
    #[arg(long, value_parser = parse_workers)]
    pub workers: Option<usize>,
    /// The concurrency control scheme; figures that compare schemes run all serializable ones
    #[arg(long, alias = "isolation", default_value = "serializable")]
    pub cc: Cc,
    /// Seconds per variant
    #[arg(long, default_value = "3", value_parser = parse_seconds)]
    pub seconds: f64,
    /// Prints the command lines of the figure instead of running them
    #[arg(long)]
    pub commands: bool,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draws the results as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Writes a page of HTML with tables and charts into this directory, and the JSON beside it
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// The papers whose figures have presets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Paper {
    /// He, Lu, Wang: CoroBase (PVLDB 14(3), 2021)
    Corobase,
    /// Sirin, Tözün, Porobic, Yasin, Ailamaki: Micro-architectural analysis of in-memory OLTP (VLDB Journal 30, 2021)
    Microarchitecture,
    /// Bang, May, Petrov, Binnig: The full story of 1000 cores (VLDB Journal, 2022)
    Cores,
}
