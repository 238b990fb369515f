//! `braid check`: checks the files of a database. `braid-lab check` checks the engine's guarantees.

mod database;

use braid_bench::ending::Failure;
use clap::{Args, Subcommand};

/// Arguments of `braid check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    #[command(subcommand)]
    command: CheckCommand,
}

#[derive(Subcommand, Debug)]
enum CheckCommand {
    /// Check every file of a database on disk, including checkpoints and log, and whether the database would open
    Db(database::DatabaseArgs),
}

/// Runs the command. Damage is an error, reported after everything is printed.
pub fn check(args: &CheckArgs) -> Result<(), Failure> {
    match &args.command {
        CheckCommand::Db(args) => database::database(args),
    }
}
