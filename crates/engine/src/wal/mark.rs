//! When records of the log were appended: marks in the log, and points of the log that are named by time.

use super::Lsn;
use std::fmt;

/// A record of the time. The flusher appends one about once a second, as long as there is something behind the last
/// mark. Everything before the mark in the log was appended at that time or earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where the mark begins.
    pub lsn: Lsn,
    /// Where the mark ends.
    pub end_lsn: Lsn,
    /// The time, in nanoseconds since 1970 (UTC). It never decreases from mark to mark, even if the clock was set
    /// back.
    pub unix_ns: u64,
}

/// The point up to which a log counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Until {
    /// The whole log.
    End,
    /// All records that end here or earlier.
    Lsn(Lsn),
    /// All records before the last mark with this time or an earlier one, in nanoseconds since 1970 (UTC).
    Time {
        /// The time.
        unix_ns: u64,
    },
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Until::End => f.write_str("its end"),
            Until::Lsn(lsn) => write!(f, "lsn {lsn}"),
            Until::Time { unix_ns } => write!(f, "{}", Utc(*unix_ns)),
        }
    }
}

/// A position, and what is known of its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// The position in the log.
    pub lsn: Lsn,
    /// The time of the last mark before the position, in nanoseconds since 1970 (UTC).
    pub unix_ns: Option<u64>,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lsn {}", self.lsn)?;
        self.unix_ns.map_or(Ok(()), |unix_ns| write!(f, " ({})", Utc(unix_ns)))
    }
}

/// A time in nanoseconds since 1970, displayed in the form of RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc(pub u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1_000_000_000;
        let (year, month, day) = crate::storage::civil(seconds / 86_400);
        let of_day = seconds % 86_400;
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let ns = self.0 % 1_000_000_000;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ns:09}Z")
    }
}
