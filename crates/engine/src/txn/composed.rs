//! Operations that are made of others: rows at the ends of a table, and all rows of a range.

use super::{Transaction, Txn};
use crate::cc::ConcurrencyControl;
use crate::error::Result;
use crate::table::{AsKey, Key, Table, Value};
use std::ops::{Bound, RangeBounds};

impl<C: ConcurrencyControl> Txn<C> {
    /// The row with the least key. Where the table's index keeps no order of keys, this and all that follows, but for
    /// [`count`](Self::count), is [`Error::NoOrder`](crate::Error::NoOrder).
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

    /// The row with the greatest key.
    pub async fn last<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
    ) -> Result<Option<(K, V::View<'_>)>> {
        self.scan_all(table).reverse().limit(1).next().await
    }

    /// Removes the row with the least key, and returns it. Concurrent calls conflict. To give rows to several workers, lock them
    /// with [`GetForUpdate::skip_locked`](crate::futures::GetForUpdate::skip_locked).
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

    /// As [`pop_first`](Self::pop_first), of the greatest key.
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

    /// How many rows a table has, exactly: by reading all of them, whatever its index.
    pub async fn count<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> Result<u64> {
        let (mut rows, mut count) =
            (self.walk::<K, V>(table.inner(self.state().database), Bound::Unbounded, Bound::Unbounded), 0);
        while rows.next_key().await?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Removes the rows in a range of keys and returns their number. The transaction holds a change for each of them until it ends:
    /// split a large range over several transactions.
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
}

impl<C: ConcurrencyControl> Transaction<C> {
    /// As [`Txn::first`](crate::Txn::first).
    pub fn first<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> Result<Option<(K, V::View<'_>)>> {
        self.now(|txn| txn.first(table))
    }

    /// As [`Txn::last`](crate::Txn::last).
    pub fn last<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> Result<Option<(K, V::View<'_>)>> {
        self.now(|txn| txn.last(table))
    }

    /// As [`Txn::pop_first`](crate::Txn::pop_first).
    pub fn pop_first<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
    ) -> Result<Option<(K, V::View<'_>)>> {
        self.now(|txn| txn.pop_first(table))
    }

    /// As [`Txn::pop_last`](crate::Txn::pop_last).
    pub fn pop_last<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
    ) -> Result<Option<(K, V::View<'_>)>> {
        self.now(|txn| txn.pop_last(table))
    }

    /// As [`Txn::count`](crate::Txn::count).
    pub fn count<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> Result<u64> {
        self.now(|txn| txn.count(table))
    }

    /// As [`Txn::delete_range`](crate::Txn::delete_range).
    pub fn delete_range<K: Key, V: Value + ?Sized, A: AsKey<K>>(
        &self,
        table: Table<K, V>,
        range: impl RangeBounds<A>,
    ) -> Result<u64> {
        self.now(|txn| txn.delete_range(table, range))
    }
}
