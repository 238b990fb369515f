//! `braid tables`, `braid get` and `braid scan`: what is in a database.

use super::dump::{Format, chosen, index_json, write_rows};
use super::open::{Failure, read};
use super::text::Column;
use crate::sim::grouped;
use braiddb::tools::RawTable;
use braiddb::{Database, Front, TableInfo, Txn};
use clap::Args;
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::ops::Bound;
use std::path::PathBuf;

/// Which database.
#[derive(Args, Debug)]
pub struct TablesArgs {
    /// The database's directory, which no process may have open; it is only read
    path: PathBuf,
    /// Print a JSON object per table
    #[arg(long)]
    json: bool,
}

/// Which row.
#[derive(Args, Debug)]
pub struct GetArgs {
    /// The database's directory, which no process may have open; it is only read
    path: PathBuf,
    /// The table
    table: String,
    /// The key: text without quotes, a number, bytes as hexadecimal digits, anything else as JSON
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// Print the value as JSON: text in quotes
    #[arg(long)]
    json: bool,
}

/// Which rows.
#[derive(Args, Debug)]
pub struct ScanArgs {
    /// The database's directory, which no process may have open; it is only read
    path: PathBuf,
    /// The table
    table: String,
    /// Only keys that begin with this: first characters of text, first digits of bytes, first parts of a tuple as a JSON list,
    /// a variant with its first fields as a JSON object
    #[arg(long, conflicts_with_all = ["from", "to"], allow_hyphen_values = true)]
    prefix: Option<String>,
    /// Lower bound, inclusive; written as for `get`
    #[arg(long, allow_hyphen_values = true)]
    from: Option<String>,
    /// Upper bound, exclusive
    #[arg(long, allow_hyphen_values = true)]
    to: Option<String>,
    /// In descending order of keys
    #[arg(long)]
    reverse: bool,
    /// Maximum number of rows
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// How rows are written
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
}

/// Runs `braid tables`.
pub fn tables(args: &TablesArgs) -> Result<(), Failure> {
    let db = read(&args.path)?;
    let (tables, mut to) = (db.tables(), BufWriter::new(io::stdout().lock()));
    let width = tables.iter().map(|table| table.name.len()).max().unwrap_or(0);
    for info in &tables {
        let rows = count(&db, info)?;
        let TableInfo { name, key_type, value_type, index, front, definitions, indexes, .. } = info;
        let has_front = *front == Front::Hash;
        if args.json {
            let front = if has_front { "hash" } else { "none" };
            let index = index.name();
            let line = json!({
                "table": name, "key_type": key_type, "value_type": value_type, "definitions": definitions, "rows": rows,
                "index": index, "front": front, "indexes": indexes.iter().map(index_json).collect::<Vec<_>>()
            });
            writeln!(to, "{line}")?;
            continue;
        }
        let front = if has_front { ", a hash table in front" } else { "" };
        writeln!(
            to,
            "{name:width$}  {key_type} -> {value_type}  {} rows  {}{front}",
            grouped(rows),
            index.name()
        )?;
        definitions.iter().try_for_each(|line| writeln!(to, "{:width$}    {line}", ""))?;
        indexes
            .iter()
            .try_for_each(|index| writeln!(to, "{:width$}    index {:?} {index}", "", index.name))?;
    }
    to.flush()?;
    Ok(db.close()?)
}

/// Runs `braid get`. It is an error if there is no such row.
pub fn get(args: &GetArgs) -> Result<(), Failure> {
    let db = read(&args.path)?;
    let (info, table) = find(&db, &args.table)?;
    let key = Column::keys(&info.key_type).read_cell(&args.key).map_err(|why| format!("the key: {why}"))?;
    let found = db.begin()?.with(async |tx: &Txn| Ok(table.get(tx, &key).await?.map(<[u8]>::to_vec)))?;
    let value = found.ok_or_else(|| format!("table {:?} has no row with key {}", info.name, args.key))?;
    let values = Column::values(&info);
    let mut text = String::new();
    match values.cell(&value).filter(|_| !args.json) {
        Some(cell) => text = cell,
        None => values.write_json(&value, &mut text),
    }
    writeln!(io::stdout(), "{text}")?;
    Ok(db.close()?)
}

/// Runs `braid scan`.
pub fn scan(args: &ScanArgs) -> Result<(), Failure> {
    let db = read(&args.path)?;
    let (info, table) = find(&db, &args.table)?;
    let keys = Column::keys(&info.key_type);
    let snapshot = db.begin()?;
    snapshot.declare_read_only();
    let bound = |flag: &str, cell: &Option<String>| {
        let read = cell.as_ref().map(|cell| keys.read_cell(cell).map_err(|why| format!("--{flag}: {why}")));
        read.transpose()
    };
    let rows = match &args.prefix {
        Some(prefix) => {
            let prefix = keys.read_prefix(prefix).map_err(|why| format!("--prefix: {why}"))?;
            table.scan_prefix(&snapshot, &prefix)
        }
        None => {
            let (from, to) = (bound("from", &args.from)?, bound("to", &args.to)?);
            let from = from.as_deref().map_or(Bound::Unbounded, Bound::Included);
            let to = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            table.range(&snapshot, from, to)?
        }
    };
    let rows = if args.reverse { rows.reverse() } else { rows };
    let mut to = BufWriter::new(io::stdout().lock());
    write_rows(&info, table, rows.limit(args.limit), args.format, &mut to)?;
    to.flush()?;
    drop(snapshot);
    Ok(db.close()?)
}

/// The table of this name.
fn find(db: &Database, name: &str) -> Result<(TableInfo, RawTable), Failure> {
    let info = chosen(db, &[name.to_owned()])?.remove(0);
    let table = db.raw_table(name).expect("it is listed");
    Ok((info, table))
}

/// The number of rows of a table.
pub(super) fn count(db: &Database, info: &TableInfo) -> Result<u64, Failure> {
    let snapshot = db.begin()?;
    snapshot.declare_read_only();
    let table = db.raw_table(&info.name).expect("it is listed");
    let (mut rows, mut count) = (table.scan(&snapshot), 0);
    while rows.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}
