//! What can go wrong in storage: which operation, on which file, where, and why.

use super::Holder;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// What was asked of a [`Storage`](super::Storage) or a [`File`](super::File).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// To open a file that exists.
    Open,
    /// To create a file.
    Create,
    /// To list the files.
    List,
    /// To remove a file.
    Remove,
    /// To rename a file.
    Rename,
    /// To make names durable.
    SyncDirectory,
    /// To take the directory for oneself.
    Lock,
    /// To ask for the room on the device.
    Space,
    /// To read.
    Read,
    /// To write.
    Write,
    /// To reserve blocks.
    Preallocate,
    /// To set the length.
    Truncate,
    /// To make data durable.
    SyncData,
    /// To ask for the length.
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

/// Why it failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The operating system, or what stands for it, said so.
    Io(Arc<io::Error>),
    /// Another process holds the directory; which one, unless that cannot be read.
    Locked(Option<Holder>),
    /// The file ends before the bytes that were to be read.
    EndOfFile {
        /// Where it ends.
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
    /// The operation on this file, or directory, failed because of this.
    pub fn new(operation: Operation, file: impl Into<String>, cause: Cause) -> StorageError {
        StorageError { operation, file: file.into(), offset: None, cause }
    }

    /// As [`StorageError::new`], with an error of the operating system.
    pub fn io(operation: Operation, file: impl Into<String>, error: io::Error) -> StorageError {
        StorageError::new(operation, file, Cause::Io(Arc::new(error)))
    }

    /// The same error, with the offset in the file that the operation was for.
    #[must_use]
    pub fn at(self, offset: u64) -> StorageError {
        StorageError { offset: Some(offset), ..self }
    }

    /// What was tried.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// On which file, or directory.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// At which offset, for operations that have one.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// Why it failed.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The cause in the standard library's terms.
    pub fn kind(&self) -> ErrorKind {
        match &self.cause {
            Cause::Io(error) => error.kind(),
            Cause::Locked(_) => ErrorKind::WouldBlock,
            Cause::EndOfFile { .. } => ErrorKind::UnexpectedEof,
            Cause::ReadOnly => ErrorKind::PermissionDenied,
            Cause::Name => ErrorKind::InvalidInput,
        }
    }

    /// Whether there was no room left: what may pass when files are removed.
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
