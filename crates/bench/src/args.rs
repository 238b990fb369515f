//! The command line of `braid bench`. Lists with commas give a sweep.

use crate::distribution::Kind;
use crate::kit::args::{MicroArgs, SmallbankArgs, TpcbArgs};
use crate::scheme::Cc;
use crate::tpcc::TpccArgs;
use braiddb::IndexKind;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// `braid bench`: without a subcommand, the main job: a table past the caches, reads and a mix over the
/// modes, in under three minutes.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// What to run instead of the main job.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
}

/// What `braid bench` can run.
#[derive(Subcommand, Clone, Debug)]
pub enum BenchCommand {
    /// YCSB and the workloads of the papers
    Ycsb(Box<YcsbArgs>),
    /// A figure or table of a paper: its shape here, beside its ratios there
    Paper(PaperArgs),
    /// One client's commits, one after the other, beside writes and syncs of the disk by hand
    Commit(CommitArgs),
    /// Auto beside each fixed mode, over sizes, skews and workloads: how far it is from the best of them
    Robust(RobustArgs),
    /// Latency of short transactions beside long ones, with hints and without
    Classes(ClassesArgs),
    /// Recovery from a checkpoint and from a log: records and transactions per second
    Recovery(RecoveryArgs),
    /// TPC-B: a transfer to an account through a teller of a branch
    Tpcb(Box<TpcbArgs>),
    /// SmallBank: six short transactions on customers' accounts
    Smallbank(Box<SmallbankArgs>),
    /// Reads or updates of a few random rows of a table of two columns
    Micro(Box<MicroArgs>),
    /// TPC-C, and with it TPC-CR and TPC-CH: orders, payments and deliveries of a wholesaler
    Tpcc(Box<TpccArgs>),
}

