//! The command `braid`.
//!
//! Exit codes are in `EXIT_CODES`; 130 and 141 are those by which shells report SIGINT and SIGPIPE.
#![forbid(unsafe_code)]

mod advise;
mod check;
mod database;
mod ending;
mod help;
mod history;
mod parallel;
mod sim;

use clap::{CommandFactory, Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;

/// Boxed coroutines of the papers' variants allocate much; a slow allocator would make them look worse than
/// they are.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXIT_CODES: &str = "\
Exit codes: 0 done; 2 there is no row with the key that `get` was given; 1 anything else has failed, or the command line is wrong; \
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
    /// Measures the engine: without a subcommand, the gain of interleaving on this machine, in under three minutes
    Bench(braid_bench::BenchArgs),
    /// Runs the engine under a seeded scheduler and checks its guarantees; a violation's seed replays it exactly
    Sim(sim::SimArgs),
    /// Checks the engine's guarantees, or the files of a database on disk
    Check(check::CheckArgs),
    /// Copies a database on disk, which may be in use
    Backup(database::backup::BackupArgs),
    /// Says what a database on disk is made of: tables, checkpoint, log
    Info(database::info::InfoArgs),
    /// Prints what the program counts that has a database open, once or as rates over time
    Stats(database::stats::StatsArgs),
    /// Looks into a database on disk and changes its rows, command by command
    Shell(database::shell::ShellArgs),
    /// Lists the tables of a database on disk
    Tables(database::look::TablesArgs),
    /// Prints the value of one row of a database on disk
    Get(database::look::GetArgs),
    /// Prints rows of a table of a database on disk, in the order of their keys
    Scan(database::look::ScanArgs),
    /// Prints what was committed to a database on disk, one transaction after the other, as far as its log goes back
    Changes(database::changes::ChangesArgs),
    /// Writes the rows of a database on disk as text, as of one moment
    Dump(database::dump::DumpArgs),
    /// Reads rows that `dump` has written into a database on disk
    Load(database::load::LoadArgs),
    /// Deletes a table of a database on disk, with all its rows
    Drop(database::drop::DropArgs),
    /// Copies everything that can be read of a damaged database into a new one
    Salvage(database::salvage::SalvageArgs),
    /// Makes a new database from one as it was at an earlier point, or from a backup and an archive of its log
    Restore(database::restore::RestoreArgs),
    /// Checks a history of transactions, of Braid or any other engine, for anomalies
    History(history::HistoryArgs),
    /// Advises which fields of a table's rows to put into one column of a projection, by the queries that read them
    Advise(advise::AdviseArgs),
    /// Prints a script by which a shell completes this command's words
    Completions(help::CompletionsArgs),
    /// Writes this command's pages for `man`
    Man(help::ManArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(asked) => {
            let _ = asked.print(); // the pipe may be closed
            return if asked.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    ending::remove_on_interrupt();
    match ending::quietly(|| run(&cli.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if ending::is_unread(&*error) => ExitCode::from(ending::UNREAD),
        Err(error) => {
            let said = error.to_string();
            let _ = writeln!(io::stderr(), "braid: {}", database::printable(&said)); // closed as well, perhaps
            error.downcast_ref().map_or(ExitCode::FAILURE, |coded: &ending::Coded| ExitCode::from(coded.code))
        }
    }
}

fn run(command: &Command) -> Result<(), database::open::Failure> {
    match command {
        Command::Bench(args) => braid_bench::run(args).map_err(Into::into),
        Command::Sim(args) => sim::simulate(args),
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

/// The kind of index of this name, for commands that scan their tables.
fn ordered_index(name: &str) -> Result<braiddb::IndexKind, String> {
    let kind: braiddb::IndexKind = name.parse()?;
    if kind.is_ordered() {
        return Ok(kind);
    }
    let names: Vec<_> = braiddb::IndexKind::ordered().map(braiddb::IndexKind::name).collect();
    Err(format!(
        "this command scans its tables, and {name} keeps no order of keys: take one of {}",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        // Proves that no two flags or names of commands clash.
        Cli::command().debug_assert();
        assert!(Cli::try_parse_from(["braid", "bench"]).is_ok());
        assert!(
            Cli::try_parse_from(["braid", "sim", "--seed", "7", "--seeds", "10", "--workers", "2"]).is_ok()
        );
        assert!(
            Cli::try_parse_from(["braid", "bench", "ycsb", "--records", "10K,1M", "--workers", "all"])
                .is_ok()
        );
        assert!(Cli::try_parse_from(["braid", "bench", "ycsb", "--records", "many"]).is_err());
        assert!(Cli::try_parse_from(["braid", "check", "isolation", "--scheme", "snapshot"]).is_ok());
        assert!(Cli::try_parse_from(["braid", "check", "isolation", "--scheme", "none"]).is_err());
        let refused = Cli::try_parse_from(["braid", "check", "isolation", "--index", "cuckoo"]).map(|_| ());
        assert!(refused.is_err_and(|error| error.to_string().contains("take one of masstree, btree")));
        assert!(Cli::try_parse_from(["braid", "check", "crash", "--index", "cuckoo"]).is_ok());
        assert!(
            Cli::try_parse_from(["braid", "check", "crash", "--seed", "7", "--replay", "12:3/4:5"]).is_ok()
        );
        assert!(Cli::try_parse_from(["braid", "check", "crash", "--replay", "12"]).is_err());
        assert!(Cli::try_parse_from(["braid", "history", "check", "a.jsonl", "--model", "strict"]).is_ok());
        assert!(Cli::try_parse_from(["braid", "history", "check", "a.jsonl", "--model", "lax"]).is_err());
        assert!(Cli::try_parse_from(["braid", "advise", "a.json", "--json"]).is_ok());
    }
}
