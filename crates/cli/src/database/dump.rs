//! `braid dump`: writes the rows of a database as text, from one consistent snapshot.

use super::open::{Failure, read};
use super::progress::Written;
use super::text::Column;
use braid_bench::text::printable_json;
use braiddb::futures::RawRows;
use braiddb::tools::RawTable;
use braiddb::{Database, IndexInfo, TableInfo};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

/// Arguments of `braid dump`.
#[derive(Args, Debug)]
pub struct DumpArgs {
    /// The database's directory
    path: PathBuf,
    /// A table to write; may be repeated [default: all tables]
    #[arg(long)]
    table: Vec<String>,
    /// The format of rows; CSV takes exactly one table
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// The file to write [default: the standard output]
    #[arg(long)]
    output: Option<PathBuf>,
}

/// The prefixes of the type names in the CSV header. `KEY_FIXED8` is used if all keys have eight bytes and the type
/// alone does not imply this.
pub const KEY: &str = "key: ";
pub const KEY_FIXED8: &str = "key of eight bytes: ";
pub const VALUE: &str = "value: ";
/// `COUNTED` precedes these prefixes in the header of a dump whose last line is the number of rows. `ROWS` precedes
/// that number. The last line has one cell, and rows have two.
pub const COUNTED: &str = "counted ";
pub const ROWS: &str = "rows: ";
/// `WHERE` precedes the definitions of the types in the header, and `DEFINITION_END` separates two definitions.
pub const WHERE: &str = " where ";
pub const DEFINITION_END: &str = "; ";

/// The format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A JSON object per line: for each table a line with its types, then its rows. The first line of a dump announces
    /// that the last line has the row counts
    Json,
    /// A header with the types, then a line per row. A dump ends with the number of rows
    Csv,
}

/// Runs the command.
pub fn dump(args: &DumpArgs) -> Result<(), Failure> {
    let db = read(&args.path)?;
    let tables = chosen(&db, &args.table)?;
    if args.format == Format::Csv && tables.len() != 1 {
        let names: Vec<String> = tables.into_iter().map(|table| table.name).collect();
        return Err(format!("CSV takes one table; choose it with --table from {names:?}").into());
    }
    let to: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(File::create(path).map_err(|error| format!("{}: {error}", path.display()))?),
        None => Box::new(io::stdout().lock()),
    };
    // If the rows went to the same terminal, a bar would appear among them.
    let is_shown = io::stderr().is_terminal() && (args.output.is_some() || !io::stdout().is_terminal());
    let rows = if is_shown { Some(counted(&db, &tables)?) } else { None };
    let mut to = Written::new(BufWriter::new(to), rows);
    write(&db, &tables, args.format, &mut to)?;
    to.flush()?;
    drop(to);
    Ok(db.close()?)
}

/// The total number of rows of these tables.
fn counted(db: &Database, tables: &[TableInfo]) -> Result<u64, Failure> {
    tables.iter().map(|table| count(db, table)).sum()
}

