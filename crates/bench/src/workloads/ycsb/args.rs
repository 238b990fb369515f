//! The command line of `braid bench ycsb`.

use super::access::KEY_BYTES_MAX;
use crate::args::{RefillKind, parse_count, parse_operations, parse_theta, parse_value_bytes, parse_within};
use crate::distribution::Kind;
use crate::suite::args::SuiteArgs;
use crate::{Failure, Result};
use clap::{Args, FromArgMatches};

/// `braid bench ycsb`.
#[derive(Args, Clone, Debug)]
pub struct YcsbArgs {
    /// Records in the table, for instance 10K, 50M
    #[arg(long, default_value = "10M", value_delimiter = ',', value_parser = parse_count)]
    pub records: Vec<u64>,
    /// a-f (YCSB), rN (N reads), m (8 reads, 2 read-modify-writes), uN (N blind updates), addN (N additions at the
    /// commit), rmwN, sN (scan of N), eN (the same by `for_each`), i (insert), probe (10 index probes without records)
    #[arg(long, default_value = "r10", value_delimiter = ',')]
    pub workload: Vec<String>,
    /// Skew of the Zipfian and latest distributions, 0 for none; implies Zipfian [default: 0.99]
    #[arg(long, value_delimiter = ',', value_parser = parse_theta)]
    pub theta: Vec<f64>,
    /// Request distribution [default: the workload's: Zipfian for a-f, latest for d, else uniform]
    #[arg(long)]
    pub distribution: Option<Kind>,
    /// Bytes of a key, 8 to 64; longer keys share all bytes before the last 8
    #[arg(long, default_value = "8", value_delimiter = ',', value_parser = parse_key_bytes)]
    pub key_bytes: Vec<usize>,
    /// Bytes of a value, for instance 8, 100, 1Ki
    #[arg(long, default_value = "8", value_delimiter = ',', value_parser = parse_value_bytes)]
    pub value_bytes: Vec<usize>,
    /// Operations per transaction, for workloads whose name does not give it [default: 1]
    #[arg(long, value_delimiter = ',', value_parser = parse_operations)]
    pub reads: Vec<usize>,
    /// When the place of a finished transaction is filled: at once, or when the whole batch is done
    #[arg(long, default_value = "immediate", value_delimiter = ',')]
    pub refill: Vec<RefillKind>,
    /// Makes checkpoints, one after the other, while variants run
    #[arg(long)]
    pub checkpoints: bool,
    /// Flags of every workload.
    #[command(flatten)]
    pub suite: SuiteArgs,
}

fn parse_key_bytes(text: &str) -> std::result::Result<usize, String> {
    parse_within(text, 8, KEY_BYTES_MAX as u64)
}

impl YcsbArgs {
    /// Parses flags, without the words before them.
    pub(crate) fn of_line(flags: &str) -> Result<YcsbArgs> {
        let command = YcsbArgs::augment_args(clap::Command::new("ycsb").no_binary_name(true));
        let found = command.try_get_matches_from(flags.split_whitespace());
        let found = found.and_then(|found| YcsbArgs::from_arg_matches(&found));
        found.map_err(|error| Failure::new(format!("the flags {flags:?} are wrong: {error}")))
    }
}
