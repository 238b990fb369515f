//! The workloads that `braid bench cc` runs, from no contention to a single row that all transactions change.

use crate::args::{Mode, parse_batch, parse_seconds, parse_workers};
use crate::scheme::Cc;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// A workload of the grid: its name, and its command line after `bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub(crate) name: &'static str,
    pub(crate) line: &'static str,
}

/// YCSB's tables have the size of the paper's figures about contention: few enough records for skew to matter.
pub(crate) const CELLS: [Cell; 15] = [
    Cell { name: "tpcc-1", line: "tpcc --mix narrow --warehouses 1" },
    Cell { name: "tpcc-2", line: "tpcc --mix narrow --warehouses 2" },
    Cell { name: "tpcc-4", line: "tpcc --mix narrow --warehouses 4" },
    Cell { name: "tpcc-8", line: "tpcc --mix narrow --warehouses 8" },
    Cell { name: "tpcc-16", line: "tpcc --mix narrow --warehouses 16" },
    Cell { name: "ycsb-50-0", line: "ycsb --workload a --reads 16 --records 1M --theta 0" },
    Cell { name: "ycsb-50-0.6", line: "ycsb --workload a --reads 16 --records 1M --theta 0.6" },
    Cell { name: "ycsb-50-0.9", line: "ycsb --workload a --reads 16 --records 1M --theta 0.9" },
    Cell { name: "ycsb-50-0.99", line: "ycsb --workload a --reads 16 --records 1M --theta 0.99" },
    Cell { name: "ycsb-5-0.6", line: "ycsb --workload b --reads 16 --records 1M --theta 0.6" },
    Cell { name: "ycsb-5-0.9", line: "ycsb --workload b --reads 16 --records 1M --theta 0.9" },
    Cell { name: "ycsb-5-0.99", line: "ycsb --workload b --reads 16 --records 1M --theta 0.99" },
    Cell { name: "smallbank-hot", line: "smallbank --accounts 1M --hot 100" },
    Cell { name: "hot-row", line: "ycsb --workload rmw1 --records 1" },
    Cell { name: "hot-row-add", line: "ycsb --workload add1 --records 1" },
];

impl ValueEnum for Cell {
    fn value_variants<'a>() -> &'a [Cell] {
        &CELLS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name).help(self.line))
    }
}

/// `braid bench cc`.
#[derive(Args, Clone, Debug)]
pub struct CcArgs {
    /// The workloads [default: all]
    #[arg(long, value_delimiter = ',')]
    pub cell: Vec<Cell>,
    /// The schemes; ratios are to the first [default: all serializable ones]
    #[arg(long, value_delimiter = ',')]
    pub cc: Vec<Cc>,
    /// Worker threads
    #[arg(long, default_value = "1,2", value_delimiter = ',', value_parser = parse_workers)]
    pub workers: Vec<usize>,
    /// How transactions are executed
    #[arg(long, default_value = "naive,interleaved,auto", value_delimiter = ',')]
    pub mode: Vec<Mode>,
    /// Transactions open at once per worker, in the interleaved mode
    #[arg(long, default_value = "8", value_parser = parse_batch)]
    pub batch: usize,
    /// Seconds per variant, divided among the repeats
    #[arg(long, default_value = "1.5", value_parser = parse_seconds)]
    pub seconds: f64,
    /// Number of runs of all variants of a workload, one after the other; medians are reported
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draws throughput, divided by that of the first scheme, with the most workers and the last mode, as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}
