//! `braid check`: whether the engine keeps what it promises, for who wants to see it with their own eyes.

mod isolation;

use clap::{Args, Subcommand};
use std::error::Error;

/// What to check.
#[derive(Args, Debug)]
pub struct CheckArgs {
    #[command(subcommand)]
    command: CheckCommand,
}

#[derive(Subcommand, Debug)]
enum CheckCommand {
    /// Known anomalies in every interleaving, random transactions, and simulated histories, each judged by what the
    /// scheme promises
    Isolation(isolation::IsolationArgs),
}

/// Runs the command. A broken promise is an error, after everything was printed.
pub fn check(args: &CheckArgs) -> Result<(), Box<dyn Error>> {
    match &args.command {
        CheckCommand::Isolation(args) => isolation::isolation(args),
    }
}
