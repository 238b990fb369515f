//! `braid backup`: copies a database, even while it is in use.

use super::open::{Failure, advise, existing, fill_empty};
use super::progress::Watched;
use braid_bench::text::grouped;
use braiddb::storage::FileStorage;
use braiddb::tools::Backup;
use clap::Args;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;

/// Arguments of `braid backup`.
#[derive(Args, Debug)]
pub struct BackupArgs {
    /// The database's directory; a process may have it open
    path: PathBuf,
    /// A new directory for the copy
    destination: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn backup(args: &BackupArgs) -> Result<(), Failure> {
    let (from, watch) = Watched::new(existing(&args.path)?);
    let copy =
        |to: &FileStorage| braiddb::tools::backup(&from, to).map_err(|error| advise(error, &args.path));
    let done = fill_empty(&args.destination, copy)?;
    drop(watch);
    if args.json {
        let Backup { checkpoint, rows, records, bytes, .. } = done;
        let object = json!({ "checkpoint": checkpoint, "rows": rows, "records": records, "bytes": bytes });
        return Ok(writeln!(io::stdout(), "{object:#}")?);
    }
    let (records, bytes) = (grouped(done.records), grouped(done.bytes));
    match done.checkpoint {
        Some(number) => println!(
            "copied and checked: checkpoint {number} with {} rows, and {records} log records after it, {bytes} bytes",
            grouped(done.rows)
        ),
        None => println!("copied and checked: no checkpoint, {records} log records, {bytes} bytes"),
    }
    Ok(())
}
