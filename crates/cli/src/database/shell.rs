//! `braid shell`: runs commands on one open database, from a terminal or from a script.

mod commands;
mod completion;
mod history;
mod script;
mod session;
mod terminal;

use super::open::{Failure, existing, open_or_create, read};
use clap::Args;
use session::Session;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

/// Arguments of `braid shell`.
#[derive(Args, Debug)]
#[command(after_help = commands::summary())]
pub struct ShellArgs {
    /// The database's directory; no process may have it open
    path: PathBuf,
    /// Open the database for reading only: nothing in the directory is changed
    #[arg(long)]
    read_only: bool,
}

/// Runs `braid shell`: with line editing if the standard input and output are terminals, otherwise line by line.
pub fn shell(args: &ShellArgs) -> Result<(), Failure> {
    existing(&args.path)?;
    let db = if args.read_only { read(&args.path)? } else { open_or_create(&args.path)? };
    let mut session = Session::new(db, args.path.clone(), args.read_only);
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let ended = match is_terminal {
        true => terminal::run(&mut session),
        false => script::run(&mut session, &mut io::stdin().lock()),
    };
    let closed = session.close();
    ended.and(closed)
}
