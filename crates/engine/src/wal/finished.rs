//! Segments that are no longer written to.

use super::format;
use super::head::read_header;
use super::{DatabaseId, Lsn, Result};
use crate::storage::{OpenMode, Storage};

/// A finished segment: a later one has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The segment's file.
    pub file: String,
    /// The segment's number.
    pub number: u64,
    /// Where the next segment begins.
    pub end_lsn: Lsn,
}

/// Returns the finished segments with numbers from `from` on, ascending.
pub fn finished(storage: &dyn Storage, database: DatabaseId, from: u64) -> Result<Vec<Finished>> {
    let mut found: Vec<Finished> = Vec::new();
    let mut before: Option<u64> = None;
    for number in storage.list()?.iter().filter_map(|name| format::number(name)) {
        if number < from {
            continue;
        }
        let file = storage.open(&format::name(number), OpenMode::Read)?;
        // A segment that has not begun is the last.
        let Some((header, _)) = read_header(&*file, database, number)?.begun() else { break };
        if let Some(before) = before {
            let (file, end_lsn) = (format::name(before), Lsn(header.first_lsn));
            found.push(Finished { file, number: before, end_lsn });
        }
        before = Some(number);
    }
    Ok(found)
}