/// The number of rows of a table.
pub fn count(db: &Database, info: &TableInfo) -> Result<u64, Failure> {
    let snapshot = db.begin()?;
    snapshot.declare_read_only();
    let table = db.raw_table(&info.name).expect("it is listed");
    let (mut rows, mut count) = (table.scan(&snapshot), 0);
    while rows.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// The tables with these names, or all tables if there are no names.
pub fn chosen(db: &Database, names: &[String]) -> Result<Vec<TableInfo>, Failure> {
    let all = db.tables();
    if names.is_empty() {
        return Ok(all);
    }
    let find = |name: &String| {
        let found = all.iter().find(|table| table.name == *name).cloned();
        found.ok_or_else(|| {
            let names: Vec<&String> = all.iter().map(|table| &table.name).collect();
            format!("there is no table {name:?}; the tables are {names:?}").into()
        })
    };
    names.iter().map(find).collect()
}

fn write<W: Write>(
    db: &Database,
    tables: &[TableInfo],
    format: Format,
    to: &mut Written<W>,
) -> Result<(), Failure> {
    let snapshot = db.begin()?;
    snapshot.declare_read_only();
    if format == Format::Csv {
        let (info, table) = (&tables[0], db.raw_table(&tables[0].name).expect("it is listed"));
        return write_csv(info, table, table.scan(&snapshot), true, to);
    }
    let mut trailer = Vec::new();
    for info in tables {
        if trailer.is_empty() {
            writeln!(to, r#"{{"trailer":true}}"#)?;
        }
        let table = db.raw_table(&info.name).expect("it is listed");
        write_types(info, table, to)?;
        let rows = write_json(info, table.scan(&snapshot), to)?;
        trailer.push(format!("{}:{rows}", name_json(&info.name)));
    }
    if !trailer.is_empty() {
        writeln!(to, r#"{{"rows":{{{}}}}}"#, trailer.join(","))?;
    }
    Ok(())
}

/// A name as a JSON string.
pub fn name_json(name: &str) -> String {
    printable_json(&json!(name).to_string()).into_owned()
}

/// Writes the line of JSON before a table's rows.
fn write_types(info: &TableInfo, table: RawTable, to: &mut dyn Write) -> Result<(), Failure> {
    let (name, key_type) = (name_json(&info.name), name_json(&info.key_type));
    let value_type = name_json(&info.value_type);
    write!(to, r#"{{"table":{name},"key_type":{key_type},"value_type":{value_type}"#)?;
    if Column::keys(&info.key_type).is_fixed8().is_none() {
        write!(to, r#","fixed8":{}"#, table.is_fixed8())?;
    }
    if !info.definitions.is_empty() {
        write!(to, r#","definitions":{}"#, printable_json(&json!(info.definitions).to_string()))?;
    }
    if !info.indexes.is_empty() {
        let indexes: Vec<_> = info.indexes.iter().map(index_json).collect();
        write!(to, r#","indexes":{}"#, printable_json(&json!(indexes).to_string()))?;
    }
    Ok(writeln!(to, "}}")?)
}

/// An index by columns, as JSON.
pub fn index_json(index: &IndexInfo) -> serde_json::Value {
    let columns: Vec<&str> = index.columns.iter().map(|column| column.name.as_str()).collect();
    json!({ "name": index.name, "columns": columns, "unique": index.is_unique })
}

/// Writes rows of a table.
pub fn write_rows(
    info: &TableInfo,
    table: RawTable,
    rows: RawRows<'_>,
    format: Format,
    to: &mut dyn Write,
) -> Result<(), Failure> {
    let to = &mut Written::new(to, None);
    match format {
        Format::Json => write_json(info, rows, to).map(drop),
        Format::Csv => write_csv(info, table, rows, false, to),
    }
}

/// Writes rows as JSON. Returns their number.
fn write_json<W: Write>(
    info: &TableInfo,
    mut rows: RawRows<'_>,
    to: &mut Written<W>,
) -> Result<u64, Failure> {
    let (keys, values) = (Column::keys(&info.key_type), Column::values(info));
    let (name, mut line, mut count) = (name_json(&info.name), String::new(), 0);
    while let Some((key, value)) = rows.next()? {
        line.clear();
        keys.write_json(&key, &mut line);
        line.push_str(r#","value":"#);
        values.write_json(value, &mut line);
        writeln!(to, r#"{{"table":{name},"key":{line}}}"#)?;
        to.row();
        count += 1;
    }
    Ok(count)
}

/// Extracts the output's error from a CSV error. Its kind identifies a closed pipe.
fn of_output(error: csv::Error) -> io::Error {
    match error.kind() {
        csv::ErrorKind::Io(inner) => io::Error::new(inner.kind(), inner.to_string()),
        _ => io::Error::other(error),
    }
}

/// Writes rows as CSV. If `is_counted`, the number of rows comes at the end.
fn write_csv<W: Write>(
    info: &TableInfo,
    table: RawTable,
    mut rows: RawRows<'_>,
    is_counted: bool,
    to: &mut Written<W>,
) -> Result<(), Failure> {
    let (keys, values) = (Column::keys(&info.key_type), Column::values(info));
    let mut csv = csv::WriterBuilder::new().flexible(true).from_writer(to);
    let key = if keys.is_fixed8().is_none() && table.is_fixed8() { KEY_FIXED8 } else { KEY };
    let mut value = format!("{VALUE}{}", info.value_type);
    if !info.definitions.is_empty() {
        value += WHERE;
        value += &info.definitions.join(DEFINITION_END);
    }
    let counted = if is_counted { COUNTED } else { "" };
    csv.write_record([format!("{counted}{key}{}", info.key_type), value]).map_err(of_output)?;
    let mut count = 0u64;
    while let Some((key, value)) = rows.next()? {
        let (Some(key), Some(value)) = (keys.cell(&key), values.cell(value)) else {
            return Err(format!(
                "table {:?} has a string that is not UTF-8, which CSV cannot represent: use JSON",
                info.name
            )
            .into());
        };
        csv.write_record([key, value]).map_err(of_output)?;
        csv.get_ref().row();
        count += 1;
    }
    if is_counted {
        csv.write_record([format!("{ROWS}{count}")]).map_err(of_output)?;
    }
    Ok(csv.flush()?)
}
