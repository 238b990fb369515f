//! `braid-lab check`: checks of the engine's guarantees.

mod crash;
mod isolation;
mod tpcc;

use braid_bench::ending::Failure;
use clap::{Args, Subcommand};

/// What to check.
#[derive(Args, Debug)]
pub struct CheckArgs {
    #[command(subcommand)]
    command: CheckCommand,
}

#[derive(Subcommand, Debug)]
enum CheckCommand {
    /// Known anomalies in every interleaving, random transactions, and simulated histories, each judged by the
    /// scheme's guarantee
    Isolation(isolation::IsolationArgs),
    /// Crashes at every operation of a simulated disk, and processes that are killed: nothing acknowledged is lost
    Crash(crash::CrashArgs),
    /// TPC-C in every mix and mode under every scheme, and its twelve consistency conditions after each run
    Tpcc(tpcc::TpccArgs),
    /// The process that `crash` kills
    #[command(hide = true)]
    CrashChild(crash::ChildArgs),
}

/// Runs the command. A broken guarantee is an error, after everything was printed.
pub fn check(args: &CheckArgs) -> Result<(), Failure> {
    match &args.command {
        CheckCommand::Isolation(args) => isolation::isolation(args),
        CheckCommand::Crash(args) => crash::crash(args),
        CheckCommand::Tpcc(args) => tpcc::tpcc(args),
        CheckCommand::CrashChild(args) => crash::child(args),
    }
}
