//! `braid tables`, `braid get` and `braid scan`: show the contents of a database.

pub use super::dump::count;

use super::dump::{Format, chosen, index_json, write_rows};
use super::open::{Failure, read};
use super::text::Column;
use braid_bench::ending::{Coded, NO_ROW};
use braid_bench::text::grouped;
use braid_bench::text::{line_of, printable_json};
use braiddb::tools::RawTable;
use braiddb::{Database, Front, TableInfo, Transaction, Txn};
use clap::Args;
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::ops::Bound;
use std::path::PathBuf;

/// Arguments of `braid tables`.
#[derive(Args, Debug)]
pub struct TablesArgs {
    /// The database's directory; it is only read, and no process may have it open
    path: PathBuf,
    #[command(flatten)]
    listing: Listing,
}

/// The output format of a list of tables.
#[derive(Args, Debug)]
pub struct Listing {
    /// Print a JSON object per table
    #[arg(long)]
    json: bool,
}

/// Arguments of `braid get`.
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 the value was printed; 1 any other failure; 2 there is no such row")]
pub struct GetArgs {
    /// The database's directory; it is only read, and no process may have it open
    path: PathBuf,
    #[command(flatten)]
    row: OneRow,
}

/// Selects a row.
#[derive(Args, Debug)]
pub struct OneRow {
    /// The table
    table: String,
    /// The key: text without quotes, a number, bytes as hexadecimal digits; other types as JSON
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// Print the value as JSON, with text in quotes
    #[arg(long)]
    json: bool,
}

/// Arguments of `braid scan`.
#[derive(Args, Debug)]
pub struct ScanArgs {
    /// The database's directory; it is only read, and no process may have it open
    path: PathBuf,
    #[command(flatten)]
    rows: SomeRows,
}

