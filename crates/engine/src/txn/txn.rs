//! The transaction as its closure sees it.

use crate::cc::{ConcurrencyControl, Serializable};
use crate::error::{Error, Result};
use crate::ops::{
    Contains, DeclarePartitions, Delete, Get, GetForUpdate, GetInto, GetMany, Insert, PointLookup, Put, Rows,
    TxnState, Update,
};
use crate::options::Durability;
use crate::table::{AsKey, Fault, Key, NewValue, Number, Partition, Table, TableInner, Value, leading};
use std::fmt;
use std::ops::{Bound, RangeBounds};

/// An open transaction. Closures get `&Txn`. It is neither `Send` nor `Sync`.
///
/// Every operation is a future. Values that reads return are borrowed until the transaction ends. Later writes do not
/// change them.
#[repr(transparent)]
pub struct Txn<C: ConcurrencyControl = Serializable>(TxnState<C>);

impl<C: ConcurrencyControl> fmt::Debug for Txn<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Txn").field("read_only", &self.0.read_only.get()).finish_non_exhaustive()
    }
}

// ---- the closure's side
impl<C: ConcurrencyControl> Txn<C> {
    /// Returns the value under `key`, if there is one.
    ///
    /// Under serializable isolation the read is tracked: if other transactions change what was read, this transaction
    /// may have to abort. `.untracked()` on the future reads only the snapshot. Under the schemes without snapshots,
    /// it reads what is committed at that moment, or as of the transaction's time if the scheme gives it one. What
    /// the transaction does then must not depend on an untracked read.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let names: Table<u64, str> = db.table("names")?;
    /// let length = db.worker().run(async |tx| {
    ///     tx.put(names, 1, "Ada").await?;
    ///     Ok(tx.get(names, 1).await?.map(str::len))
    /// })?;
    /// assert_eq!(length, Some(3));
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn get<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>, key: impl AsKey<K>) -> Get<'_, V, C> {
        Get::new(self.locate(table, &key))
    }

    /// Returns the value under `key`, if there is one, and locks the row: no other transaction can change it until
    /// this transaction ends. If there is no row, nothing is locked.
    ///
    /// If another open transaction has locked or written the row, the call waits in the row's queue, behind earlier
    /// waiters, for at most [`Options::lock_wait_ms`]. Then it fails with [`Error::LockTimeout`]. On the future:
    ///
    /// - `.timeout(…)` sets another limit.
    /// - `.no_wait()` fails at once, with [`Error::RowLocked`].
    /// - `.skip_locked()` returns [`Claim::Locked`](crate::Claim::Locked).
    ///
    /// A wait that would close a cycle of waiting transactions fails at once with [`Error::Deadlock`]. A closure then
    /// runs again.
    ///
    /// [`Options::lock_wait_ms`]: crate::Options::lock_wait_ms
    ///
    /// ```
    /// # use braiddb::{Database, Error, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let jobs: Table<u64, str> = db.table("jobs")?;
    /// db.worker().run(async |tx| tx.put(jobs, 1, "to do").await)?;
    /// let (mine, yours) = (db.begin()?, db.begin()?);
    /// assert_eq!(mine.get_for_update(jobs, 1)?, Some("to do"));
    /// let is_locked = |job| yours.with(async |tx| Ok(tx.get_for_update(jobs, job).skip_locked().await?.is_locked()));
    /// assert!(is_locked(1)?);
    /// assert!(!is_locked(2)?, "there is no such row");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn get_for_update<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
    ) -> GetForUpdate<'_, V, C> {
        GetForUpdate::new(self.locate(table, &key))
    }

    /// Returns the values under several keys, in the order of the keys. Their cache misses overlap.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let squares: Table<u64, u64> = db.table("squares")?;
    /// let found = db.worker().run(async |tx| {
    ///     tx.put(squares, 3, 9).await?;
    ///     tx.get_many(squares, &[3, 4]).await
    /// })?;
    /// assert_eq!(found, [Some(9), None]);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn get_many<'t, K: Key, V: Value + ?Sized, A: AsKey<K>, const N: usize>(
        &'t self,
        table: Table<K, V>,
        keys: &[A; N],
    ) -> GetMany<'t, V, N, C> {
        GetMany::new(&self.0, table, keys)
    }

    /// Reads the values under any number of keys into `out`, in the order of the keys. Their cache misses overlap,
    /// and nothing is allocated. Keys without a place in `out` are not read. Places without a key are emptied.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let squares: Table<u64, u64> = db.table("squares")?;
    /// let sum = db.worker().run(async |tx| {
    ///     tx.put(squares, 3, 9).await?;
    ///     let (keys, mut found) = (vec![3u64, 4], [None; 16]);
    ///     tx.get_into(squares, &keys, &mut found).await?;
    ///     Ok(found.iter().flatten().sum::<u64>())
    /// })?;
    /// assert_eq!(sum, 9);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn get_into<'t, 'k, K: Key, V: Value + ?Sized, A: AsKey<K>>(
        &'t self,
        table: Table<K, V>,
        keys: &'k [A],
        out: &'k mut [Option<V::View<'t>>],
    ) -> GetInto<'t, 'k, K, V, A, C> {
        GetInto::new(&self.0, table, keys, out)
    }

    /// Returns true if there is a value under `key`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn contains<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
    ) -> Contains<'_, C> {
        Contains::new(self.locate(table, &key))
    }

    /// Sets the value under `key`, whether or not there is one.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn put<'t, 'v, K: Key, V: Value + ?Sized>(
        &'t self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        value: V::Input<'v>,
    ) -> Put<'t, 'v, V, C> {
        Put::new(self.locate_to_write(table, &key), V::encode(value))
    }

    /// Adds a value under a key that has none. Returns [`Error::KeyExists`] otherwise.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn insert<'t, 'v, K: Key, V: Value + ?Sized>(
        &'t self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        value: V::Input<'v>,
    ) -> Insert<'t, 'v, V, C> {
        Insert::new(self.locate_to_write(table, &key), V::encode(value))
    }

    /// Replaces the value under `key`. Returns false, and changes nothing, if there is none.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn update<'t, 'v, K: Key, V: Value + ?Sized>(
        &'t self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        value: V::Input<'v>,
    ) -> Update<'t, 'v, V, C> {
        Update::new(self.locate(table, &key), V::encode(value))
    }

    /// Removes the value under `key`. Returns false if there was none.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn delete<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>, key: impl AsKey<K>) -> Delete<'_, C> {
        Delete::new(self.locate(table, &key))
    }

    /// Updates the row under `key` when the transaction commits. When the closure has ended, `update` is called with
    /// the row's newest value, if there is one, and sets the new value with [`NewValue::set`]. Until then other
    /// transactions may change the row freely. The row is locked only from that call until the commit, which follows
    /// at once, and other transactions wait for it in its queue. Transactions that count in the same row therefore do
    /// not undo each other. A row that does not exist is not locked: under [`Snapshot`](crate::Snapshot) another
    /// transaction may insert it between that call and the commit.
    ///
    /// The transaction itself does not see the update: its reads return the row without it. If the transaction has
    /// also read rows, it commits only if they are unchanged by then, and runs again otherwise. The row itself counts
    /// as read when `update` is called, even if `update` leaves it unchanged. An error of `update` undoes the
    /// transaction, and is the transaction's result. Updates run in the order of tables and keys, and for one row in
    /// the order of the calls. `update` runs in the middle of a commit: it must be short, and must not wait for this
    /// database.
    ///
    /// Under [`MultiVersion`](crate::MultiVersion), [`TimestampOrdering`](crate::TimestampOrdering) and
    /// [`Occ`](crate::Occ), a row that was changed after the transaction began is still a conflict.
    ///
    /// ```
    /// # use braiddb::{Database, Error, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let stock: Table<String, u32> = db.table("stock")?;
    /// let mut worker = db.worker();
    /// worker.run(async |tx| tx.put(stock, "apples", 3).await)?;
    /// let take = async |tx: &braiddb::Txn| {
    ///     tx.update_at_commit(stock, "apples", |left, new| match left {
    ///         Some(left) if left >= 2 => new.set(left - 2),
    ///         _ => Err(Error::user("too few apples")),
    ///     })
    /// };
    /// worker.run(take)?;
    /// assert!(worker.run(take).is_err());
    /// assert_eq!(db.begin()?.get(stock, "apples")?, Some(1));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn update_at_commit<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        update: impl FnOnce(Option<V::View<'_>>, NewValue<'_, V>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let update = move |old: Option<&[u8]>, bytes: &mut Vec<u8>| {
            let mut is_set = false;
            update(old.map(V::view).transpose()?, NewValue::new(bytes, &mut is_set))?;
            Ok(is_set)
        };
        self.0.update_at_commit(table, &key, Box::new(update))
    }

    /// Adds `amount` to the number under `key` when the transaction commits, with
    /// [`update_at_commit`](Self::update_at_commit). Additions of several transactions to the same number do not
    /// conflict. If there is no number, it becomes `amount`. Returns [`Error::Overflow`] if the type cannot hold the
    /// sum.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let views: Table<String, u64> = db.table("views")?;
    /// let mut worker = db.worker();
    /// for _ in 0..3 {
    ///     worker.run(async |tx| tx.add(views, "/index.html", 1))?;
    /// }
    /// assert_eq!(db.begin()?.get(views, "/index.html")?, Some(3));
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn add<K: Key + 'static, V: Number>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        amount: V,
    ) -> Result<()> {
        let database = self.0.database;
        self.update_at_commit(table, key, move |old, new| {
            let sum = old.map_or(Some(amount), |old: V| old.plus(amount));
            let name = || table.of_database(database).map_or_else(|_| String::new(), |table| table.name());
            new.set(sum.ok_or_else(|| Error::Overflow { table: name() })?)
        })
    }

    /// Scans the rows of a range of keys, in order: see [`Rows`].
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let t: Table<u64, u64> = db.table("t")?;
    /// let sum = db.worker().run(async |tx| {
    ///     for key in 0..10 {
    ///         tx.put(t, key, key * key).await?;
    ///     }
    ///     let (mut rows, mut sum) = (tx.scan(t, 3..6), 0);
    ///     while let Some((_, value)) = rows.next().await? {
    ///         sum += value;
    ///     }
    ///     Ok(sum)
    /// })?;
    /// assert_eq!(sum, 9 + 16 + 25);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn scan<K: Key, V: Value + ?Sized, A: AsKey<K>>(
        &self,
        table: Table<K, V>,
        range: impl RangeBounds<A>,
    ) -> Rows<'_, K, V, C> {
        Rows::new(&self.0, table, range.start_bound(), range.end_bound())
    }

    /// Scans all rows between two bounds in the order of the table's index, whatever that is: see
    /// [`Index::order_of`](crate::index::Index::order_of).
    pub(crate) fn walk<K: Key, V: Value + ?Sized>(
        &self,
        table: Result<&TableInner, Fault>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Rows<'_, K, V, C> {
        Rows::in_order_of_index(&self.0, table, from, to)
    }

    /// Scans all rows of a table, in the order of their keys.
    pub fn scan_all<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> Rows<'_, K, V, C> {
        Rows::new(&self.0, table, Bound::<&&K>::Unbounded, Bound::Unbounded)
    }

    /// Scans the rows whose keys begin with the encoded bytes of `prefix`: the first components of a tuple, or the
    /// first bytes of a string.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let t: Table<String, u64> = db.table("t")?;
    /// let count = db.worker().run(async |tx| {
    ///     for key in ["car", "cart", "cat", "dog"] {
    ///         tx.put(t, key, 0).await?;
    ///     }
    ///     let (mut rows, mut count) = (tx.scan_prefix(t, b"car"), 0);
    ///     while rows.next().await?.is_some() {
    ///         count += 1;
    ///     }
    ///     Ok(count)
    /// })?;
    /// assert_eq!(count, 2);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn scan_prefix<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        prefix: &[u8],
    ) -> Rows<'_, K, V, C> {
        Rows::with_prefix(&self.0, table, prefix)
    }

    /// Declares that this transaction will not write. From now on its writes fail with [`Error::ReadOnly`].
    ///
    /// If declared before any operation, the transaction is cheaper and meets no conflict: it reads the database as
    /// of one moment, without tracking. This does not hold under the schemes with one value per record, which have no
    /// snapshots. There it is a transaction like any other.
    pub fn declare_read_only(&self) {
        self.0.declare_read_only();
    }

    /// Declares which partitions of the database this transaction needs, under [`HStore`](crate::HStore). Waits until
    /// the transaction has them to itself: no other transaction reads or writes in them until it ends. Call this
    /// before anything else is read or written. Under other schemes it does nothing, and does not evaluate
    /// `partitions`.
    ///
    /// [`partition_of`](Self::partition_of) returns the partition of a row, if the row is in one
    /// ([`Database::partitioned_table`](crate::Database::partitioned_table)). Rows of other tables can be read by a
    /// transaction with any partition, and a transaction without one takes all. Only a transaction that has all
    /// partitions writes them, or reads ranges that may span several partitions.
    ///
    /// An operation takes the partitions that it needs and that were not declared when it begins. A transaction that
    /// stays within one partition need not declare it. If the missing partition precedes one that the transaction
    /// has, and belongs to another transaction, the transaction aborts, and its closure runs again with all
    /// partitions it needed from the beginning. Declaring too few partitions costs only time. An interactive
    /// transaction does not run again: it fails with [`Error::Conflict`]. If an open transaction keeps a partition
    /// for long, others wait for it as for a locked row.
    ///
    /// ```
    /// # use braiddb::metrics::SystemClock;
    /// # use braiddb::{Database, HStore, Options, Table};
    /// # let options = Options { workers: 0, ..Options::default() };
    /// # let clock = std::sync::Arc::new(SystemClock::default());
    /// let db: Database<HStore> = Database::in_memory_with(options, clock)?;
    /// // All rows of one branch are in one partition.
    /// let balances: Table<(u32, u32), i64> = db.partitioned_table("balances", 32)?;
    /// let (from, to) = ((1u32, 7u32), (2u32, 3u32)); // accounts of branches 1 and 2
    /// db.worker().run(async |tx| {
    ///     tx.declare_partitions([from, to].iter().filter_map(|account| tx.partition_of(balances, account))).await?;
    ///     tx.put(balances, from, -5).await?;
    ///     tx.put(balances, to, 5).await
    /// })?;
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    #[inline(always)]
    pub fn declare_partitions(
        &self,
        partitions: impl IntoIterator<Item = Partition>,
    ) -> DeclarePartitions<'_, C> {
        DeclarePartitions::new(&self.0, partitions)
    }

    /// Returns the partition of a row with this key, whether or not the row exists. `None` if the table is not
    /// partitioned.
    #[inline(always)]
    pub fn partition_of<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: impl AsKey<K>,
    ) -> Option<Partition> {
        table
            .of_database(self.0.database)
            .ok()?
            .index
            .partitioning()
            .number_of(&leading(&key)?)
            .map(Partition::new)
    }

    /// Chooses when this transaction is acknowledged, instead of the database's [`Options::durability`]. Under
    /// `Sync`, a transaction that only reads is acknowledged when everything that it may have seen is durable.
    ///
    /// [`Durability::None`] is for whole databases: it is an error here, unless it is the database's own setting.
    ///
    /// [`Options::durability`]: crate::Options::durability
    pub fn set_durability(&self, durability: Durability) -> Result<()> {
        if durability == Durability::None && self.0.durability_default != Durability::None {
            let reason = "a transaction cannot be left out of a log that others are in: Sync or Async".into();
            return Err(Error::InvalidOption { option: "durability", reason });
        }
        self.0.durability.set(durability);
        Ok(())
    }

    /// Returns the timestamp of the snapshot that the transaction reads. Two transactions with the same timestamp see
    /// the same database except for their own writes. A later transaction never has a smaller timestamp.
    pub fn snapshot_timestamp(&self) -> u64 {
        self.0.snapshot_timestamp()
    }
}

