//! Errors of the files of checkpoints.

use super::{CLOSED_FILE, VERSION};
use crate::storage::StorageError;
use std::fmt;
use std::sync::Arc;

/// The result of an operation on the files of checkpoints.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Storage failed.
    Storage(Arc<StorageError>),
    /// Something durable is not as it was written. Nothing of it is returned.
    Damaged {
        /// The file.
        file: String,
        /// The position in the file.
        offset: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// A later version of the software wrote the file.
    UnsupportedVersion {
        /// The file.
        file: String,
        /// The file's version.
        version: u32,
    },
    /// The file has the name of a database's identity and is something else. The directory belongs to another
    /// program.
    NotADatabase {
        /// The file.
        file: String,
    },
    /// A key, a value or a manifest is longer than its file can hold. It was not written.
    TooLarge {
        /// The file.
        file: String,
        /// The length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
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
            Error::Damaged { file, offset, reason } if file == CLOSED_FILE => write!(
                f,
                "{file:?}, which says what the database was closed with, is damaged at offset {offset}: {reason}; without \
                 it nobody knows whether the rest is all: restore the directory from a copy, or salvage what there is"
            ),
            Error::Damaged { file, offset, reason } => write!(
                f,
                "{file:?} is damaged at offset {offset}: {reason}; where no older checkpoint is whole, restore \
                 the directory from a copy"
            ),
            Error::UnsupportedVersion { file, version } => write!(
                f,
                "{file:?} has version {version} of the format, and this software reads those up to {VERSION}: \
                 use the software that wrote it, or a later one"
            ),
            Error::NotADatabase { file } => {
                write!(f, "{file:?} was not written by a database: choose a directory of its own for it")
            }
            Error::TooLarge { file, bytes, bytes_max } => {
                write!(f, "{bytes} bytes for {file:?} are more than the limit of {bytes_max}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Storage(error) => Some(&**error),
            _ => None,
        }
    }
}

/// Returns the error that a file is damaged, and where.
pub(super) fn damaged(file: impl Into<String>, offset: u64, reason: &'static str) -> Error {
    Error::Damaged { file: file.into(), offset, reason }
}
