//! `braid-lab check`: checks of the engine's guarantees.

mod crash;
mod isolation;
mod tpcc;

use braid_bench::ending::Failure;
use clap::{Args, Subcommand};

/// Arguments of `braid-lab check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    #[command(subcommand)]
    command: CheckCommand,
}

#[derive(Subcommand, Debug)]
enum CheckCommand {
    /// Run known anomalies in every interleaving, random transactions and simulated histories, and judge each by the
    /// scheme's guarantee
    Isolation(isolation::IsolationArgs),
    /// Check that no acknowledged transaction is lost: crash at every operation of a simulated disk, and kill processes
    Crash(crash::CrashArgs),
    /// Run TPC-C in every mix and mode under every scheme, and check its twelve consistency conditions after each run
    Tpcc(tpcc::TpccArgs),
    /// The process that `crash` kills
    #[command(hide = true)]
    CrashChild(crash::ChildArgs),
}

/// Runs the command. A broken guarantee is an error, reported after everything is printed.
pub fn check(args: &CheckArgs) -> Result<(), Failure> {
    match &args.command {
        CheckCommand::Isolation(args) => isolation::isolation(args),
        CheckCommand::Crash(args) => crash::crash(args),
        CheckCommand::Tpcc(args) => tpcc::tpcc(args),
        CheckCommand::CrashChild(args) => crash::child(args),
    }
}
