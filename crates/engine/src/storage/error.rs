//! Errors of storage: which operation failed, on which file, where, and why.

use super::Holder;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// An operation of a [`Storage`](super::Storage) or a [`File`](super::File).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Opening an existing file.
    Open,
    /// Creating a file.
    Create,
    /// Listing the files.
    List,
    /// Removing a file.
    Remove,
    /// Renaming a file.
    Rename,
    /// Making names durable.
    SyncDirectory,
    /// Locking the directory.
    Lock,
    /// Asking for the room on the device.
    Space,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Reserving blocks.
    Preallocate,
    /// Setting the length.
    Truncate,
    /// Making data durable.
    SyncData,
    /// Asking for the length.
    Len,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Open => "open",
            Operation::Create => "create",
            Operation::List => "list",
            Operation::Remove => "remove",
            Operation::Rename => "rename",
            Operation::SyncDirectory => "sync directory",
            Operation::Lock => "lock",
            Operation::Space => "ask for the free space of",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Preallocate => "preallocate",
            Operation::Truncate => "set the length of",
            Operation::SyncData => "sync",
            Operation::Len => "ask for the length of",
        })
    }
}

/// Why an operation failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The operating system, or what stands for it, reported this error.
    Io(Arc<io::Error>),
    /// Another process holds the directory. The process is known unless it cannot be read.
    Locked(Option<Holder>),
    /// The file ends before the bytes that were to be read.
    EndOfFile {
        /// Where the file ends.
        len_bytes: u64,
    },
    /// The handle was opened only to read.
    ReadOnly,
    /// No file may have this name.
    Name,
}

/// A failure of storage.
#[derive(Clone, Debug)]
pub struct StorageError {
    operation: Operation,
    file: String,
    offset: Option<u64>,
    cause: Cause,
}

impl StorageError {
    /// Returns the error of an operation on this file or directory.
    pub fn new(operation: Operation, file: impl Into<String>, cause: Cause) -> StorageError {
        StorageError { operation, file: file.into(), offset: None, cause }
    }

    /// Returns an error like [`StorageError::new`], with an error of the operating system as its cause.
    pub fn io(operation: Operation, file: impl Into<String>, error: io::Error) -> StorageError {
        StorageError::new(operation, file, Cause::Io(Arc::new(error)))
    }

    /// Adds the offset in the file that the operation was for.
    #[must_use]
    pub fn at(self, offset: u64) -> StorageError {
        StorageError { offset: Some(offset), ..self }
    }

    /// Returns the operation that failed.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Returns the file or directory that the operation was for.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the offset, for operations that have one.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// Returns why the operation failed.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// Returns the cause in the standard library's terms.
    pub fn kind(&self) -> ErrorKind {
        match &self.cause {
            Cause::Io(error) => error.kind(),
            Cause::Locked(_) => ErrorKind::WouldBlock,
            Cause::EndOfFile { .. } => ErrorKind::UnexpectedEof,
            Cause::ReadOnly => ErrorKind::PermissionDenied,
            Cause::Name => ErrorKind::InvalidInput,
        }
    }

    /// Returns true if there was no room left. Removing files may cure that.
    pub fn is_full(&self) -> bool {
        matches!(self.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {:?}", self.operation, self.file)?;
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        match &self.cause {
            Cause::Io(error) => write!(f, ": {error}"),
            Cause::Locked(Some(holder)) => write!(f, ": it is in use by {holder}"),
            Cause::Locked(None) => f.write_str(": it is in use by another process"),
            Cause::EndOfFile { len_bytes } => write!(f, ": the file ends at {len_bytes}"),
            Cause::ReadOnly => f.write_str(": it was opened only to read"),
            Cause::Name => f.write_str(": no file may have this name"),
        }
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Io(error) => Some(&**error),
            _ => None,
        }
    }
}
