//! `braid salvage`: copies what can be read of a damaged database into a new one.

use super::open::{Failure, advise, create, existing};
use super::progress::Watched;
use braid_bench::text::grouped;
use braiddb::recovery::{Cut, Damage};
use braiddb::tools::{Salvage, SalvageOptions, SalvagedTable};
use clap::Args;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;

/// Arguments of `braid salvage`.
#[derive(Args, Debug)]
pub struct SalvageArgs {
    /// The damaged database's directory; it is only read
    path: PathBuf,
    /// A new directory for the new database
    new: PathBuf,
    /// Continue after damage in the log: more is salvaged, but rows may not be from one point in time
    #[arg(long)]
    beyond_damage: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command. Rows that are left out are printed, and are no error.
pub fn salvage(args: &SalvageArgs) -> Result<(), Failure> {
    let (from, watch) = Watched::new(existing(&args.path)?);
    let to = create(&args.new)?;
    let options = SalvageOptions { beyond_damage: args.beyond_damage };
    let done = braiddb::tools::salvage(&from, &to, options, &mut |progress| watch.show(progress));
    let done = done.map_err(|error| advise(error, &args.path))?;
    drop(watch);
    to.close()?;
    let to = &mut io::stdout().lock();
    if args.json {
        writeln!(to, "{:#}", object(&done))?;
        return Ok(());
    }
    Ok(print(&done, to)?)
}

fn object(done: &Salvage) -> Value {
    let table = |of: &SalvagedTable| {
        json!({
            "table": of.name, "checkpoint": of.checkpoint, "rows": of.rows, "lost_blocks": of.lost_blocks,
            "lost_rows": of.lost_rows, "changes": of.changes, "left_out_changes": of.left_out_changes,
        })
    };
    json!({
        "complete": done.is_complete(),
        "tables": done.tables.iter().map(table).collect::<Vec<_>>(),
        "transactions": done.transactions,
        "damages": done.damages.iter().map(damage).collect::<Vec<_>>(),
        "unknown_changes": done.unknown_changes,
        "cut": done.cut.as_ref().map(cut),
    })
}

/// A damage as JSON.
pub fn damage(damage: &Damage) -> Value {
    let Damage { file, offset, lsn, reason } = damage;
    json!({ "file": file, "offset": offset, "lsn": lsn, "reason": reason })
}

/// The part that is cut off the end of a log, as JSON.
pub fn cut(cut: &Cut) -> Value {
    json!({ "file": cut.file, "offset": cut.offset, "lsn": cut.lsn, "bytes": cut.bytes })
}

/// The part that is cut off the end of a log, in words. Here the files are only read, so nothing has been cut off yet.
pub fn incomplete(cut: &Cut) -> String {
    let Cut { file, offset, lsn, bytes } = cut;
    format!(
        "{bytes} bytes of an incomplete write, which was never acknowledged, in {file:?} at offset {offset} (lsn {lsn})"
    )
}

fn print(done: &Salvage, to: &mut impl Write) -> io::Result<()> {
    for table in &done.tables {
        let from = match table.checkpoint {
            Some(number) => format!("{} rows from checkpoint {number}", grouped(table.rows)),
            None => "in no checkpoint".into(),
        };
        let changes = grouped(table.changes);
        write!(to, "table {:?}: {from}, {changes} changes from the log", table.name)?;
        if table.lost_blocks > 0 {
            let (rows, blocks) = (grouped(table.lost_rows), grouped(table.lost_blocks));
            write!(to, "; LEFT OUT {rows} rows in {blocks} damaged blocks")?;
        }
        if table.left_out_changes > 0 {
            let changes = grouped(table.left_out_changes);
            write!(to, "; LEFT OUT {changes} changes after damage (--beyond-damage includes them)")?;
        }
        writeln!(to)?;
        for (index, why) in &table.lost_indexes {
            writeln!(to, "LEFT OUT index {:?} {index} of table {:?}: {why}", index.name, table.name)?;
        }
    }
    if done.unknown_changes > 0 {
        writeln!(to, "LEFT OUT {} changes of unknown tables", grouped(done.unknown_changes))?;
    }
    for damage in &done.damages {
        writeln!(to, "damaged: {damage}")?;
    }
    if let Some(cut) = &done.cut {
        writeln!(to, "no damage; left out {}", incomplete(cut))?;
    }
    let whole = match done.is_complete() {
        true => "everything",
        false => "everything except the damaged and left-out parts above",
    };
    writeln!(to, "salvaged {whole}, with {} transactions from the log", grouped(done.transactions))
}
