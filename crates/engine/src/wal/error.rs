//! Errors of the log.

use super::VERSION;
use super::{DatabaseId, Lsn, Shortage};
use crate::storage::StorageError;
use std::fmt;
use std::sync::Arc;

/// The result of an operation on the log.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the log failed an operation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Storage failed while the log was opened or read.
    Storage(Arc<StorageError>),
    /// The log has stopped because of this error. The outcome of records that were appended and are not known to be
    /// durable is unknown until the log is opened again.
    Stopped(Arc<StorageError>),
    /// There is no room for another segment, or none could be made, because of this shortage. The record was not
    /// appended. The log continues when there is room.
    Full(Arc<Shortage>),
    /// The record does not fit into a segment. It was not appended.
    RecordTooLarge {
        /// The length that the record would have.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// Appending would have to wait for the flusher.
    WouldBlock,
    /// The log has been closed.
    Closed,
    /// Something durable is not as it was written. Nothing behind it is read.
    Damaged {
        /// The file.
        file: String,
        /// The position in the file.
        offset: u64,
        /// The position in the log.
        lsn: Lsn,
        /// What is wrong.
        reason: &'static str,
    },
    /// The log does not reach a position that is needed, or begins after it.
    Missing {
        /// The position.
        lsn: Lsn,
        /// The segment that should hold the position.
        file: String,
        /// What is wrong with that segment.
        reason: &'static str,
    },
    /// A segment belongs to another database. It is left unchanged.
    Foreign {
        /// The file.
        file: String,
        /// The database that the segment's header names.
        other: DatabaseId,
        /// The database that is being read.
        database: DatabaseId,
    },
    /// The log has a record of a kind that this version does not know and has to know.
    UnknownRecord {
        /// The file.
        file: String,
        /// The position in the log.
        lsn: Lsn,
        /// The kind.
        kind: u8,
    },
    /// A later version of the software wrote the file.
    UnsupportedVersion {
        /// The file.
        file: String,
        /// The file's version.
        version: u32,
    },
    /// The length is not allowed for a segment.
    SegmentBytes {
        /// The length.
        bytes: u64,
    },
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Error {
        Error::Storage(Arc::new(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Storage(error) => error.fmt(f),
            Error::Stopped(error) => write!(
                f,
                "the log has stopped, and nothing more is committed until the database is opened again: {error}"
            ),
            Error::Full(shortage) => write!(f, "the log takes no more for now: {shortage}"),
            Error::RecordTooLarge { bytes, bytes_max } => {
                write!(f, "a log record of {bytes} bytes is longer than the limit of {bytes_max}")
            }
            Error::WouldBlock => f.write_str("the log's buffer is full"),
            Error::Closed => f.write_str("the log is closed"),
            Error::Damaged { file, offset, lsn, reason } => {
                write!(f, "the log is damaged in {file:?} at offset {offset}, lsn {lsn}: {reason}")
            }
            Error::Missing { lsn, file, reason } => {
                write!(f, "the log does not hold lsn {lsn}, which should be in {file:?}: {reason}")
            }
            Error::Foreign { file, other, database } => write!(
                f,
                "{file:?} is a segment of database {:032x}, and the file \"database\" names {:032x}: one of them is not \
                 from here; restore it from a copy",
                other.0, database.0
            ),
            Error::UnknownRecord { file, lsn, kind } => write!(
                f,
                "{file:?} has a record of kind {kind} at lsn {lsn}, which version {VERSION} of the log format does \
                 not have: use the software that wrote it, or a later one"
            ),
            Error::UnsupportedVersion { file, version } => {
                write!(
                    f,
                    "{file:?} has version {version} of the log format, and this software reads those up to {VERSION}: use \
                     the software that wrote it, or a later one"
                )
            }
            Error::SegmentBytes { bytes } => {
                write!(f, "a segment of {bytes} bytes: it must be whole sectors, from 1 KiB to 1 GiB")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Storage(error) | Error::Stopped(error) => Some(&**error),
            Error::Full(shortage) => Some(&shortage.error),
            _ => None,
        }
    }
}
