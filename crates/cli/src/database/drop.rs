//! `braid drop`: a table is deleted, or an index of one.

use super::open::{Failure, existing, open_or_create};
use clap::Args;
use std::path::PathBuf;

/// Which table.
#[derive(Args, Debug)]
pub struct DropArgs {
    /// The database's directory, which no process may have open
    path: PathBuf,
    /// The table, which goes with all its rows
    table: String,
    /// Only this index by columns, not the table
    #[arg(long)]
    index: Option<String>,
}

/// Runs `braid drop`.
pub fn drop(args: &DropArgs) -> Result<(), Failure> {
    existing(&args.path)?;
    let db = open_or_create(&args.path)?;
    match &args.index {
        Some(index) => db.drop_index(&args.table, index)?,
        None => db.drop_table(&args.table)?,
    }
    Ok(db.close()?)
}