/// `braid bench ycsb`.
#[derive(Args, Clone, Debug)]
pub struct YcsbArgs {
    /// Records in the table, for instance 10K, 50M
    #[arg(long, default_value = "10M", value_delimiter = ',', value_parser = parse_count)]
    pub records: Vec<u64>,
    /// Worker threads, or `all` for one per processor
    #[arg(long, default_value = "1", value_delimiter = ',', value_parser = parse_workers)]
    pub workers: Vec<usize>,
    /// Transactions open at once per worker, in the interleaved modes
    #[arg(long, default_value = "48", value_delimiter = ',', value_parser = parse_batch)]
    pub batch: Vec<usize>,
    /// How transactions are executed; ratios are against the first
    #[arg(long, default_value = "naive,prefetch,interleaved", value_delimiter = ',')]
    pub mode: Vec<Mode>,
    /// a-f (YCSB), rN (N reads), m (8 reads, 2 read-modify-writes), uN (N blind updates), rmwN, sN (scan of
    /// N), i (insert), probe (10 index probes without records)
    #[arg(long, default_value = "r10", value_delimiter = ',')]
    pub workload: Vec<String>,
    /// Skew of the Zipfian and latest distributions, 0 for none; implies Zipfian [default: 0.99]
    #[arg(long, value_delimiter = ',', value_parser = parse_theta)]
    pub theta: Vec<f64>,
    /// Request distribution [default: the workload's: Zipfian for a-f, latest for d, else uniform]
    #[arg(long)]
    pub distribution: Option<Kind>,
    /// Bytes of a key, 8 to 64; past 8, all keys share what comes before their last 8 bytes
    #[arg(long, default_value = "8", value_delimiter = ',', value_parser = parse_key_bytes)]
    pub key_bytes: Vec<usize>,
    /// Bytes of a value, for instance 8, 100, 1Ki
    #[arg(long, default_value = "8", value_delimiter = ',', value_parser = parse_value_bytes)]
    pub value_bytes: Vec<usize>,
    /// Operations per transaction, for workloads whose name does not say [default: 1]
    #[arg(long, value_delimiter = ',', value_parser = parse_operations)]
    pub reads: Vec<usize>,
    /// Transactions of each worker and repeat, without warm-up, if they end before its time does: for counting
    /// instructions
    #[arg(long, value_parser = parse_count)]
    pub transactions: Option<u64>,
    /// Whether a finished transaction's place is filled at once or when the whole batch is done
    #[arg(long, default_value = "immediate", value_delimiter = ',')]
    pub refill: Vec<RefillKind>,
    /// Has checkpoints made, one after the other, while variants run
    #[arg(long)]
    pub checkpoints: bool,
    /// What every workload takes.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What every workload takes, of one table or of many.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// The scheme of concurrency control; with several, all run side by side
    #[arg(long, alias = "isolation", default_value = "serializable", value_delimiter = ',')]
    pub cc: Vec<Cc>,
    /// What a crash of the machine leaves; with several, all run side by side
    #[arg(long, default_value = "memory", value_delimiter = ',')]
    pub durability: Vec<DurabilityKind>,
    /// The kind of index of all tables: masstree or btree
    #[arg(long, default_value = "masstree")]
    pub index: IndexKind,
    /// Where directories of durable databases are made, and removed afterwards [default: the system's for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Seconds per variant, shared out among the repeats
    #[arg(long, default_value = "3", value_parser = parse_seconds)]
    pub seconds: f64,
    /// Times that all variants are run, one after the other; medians are reported, and conditions, where there are any,
    /// checked after each
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Has workers tell where their time goes, and shows it beside the rest
    #[arg(long)]
    pub breakdown: bool,
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

impl RunArgs {
    /// How long a variant runs in one repeat.
    pub(crate) fn slice(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.repeats))
    }

    /// Where directories are made.
    pub(crate) fn parent(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// `braid bench commit`.
#[derive(Args, Clone, Debug)]
pub struct CommitArgs {
    /// Commits measured in each way
    #[arg(long, default_value = "1000", value_parser = parse_count)]
    pub commits: u64,
    /// Bytes that a transaction writes
    #[arg(long, default_value = "8", value_parser = parse_value_bytes)]
    pub value_bytes: usize,
    /// Where a directory is made, and removed afterwards [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
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
    /// Worker threads, or `all` for one per processor [default: 1; all where workers are what is swept]
    #[arg(long, value_parser = parse_workers)]
    pub workers: Option<usize>,
    /// The scheme of concurrency control
    #[arg(long, alias = "isolation", default_value = "serializable")]
    pub cc: Cc,
    /// Seconds per variant
    #[arg(long, default_value = "3", value_parser = parse_seconds)]
    pub seconds: f64,
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

/// `braid bench robust`.
#[derive(Args, Clone, Debug)]
pub struct RobustArgs {
    /// Records in the tables
    #[arg(long, default_value = "10K,1M,50M", value_delimiter = ',', value_parser = parse_count)]
    pub records: Vec<u64>,
    /// Workloads, as of ycsb
    #[arg(long, default_value = "r1,r10,m,u10,rmw10,s100", value_delimiter = ',')]
    pub workload: Vec<String>,
    /// Skews, 0 for uniform
    #[arg(long, default_value = "0,0.99", value_delimiter = ',', value_parser = parse_theta)]
    pub theta: Vec<f64>,
    /// Worker threads
    #[arg(long, default_value = "1,2", value_delimiter = ',', value_parser = parse_workers)]
    pub workers: Vec<usize>,
    /// Batches of the interleaved mode
    #[arg(long, default_value = "8,16,48", value_delimiter = ',', value_parser = parse_batch)]
    pub batch: Vec<usize>,
    /// Seconds per variant, shared out among the repeats; auto has half a second more each time, to find its level
    #[arg(long, default_value = "1.5", value_parser = parse_seconds)]
    pub seconds: f64,
    /// Times that all variants of a table are run, one after the other; medians are reported
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draws the ratios as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// `braid bench classes`.
#[derive(Args, Clone, Debug)]
pub struct ClassesArgs {
    /// Records in the table
    #[arg(long, default_value = "10M", value_parser = parse_count)]
    pub records: u64,
    /// Records that a long transaction scans
    #[arg(long, default_value = "100K", value_parser = parse_count)]
    pub rows: u64,
    /// Short transactions, of ten reads each, to one long one
    #[arg(long, default_value = "10K", value_parser = parse_count)]
    pub every: u64,
    /// Seconds per variant, shared out among the repeats
    #[arg(long, default_value = "6", value_parser = parse_seconds)]
    pub seconds: f64,
    /// Times that all variants are run, one after the other
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `braid bench recovery`.
#[derive(Args, Clone, Debug)]
pub struct RecoveryArgs {
    /// Records in the table
    #[arg(long, default_value = "10M", value_parser = parse_count)]
    pub records: u64,
    /// Transactions in the log behind the checkpoint
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    pub transactions: u64,
    /// Records that each of them updates
    #[arg(long, default_value = "2", value_parser = parse_operations)]
    pub updates: usize,
    /// Threads that recover, or `all`
    #[arg(long, default_value = "1,all", value_delimiter = ',', value_parser = parse_workers)]
    pub workers: Vec<usize>,
    /// How often each is measured; medians are reported
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Where a directory is made, and removed afterwards [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The papers whose figures have presets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Paper {
    /// He, Lu, Wang: CoroBase (PVLDB 14(3), 2021)
    Corobase,
    /// Sirin, Tözün, Porobic, Yasin, Ailamaki: Micro-architectural analysis of in-memory OLTP (VLDB Journal 30, 2021)
    Microarchitecture,
}

/// What a crash of the machine leaves of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum DurabilityKind {
    /// Nothing: the database is in memory
    Memory,
    /// The last checkpoint: there is no log
    None,
    /// All but what was acknowledged last
    Async,
    /// All that was acknowledged
    Sync,
}

impl DurabilityKind {
    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            DurabilityKind::Memory => "memory",
            DurabilityKind::None => "none",
            DurabilityKind::Async => "async",
            DurabilityKind::Sync => "sync",
        }
    }
}

/// A way to execute transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum Mode {
    /// One after the other, no prefetching
    Naive,
    /// One after the other, prefetching each object whole ("ERMIA")
    Prefetch,
    /// As prefetch, a transaction's reads as one multi-get of step machines
    AmacMk,
    /// As prefetch, a transaction's reads as one multi-get of coroutines
    CoroMk,
    /// As coro-mk, with boxed nested coroutines
    CoroFnMk,
    /// Transactions interleaved, their reads nested coroutines ("CoroBase-FN")
    CorobaseFn,
    /// Transactions interleaved ("CoroBase"): the engine's own way
    Interleaved,
    /// Transactions interleaved, and multi-gets inside
    Hybrid,
    /// As many transactions open at once as the engine finds to pay, from one after the other on; finding that out
    /// takes it up to half a second before each slice
    Auto,
    /// Yardstick: the reads as one hand-written sequential function
    HandSequential,
    /// Yardstick: a whole transaction as one hand-written state machine
    HandInterleaved,
}

impl Mode {
    /// One of the yardsticks that are written by hand, for the nodes of the default kind of index.
    pub fn is_by_hand(self) -> bool {
        matches!(self, Mode::HandSequential | Mode::HandInterleaved)
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Naive => "naive",
            Mode::Prefetch => "prefetch",
            Mode::AmacMk => "amac-mk",
            Mode::CoroMk => "coro-mk",
            Mode::CoroFnMk => "coro-fn-mk",
            Mode::CorobaseFn => "corobase-fn",
            Mode::Interleaved => "interleaved",
            Mode::Hybrid => "hybrid",
            Mode::Auto => "auto",
            Mode::HandSequential => "hand-sequential",
            Mode::HandInterleaved => "hand-interleaved",
        }
    }

    /// How many transactions of one worker may be open at once, where `batch` is asked for.
    pub fn open_max(self, batch: usize) -> usize {
        if self == Mode::Auto { crate::engine::AUTO_BATCH_MAX } else { batch }
    }

    /// True if a number of transactions of one worker that is given is open at once.
    pub fn interleaves(self) -> bool {
        matches!(self, Mode::CorobaseFn | Mode::Interleaved | Mode::Hybrid | Mode::HandInterleaved)
    }
}

/// When a finished transaction's place is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RefillKind {
    /// At once
    Immediate,
    /// When the whole batch is done, as in the CoroBase paper
    Strict,
}

