//! `braid check`: checks of the files of a database. (`braid-lab check` has those of the engine's guarantees.)

mod database;

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
    /// Every file of a database on disk, its checkpoints and its log, and that the database can be opened
    Db(database::DatabaseArgs),
}

/// Runs the command. Damage is an error, after everything was printed.
pub fn check(args: &CheckArgs) -> Result<(), Failure> {
    match &args.command {
        CheckCommand::Db(args) => database::database(args),
    }
}
