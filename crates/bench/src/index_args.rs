//! The command line of `braid bench index`.

use crate::args::{Mode, parse_count, parse_seconds, parse_theta, parse_workers};
use braiddb::IndexKind;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// The work of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Inserts one record; keys come in random order
    Insert,
    /// Reads one record
    Lookup,
    /// Reads eight records, and reads and writes two
    Mixed,
    /// Reads a hundred records in the order of their keys
    Scan,
}

impl Work {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Insert => "insert",
            Work::Lookup => "lookup",
            Work::Mixed => "mixed",
            Work::Scan => "scan",
        }
    }

    /// Returns the name of the workload for `braid bench ycsb`.
    pub(crate) fn workload(self) -> &'static str {
        match self {
            Work::Insert => "i",
            Work::Lookup => "r1",
            Work::Mixed => "m",
            Work::Scan => "s100",
        }
    }
}

/// `braid bench index`.
#[derive(Args, Clone, Debug)]
pub struct IndexArgs {
    /// The kinds of index; ratios are to the first [default: all]
    #[arg(long, value_delimiter = ',')]
    pub index: Vec<IndexKind>,
    /// The work of transactions [default: all; scans only if the index is ordered]
    #[arg(long, value_delimiter = ',')]
    pub work: Vec<Work>,
    /// Records in the table at first
    #[arg(long, default_value = "10M", value_parser = parse_count)]
    pub records: u64,
    /// Skew of requests, 0 for none
    #[arg(long, default_value = "0,0.99", value_delimiter = ',', value_parser = parse_theta)]
    pub theta: Vec<f64>,
    /// Worker threads
    #[arg(long, default_value = "1,2", value_delimiter = ',', value_parser = parse_workers)]
    pub workers: Vec<usize>,
    /// How transactions are executed
    #[arg(long, default_value = "naive,interleaved", value_delimiter = ',')]
    pub mode: Vec<Mode>,
    /// Seconds per variant, divided among the repeats
    #[arg(long, default_value = "1.5", value_parser = parse_seconds)]
    pub seconds: f64,
    /// Number of runs of all variants of a load, one after the other; medians are reported
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draws throughput, divided by that of the first kind, with the most workers and the last mode, as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}
