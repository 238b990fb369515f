//! Loads CSV rows into one table.

use super::input::{Ended, Input};
use super::rows::{Loader, Target};
use super::stopped::Stopped;
use crate::database::dump::{COUNTED, DEFINITION_END, KEY, KEY_FIXED8, ROWS, VALUE, WHERE};
use crate::database::text::Column;
use braiddb::TableInfo;
use csv::{Position, Reader, ReaderBuilder, StringRecord};

const HEADER: &str =
    "the first line of CSV must be a header with the types, such as \"key: u64,value: string\"";

/// The state of reading a CSV file.
#[derive(Default)]
struct Progress {
    /// The header has announced that the number of rows comes at the end.
    is_counted: bool,
    rows: u64,
    /// The number of rows has been read.
    is_closed: bool,
}

/// Loads all rows. `last` is set to the line where the latest row begins.
pub fn load(loader: &mut Loader<'_>, from: Input, table: &str, last: &mut u64) -> Result<(), Stopped> {
    let mut csv = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(Ended::new(from));
    let (mut record, mut header, mut progress) = (StringRecord::new(), None, Progress::default());
    loop {
        let at = csv.position().line();
        let read = csv.read_record(&mut record);
        let line = record.position().map_or(at, Position::line);
        *last = line;
        let stopped = |why: String| Stopped { line, why };
        let is_row = read.map_err(|error| stopped(error.to_string()))?;
        // At the end of the file, the reader reports a partial row as a row.
        if let Some(cut) = cut(&csv) {
            return Err(stopped(cut.into()));
        }
        match (is_row, header) {
            (false, None) => return Err(stopped(HEADER.into())),
            (false, Some(_)) => return progress.end().map_err(stopped),
            (true, None) => {
                let (at, is_counted) = take_header(loader, table, &record).map_err(stopped)?;
                header = Some(at);
                progress.is_counted = is_counted;
            }
            (true, Some(at)) => {
                if let Some((key, value)) = progress.take(&loader.targets[at], &record).map_err(stopped)? {
                    loader.put(at, line, key, value)?;
                }
            }
        }
    }
}

fn cut(csv: &Reader<Ended<Input>>) -> Option<&'static str> {
    csv.get_ref().cut(csv.position().byte())
}

/// Makes the table that the header describes. Returns the index of the target, and whether the number of its rows comes
/// at the end.
fn take_header(loader: &mut Loader<'_>, table: &str, header: &StringRecord) -> Result<(usize, bool), String> {
    let (Some(key), Some(value), 2) = (header.get(0), header.get(1), header.len()) else {
        return Err(HEADER.into());
    };
    let (key, is_counted) = key.strip_prefix(COUNTED).map_or((key, false), |key| (key, true));
    let value = value.strip_prefix(VALUE).ok_or(HEADER)?;
    let (value, lines) = value.split_once(WHERE).unwrap_or((value, ""));
    let lines = lines.split(DEFINITION_END).filter(|line| !line.is_empty());
    let definitions: Vec<_> = lines.map(String::from).collect();
    let (key, fixed8) = match key.strip_prefix(KEY_FIXED8) {
        Some(key) => (key, Some(true)),
        None => {
            let key = key.strip_prefix(KEY).ok_or(HEADER)?;
            // If the type is not known, the header says whether keys have eight bytes.
            (key, Column::keys(key).is_fixed8().is_none().then_some(false))
        }
    };
    let mut info = TableInfo::new(table, key, value);
    info.definitions = definitions;
    loader.open_table(info, fixed8)?;
    Ok((loader.target(table)?, is_counted))
}

/// A row's key and value as stored bytes.
type Row = (Vec<u8>, Vec<u8>);

impl Progress {
    /// Returns the key and the value of a row, or `None` if the record is the number of rows.
    fn take(&mut self, target: &Target, row: &StringRecord) -> Result<Option<Row>, String> {
        if self.is_closed {
            return Err("there are rows after the row count, which must be the last line".into());
        }
        match (row.get(0), row.get(1), row.len()) {
            (Some(key), Some(value), 2) => {
                let key = target.keys.read_cell(key).map_err(|why| format!("the key: {why}"))?;
                let value = target.values.read_cell(value).map_err(|why| format!("the value: {why}"))?;
                self.rows += 1;
                Ok(Some((key, value)))
            }
            (Some(said), None, 1) if self.is_counted && said.starts_with(ROWS) => {
                if said[ROWS.len()..].parse() != Ok(self.rows) {
                    return Err(format!(
                        "the dump should have {} rows, but has {}",
                        &said[ROWS.len()..],
                        self.rows
                    ));
                }
                self.is_closed = true;
                Ok(None)
            }
            (_, _, fields) => {
                Err(format!("a row must have two fields, a key and a value; this row has {fields}"))
            }
        }
    }

    /// Checks that the file may end here.
    fn end(&self) -> Result<(), String> {
        match self.is_counted && !self.is_closed {
            true => Err("the dump was cut off: its last line, with the row count, is missing".into()),
            false => Ok(()),
        }
    }
}
