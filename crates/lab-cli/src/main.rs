//! The command `braid-lab`.
//!
//! Exit codes are in `EXIT_CODES`. Shells report SIGINT and SIGPIPE by the codes 130 and 141.
#![forbid(unsafe_code)]

mod check;
mod parallel;
mod sim;

use braid_bench::ending;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The allocator of `braid`: checks with threads and time run on the allocator that is measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 a guarantee is broken, anything else has failed, or the command line is wrong; \
130 interrupted; 141 the output pipe was closed";

/// Check Braid, a main-memory database engine: seeded simulations, and its guarantees under every scheme.
#[derive(Parser)]
#[command(name = "braid-lab", version, propagate_version = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the engine under a seeded scheduler and check its guarantees; the seed of a violation replays it exactly
    Sim(sim::SimArgs),
    /// Check the engine's guarantees
    Check(check::CheckArgs),
}

fn main() -> ExitCode {
    ending::run(|cli: &Cli| run(&cli.command))
}

fn run(command: &Command) -> Result<(), ending::Failure> {
    match command {
        Command::Sim(args) => sim::simulate(args),
        Command::Check(args) => check::check(args),
    }
}

/// Parses the name of a kind of index, for commands that scan their tables.
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
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        // Proves that no two flags or command names clash.
        Cli::command().debug_assert();
        let parsed = |line: &str| Cli::try_parse_from(line.split(' ')).map(|_| ());
        assert!(parsed("braid-lab sim --seed 7 --seeds 10 --workers 2").is_ok());
        assert!(parsed("braid-lab check isolation --scheme snapshot").is_ok());
        assert!(parsed("braid-lab check isolation --scheme none").is_err());
        let refused = parsed("braid-lab check isolation --index cuckoo");
        assert!(refused.is_err_and(|error| error.to_string().contains("take one of masstree, btree")));
        assert!(parsed("braid-lab check crash --index cuckoo").is_ok());
        assert!(parsed("braid-lab check crash --seed 7 --replay 12:3/4:5").is_ok());
        assert!(parsed("braid-lab check crash --replay 12").is_err());
        assert!(parsed("braid-lab check tpcc --warehouses 1 --mix full").is_ok());
    }

    #[test]
    fn the_process_that_is_killed_has_a_command() {
        // Proves that the hidden command takes the flags that its parent gives it.
        let line = "braid-lab check crash-child --seed 1 --cc silo --index btree --directory a";
        assert!(Cli::try_parse_from(line.split(' ')).is_ok());
    }
}
