//! The marks of a log around a time.

use super::{DatabaseId, Ending, Lsn, Mark, Point, Reader, Result};
use crate::storage::Storage;

/// What the marks of a log say of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// The last mark with this time or an earlier one.
    pub before: Option<Mark>,
    /// The first mark with a later time.
    pub after: Option<Mark>,
    /// Where reading ended: at `after`, or at the end of the log.
    pub end: Point,
}

/// Searches for the marks around a time in the log from `start` on, where a record must begin.
pub fn marks_around(storage: &dyn Storage, database: DatabaseId, start: Lsn, unix_ns: u64) -> Result<Around> {
    let mut reader = Reader::with_ending(storage, database, start, Ending::Unknown)?;
    let mut around = Around { before: None, after: None, end: Point { lsn: start, unix_ns: None } };
    while let Some(mark) = reader.next_mark()? {
        if mark.unix_ns > unix_ns {
            around.after = Some(mark);
            break;
        }
        around.before = Some(mark);
    }
    let lsn = around.after.map_or(reader.lsn(), |mark| mark.lsn.0);
    around.end = Point { lsn: Lsn(lsn), unix_ns: around.after.or(around.before).map(|mark| mark.unix_ns) };
    Ok(around)
}
