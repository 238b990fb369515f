//! Tables whose types the program does not know: rows as the encoded bytes of keys and values. For tools that copy
//! rows.

use super::transaction::{OwnedRows, Transaction};
use super::txn::Txn;
use crate::cc::{ConcurrencyControl, Serializable};
use crate::error::{Error, Result};
use crate::table::{KEY_OF_EIGHT, Table, TableInner, index_key};
use std::fmt;
use std::ops::Bound;

/// A table by encoded keys and values. Bytes that are not valid for the table's types make typed reads fail with
/// [`Error::Malformed`]. Nothing else is affected.
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

/// The table, with the kind of keys that its index has.
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

    /// Returns the table, if it is of this database.
    pub(crate) fn of_database(&self, database: u64) -> Result<&TableInner> {
        Ok(match &self.0 {
            Keys::Fixed8(table) => table.of_database(database)?,
            Keys::Bytes(table) => table.of_database(database)?,
        })
    }

    /// Returns true if every key is eight bytes long.
    pub fn is_fixed8(&self) -> bool {
        matches!(self.0, Keys::Fixed8(_))
    }

    /// Returns the value under `key`. If all keys of the table have eight bytes and this key does not, this and all
    /// other operations return [`Error::Malformed`].
    pub async fn get<'t, C: ConcurrencyControl>(
        &self,
        txn: &'t Txn<C>,
        key: &[u8],
    ) -> Result<Option<&'t [u8]>> {
        match self.0 {
            Keys::Fixed8(table) => txn.get(table, word(key)?).await,
            Keys::Bytes(table) => txn.get(table, key).await,
        }
    }

    /// Returns the values under several keys, in their order, like [`Txn::get_into`].
    pub(crate) async fn get_into<'t, C: ConcurrencyControl>(
        &self,
        txn: &'t Txn<C>,
        keys: &[Box<[u8]>],
        out: &mut [Option<&'t [u8]>],
    ) -> Result<()> {
        match self.0 {
            Keys::Fixed8(table) => {
                let words = keys.iter().map(|key| word(key)).collect::<Result<Vec<u64>>>()?;
                txn.get_into(table, &words, out).await
            }
            Keys::Bytes(table) => {
                let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
                txn.get_into(table, &keys, out).await
            }
        }
    }

    /// Adds a row. Returns [`Error::KeyExists`] if there is one with this key.
    pub async fn insert<C: ConcurrencyControl>(&self, txn: &Txn<C>, key: &[u8], value: &[u8]) -> Result<()> {
        match self.0 {
            Keys::Fixed8(table) => txn.insert(table, word(key)?, value).await,
            Keys::Bytes(table) => txn.insert(table, key, value).await,
        }
    }

    /// Replaces the value under `key`. Returns false if there is none.
    pub async fn update<C: ConcurrencyControl>(
        &self,
        txn: &Txn<C>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        match self.0 {
            Keys::Fixed8(table) => txn.update(table, word(key)?, value).await,
            Keys::Bytes(table) => txn.update(table, key, value).await,
        }
    }

    /// Sets the value under `key`, whether or not there is one.
    pub async fn put<C: ConcurrencyControl>(&self, txn: &Txn<C>, key: &[u8], value: &[u8]) -> Result<()> {
        match self.0 {
            Keys::Fixed8(table) => txn.put(table, word(key)?, value).await,
            Keys::Bytes(table) => txn.put(table, key, value).await,
        }
    }

    /// Removes the value under `key`. Returns false if there was none.
    pub async fn delete<C: ConcurrencyControl>(&self, txn: &Txn<C>, key: &[u8]) -> Result<bool> {
        match self.0 {
            Keys::Fixed8(table) => txn.delete(table, word(key)?).await,
            Keys::Bytes(table) => txn.delete(table, key).await,
        }
    }

    /// Scans all rows, in the order of their keys, or in the index's own order if it keeps no order of keys.
    pub fn scan<'t, C: ConcurrencyControl>(&self, transaction: &'t Transaction<C>) -> RawRows<'t, C> {
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        let database = transaction.txn().state().database;
        RawRows(match self.0 {
            Keys::Fixed8(table) => Inner::Fixed8(transaction.walk(table.inner(database), from, to)),
            Keys::Bytes(table) => Inner::Bytes(transaction.walk(table.inner(database), from, to)),
        })
    }

    /// Scans the rows whose keys are within these bounds, in the order of their keys. If the table's index keeps no
    /// order of keys, reading the first row returns [`Error::NoOrder`].
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # use std::ops::Bound;
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let names: Table<String, u32> = db.table("names")?;
    /// let tx = db.begin()?;
    /// for (name, born) in [("Ada", 1815), ("Alan", 1912), ("Grace", 1906)] {
    ///     tx.put(names, name, born)?;
    /// }
    /// let raw = db.raw_table("names").expect("it is there");
    /// let mut rows = raw.range(&tx, Bound::Excluded(b"Ada"), Bound::Unbounded)?.reverse().limit(1);
    /// assert_eq!(rows.next()?, Some((b"Grace".to_vec(), &1906u32.to_le_bytes()[..])));
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn range<'t, C: ConcurrencyControl>(
        &self,
        transaction: &'t Transaction<C>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<RawRows<'t, C>> {
        Ok(RawRows(match self.0 {
            Keys::Fixed8(table) => {
                let range = (word_bound(from)?, word_bound(to)?);
                Inner::Fixed8(transaction.scan::<u64, [u8], u64>(table, range))
            }
            Keys::Bytes(table) => Inner::Bytes(transaction.scan::<Vec<u8>, [u8], &[u8]>(table, (from, to))),
        }))
    }

    /// Scans the rows whose encoded keys begin with `prefix`, in the order of their keys, otherwise like
    /// [`range`](RawTable::range).
    pub fn scan_prefix<'t, C: ConcurrencyControl>(
        &self,
        transaction: &'t Transaction<C>,
        prefix: &[u8],
    ) -> RawRows<'t, C> {
        RawRows(match self.0 {
            Keys::Fixed8(table) => Inner::Fixed8(transaction.scan_prefix(table, prefix)),
            Keys::Bytes(table) => Inner::Bytes(transaction.scan_prefix(table, prefix)),
        })
    }
}

