//! Flags that several commands share, and their values. A list with commas makes a sweep.

use crate::scheme::{Cc, SchemeKind};
use braiddb::{Front, IndexKind};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// How variants are run, and where the results go.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// The scheme of concurrency control; several are compared
    #[arg(long, alias = "isolation", default_value = "serializable", value_delimiter = ',')]
    pub cc: Vec<Cc>,
    /// Data that survives a crash of the machine; several are compared
    #[arg(long, default_value = "memory", value_delimiter = ',')]
    pub durability: Vec<DurabilityKind>,
    /// The kind of index of all tables: masstree, btree or bwtree; if nothing is scanned, also cuckoo or hopscotch;
    /// several are compared
    #[arg(long, default_value = "masstree", value_delimiter = ',')]
    pub index: Vec<IndexKind>,
    /// The front of the index of all tables: none or hash; several are compared
    #[arg(long, default_value = "none", value_delimiter = ',')]
    pub front: Vec<Front>,
    /// Directory in which durable databases are made; they are removed afterwards [default: the system's for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Seconds per variant, divided among the repeats
    #[arg(long, default_value = "3", value_parser = parse_seconds)]
    pub seconds: f64,
    /// Number of runs of all variants, one after the other; medians are reported, and conditions are checked after
    /// each repeat
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Measures where workers spend their time, by activity
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
    /// Returns how long a variant runs in one repeat.
    pub(crate) fn slice(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.repeats))
    }

    /// Returns the directory in which database directories are made.
    pub(crate) fn parent(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// The data of a database that survives a crash of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum DurabilityKind {
    /// Nothing: the database is in memory
    Memory,
    /// The last checkpoint; there is no log
    None,
    /// All commits except those acknowledged last
    Async,
    /// All acknowledged commits
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
    /// One after the other, without prefetching
    Naive,
    /// One after the other, prefetching each object whole ("ERMIA"); this mode and the next four need `--cc
    /// serializable` or `snapshot`
    Prefetch,
    /// Like prefetch, with a transaction's reads as one multi-get of step machines
    AmacMk,
    /// Like prefetch, with a transaction's reads as one multi-get of coroutines
    CoroMk,
    /// Like coro-mk, with boxed nested coroutines
    CoroFnMk,
    /// Transactions interleaved, with reads as nested coroutines ("CoroBase-FN")
    CorobaseFn,
    /// Transactions interleaved ("CoroBase"), which is how the engine itself works
    Interleaved,
    /// Transactions interleaved, with multi-gets inside
    Hybrid,
    /// Transactions interleaved; transactions whose next step is the same run one after the other ("STEPS"); needs
    /// `--cc serializable` or `snapshot`
    Teams,
    /// The engine chooses how many transactions to keep open, from one upwards; it takes up to half a second before
    /// each slice to find the best number
    Auto,
    /// One after the other, driven by the thread's calls (`Database::begin`)
    Interactive,
    /// Yardstick: the reads as one handwritten sequential function
    HandSequential,
    /// Yardstick: a whole transaction as one handwritten state machine
    HandInterleaved,
}

impl Mode {
    /// Returns true for the handwritten yardsticks, which read the nodes of the default kind of index.
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
            Mode::Teams => "teams",
            Mode::Auto => "auto",
            Mode::Interactive => "interactive",
            Mode::HandSequential => "hand-sequential",
            Mode::HandInterleaved => "hand-interleaved",
        }
    }

    /// Returns true if a worker keeps `--batch` transactions open at once.
    pub fn interleaves(self) -> bool {
        matches!(
            self,
            Mode::CorobaseFn | Mode::Interleaved | Mode::Hybrid | Mode::Teams | Mode::HandInterleaved
        )
    }

    /// Returns true if a worker can have more than one transaction open.
    pub(crate) fn may_interleave(self) -> bool {
        self.interleaves() || self == Mode::Auto
    }

    /// Returns true if the mode exists under a scheme. Modes that only a comparison with the papers needs exist only
    /// under CoroBase's schemes.
    pub(crate) fn is_there(self, scheme: SchemeKind) -> bool {
        use Mode::{AmacMk, CoroFnMk, CoroMk, CorobaseFn, Prefetch, Teams};
        scheme.has_papers_modes()
            || !matches!(self, Prefetch | AmacMk | CoroMk | CoroFnMk | CorobaseFn | Teams)
    }

    /// Returns true if the mode runs transactions of several kinds. The other modes exist only for `ycsb`.
    pub(crate) fn has_form_of_kinds(self) -> bool {
        use Mode::{Auto, Hybrid, Interleaved, Naive, Prefetch, Teams};
        matches!(self, Naive | Prefetch | Interleaved | Hybrid | Teams | Auto)
    }
}

/// When the place of a finished transaction is filled.
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

pub(crate) fn parse_value_bytes(text: &str) -> Result<usize, String> {
    parse_within(text, 1, 16 << 20)
}

pub(crate) fn parse_operations(text: &str) -> Result<usize, String> {
    parse_within(text, 1, 1_000_000)
}

pub(crate) fn parse_within(text: &str, low: u64, high: u64) -> Result<usize, String> {
    let n = parse_count(text)?;
    if (low..=high).contains(&n) { Ok(n as usize) } else { Err(format!("expected {low} to {high}")) }
}

pub(crate) fn parse_theta(text: &str) -> Result<f64, String> {
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
        // Proves that suffixes and fractions are parsed, and that nonsense is refused.
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
        assert_eq!(parse_within("7", 8, 64), Err("expected 8 to 64".into()));
        assert_eq!(parse_workers("all"), Ok(processors()));
        assert!(parse_theta("nan").is_err() && parse_theta("-1").is_err());
    }
}
