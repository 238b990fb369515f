//! `braid check db`: checks that the files of a database are as they were written, and whether the database would open.

use crate::database::open::{Failure, advise, existing};
use crate::database::progress::Watched;
use crate::database::salvage::{cut, damage, incomplete};
use braid_bench::text::grouped;
use braiddb::tools::{OpenCheck, Verification};
use clap::Args;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;

/// Arguments of `braid check db`.
#[derive(Args, Debug)]
pub struct DatabaseArgs {
    /// The database's directory; it is only read, and no process may have it open
    path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command. Damage is an error, reported after everything is printed.
pub fn database(args: &DatabaseArgs) -> Result<(), Failure> {
    let (storage, watch) = Watched::new(existing(&args.path)?);
    let found = braiddb::tools::verify(&storage, &mut |progress| watch.show(progress));
    let found = found.map_err(|error| advise(error, &args.path))?;
    drop(watch);
    let to = &mut io::stdout().lock();
    if args.json {
        writeln!(to, "{:#}", object(&found))?
    } else {
        print(&found, to)?
    }
    match (found.is_good(), found.would_open()) {
        (true, _) => Ok(()),
        (false, true) => Err("the database is damaged".into()),
        (false, false) => Err(format!(
            "the database is damaged and would not open; `braid salvage {} NEW` copies what can be read",
            args.path.display()
        )
        .into()),
    }
}

fn print(found: &Verification, to: &mut impl Write) -> io::Result<()> {
    for file in &found.files {
        let verdict = if file.damages.is_empty() { "good" } else { "DAMAGED" };
        writeln!(to, "{verdict:7} {:>15} bytes  {}", grouped(file.disk_bytes), file.file)?;
        for damage in &file.damages {
            writeln!(to, "        {damage}")?;
        }
    }
    for damage in &found.missing {
        writeln!(to, "MISSING {damage}")?;
    }
    let (records, bytes) = (grouped(found.records), grouped(found.log_bytes));
    let end = if found.was_closed { "closed in order" } else { "not closed in order" };
    writeln!(to, "the log has {records} good records of {bytes} bytes; the database was {end}")?;
    if let Some(cut) = &found.cut {
        writeln!(to, "no damage; opening the database would cut off {}", incomplete(cut))?;
    }
    if !found.was_locked {
        writeln!(
            to,
            "the database could not be locked: another process may have been writing during the check"
        )?;
    }
    match &found.outlook {
        OpenCheck::Opens { checkpoint: Some(number) } => {
            writeln!(to, "the database opens, with {} rows from checkpoint {number}", grouped(found.rows))
        }
        OpenCheck::Opens { checkpoint: None } => writeln!(to, "the database opens, from the log alone"),
        OpenCheck::Refused { reason } => writeln!(to, "the database DOES NOT OPEN: {reason}"),
    }
}

fn object(found: &Verification) -> Value {
    let files = found.files.iter().map(|file| {
        let damages: Vec<Value> = file.damages.iter().map(damage).collect();
        json!({ "file": file.file, "bytes": file.bytes, "disk_bytes": file.disk_bytes, "good": damages.is_empty(), "damages": damages })
    });
    let (opens, checkpoint, reason) = match &found.outlook {
        OpenCheck::Opens { checkpoint } => (true, *checkpoint, None),
        OpenCheck::Refused { reason } => (false, None, Some(reason)),
    };
    json!({
        "good": found.is_good(),
        "database": found.database.map(|id| format!("{id:032x}")),
        "files": files.collect::<Vec<_>>(),
        "missing": found.missing.iter().map(damage).collect::<Vec<_>>(),
        "opens": opens,
        "checkpoint": checkpoint,
        "reason": reason,
        "rows": found.rows,
        "records": found.records,
        "log_bytes": found.log_bytes,
        "cut": found.cut.as_ref().map(cut),
        "closed": found.was_closed,
        "locked": found.was_locked,
    })
}
