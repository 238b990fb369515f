//! The benchmark of Braid, as a library. It runs YCSB and the workloads of the papers in every mode, with the variants
//! in turns, and reports the results as a table, JSON, an SVG chart and a page.
//!
//! - `command` is the command line.
//! - `suite` is the harness of all `workloads`.
//! - `experiments` are other measurements.
//! - `lines` runs command lines given as text.
//! - `cc` compares schemes in a grid of `cells`, and `indexes` compares kinds of index. `beside` shows the results of
//!   both.
//! - `paper` has the presets for figures of papers.
//! - `report` shows results.
//!
//! The programs `braid` and `braid-lab` share `ending`, `temporary` and `text`.
#![deny(unsafe_code)]

pub mod args;
pub mod distribution;
pub mod ending;
pub mod report;
pub mod scheme;
pub mod temporary;
pub mod text;
pub mod workloads;

mod beside;
mod cc;
mod cells;
mod command;
mod engine;
mod experiments;
mod index_args;
mod indexes;
mod lines;
mod machine;
mod paper;
mod suite;

pub use command::BenchArgs;
pub use engine::mix;
pub use report::environment;
pub use workloads::tpcc;
pub use workloads::ycsb::workload;

use command::BenchCommand;
use experiments::{blocks, classes, commit, main_job, recovery, robust, settle, stock_level};
use workloads::{micro, smallbank, tpcb, ycsb};

/// An error message of one line, for the user.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// Makes a failure with this message: lower case, without a final stop.
    pub fn new(message: impl Into<String>) -> Self {
        Failure(message.into())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Failure>;

/// Runs `braid bench …`.
pub fn run(args: &BenchArgs) -> Result<()> {
    match &args.command {
        None => main_job::run(),
        Some(BenchCommand::Ycsb(args)) => ycsb::bench(args),
        Some(BenchCommand::Paper(args)) => paper::run(args),
        Some(BenchCommand::Commit(args)) => commit::run(args),
        Some(BenchCommand::Robust(args)) => robust::run(args),
        Some(BenchCommand::Cc(args)) => cc::run(args),
        Some(BenchCommand::Index(args)) => indexes::run(args),
        Some(BenchCommand::Blocks(args)) => blocks::run(args),
        Some(BenchCommand::StockLevel(args)) => stock_level::run(args),
        Some(BenchCommand::Classes(args)) => classes::run(args),
        Some(BenchCommand::Settle(args)) => settle::run(args),
        Some(BenchCommand::Recovery(args)) => recovery::run(args),
        Some(BenchCommand::Tpcb(args)) => tpcb::bench(args),
        Some(BenchCommand::Smallbank(args)) => smallbank::bench(args),
        Some(BenchCommand::Micro(args)) => micro::bench(args),
        Some(BenchCommand::Tpcc(args)) => tpcc::bench(args),
    }
}
