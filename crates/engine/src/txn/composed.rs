//! Operations that are made of others: rows at the ends of a table, all rows of a range, and a write that depends on
//! the row.

use super::{Transaction, Txn};
use crate::cc::ConcurrencyControl;
use crate::error::Result;
use crate::ops::{Delete, Get, Put, in_row_as};
use crate::table::{AsKey, Key, Table, Value};
use std::ops::{Bound, RangeBounds};

impl<C: ConcurrencyControl> Txn<C> {
    /// Returns the row with the least key. If the table's index keeps no order of keys, this method,
    /// [`last`](Self::last), [`pop_first`](Self::pop_first), [`pop_last`](Self::pop_last) and
    /// [`delete_range`](Self::delete_range) return [`Error::NoOrder`](crate::Error::NoOrder). [`count`](Self::count)
    /// works with every index.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let jobs: Table<u64, str> = db.table("jobs")?;
    /// db.worker().run(async |tx| {
    ///     tx.put(jobs, 3, "sweep").await?;
    ///     tx.put(jobs, 5, "dust").await?;
    ///     assert_eq!(tx.first(jobs).await?, Some((3, "sweep")));
    ///     assert_eq!(tx.last(jobs).await?, Some((5, "dust")));
    ///     assert_eq!(tx.pop_first(jobs).await?, Some((3, "sweep")));
    ///     assert_eq!(tx.count(jobs).await?, 1);
    ///     assert_eq!(tx.delete_range(jobs, 0..).await?, 1);
    ///     assert_eq!(tx.first(jobs).await?, None);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub async fn first<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
    ) -> Result<Option<(K, V::View<'_>)>> {
        self.scan_all(table).limit(1).next().await
    }

    /// Returns the row with the greatest key.
    pub async fn last<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
    ) -> Result<Option<(K, V::View<'_>)>> {
        self.scan_all(table).reverse().limit(1).next().await
    }

    /// Removes the row with the least key and returns it. Concurrent calls conflict. To hand rows to several workers,
    /// lock them with [`GetForUpdate::skip_locked`](crate::futures::GetForUpdate::skip_locked).
    pub async fn pop_first<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
    ) -> Result<Option<(K, V::View<'_>)>> {
        let first = self.first(table).await?;
        if let Some((key, _)) = &first {
            self.delete(table, key).await?;
        }
        Ok(first)
    }

    /// Removes the row with the greatest key and returns it. Otherwise like [`pop_first`](Self::pop_first).
    pub async fn pop_last<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
    ) -> Result<Option<(K, V::View<'_>)>> {
        let last = self.last(table).await?;
        if let Some((key, _)) = &last {
            self.delete(table, key).await?;
        }
        Ok(last)
    }

    /// Returns the exact number of rows of a table. Reads all of them, whatever the table's index.
    pub async fn count<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> Result<u64> {
        let (mut rows, mut count) =
            (self.walk::<K, V>(table.inner(self.state().database), Bound::Unbounded, Bound::Unbounded), 0);
        while rows.next_key().await?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Removes the rows in a range of keys and returns their number. The transaction holds a change for each row until
    /// it ends, so split a large range over several transactions.
    pub async fn delete_range<K: Key, V: Value + ?Sized, A: AsKey<K>>(
        &self,
        table: Table<K, V>,
        range: impl RangeBounds<A>,
    ) -> Result<u64> {
        let (mut rows, mut count) = (self.scan(table, range), 0);
        while let Some(key) = rows.next_key().await? {
            count += u64::from(self.delete(table, &key).await?);
        }
        Ok(count)
    }

    /// Sets the value under `key` to `new` if it is equal to `expected`, and returns whether it was. `None` stands for
    /// no row: as `expected`, the row must not exist; as `new`, the row is removed. If this returns false, nothing has
    /// changed, and [`get`](Self::get) returns the present value. Like every read, the comparison is validated when the
    /// transaction commits.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let owners: Table<String, str> = db.table("owners")?;
    /// let mut worker = db.worker();
    /// let take = async |tx: &braiddb::Txn| tx.compare_and_set(owners, "door", None, Some("Ada")).await;
    /// assert!(worker.run(take)?);
    /// assert!(!worker.run(take)?);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub async fn compare_and_set<'v, K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        expected: Option<V::Input<'v>>,
        new: Option<V::Input<'v>>,
    ) -> Result<bool>
    where
        for<'a> V::View<'a>: PartialEq,
    {
        let (expected, new) = (expected.map(V::encode).transpose()?, new.map(V::encode));
        let found = Get::<[u8], C>::new(self.locate(table, &key)).for_write().await?;
        let is_equal = match (found, &expected) {
            (Some(found), Some(expected)) => {
                let table = table.inner(self.state().database)?;
                // Values are compared instead of bytes, because a row may be of an older version of its type.
                V::view(found).map_err(|error| in_row_as(error, table, &key))? == V::view(expected.as_ref())?
            }
            (found, expected) => found.is_none() && expected.is_none(),
        };
        match new {
            _ if !is_equal => {}
            Some(new) => Put::<V, C>::new(self.locate_to_write(table, &key), new).await?,
            None if found.is_some() => _ = Delete::new(self.locate(table, &key)).await?,
            None => {}
        }
        Ok(is_equal)
    }
}

impl<C: ConcurrencyControl> Transaction<C> {
    /// Like [`Txn::first`](crate::Txn::first).
    pub fn first<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> Result<Option<(K, V::View<'_>)>> {
        self.now(|txn| txn.first(table))
    }

    /// Like [`Txn::last`](crate::Txn::last).
    pub fn last<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> Result<Option<(K, V::View<'_>)>> {
        self.now(|txn| txn.last(table))
    }

    /// Like [`Txn::pop_first`](crate::Txn::pop_first).
    pub fn pop_first<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
    ) -> Result<Option<(K, V::View<'_>)>> {
        self.now(|txn| txn.pop_first(table))
    }

    /// Like [`Txn::pop_last`](crate::Txn::pop_last).
    pub fn pop_last<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
    ) -> Result<Option<(K, V::View<'_>)>> {
        self.now(|txn| txn.pop_last(table))
    }

    /// Like [`Txn::count`](crate::Txn::count).
    pub fn count<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> Result<u64> {
        self.now(|txn| txn.count(table))
    }

    /// Like [`Txn::delete_range`](crate::Txn::delete_range).
    pub fn delete_range<K: Key, V: Value + ?Sized, A: AsKey<K>>(
        &self,
        table: Table<K, V>,
        range: impl RangeBounds<A>,
    ) -> Result<u64> {
        self.now(|txn| txn.delete_range(table, range))
    }

    /// Like [`Txn::compare_and_set`](crate::Txn::compare_and_set).
    pub fn compare_and_set<'v, K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        expected: Option<V::Input<'v>>,
        new: Option<V::Input<'v>>,
    ) -> Result<bool>
    where
        for<'a> V::View<'a>: PartialEq,
    {
        self.now(|txn| txn.compare_and_set(table, key, expected, new))
    }
}
