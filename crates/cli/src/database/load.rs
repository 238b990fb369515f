//! `braid load`: rows as text, into a database.
//!
//! Rows are dealt to as many parts as there are workers, by their keys; each part has one transaction under way. So all
//! workers are busy, what waits is bounded, and of two rows with one key the later wins.

use super::dump::{DEFINITION_END, Format, KEY, KEY_FIXED8, VALUE, WHERE};
use super::open::{Failure, open_or_create};
use super::text::Column;
use crate::sim::grouped;
use braiddb::tools::RawTable;
use braiddb::{Database, Handle, IndexInfo, KEY_BYTES_MAX, TableInfo, VALUE_BYTES_MAX};
use clap::Args;
use serde::{Deserialize, Deserializer};
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// A transaction puts at most this many rows, of about this many bytes.
const BATCH_ROWS: usize = 4096;
const BATCH_BYTES: usize = 1 << 20;

/// No line is longer: the longest value, each byte of it written as six, and the rest.
pub const LINE_BYTES_MAX: u64 = 6 * (VALUE_BYTES_MAX + KEY_BYTES_MAX) as u64 + (1 << 20);

/// What to read, and into which database.
#[derive(Args, Debug)]
pub struct LoadArgs {
    /// The database's directory, which is created if it does not exist
    path: PathBuf,
    /// The file, as `dump` writes it; `-` reads the standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// How rows are written
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// The table, for CSV
    #[arg(long, required_if_eq("format", "csv"))]
    table: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command. Missing tables are created; a row replaces one with the same key. Everything that was loaded is
/// durable at the end.
pub fn load(args: &LoadArgs) -> Result<(), Failure> {
    let from = input(&args.file)?;
    let db = open_or_create(&args.path)?;
    let mut loader = Loader::new(&db);
    let read = match (args.format, &args.table) {
        (Format::Json, _) => loader.read_json(from),
        (Format::Csv, Some(table)) => loader.read_csv(from, table),
        (Format::Csv, None) => unreachable!("the command line has it"),
    };
    let settled = loader.finish(read.is_ok());
    let (loaded, tables) = (loader.rows, loader.tables.len());
    let rows = grouped(loaded);
    drop(loader);
    read.map_err(|Stopped { line, why }| {
        format!("{}, line {line}: {why} ({rows} rows before it are in the database)", args.file.display())
    })?;
    settled?;
    db.close()?;
    if args.json {
        return Ok(writeln!(io::stdout(), "{:#}", json!({ "rows": loaded, "tables": tables }))?);
    }
    println!("{rows} rows of {tables} table{} were loaded", if tables == 1 { "" } else { "s" });
    Ok(())
}

fn input(file: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if file.as_os_str() == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Box::new(BufReader::new(opened)))
}

/// Why reading has stopped, and where.
struct Stopped {
    line: u64,
    why: String,
}

/// A line of JSON: a table with its types, or a row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'l> {
    #[serde(borrow)]
    table: Cow<'l, str>,
    key_type: Option<String>,
    value_type: Option<String>,
    fixed8: Option<bool>,
    definitions: Option<Vec<String>>,
    indexes: Option<Vec<IndexLine>>,
    #[serde(borrow, default, deserialize_with = "present")]
    key: Option<&'l RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    value: Option<&'l RawValue>,
}

/// An index by columns of a table's values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexLine {
    name: String,
    columns: Vec<String>,
    #[serde(default)]
    unique: bool,
}

impl From<IndexLine> for IndexInfo {
    fn from(of: IndexLine) -> IndexInfo {
        let columns: Vec<&str> = of.columns.iter().map(String::as_str).collect();
        IndexInfo::new(of.name, &columns, of.unique)
    }
}

/// A field that is present; `null` is a value.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// A table to load into.
struct Target {
    raw: RawTable,
    keys: Column,
    values: Column,
}

struct Row {
    table: RawTable,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The rows whose keys have one hash.
#[derive(Default)]
struct Part {
    rows: Vec<Row>,
    bytes: usize,
    /// The transaction under way, and how many rows it has.
    under_way: Option<(Handle<()>, u64)>,
}

struct Loader<'d> {
    db: &'d Database,
    tables: HashMap<String, Target>,
    parts: Vec<Part>,
    /// Rows that are durable.
    rows: u64,
}

