//! Errors of operations in a small, `Copy` form, for their way through futures and slots.

use super::{KEY_BYTES_MAX, KEY_OF_EIGHT};
use crate::cc::{Abort, Refused};
use crate::error::Error;
use crate::record::VALUE_BYTES_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Abort(Abort),
    OutOfMemory {
        limit_bytes: u64,
    },
    WrongDatabase,
    /// The table was dropped.
    Dropped,
    /// Some rows of the table that were to be deleted are left.
    Uncleared,
    ReadOnly,
    KeyTooLong {
        bytes: usize,
    },
    /// A key of another length, in a table whose keys have eight bytes.
    KeyNotOfEight {
        bytes: usize,
    },
    ValueTooLong {
        bytes: usize,
    },
    /// An update that was left for the commit has failed. Its error is with the transaction.
    Update,
}

impl Fault {
    pub(crate) fn refused(refused: Refused, limit_bytes: u64) -> Fault {
        match refused {
            Refused::Abort(abort) => Fault::Abort(abort),
            Refused::OutOfMemory => Fault::OutOfMemory { limit_bytes },
            Refused::Held(_) => Fault::Abort(Abort::WriteConflict),
        }
    }
}

impl From<Abort> for Error {
    fn from(abort: Abort) -> Self {
        match abort {
            Abort::WriteConflict | Abort::Unserializable | Abort::WaitTimeout | Abort::Deadlock => {
                Error::Conflict
            }
            // The engine explains what is refused at the commit.
            Abort::OutOfMemory | Abort::Unlogged(_) => Error::Closed,
        }
    }
}

impl From<Fault> for Error {
    #[cold]
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Abort(abort) => abort.into(),
            Fault::OutOfMemory { limit_bytes } => Error::OutOfMemory { limit_bytes },
            Fault::WrongDatabase => Error::WrongDatabase,
            Fault::Dropped => Error::TableDropped,
            Fault::Uncleared => Error::NotCleared,
            Fault::ReadOnly => Error::ReadOnly,
            Fault::KeyTooLong { bytes } => Error::KeyTooLong { bytes, bytes_max: KEY_BYTES_MAX },
            Fault::KeyNotOfEight { bytes } => Error::malformed(KEY_OF_EIGHT, bytes),
            Fault::Update => Error::Closed, // (explained by the transaction)
            Fault::ValueTooLong { bytes } => Error::ValueTooLong { bytes, bytes_max: VALUE_BYTES_MAX },
        }
    }
}
