//! Puts rows into a database with as many concurrent transactions as there are processors.
//!
//! Rows are distributed over parts by the hash of their keys, and each part has one transaction in progress. All
//! workers are therefore busy, the number of waiting rows is bounded, and of two rows with the same key the later one
//! wins.

use super::stopped::Stopped;
use crate::database::text::Column;
use braid_bench::text::printable;
use braiddb::tools::RawTable;
use braiddb::{Database, Error, Handle, IndexInfo, KEY_BYTES_MAX, TableInfo, Txn, VALUE_BYTES_MAX};
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A transaction puts at most this many rows, with about this many bytes.
const BATCH_ROWS: usize = 4096;
const BATCH_BYTES: usize = 1 << 20;

/// A table to load into.
pub struct Target {
    pub name: String,
    raw: RawTable,
    pub keys: Column,
    pub values: Column,
    /// The load created the table.
    pub is_new: bool,
    /// The number of rows that are durable.
    pub rows: u64,
}

struct Row {
    /// The index of the target.
    target: usize,
    table: RawTable,
    line: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// A row that a unique index refuses.
#[derive(Debug)]
struct Refused {
    target: usize,
    line: u64,
    key: Vec<u8>,
    why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for Refused {}

/// The rows whose keys hash to this part.
#[derive(Default)]
struct Part {
    rows: Vec<Row>,
    bytes: usize,
    /// The transaction in progress, and its number of rows by target.
    under_way: Option<(Handle<()>, HashMap<usize, u64>)>,
}

/// A database that rows are loaded into.
pub struct Loader<'d> {
    db: &'d Database,
    pub targets: Vec<Target>,
    by_name: HashMap<String, usize>,
    /// The indexes that the load made on tables that existed before.
    new_indexes: Vec<(String, String)>,
    parts: Vec<Part>,
}

impl<'d> Loader<'d> {
    pub fn new(db: &'d Database) -> Loader<'d> {
        let parts = std::thread::available_parallelism().map_or(1, |n| n.get());
        let parts = std::iter::repeat_with(Part::default).take(parts).collect();
        Loader { db, targets: Vec::new(), by_name: HashMap::new(), new_indexes: Vec::new(), parts }
    }

    /// The number of rows that are durable.
    pub fn rows(&self) -> u64 {
        self.targets.iter().map(|target| target.rows).sum()
    }

    /// The index of the target for the table with this name. The table exists already, or an earlier line made it.
    pub fn target(&mut self, name: &str) -> Result<usize, String> {
        if let Some(at) = self.by_name.get(name) {
            return Ok(*at);
        }
        let info = self.db.tables().into_iter().find(|table| table.name == name);
        let info = info.ok_or_else(|| {
            format!(
                "there is no table {name:?}: an earlier line must give its \"key_type\" and \"value_type\""
            )
        })?;
        let raw = self.db.raw_table(name).ok_or("the table was dropped")?;
        Ok(self.add(info, raw, false))
    }

    fn add(&mut self, info: TableInfo, raw: RawTable, is_new: bool) -> usize {
        let (keys, values) = (Column::keys(&info.key_type), Column::values(&info));
        match self.by_name.get(&info.name) {
            Some(&at) => {
                let target = &mut self.targets[at];
                (target.keys, target.values) = (keys, values);
                at
            }
            None => {
                let at = self.targets.len();
                self.by_name.insert(info.name.clone(), at);
                self.targets.push(Target { name: info.name, raw, keys, values, is_new, rows: 0 });
                at
            }
        }
    }

    /// Makes the table if it does not exist, and those of its indexes that it lacks.
    pub fn open_table(&mut self, info: TableInfo, fixed8: Option<bool>) -> Result<(), String> {
        let TableInfo { name, key_type, .. } = &info;
        let known = Column::keys(key_type).is_fixed8();
        if known.is_some() && fixed8.is_some_and(|fixed8| known != Some(fixed8)) {
            return Err(format!("\"fixed8\" contradicts the key type {key_type}"));
        }
        let existing = self.db.raw_table(name).map(|table| table.is_fixed8());
        let fixed8 = known.or(fixed8).or(existing).ok_or_else(|| {
            format!(
                "the key type {key_type} is unknown: \"fixed8\" must say whether all its keys have eight bytes"
            )
        })?;
        let before = self.named(name);
        let made = self.db.create_raw_table(&info, fixed8);
        let after = self.named(name);
        // This also records what was made before something else failed.
        if let Some(before) = &before {
            let had = |index: &IndexInfo| before.indexes.iter().any(|other| other.name == index.name);
            let after = after.iter().flat_map(|after| &after.indexes).filter(|index| !had(index));
            self.new_indexes.extend(after.map(|index| (name.clone(), index.name.clone())));
        } else if let (Some(after), Some(raw)) = (&after, self.db.raw_table(name)) {
            self.add(after.clone(), raw, true);
        }
        let raw = made.map_err(|error| error.to_string())?;
        // If the dump has definitions, they apply: a row without a version has the newest version that the dump knows.
        self.add(after.filter(|_| info.definitions.is_empty()).unwrap_or(info), raw, before.is_none());
        Ok(())
    }

    fn named(&self, name: &str) -> Option<TableInfo> {
        self.db.tables().into_iter().find(|table| table.name == name)
    }

    /// Takes a row of a target from a line.
    pub fn put(&mut self, target: usize, line: u64, key: Vec<u8>, value: Vec<u8>) -> Result<(), Stopped> {
        let (key_bytes, value_bytes) = (key.len(), value.len());
        let table = self.targets[target].raw;
        if key_bytes > KEY_BYTES_MAX {
            let why = format!("the key has {key_bytes} bytes, and the limit is {KEY_BYTES_MAX}");
            return Err(Stopped { line, why });
        }
        if table.is_fixed8() && key_bytes != 8 {
            let why = format!("the key has {key_bytes} bytes, and the table's keys have eight");
            return Err(Stopped { line, why });
        }
        if value_bytes > VALUE_BYTES_MAX {
            let why = format!("the value has {value_bytes} bytes, and the limit is {VALUE_BYTES_MAX}");
            return Err(Stopped { line, why });
        }
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let at = (hasher.finish() % self.parts.len() as u64) as usize;
        let part = &mut self.parts[at];
        part.bytes += key_bytes + value_bytes;
        part.rows.push(Row { target, table, line, key, value });
        if part.rows.len() >= BATCH_ROWS || part.bytes >= BATCH_BYTES {
            self.wait(at, line)?;
            self.parts[at].begin(self.db);
        }
        Ok(())
    }

    /// Waits for all transactions in progress. With `all`, also loads the remaining rows. `line` is the last line that
    /// was read. If there are several faults, returns the one with the lowest line number.
    pub fn finish(&mut self, all: bool, line: u64) -> Result<(), Stopped> {
        let mut first: Option<Stopped> = None;
        for is_rest in [false, true] {
            for at in 0..self.parts.len() {
                if let Err(stopped) = self.wait(at, line)
                    && first.as_ref().is_none_or(|first| stopped.line < first.line)
                {
                    first = Some(stopped);
                }
                if all && !is_rest && first.is_none() {
                    self.parts[at].begin(self.db);
                }
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Waits for the transaction that a part has in progress. `line` is the last line that was read.
    fn wait(&mut self, part: usize, line: u64) -> Result<(), Stopped> {
        let Some((handle, rows)) = self.parts[part].under_way.take() else { return Ok(()) };
        match handle.wait() {
            Ok(()) => {
                rows.into_iter().for_each(|(target, rows)| self.targets[target].rows += rows);
                Ok(())
            }
            Err(error) => Err(self.explain(&error, line)),
        }
    }

    fn explain(&self, error: &Error, line: u64) -> Stopped {
        let refused = match error {
            Error::User(why) => why.downcast_ref::<Refused>(),
            _ => None,
        };
        let Some(Refused { target, line, key, why }) = refused else {
            return Stopped { line, why: error.to_string() };
        };
        let Target { name, keys, .. } = &self.targets[*target];
        let mut text = String::new();
        keys.write_json(key, &mut text);
        Stopped { line: *line, why: format!("row with key {} of table {name:?}: {why}", printable(&text)) }
    }

    /// Drops the tables and indexes that the load made.
    pub fn undo(&mut self) -> Result<(), Error> {
        for (table, index) in &self.new_indexes {
            self.db.drop_index(table, index)?;
        }
        self.targets
            .iter()
            .filter(|target| target.is_new)
            .try_for_each(|target| self.db.drop_table(&target.name))
    }
}

impl Part {
    /// Begins a transaction that puts the part's rows.
    fn begin(&mut self, db: &Database) {
        assert!(self.under_way.is_none(), "one transaction after the other");
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if rows.is_empty() {
            return;
        }
        let mut counts = HashMap::new();
        rows.iter().for_each(|row| *counts.entry(row.target).or_default() += 1);
        let put = async move |tx: &Txn| {
            for row in &rows {
                row.table.put(tx, &row.key, &row.value).await.map_err(|error| row.locate(error))?;
            }
            Ok(())
        };
        self.under_way = Some((db.run(put), counts));
    }
}

impl Row {
    /// Adds this row's target, line and key to an error that the row itself caused.
    fn locate(&self, error: Error) -> Error {
        match error {
            Error::UniqueViolation { .. } => {
                let Row { target, line, key, .. } = self;
                let why = error.to_string();
                Error::user(Refused { target: *target, line: *line, key: key.clone(), why })
            }
            error => error,
        }
    }
}