fn word_bound(key: Bound<&[u8]>) -> Result<Bound<u64>> {
    Ok(match key {
        Bound::Included(key) => Bound::Included(word(key)?),
        Bound::Excluded(key) => Bound::Excluded(word(key)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

/// Returns a key of eight bytes as the number that sorts the same way.
fn word(key: &[u8]) -> Result<u64> {
    match key.len() {
        8 => Ok(index_key(key).slice),
        bytes => Err(Error::malformed(KEY_OF_EIGHT, bytes)),
    }
}

/// Calls `f` with the first `limit` rows between two bounds in the order of the table's index, whatever access the
/// table allows.
pub(crate) async fn for_each_between<'t, C: ConcurrencyControl>(
    txn: &'t Txn<C>,
    table: &TableInner,
    (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    limit: usize,
    mut f: impl FnMut(&[u8], &'t [u8]) -> Result<()>,
) -> Result<()> {
    if table.kind.fixed8 {
        let mut rows = txn.walk::<u64, [u8]>(Ok(table), from, to).limit(limit);
        rows.try_for_each(|key, value| f(&key.to_be_bytes(), value)).await
    } else {
        let mut rows = txn.walk::<Vec<u8>, [u8]>(Ok(table), from, to).limit(limit);
        rows.try_for_each(|key, value| f(&key, value)).await
    }
}

/// The rows of a [`RawTable`].
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
    /// Returns the rows between two bounds in the order of the table's index, whatever access the table allows.
    pub(crate) fn between(
        transaction: &'t Transaction<C>,
        table: &TableInner,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Self {
        RawRows(match table.kind.fixed8 {
            true => Inner::Fixed8(transaction.walk(Ok(table), from, to)),
            false => Inner::Bytes(transaction.walk(Ok(table), from, to)),
        })
    }

    /// Returns the same rows in descending order. Call this before the first row is read.
    pub fn reverse(self) -> Self {
        RawRows(match self.0 {
            Inner::Fixed8(rows) => Inner::Fixed8(rows.reverse()),
            Inner::Bytes(rows) => Inner::Bytes(rows.reverse()),
        })
    }

    /// Returns at most this many rows.
    pub fn limit(self, rows: usize) -> Self {
        RawRows(match self.0 {
            Inner::Fixed8(of) => Inner::Fixed8(of.limit(rows)),
            Inner::Bytes(of) => Inner::Bytes(of.limit(rows)),
        })
    }

    /// Returns the next row, or `None` at the end.
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
