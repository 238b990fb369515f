//! What can go wrong with the log.

use super::VERSION;
use super::{DatabaseId, Lsn, Shortage};
use crate::storage::StorageError;
use std::fmt;
use std::sync::Arc;

/// The result of what the log does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the log did not do it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Storage failed while the log was opened or read.
    Storage(Arc<StorageError>),
    /// The log has stopped, because of this. Of what was appended and is not known to be durable, the outcome is
    /// unknown until the log is opened again.
    Stopped(Arc<StorageError>),
    /// There is no room for another segment, or none could be made, because of this. The record was not
    /// appended. The log goes on when there is room.
    Full(Arc<Shortage>),
    /// The record does not fit into a segment. It was not appended.
    RecordTooLarge {
        /// How long it would be.
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
        /// Where in the file.
        offset: u64,
        /// Where in the log.
        lsn: Lsn,
        /// What is wrong.
        reason: &'static str,
    },
    /// The log does not reach, or does not begin before, a position that is needed.
    Missing {
        /// The position.
        lsn: Lsn,
        /// The segment that should hold it.
        file: String,
        /// What is wrong with that.
        reason: &'static str,
    },
    /// A segment is another database's. It is left as it is.
    Foreign {
        /// The file.
        file: String,
        /// The database that its header names.
        other: DatabaseId,
        /// The one that is read.
        database: DatabaseId,
    },
    /// The log has a record of a kind that has to be known, and is not.
    UnknownRecord {
        /// The file.
        file: String,
        /// Where in the log.
        lsn: Lsn,
        /// The kind.
        kind: u8,
    },
    /// A later version of the software wrote the file.
    UnsupportedVersion {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
    },
    /// A segment cannot be so long.
    SegmentBytes {
        /// How long.
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
