//! Rows that are waited for, and the transaction that is in the way.

use crate::cc::Holder;
use crate::error::LockedRow;
use crate::index::{Key, TableIndex};
use crate::record::RecordId;

/// A row that is waited for, as an error names it. Its key is copied, because it may be gone by then.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// The index that maps the row's key. Null: a partition of the database is waited for.
    pub(crate) index: *const TableIndex,
    pub(crate) bytes: [u8; LockedRow::KEY_BYTES_SHOWN],
    pub(crate) len: usize,
}

/// The open transaction that was in the way, and where.
#[derive(Clone, Copy)]
pub(crate) struct Blocker {
    pub(crate) what: Wanted,
    pub(crate) row: RecordId,
    pub(crate) holder: Holder,
    /// The operation has looked at the row as often as it may. Further looks do not help.
    pub(crate) was_awaited: bool,
}

impl Blocker {
    pub(crate) fn new(what: Wanted, row: RecordId, holder: Holder) -> Blocker {
        Blocker { what, row, holder, was_awaited: false }
    }
}

impl Wanted {
    pub(crate) fn new(index: *const TableIndex, key: &Key) -> Wanted {
        let mut short = [0; 8];
        let key = key.bytes(&mut short);
        let mut bytes = [0; LockedRow::KEY_BYTES_SHOWN];
        let shown = key.len().min(bytes.len());
        bytes[..shown].copy_from_slice(&key[..shown]);
        Wanted { index, bytes, len: key.len() }
    }

    /// Makes the name of a partition, which the queues know by this number.
    pub(crate) fn partition(number: RecordId) -> Wanted {
        let text = number.0.to_string();
        let mut bytes = [0; LockedRow::KEY_BYTES_SHOWN];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Wanted { index: std::ptr::null(), bytes, len: text.len() }
    }

    /// Returns true if this is a partition, and no row.
    pub(crate) fn is_partition(&self) -> bool {
        self.index.is_null()
    }
}
