//! `braid load`: loads rows from text into a database.
//!
//! A failed load removes what it created: its tables and indexes, or the whole database if it is new. In a table that
//! existed before, the rows that were loaded before the failure stay.

mod cells;
mod input;
mod json;
mod place;
mod rows;
mod stopped;
mod trailer;

use super::dump::Format;
use super::open::{Failure, open_or_create};
use braid_bench::ending::{self, Coded, INTERRUPTED};
use braid_bench::text::grouped;
use braiddb::Database;
use clap::Args;
use input::Input;
pub use json::LINE_BYTES_MAX;
use place::Place;
use rows::Loader;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;
use stopped::Stopped;

/// Arguments of `braid load`.
#[derive(Args, Debug)]
#[command(after_help = ENDS)]
pub struct LoadArgs {
    /// The database's directory; created if it does not exist
    path: PathBuf,
    /// The file to load, as written by `dump`; `-` reads the standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// The format of rows
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// The table to load into; required for CSV
    #[arg(long, required_if_eq("format", "csv"))]
    table: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const ENDS: &str = "\
A failed load leaves no new table, index or database. Rows that it has put into existing tables stay, and the error says how many. After an \
interrupt (Ctrl-C), all loaded rows stay, and the message says how many. The same load can then be run again: a row replaces an existing row \
with the same key. The first line of a dump announces that the last line has the row counts, so a dump that was cut off is detected. Dumps \
without row counts (from old versions, or written by hand) are loaded without this check. Every CSV row, including the last one, must end with \
a line end.";

/// Runs the command. Missing tables are created. A row replaces an existing row with the same key. All loaded rows are
/// durable at the end.
pub fn load(args: &LoadArgs) -> Result<(), Failure> {
    let from = Input::open(&args.file)?;
    let place = Place::look(&args.path);
    let db = match open_or_create(&args.path) {
        Ok(db) => db,
        Err(error) if place.is_new => {
            let _ = place.clear(); // a failure to remove it may have the same cause
            return Err(error);
        }
        Err(error) => return Err(error),
    };
    ending::note_interrupts();
    let (mut loader, mut line) = (Loader::new(&db), 0);
    let read = match (args.format, &args.table) {
        (Format::Json, _) => json::load(&mut loader, from, &mut line),
        (Format::Csv, Some(table)) => cells::load(&mut loader, from, table, &mut line),
        (Format::Csv, None) => unreachable!("the command line has it"),
    };
    let settled = loader.finish(read.is_ok(), line);
    let (rows, tables) = (loader.rows(), loader.targets.len());
    if read.is_err() && ending::is_interrupted() {
        let loaded = told(&loader, |_| true);
        drop(loader);
        db.close()?;
        return Err(interrupted(args, line, rows, &loaded));
    }
    if let Some(stopped) = first(read, settled) {
        let kept = match place.is_new {
            true => {
                drop(loader);
                remove(db, &place)
            }
            false => {
                let (undone, kept) = (loader.undo(), told(&loader, |target| !target.is_new));
                drop(loader);
                told_undone(undone.and_then(|()| db.close()), &kept)
            }
        };
        let Stopped { line, why } = stopped;
        return Err(format!("{}, line {line}: {why} ({kept})", args.file.display()).into());
    }
    drop(loader);
    db.close()?;
    let rows_loaded = grouped(rows);
    if args.json {
        return Ok(writeln!(io::stdout(), "{:#}", json!({ "rows": rows, "tables": tables }))?);
    }
    println!("loaded {rows_loaded} rows into {tables} table{}", if tables == 1 { "" } else { "s" });
    Ok(())
}

/// The earlier of two faults in the file.
fn first(read: Result<(), Stopped>, settled: Result<(), Stopped>) -> Option<Stopped> {
    match (read.err(), settled.err()) {
        (Some(read), Some(settled)) if settled.line < read.line => Some(settled),
        (read, settled) => read.or(settled),
    }
}

/// The rows that are in the database, by table.
fn told(loader: &Loader<'_>, of: impl Fn(&rows::Target) -> bool) -> String {
    let of = loader.targets.iter().filter(|target| target.rows > 0 && of(target));
    let each = of.map(|target| format!("{} of table {:?}", grouped(target.rows), target.name));
    each.collect::<Vec<_>>().join(", ")
}

fn interrupted(args: &LoadArgs, line: u64, rows: u64, loaded: &str) -> Failure {
    let said = match rows {
        0 => "nothing was loaded".into(),
        rows => format!("{} rows are in the database: {loaded}", grouped(rows)),
    };
    let said = format!("interrupted at line {line} of {}: {said}", args.file.display());
    Coded { code: INTERRUPTED, said }.into()
}

/// Removes the new database. Returns a message about it.
fn remove(db: Database, place: &Place) -> String {
    let closed = db.close().map_err(|error| error.to_string());
    let path = place.path.display();
    match closed.and_then(|()| place.clear().map_err(|error| error.to_string())) {
        Ok(()) => format!("nothing was loaded, and there is no database in {path}"),
        Err(why) => format!("the incomplete database in {path} could not be removed: {why}"),
    }
}

/// A message about a failed load into an existing database, with the rows of earlier tables that stay.
fn told_undone(undone: braiddb::Result<()>, kept: &str) -> String {
    match undone {
        Err(error) => format!("the new tables and indexes could not be removed: {error}"),
        Ok(()) if kept.is_empty() => "nothing was loaded, and the database is unchanged".into(),
        Ok(()) => format!("new tables and indexes were removed; these rows stay: {kept}"),
    }
}
