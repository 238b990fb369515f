//! The command `braid`.
//!
//! Exit codes are in `EXIT_CODES`. Shells report SIGINT and SIGPIPE by the codes 130 and 141.
#![forbid(unsafe_code)]

mod advise;
mod check;
mod database;
mod help;
mod history;

use braid_bench::ending;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Boxed coroutines of the papers' variants allocate a lot. A slow allocator would make them look worse than they are.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXIT_CODES: &str = "\
Exit codes: 0 success; 1 any other failure, or an invalid command line; 2 `get` found no row with the key; \
130 interrupted; 141 the output pipe was closed";

/// Braid: a main-memory database engine in which every transaction is a coroutine.
#[derive(Parser)]
#[command(name = "braid", version, propagate_version = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the engine; without a subcommand, the gain of interleaving on this machine, in under three minutes
    Bench(braid_bench::BenchArgs),
    /// Check the files of a database on disk
    Check(check::CheckArgs),
    /// Copy a database on disk, even while it is in use
    Backup(database::backup::BackupArgs),
    /// Describe a database on disk: tables, checkpoint, log
    Info(database::info::InfoArgs),
    /// Print the statistics of a program that has the database open, once or as rates over time
    Stats(database::stats::StatsArgs),
    /// Read and change rows of a database on disk, command by command
    Shell(database::shell::ShellArgs),
    /// List the tables of a database on disk
    Tables(database::look::TablesArgs),
    /// Print the value of one row of a database on disk
    Get(database::look::GetArgs),
    /// Print rows of a table of a database on disk, in key order
    Scan(database::look::ScanArgs),
    /// Print the transactions committed to a database on disk, one by one, as far back as its log goes
    Changes(database::changes::ChangesArgs),
    /// Write the rows of a database on disk as text, from one consistent snapshot
    Dump(database::dump::DumpArgs),
    /// Load rows written by `dump` into a database on disk
    Load(database::load::LoadArgs),
    /// Delete a table of a database on disk with all its rows, or an index of the table
    Drop(database::drop::DropArgs),
    /// Copy everything that can be read of a damaged database into a new one
    Salvage(database::salvage::SalvageArgs),
    /// Create a new database from an earlier state of one, or from a backup and an archive of its log
    Restore(database::restore::RestoreArgs),
    /// Check a history of transactions, of Braid or any other engine, for anomalies
    History(history::HistoryArgs),
    /// Advise which fields of a table's rows to put into one column of a projection, based on the queries that read
    /// them
    Advise(advise::AdviseArgs),
    /// Print a script that makes a shell complete this command's words
    Completions(help::CompletionsArgs),
    /// Write `man` pages for this command
    Man(help::ManArgs),
}

fn main() -> ExitCode {
    ending::run(|cli: &Cli| run(&cli.command))
}

fn run(command: &Command) -> Result<(), ending::Failure> {
    match command {
        Command::Bench(args) => braid_bench::run(args).map_err(Into::into),
        Command::Check(args) => check::check(args),
        Command::History(args) => history::history(args),
        Command::Backup(args) => database::backup::backup(args),
        Command::Info(args) => database::info::info(args),
        Command::Stats(args) => database::stats::stats(args),
        Command::Shell(args) => database::shell::shell(args),
        Command::Tables(args) => database::look::tables(args),
        Command::Get(args) => database::look::get(args),
        Command::Scan(args) => database::look::scan(args),
        Command::Changes(args) => database::changes::changes(args),
        Command::Dump(args) => database::dump::dump(args),
        Command::Load(args) => database::load::load(args),
        Command::Drop(args) => database::drop::drop(args),
        Command::Salvage(args) => database::salvage::salvage(args),
        Command::Restore(args) => database::restore::restore(args),
        Command::Advise(args) => advise::advise(args),
        Command::Completions(args) => help::completions(args, Cli::command()),
        Command::Man(args) => help::man(args, Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        // Proves that no two flags or command names clash.
        Cli::command().debug_assert();
        assert!(Cli::try_parse_from(["braid", "bench"]).is_ok());
        assert!(
            Cli::try_parse_from(["braid", "bench", "ycsb", "--records", "10K,1M", "--workers", "all"])
                .is_ok()
        );
        assert!(Cli::try_parse_from(["braid", "bench", "ycsb", "--records", "many"]).is_err());
        assert!(Cli::try_parse_from(["braid", "check", "db", "a", "--json"]).is_ok());
        assert!(Cli::try_parse_from(["braid", "check", "isolation"]).is_err());
        assert!(Cli::try_parse_from(["braid", "history", "check", "a.jsonl", "--model", "strict"]).is_ok());
        assert!(Cli::try_parse_from(["braid", "history", "check", "a.jsonl", "--model", "lax"]).is_err());
        assert!(Cli::try_parse_from(["braid", "advise", "a.json", "--json"]).is_ok());
    }
}
