//! Rows that are waited for, and the transaction that is in the way.

use crate::cc::Holder;
use crate::error::LockedRow;
use crate::index::Key;
use crate::record::RecordId;
use crate::table::TableInner;

/// A row that is waited for, as an error names it: its key may be gone by then.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
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

    pub(crate) fn table(&self) -> &TableInner {
        // SAFETY: tables live as long as their database.
        unsafe { &*self.table }
    }
}