// ---- the engine's side
impl<C: ConcurrencyControl> Txn<C> {
    /// Returns the transaction with this state.
    #[inline(always)]
    pub(crate) fn of(state: &TxnState<C>) -> &Txn<C> {
        // SAFETY: a `Txn` is a state and nothing else, laid out alike.
        unsafe { &*std::ptr::from_ref(state).cast() }
    }

    #[inline(always)]
    pub(crate) fn state(&self) -> &TxnState<C> {
        &self.0
    }

    /// Finds the row under `key`, if there can be one.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn locate<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: &impl AsKey<K>,
    ) -> PointLookup<'_, C> {
        let table = match table.inner(self.0.database) {
            Ok(table) => table,
            Err(fault) => return PointLookup::of_fault(&self.0, fault),
        };
        match self.0.sought_key(key) {
            Ok(key) => PointLookup::new(&self.0, table, key),
            Err(fault) => PointLookup::of_fault(&self.0, fault),
        }
    }

    /// Finds the place of a row that may not exist yet.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn locate_to_write<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: &impl AsKey<K>,
    ) -> PointLookup<'_, C> {
        let table = match table.inner(self.0.database) {
            Ok(table) => table,
            Err(fault) => return PointLookup::of_fault(&self.0, fault),
        };
        match self.0.index_key(key) {
            Ok(key) => PointLookup::new(&self.0, table, key),
            Err(fault) => PointLookup::of_fault(&self.0, fault),
        }
    }
}
