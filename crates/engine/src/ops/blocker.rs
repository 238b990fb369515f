//! Rows that are waited for, and the transaction that is in the way.

use crate::cc::Holder;
use crate::error::LockedRow;
use crate::index::Key;
use crate::record::RecordId;
use crate::table::TableInner;

/// A row that is waited for, as an error names it: its key may be gone by then.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// Null: it is a partition of the database.
    table: *const TableInner,
    pub(crate) bytes: [u8; LockedRow::KEY_BYTES_SHOWN],
    pub(crate) len: usize,
}

/// The open transaction that was in the way of a write, and where.
#[derive(Clone, Copy)]
pub(crate) struct Blocker {
    pub(crate) what: Wanted,
    pub(crate) row: RecordId,
    pub(crate) holder: Holder,
}

impl Wanted {
    pub(crate) fn new(table: *const TableInner, key: &Key) -> Wanted {
        let mut short = [0; 8];
        let key = key.bytes(&mut short);
        let mut bytes = [0; LockedRow::KEY_BYTES_SHOWN];
        let shown = key.len().min(bytes.len());
        bytes[..shown].copy_from_slice(&key[..shown]);
        Wanted { table, bytes, len: key.len() }
    }

    /// A partition, of which the queues know by this number.
    pub(crate) fn partition(number: RecordId) -> Wanted {
        let text = number.0.to_string();
        let mut bytes = [0; LockedRow::KEY_BYTES_SHOWN];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Wanted { table: std::ptr::null(), bytes, len: text.len() }
    }

    /// `None`: it is a partition.
    pub(crate) fn table(&self) -> Option<&TableInner> {
        // SAFETY: tables live as long as their database.
        unsafe { self.table.as_ref() }
    }
}