/// Selects rows.
#[derive(Args, Debug)]
pub struct SomeRows {
    /// The table
    table: String,
    /// Only keys with this prefix: the first characters of text, the first digits of bytes, the first parts of a tuple
    /// as a JSON list, or a variant with its first fields as a JSON object
    #[arg(long, conflicts_with_all = ["from", "to"], allow_hyphen_values = true)]
    prefix: Option<String>,
    /// Lower bound, inclusive; written like a key of `get`
    #[arg(long, allow_hyphen_values = true)]
    from: Option<String>,
    /// Upper bound, exclusive; written like a key of `get`
    #[arg(long, allow_hyphen_values = true)]
    to: Option<String>,
    /// Print rows in descending key order
    #[arg(long)]
    reverse: bool,
    /// Maximum number of rows
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// The format of rows
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// Same as `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// Runs `braid tables`.
pub fn tables(args: &TablesArgs) -> Result<(), Failure> {
    let db = read(&args.path)?;
    let mut to = BufWriter::new(io::stdout().lock());
    write_tables(&db, &args.listing, &mut to)?;
    to.flush()?;
    Ok(db.close()?)
}

/// Runs `braid get`. A missing row is an error with its own exit code.
pub fn get(args: &GetArgs) -> Result<(), Failure> {
    let db = read(&args.path)?;
    write_row(&db, &db.begin()?, &args.row, &mut io::stdout())?;
    Ok(db.close()?)
}

/// Runs `braid scan`.
pub fn scan(args: &ScanArgs) -> Result<(), Failure> {
    let db = read(&args.path)?;
    let snapshot = db.begin()?;
    snapshot.declare_read_only();
    let mut to = BufWriter::new(io::stdout().lock());
    write_some(&db, &snapshot, &args.rows, &mut to)?;
    to.flush()?;
    drop(snapshot);
    Ok(db.close()?)
}

/// Writes the list of tables with their row counts.
pub fn write_tables(db: &Database, listing: &Listing, to: &mut dyn Write) -> Result<(), Failure> {
    let tables = db.tables();
    let width = tables.iter().map(|table| line_of(&table.name).chars().count()).max().unwrap_or(0);
    for info in &tables {
        let rows = count(db, info)?;
        let TableInfo { name, key_type, value_type, index, front, definitions, indexes, .. } = info;
        let has_front = *front == Front::Hash;
        if listing.json {
            let front = if has_front { "hash" } else { "none" };
            let index = index.name();
            let line = json!({
                "table": name, "key_type": key_type, "value_type": value_type, "definitions": definitions, "rows": rows,
                "index": index, "front": front, "indexes": indexes.iter().map(index_json).collect::<Vec<_>>()
            });
            writeln!(to, "{}", printable_json(&line.to_string()))?;
            continue;
        }
        let front = if has_front { ", a hash table in front" } else { "" };
        writeln!(
            to,
            "{:width$}  {} -> {}  {} rows  {}{front}",
            line_of(name),
            line_of(key_type),
            line_of(value_type),
            grouped(rows),
            index.name()
        )?;
        definitions.iter().try_for_each(|line| writeln!(to, "{:width$}    {}", "", line_of(line)))?;
        indexes.iter().try_for_each(|index| {
            let columns = index.to_string();
            writeln!(to, "{:width$}    index {:?} {}", "", index.name, line_of(&columns))
        })?;
    }
    Ok(())
}

/// Writes the value of a row, as the transaction sees it. Fails if there is no such row.
pub fn write_row(
    db: &Database,
    transaction: &Transaction,
    row: &OneRow,
    to: &mut dyn Write,
) -> Result<(), Failure> {
    let (info, table) = find(db, &row.table)?;
    let key = read_key(&info, &row.key)?;
    let found = transaction.with(async |tx: &Txn| Ok(table.get(tx, &key).await?.map(<[u8]>::to_vec)))?;
    let value = found.ok_or_else(|| no_row(&info, &row.key))?;
    let values = Column::values(&info);
    let mut text = String::new();
    match values.cell(&value).filter(|_| !row.json) {
        Some(cell) => text = cell,
        None => values.write_json(&value, &mut text),
    }
    // JSON has no control characters.
    Ok(writeln!(to, "{}", line_of(&text))?)
}

/// Writes rows, as the transaction sees them.
pub fn write_some(
    db: &Database,
    transaction: &Transaction,
    args: &SomeRows,
    to: &mut dyn Write,
) -> Result<(), Failure> {
    let (info, table) = find(db, &args.table)?;
    let keys = Column::keys(&info.key_type);
    let bound = |flag: &str, cell: &Option<String>| {
        let read = cell.as_ref().map(|cell| keys.read_cell(cell).map_err(|why| format!("--{flag}: {why}")));
        read.transpose()
    };
    let rows = match &args.prefix {
        Some(prefix) => {
            let prefix = keys.read_prefix(prefix).map_err(|why| format!("--prefix: {why}"))?;
            table.scan_prefix(transaction, &prefix)
        }
        None => {
            let (from, to) = (bound("from", &args.from)?, bound("to", &args.to)?);
            let from = from.as_deref().map_or(Bound::Unbounded, Bound::Included);
            let to = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            table.range(transaction, from, to)?
        }
    };
    let rows = if args.reverse { rows.reverse() } else { rows };
    write_rows(&info, table, rows.limit(args.limit), args.format, to)
}

/// The bytes of a key that was given as text.
pub fn read_key(info: &TableInfo, text: &str) -> Result<Vec<u8>, String> {
    Column::keys(&info.key_type).read_cell(text).map_err(|why| format!("the key: {why}"))
}

/// The error for a missing row.
pub fn no_row(info: &TableInfo, key: &str) -> Coded {
    Coded { code: NO_ROW, said: format!("table {:?} has no row with key {key}", info.name) }
}

/// Finds the table with this name.
pub fn find(db: &Database, name: &str) -> Result<(TableInfo, RawTable), Failure> {
    let info = chosen(db, &[name.to_owned()])?.remove(0);
    let table = db.raw_table(name).expect("it is listed");
    Ok((info, table))
}
