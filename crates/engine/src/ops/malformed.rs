//! Adds to decoding errors the row that they are in.
//!
//! Errors pass through here by value, and the functions called take and return none. If the address of an error were
//! taken, a read without an error would also go by way of memory.

use crate::error::{Error, MalformedRow};
use crate::index::Key;
use crate::table::{AsKey, Key as KeyType, TableInner, encode_whole, index_key};

/// Adds the row under a key of a table, which is alive or null.
#[inline(always)]
pub(crate) fn in_row(error: Error, table: *const TableInner, key: Key) -> Error {
    error.in_row(|| row_of(table, key))
}

/// Adds the row like `in_row`, by what stands for its key.
#[inline(always)]
pub(crate) fn in_row_as<K: KeyType>(error: Error, table: *const TableInner, key: &impl AsKey<K>) -> Error {
    error.in_row(|| {
        let mut bytes = Vec::new();
        encode_whole(key, &mut bytes).ok()?;
        row_of(table, index_key(&bytes))
    })
}

#[cold]
#[inline(never)]
fn row_of(table: *const TableInner, key: Key) -> Option<Box<MalformedRow>> {
    // SAFETY: tables live as long as their database, which the transaction's worker holds.
    let table = unsafe { table.as_ref() }?;
    Some(Box::new(MalformedRow::new(&table.name(), key.bytes(&mut [0; 8]))))
}
