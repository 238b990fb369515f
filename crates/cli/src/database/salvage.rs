//! `braid salvage`: what can be read of a damaged database, into a new one.

use super::open::{Bar, Failure, advise, create, existing};
use crate::sim::grouped;
use braiddb::tools::{Salvage, SalvageOptions};
use clap::Args;
use std::io::{self, Write};
use std::path::PathBuf;

/// What to salvage, and to where.
#[derive(Args, Debug)]
pub struct SalvageArgs {
    /// The damaged database's directory; it is only read
    path: PathBuf,
    /// A new directory for the new database
    new: PathBuf,
    /// Continue after damage of the log: more is salvaged, but rows may not be of one moment
    #[arg(long)]
    beyond_damage: bool,
}

/// Runs the command. Rows that are left out are printed, and are no error.
pub fn salvage(args: &SalvageArgs) -> Result<(), Failure> {
    let from = existing(&args.path)?;
    let to = create(&args.new)?;
    let (options, bar) = (SalvageOptions { beyond_damage: args.beyond_damage }, Bar::new());
    let done = braiddb::tools::salvage(&from, &to, options, &mut |progress| bar.show(progress));
    let done = done.map_err(|error| advise(error, &args.path))?;
    drop(bar);
    to.close()?;
    Ok(print(&done, &mut io::stdout().lock())?)
}

fn print(done: &Salvage, to: &mut impl Write) -> io::Result<()> {
    for table in &done.tables {
        let from = table.checkpoint.map_or("the log alone".into(), |number| format!("checkpoint {number}"));
        let (rows, changes) = (grouped(table.rows), grouped(table.changes));
        write!(to, "table {:?}: {rows} rows of {from}, {changes} changes of the log", table.name)?;
        if table.lost_blocks > 0 {
            let (rows, blocks) = (grouped(table.lost_rows), grouped(table.lost_blocks));
            write!(to, "; LEFT OUT {rows} rows in {blocks} damaged blocks")?;
        }
        if table.left_out_changes > 0 {
            let changes = grouped(table.left_out_changes);
            write!(to, "; LEFT OUT {changes} changes behind damage (--beyond-damage takes them)")?;
        }
        writeln!(to)?;
        for (index, why) in &table.lost_indexes {
            writeln!(to, "LEFT OUT index {:?} {index} of table {:?}: {why}", index.name, table.name)?;
        }
    }
    if done.unknown_changes > 0 {
        writeln!(to, "LEFT OUT {} changes of tables that are not known", grouped(done.unknown_changes))?;
    }
    for damage in &done.damages {
        writeln!(to, "damaged: {damage}")?;
    }
    if let Some(cut) = &done.cut {
        writeln!(to, "no damage: {cut}")?;
    }
    let whole = if done.is_complete() { "everything" } else { "what could be read" };
    writeln!(to, "{whole} was taken, with {} transactions of the log", grouped(done.transactions))
}
