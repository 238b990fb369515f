//! `braid drop`: deletes a table, or an index of a table.

use super::look::{count, find};
use super::open::{Failure, existing, open_or_create};
use braid_bench::text::grouped;
use clap::Args;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

/// Arguments of `braid drop`.
#[derive(Args, Debug)]
pub struct DropArgs {
    /// The database's directory; no process may have it open
    path: PathBuf,
    /// The table; all its rows are deleted with it
    table: String,
    /// Delete only this index by columns, not the table
    #[arg(long)]
    index: Option<String>,
    /// Do not ask for confirmation; required if the standard input is not a terminal
    #[arg(long)]
    yes: bool,
}

/// Runs `braid drop`: asks for confirmation, drops, and reports what was dropped.
pub fn drop(args: &DropArgs) -> Result<(), Failure> {
    existing(&args.path)?;
    let db = open_or_create(&args.path)?;
    let (info, _) = find(&db, &args.table)?;
    let what = match &args.index {
        Some(index) if info.indexes.iter().any(|known| known.name == *index) => {
            format!("index {index:?} of table {:?}", info.name)
        }
        Some(index) => return Err(format!("table {:?} has no index {index:?} by columns", info.name).into()),
        None => match count(&db, &info)? {
            1 => format!("table {:?} with its row", info.name),
            rows => format!("table {:?} with its {} rows", info.name, grouped(rows)),
        },
    };
    if !args.yes {
        confirm(&what)?;
    }
    match &args.index {
        Some(index) => db.drop_index(&args.table, index)?,
        None => db.drop_table(&args.table)?,
    }
    db.close()?;
    Ok(writeln!(io::stdout(), "dropped {what}")?)
}

/// Asks at the terminal whether to drop `what`. Fails if the answer is no, or if there is no terminal to ask at.
fn confirm(what: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(
            format!("this would drop {what}: without a terminal to confirm at, --yes is required").into()
        );
    }
    let mut said = String::new();
    write!(io::stderr(), "Drop {what}? [y/N] ")?;
    io::stdin().lock().read_line(&mut said)?;
    match said.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err("nothing was dropped".into()),
    }
}