/// A number with a suffix: K, M, G are powers of 1000; Ki, Mi, Gi powers of 1024.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a number such as 500, 10K, 1.5M or 64Ki");
    let digits = text.trim().replace('_', "");
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(end);
    let factor = match suffix.to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "ki" => 1024.0,
        "mi" => 1024.0 * 1024.0,
        "gi" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let value = number.parse::<f64>().map_err(|_| wrong())? * factor;
    if !(1.0..=1e15).contains(&value) || (value - value.round()).abs() > 1e-6 {
        return Err(format!("{text:?} is not a whole number from 1 to 10^15"));
    }
    Ok(value.round() as u64)
}

/// The number of processors that threads may run on.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub(crate) fn parse_workers(text: &str) -> Result<usize, String> {
    if text == "all" {
        Ok(processors())
    } else {
        parse_within(text, 1, 1024).map_err(|e| format!("{e}, or `all`"))
    }
}

pub(crate) fn parse_batch(text: &str) -> Result<usize, String> {
    parse_within(text, 1, 4096)
}

fn parse_key_bytes(text: &str) -> Result<usize, String> {
    parse_within(text, 8, crate::engine::KEY_BYTES_MAX as u64)
}

fn parse_value_bytes(text: &str) -> Result<usize, String> {
    parse_within(text, 1, 16 << 20)
}

