//! The benchmark of Braid, as a library: YCSB and the workloads of the papers, run over every way of
//! executing a transaction, the variants interleaved, reported as a table, JSON, an SVG chart and a page.
//!
//! `args` says what to run, `plan` unfolds it into variants, `runner` loads tables and runs variants through
//! `bodies` (the transactions) and `engine` (every call of the engine), `report` shows what came out.
//! Workloads of transactions of several kinds over tables of their own are in `kit`, with all that is theirs.
#![deny(unsafe_code)]

pub mod args;
pub mod distribution;
pub mod environment;
pub mod main_job;
pub mod paper;
pub mod plan;
pub mod report;
pub mod scheme;
pub mod tpcc;
pub mod workload;

mod bodies;
mod breakdown;
mod chart;
mod classes;
mod commit;
mod engine;
mod grid;
#[allow(unsafe_code, reason = "the yardsticks by hand read the engine's structures")]
mod hand;
mod hardware;
mod kit;
mod machine;
mod page;
mod payload;
#[allow(unsafe_code, reason = "the engine's structures below transactions promise little")]
mod raw;
mod recovery;
mod robust;
mod runner;

pub use engine::mix;

use args::{BenchArgs, BenchCommand};

/// What went wrong, in one line fit for the user.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// A failure with this message: lower case, no final stop.
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

/// The result of anything here.
pub type Result<T> = std::result::Result<T, Failure>;

/// Runs `braid bench …`.
pub fn run(args: &BenchArgs) -> Result<()> {
    match &args.command {
        None => main_job::run(),
        Some(BenchCommand::Ycsb(ycsb)) => {
            let plan = plan::Plan::new(ycsb)?;
            let outcome = runner::run(&plan)?;
            let (json, svg, page) =
                (ycsb.run.json.as_deref(), ycsb.run.svg.as_deref(), ycsb.run.report.as_deref());
            report::show(&outcome, &report::Outputs { title: "YCSB", json, svg, page })
        }
        Some(BenchCommand::Paper(paper)) => paper::run(paper),
        Some(BenchCommand::Commit(commit)) => commit::run(commit),
        Some(BenchCommand::Robust(robust)) => robust::run(robust),
        Some(BenchCommand::Classes(classes)) => classes::run(classes),
        Some(BenchCommand::Recovery(recovery)) => recovery::run(recovery),
        Some(BenchCommand::Tpcb(tpcb)) => kit::tpcb::bench(tpcb),
        Some(BenchCommand::Smallbank(smallbank)) => kit::smallbank::bench(smallbank),
        Some(BenchCommand::Micro(micro)) => kit::micro::bench(micro),
        Some(BenchCommand::Tpcc(tpcc)) => tpcc::bench(tpcc),
    }
}