impl<'d> Loader<'d> {
    fn new(db: &'d Database) -> Loader<'d> {
        let parts = std::thread::available_parallelism().map_or(1, |n| n.get());
        let parts = std::iter::repeat_with(Part::default).take(parts).collect();
        Loader { db, tables: HashMap::new(), parts, rows: 0 }
    }

    fn read_json(&mut self, mut from: Box<dyn BufRead>) -> Result<(), Stopped> {
        let (mut bytes, mut line) = (Vec::new(), 0);
        loop {
            line += 1;
            bytes.clear();
            let stopped = |why: String| Stopped { line, why };
            let read = from.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes);
            match read {
                Err(error) => return Err(stopped(error.to_string())),
                Ok(0) => return Ok(()),
                Ok(read) if read as u64 > LINE_BYTES_MAX => {
                    return Err(stopped(format!("it is longer than {LINE_BYTES_MAX} bytes")));
                }
                Ok(_) => {}
            }
            if !bytes.trim_ascii().is_empty() {
                self.take_line(bytes.trim_ascii_end()).map_err(stopped)?;
            }
        }
    }

    fn take_line(&mut self, bytes: &[u8]) -> Result<(), String> {
        let line: Line<'_> = serde_json::from_slice(bytes).map_err(|error| reason(&error))?;
        match line {
            Line {
                table,
                key_type: None,
                value_type: None,
                fixed8: None,
                definitions: None,
                indexes: None,
                key: Some(key),
                value: Some(value),
            } => {
                let target = self.target(&table)?;
                let key = target.keys.read_json(key.get()).map_err(|why| format!("the key: {why}"))?;
                let value =
                    target.values.read_json(value.get()).map_err(|why| format!("the value: {why}"))?;
                let table = target.raw;
                self.put(Row { table, key, value })
            }
            Line {
                table,
                key_type: Some(key_type),
                value_type: Some(value_type),
                fixed8,
                definitions,
                indexes,
                key: None,
                value: None,
            } => {
                let mut info = TableInfo::new(table, key_type, value_type);
                info.definitions = definitions.unwrap_or_default();
                info.indexes = indexes.unwrap_or_default().into_iter().map(IndexInfo::from).collect();
                self.open_table(info, fixed8)
            }
            _ => Err(concat!(
                "a line has either \"table\", \"key\" and \"value\", ",
                "or \"table\", \"key_type\" and \"value_type\""
            )
            .into()),
        }
    }

    /// The table of this name, which exists or was created by an earlier line.
    fn target(&mut self, name: &str) -> Result<&Target, String> {
        if !self.tables.contains_key(name) {
            let info = self.db.tables().into_iter().find(|table| table.name == name);
            let info = info.ok_or_else(|| {
                format!(
                    "there is no table {name:?}: a line before has to say its \"key_type\" and \"value_type\""
                )
            })?;
            let raw = self.db.raw_table(name).ok_or("the table is gone")?;
            self.add(info, raw);
        }
        Ok(&self.tables[name])
    }

    fn add(&mut self, info: TableInfo, raw: RawTable) {
        let (keys, values) = (Column::keys(&info.key_type), Column::values(&info));
        self.tables.insert(info.name, Target { raw, keys, values });
    }

    fn open_table(&mut self, info: TableInfo, fixed8: Option<bool>) -> Result<(), String> {
        let TableInfo { name, key_type, .. } = &info;
        let known = Column::keys(key_type).is_fixed8();
        if known.is_some() && fixed8.is_some_and(|fixed8| known != Some(fixed8)) {
            return Err(format!("\"fixed8\" is not what {key_type} says"));
        }
        let existing = self.db.raw_table(name).map(|table| table.is_fixed8());
        let fixed8 = known.or(fixed8).or(existing).ok_or_else(|| {
            format!(
                "{key_type} is not known here: \"fixed8\" has to say whether its keys have eight bytes each"
            )
        })?;
        let raw = self.db.create_raw_table(&info, fixed8).map_err(|error| error.to_string())?;
        // By these definitions, if there are any: a row that says no version is of the newest that the dump has known.
        let known = self.db.tables().into_iter().find(|table| table.name == info.name);
        self.add(known.filter(|_| info.definitions.is_empty()).unwrap_or(info), raw);
        Ok(())
    }

