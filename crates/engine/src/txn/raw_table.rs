//! Tables whose types the program does not know: rows as the bytes that keys and values are encoded to. For tools
//! that copy rows from one place to another.

use super::transaction::{OwnedRows, Transaction};
use super::txn::Txn;
use crate::cc::{ConcurrencyControl, Serializable};
use crate::error::{Error, Result};
use crate::table::{KEY_OF_EIGHT, Table, TableInner, index_key};
use std::fmt;

/// A table, by encoded keys and values. Whoever writes bytes that the table's types do not know makes reads with
/// those types fail with [`Error::Malformed`], and does no other harm.
///
/// ```
/// # use braiddb::{Database, Options, Table};
/// # let db = Database::in_memory(Options { workers: 1, ..Options::default() })?;
/// let names: Table<u32, str> = db.table("names")?;
/// let raw = db.raw_table("names").expect("it is there");
/// db.run(async move |tx| raw.put(tx, &7u32.to_be_bytes(), b"Ada").await).wait()?;
/// assert_eq!(db.begin()?.get(names, 7)?, Some("Ada"));
/// # Ok::<(), braiddb::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RawTable(Keys);

/// The same table, as the index has its keys.
#[derive(Clone, Copy, Debug)]
enum Keys {
    Fixed8(Table<u64, [u8]>),
    Bytes(Table<Vec<u8>, [u8]>),
}

impl RawTable {
    pub(crate) fn new(table: &TableInner, database: u64) -> RawTable {
        RawTable(match table.kind.fixed8 {
            true => Keys::Fixed8(table.handle(database)),
            false => Keys::Bytes(table.handle(database)),
        })
    }

    /// Whether every key is eight bytes long.
    pub fn is_fixed8(&self) -> bool {
        matches!(self.0, Keys::Fixed8(_))
    }

    /// Sets the value under `key`, whether or not there is one. Where all keys have eight bytes, one that has not
    /// is [`Error::Malformed`].
    pub async fn put<C: ConcurrencyControl>(&self, txn: &Txn<C>, key: &[u8], value: &[u8]) -> Result<()> {
        match self.0 {
            Keys::Fixed8(table) => txn.put(table, word(key)?, value).await,
            Keys::Bytes(table) => txn.put(table, key, value).await,
        }
    }

    /// Removes the value under `key`; returns false if there was none.
    pub async fn delete<C: ConcurrencyControl>(&self, txn: &Txn<C>, key: &[u8]) -> Result<bool> {
        match self.0 {
            Keys::Fixed8(table) => txn.delete(table, word(key)?).await,
            Keys::Bytes(table) => txn.delete(table, key).await,
        }
    }

    /// All rows, in the order of their keys.
    pub fn scan<'t, C: ConcurrencyControl>(&self, transaction: &'t Transaction<C>) -> RawRows<'t, C> {
        RawRows(match self.0 {
            Keys::Fixed8(table) => Inner::Fixed8(transaction.scan::<u64, [u8], u64>(table, ..)),
            Keys::Bytes(table) => Inner::Bytes(transaction.scan::<Vec<u8>, [u8], Vec<u8>>(table, ..)),
        })
    }
}

/// A key of eight bytes, as the number that sorts as it does.
fn word(key: &[u8]) -> Result<u64> {
    match key.len() {
        8 => Ok(index_key(key).slice),
        bytes => Err(Error::Malformed { expected: KEY_OF_EIGHT, bytes }),
    }
}

/// Rows of a [`RawTable::scan`].
pub struct RawRows<'t, C: ConcurrencyControl = Serializable>(Inner<'t, C>);

enum Inner<'t, C: ConcurrencyControl> {
    Fixed8(OwnedRows<'t, u64, [u8], C>),
    Bytes(OwnedRows<'t, Vec<u8>, [u8], C>),
}

impl<C: ConcurrencyControl> fmt::Debug for RawRows<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Fixed8(rows) => rows.fmt(f),
            Inner::Bytes(rows) => rows.fmt(f),
        }
    }
}

impl<'t, C: ConcurrencyControl> RawRows<'t, C> {
    /// The next row, or `None` at the end.
    #[allow(
        clippy::should_implement_trait,
        reason = "it can fail, and an iterator's item would say so twice"
    )]
    pub fn next(&mut self) -> Result<Option<(Vec<u8>, &'t [u8])>> {
        match &mut self.0 {
            Inner::Fixed8(rows) => Ok(rows.next()?.map(|(key, value)| (key.to_be_bytes().to_vec(), value))),
            Inner::Bytes(rows) => rows.next(),
        }
    }
}