fn parse_operations(text: &str) -> Result<usize, String> {
    parse_within(text, 1, 1_000_000)
}

pub(crate) fn parse_within(text: &str, low: u64, high: u64) -> Result<usize, String> {
    let n = parse_count(text)?;
    if (low..=high).contains(&n) { Ok(n as usize) } else { Err(format!("expected {low} to {high}")) }
}

fn parse_theta(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|t| (0.0..=10.0).contains(t))
        .ok_or_else(|| "expected a number from 0 to 10".into())
}

pub(crate) fn parse_seconds(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|s| (0.01..=86_400.0).contains(s)).ok_or_else(|| "expected 0.01 to 86400".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_take_suffixes() {
        // Proves the suffixes, fractions of them, and that nonsense is refused.
        for (text, value) in [
            ("1", 1),
            ("10M", 10_000_000),
            ("50m", 50_000_000),
            ("64K", 64_000),
            ("64Ki", 65_536),
            ("1.5M", 1_500_000),
            ("1_000", 1_000),
            ("1G", 1_000_000_000),
        ] {
            assert_eq!(parse_count(text), Ok(value), "{text}");
        }
        for text in ["", "0", "M", "1.5", "-1", "10X", "1e3", "99999G0"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn mode_names_are_those_of_the_command_line() {
        // Proves that `Mode::name` and the parser agree.
        for mode in Mode::value_variants() {
            assert_eq!(mode.to_possible_value().expect("no mode is hidden").get_name(), mode.name());
        }
    }

    #[test]
    fn limits_are_kept() {
        // Proves that values out of range are refused with a message that names the range.
        assert!(parse_batch("0").is_err());
        assert_eq!(parse_key_bytes("7"), Err("expected 8 to 64".into()));
        assert_eq!(parse_workers("all"), Ok(processors()));
        assert!(parse_theta("nan").is_err() && parse_theta("-1").is_err());
    }
}
