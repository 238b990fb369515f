//! `braid backup`: a copy of a database, also of one that is in use.

use super::open::{Failure, advise, empty, existing};
use crate::sim::grouped;
use clap::Args;
use std::path::PathBuf;

/// What to copy, and to where.
#[derive(Args, Debug)]
pub struct BackupArgs {
    /// The database's directory; a process may have it open
    path: PathBuf,
    /// A new directory for the copy
    destination: PathBuf,
}

/// Runs the command.
pub fn backup(args: &BackupArgs) -> Result<(), Failure> {
    let (from, to) = (existing(&args.path)?, empty(&args.destination)?);
    let done = braiddb::tools::backup(&from, &to).map_err(|error| advise(error, &args.path))?;
    let checkpoint = done.checkpoint.map_or("without a checkpoint".into(), |n| format!("checkpoint {n}"));
    println!(
        "copied and checked: {checkpoint}, {} rows and {} records of the log behind, {} bytes",
        grouped(done.rows),
        grouped(done.records),
        grouped(done.bytes)
    );
    Ok(())
}