    fn read_csv(&mut self, from: Box<dyn BufRead>, table: &str) -> Result<(), Stopped> {
        let mut csv = csv::ReaderBuilder::new().has_headers(false).from_reader(from);
        let mut record = csv::StringRecord::new();
        let mut is_header = true;
        loop {
            let at = csv.position().line();
            let read = csv.read_record(&mut record);
            let line = record.position().map_or(at, csv::Position::line);
            let stopped = |why: String| Stopped { line, why };
            if !read.map_err(|error| stopped(error.to_string()))? {
                return if is_header { Err(stopped(HEADER.into())) } else { Ok(()) };
            }
            let [Some(key), Some(value)] = [record.get(0), record.get(1)] else {
                return Err(stopped("a row has a key and a value".into()));
            };
            let taken = match is_header {
                true => self.take_header(table, key, value),
                false => self.take_cells(table, key, value),
            };
            taken.map_err(stopped)?;
            is_header = false;
        }
    }

    fn take_header(&mut self, table: &str, key: &str, value: &str) -> Result<(), String> {
        let value = value.strip_prefix(VALUE).ok_or(HEADER)?;
        let (value, lines) = value.split_once(WHERE).unwrap_or((value, ""));
        let lines = lines.split(DEFINITION_END).filter(|line| !line.is_empty());
        let definitions: Vec<_> = lines.map(String::from).collect();
        let info = |key: &str| {
            let mut info = TableInfo::new(table, key, value);
            info.definitions.clone_from(&definitions);
            info
        };
        if let Some(key) = key.strip_prefix(KEY_FIXED8) {
            return self.open_table(info(key), Some(true));
        }
        let key = key.strip_prefix(KEY).ok_or(HEADER)?;
        // Of a type that is not known, this header says it.
        let fixed8 = Column::keys(key).is_fixed8().is_none().then_some(false);
        self.open_table(info(key), fixed8)
    }

    fn take_cells(&mut self, table: &str, key: &str, value: &str) -> Result<(), String> {
        let target = self.target(table)?;
        let key = target.keys.read_cell(key).map_err(|why| format!("the key: {why}"))?;
        let value = target.values.read_cell(value).map_err(|why| format!("the value: {why}"))?;
        let table = target.raw;
        self.put(Row { table, key, value })
    }

    fn put(&mut self, row: Row) -> Result<(), String> {
        let (key_bytes, value_bytes) = (row.key.len(), row.value.len());
        if key_bytes > KEY_BYTES_MAX || (row.table.is_fixed8() && key_bytes != 8) {
            return Err(format!("the key has {key_bytes} bytes, which the table's keys have not"));
        }
        if value_bytes > VALUE_BYTES_MAX {
            return Err(format!("the value has {value_bytes} bytes, and {VALUE_BYTES_MAX} are the limit"));
        }
        let mut hasher = DefaultHasher::new();
        row.key.hash(&mut hasher);
        let at = (hasher.finish() % self.parts.len() as u64) as usize;
        let part = &mut self.parts[at];
        part.bytes += key_bytes + value_bytes;
        part.rows.push(row);
        if part.rows.len() >= BATCH_ROWS || part.bytes >= BATCH_BYTES {
            self.rows += part.wait().map_err(|error| error.to_string())?;
            part.begin(self.db);
        }
        Ok(())
    }

    /// Waits for the transaction under way; with `all`, also loads the remaining rows.
    fn finish(&mut self, all: bool) -> Result<(), Failure> {
        let mut outcome = Ok(());
        let mut note = |waited: braiddb::Result<u64>| match waited {
            Ok(rows) => self.rows += rows,
            Err(error) => outcome = Err(error.into()),
        };
        for part in &mut self.parts {
            note(part.wait());
            if all {
                part.begin(self.db);
            }
        }
        self.parts.iter_mut().for_each(|part| note(part.wait()));
        outcome
    }
}

const HEADER: &str = "the first line of CSV is a header with the types, such as \"key: u64,value: string\"";

impl Part {
    /// Waits for the transaction under way; returns how many rows are durable then.
    fn wait(&mut self) -> braiddb::Result<u64> {
        match self.under_way.take() {
            Some((handle, rows)) => handle.wait().map(|()| rows),
            None => Ok(0),
        }
    }

    /// Begins a transaction that puts the rows.
    fn begin(&mut self, db: &Database) {
        assert!(self.under_way.is_none(), "one transaction after the other");
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if rows.is_empty() {
            return;
        }
        let count = rows.len() as u64;
        let put = async move |tx: &braiddb::Txn| {
            for row in &rows {
                row.table.put(tx, &row.key, &row.value).await?;
            }
            Ok(())
        };
        self.under_way = Some((db.run(put), count));
    }
}

/// The error in a line of JSON, without the line number, which is always 1.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    format!("column {}: {}", error.column(), text.strip_suffix(&place).unwrap_or(&text))
}
