//! Tasks of the workspace. `cargo xtask tidy` checks the habits of STYLE.md, `cargo xtask cache` and
//! `cargo xtask teams` count instructions and misses under valgrind, and `cargo xtask builds` runs a benchmark with two
//! builds in turns.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the workspace")]
enum Chore {
    /// Check the habits of STYLE.md on the whole workspace
    Tidy,
    /// Count instructions and simulated cache misses per transaction, under valgrind
    Cache(xtask::cache::CacheArgs),
    /// Count instruction misses and mispredictions of transactions run in sequence, interleaved and in teams, under
    /// valgrind
    Teams,
    /// Run a benchmark with two builds of `braid` in turns, and report how much faster the second build is
    Builds(xtask::builds::BuildsArgs),
}

fn main() -> ExitCode {
    match Chore::parse() {
        Chore::Tidy => tidy(),
        Chore::Teams => answer(xtask::teams::run(&xtask::workspace_root())),
        Chore::Builds(args) => answer(xtask::builds::run(&args)),
        Chore::Cache(args) => answer(match args.check || args.keep {
            true => xtask::instructions::run(&xtask::workspace_root(), args.keep),
            false => xtask::cache::run(&xtask::workspace_root(), &args),
        }),
    }
}

fn answer(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn tidy() -> ExitCode {
    let tree = match xtask::Tree::load(&xtask::workspace_root()) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("cannot read the workspace: {error}");
            return ExitCode::from(2);
        }
    };
    let violations = xtask::violations(&tree);
    for violation in &violations {
        eprintln!("{violation}");
    }
    println!("{}", xtask::lengths::summary(&tree));
    if violations.is_empty() {
        println!("tidy: no violations");
        return ExitCode::SUCCESS;
    }
    eprintln!("tidy: {} violations", violations.len());
    ExitCode::FAILURE
}
