//! Loads rows from lines of JSON.

use super::input::Input;
use super::rows::Loader;
use super::stopped::Stopped;
use super::trailer::Dump;
use braiddb::{IndexInfo, KEY_BYTES_MAX, TableInfo, VALUE_BYTES_MAX};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};

/// The maximum length of a line: the longest value, with each byte written as six, and the rest of the line.
pub const LINE_BYTES_MAX: u64 = 6 * (VALUE_BYTES_MAX + KEY_BYTES_MAX) as u64 + (1 << 20);

/// A line of JSON: a table with its types, a row, or the beginning or end of a dump with a trailer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'l> {
    trailer: Option<bool>,
    rows: Option<BTreeMap<String, u64>>,
    #[serde(borrow)]
    table: Option<Cow<'l, str>>,
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

/// Deserializes a field that is present, so that `null` counts as a value.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Loads all lines, and counts them in `line`.
pub fn load(loader: &mut Loader<'_>, from: Input, line: &mut u64) -> Result<(), Stopped> {
    let (mut from, mut bytes, mut dump) = (BufReader::new(from), Vec::new(), Dump::default());
    loop {
        *line += 1;
        let line = *line;
        bytes.clear();
        let stopped = |why: String| Stopped { line, why };
        let read = from.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes);
        match read {
            Err(error) => return Err(stopped(error.to_string())),
            Ok(0) => return dump.end().map_err(stopped),
            Ok(read) if read as u64 > LINE_BYTES_MAX => {
                return Err(stopped(format!("the line is longer than {LINE_BYTES_MAX} bytes")));
            }
            Ok(_) => {}
        }
        if !bytes.trim_ascii().is_empty() {
            take(loader, &mut dump, bytes.trim_ascii_end(), line)?;
        }
    }
}

fn take(loader: &mut Loader<'_>, dump: &mut Dump, bytes: &[u8], number: u64) -> Result<(), Stopped> {
    let stopped = |why: String| Stopped { line: number, why };
    let line: Line<'_> = serde_json::from_slice(bytes).map_err(|error| stopped(reason(&error)))?;
    match line {
        Line {
            trailer: None,
            rows: None,
            table: Some(table),
            key_type: None,
            value_type: None,
            fixed8: None,
            definitions: None,
            indexes: None,
            key: Some(key),
            value: Some(value),
        } => {
            let at = loader.target(&table).map_err(stopped)?;
            let target = &loader.targets[at];
            let key = target.keys.read_json(key.get()).map_err(|why| stopped(format!("the key: {why}")))?;
            let value =
                target.values.read_json(value.get()).map_err(|why| stopped(format!("the value: {why}")))?;
            dump.count(&table);
            loader.put(at, number, key, value)
        }
        Line {
            trailer: None,
            rows: None,
            table: Some(table),
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
            loader.open_table(info, fixed8).map_err(stopped)
        }
        Line { trailer: Some(true), ref rows, .. } if rows.is_none() && line.is_bare() => {
            dump.begin().map_err(stopped)
        }
        Line { trailer: None, rows: Some(ref rows), .. } if line.is_bare() => {
            dump.close(rows).map_err(stopped)
        }
        _ => Err(stopped(
            concat!(
                "a line must have either \"table\", \"key\" and \"value\", ",
                "or \"table\", \"key_type\" and \"value_type\""
            )
            .into(),
        )),
    }
}

impl Line<'_> {
    /// Returns true if the line says nothing of a table.
    fn is_bare(&self) -> bool {
        let Line { table, key_type, value_type, fixed8, definitions, indexes, key, value, .. } = self;
        let has_type = key_type.is_some() || value_type.is_some() || fixed8.is_some();
        let has_more = definitions.is_some() || indexes.is_some() || key.is_some() || value.is_some();
        table.is_none() && !has_type && !has_more
    }
}

/// The error in a line of JSON, without the line number, which is always 1.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    format!("column {}: {}", error.column(), text.strip_suffix(&place).unwrap_or(&text))
}
