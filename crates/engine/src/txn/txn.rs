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

/// An open transaction. Closures get `&Txn`; it is neither `Send` nor `Sync`.
///
/// Every operation is a future. What reads return is borrowed until the transaction ends; later
/// writes do not disturb it.
#[repr(transparent)]
pub struct Txn<C: ConcurrencyControl = Serializable>(TxnState<C>);

impl<C: ConcurrencyControl> fmt::Debug for Txn<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Txn").field("read_only", &self.0.read_only.get()).finish_non_exhaustive()
    }
}

// ---- the closure's side
impl<C: ConcurrencyControl> Txn<C> {
    /// The value under `key`, if there is one.
    ///
    /// Under serializable isolation the read is tracked: if others change what was read, the transaction may
    /// have to give way. `.untracked()` on the future reads the snapshot and no more (under the schemes
    /// without snapshots, what is committed at that moment; as of its time where it has one): what the transaction does then must not depend on it.
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

    /// The value under `key`, if there is one, which nobody else can change until the transaction ends.
    ///
    /// A row that another open transaction has locked or written is waited for, in the queue behind earlier waiters,
    /// for [`Options::lock_wait_ms`] at most: then the call fails with [`Error::LockTimeout`]. `.timeout(…)` on the
    /// future says how long instead; `.no_wait()` fails at once, with [`Error::RowLocked`]; `.skip_locked()` answers
    /// [`Claim::Locked`](crate::Claim::Locked). Of transactions that would wait for each other in a cycle, one gives way when the wait that would
    /// close the cycle begins, with [`Error::Deadlock`]: in a closure it is run again. Nothing is locked where there
    /// is no row.
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

    /// Several keys, their cache misses overlapped. The values come in the order of the keys.
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

    /// As many keys as `keys` has, their cache misses overlapped; without an allocation, whatever their number. The
    /// values go to `out`, in the order of the keys: keys for which `out` has no place are not read, and places for
    /// which there is no key are emptied.
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

    /// Is there a value under `key`?
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

    /// Adds a value under a key that has none; [`Error::KeyExists`] otherwise.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn insert<'t, 'v, K: Key, V: Value + ?Sized>(
        &'t self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        value: V::Input<'v>,
    ) -> Insert<'t, 'v, V, C> {
        Insert::new(self.locate_to_write(table, &key), V::encode(value))
    }

    /// Replaces the value under `key`; returns false if there is none, and nothing was changed.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn update<'t, 'v, K: Key, V: Value + ?Sized>(
        &'t self,
        table: Table<K, V>,
        key: impl AsKey<K>,
        value: V::Input<'v>,
    ) -> Update<'t, 'v, V, C> {
        Update::new(self.locate(table, &key), V::encode(value))
    }

    /// Removes the value under `key`; returns false if there was none.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn delete<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>, key: impl AsKey<K>) -> Delete<'_, C> {
        Delete::new(self.locate(table, &key))
    }

    /// Leaves an update of the row under `key` for the commit: when the closure has ended, `update` is called with the row's newest
    /// value, if there is one, and says by [`NewValue::set`] what becomes of it. Meanwhile others may change the row as
    /// they like: only from that call until the commit, which follows at once, is the row locked, and others wait for it in its
    /// queue. So transactions that count something in the same row do not undo each other. A row that is not there is not locked: under
    /// [`Snapshot`](crate::Snapshot) another transaction may insert it between that call and the commit.
    ///
    /// The transaction itself does not see the update: its reads show the row without. Where it has read rows as well, it commits
    /// only if they are unchanged by then, and is run again otherwise. The row itself has been read when `update` is called, also if it is left
    /// as it is. An error of `update` undoes
    /// the transaction, and is what it answers. Updates are made in the order of tables and keys, those of one row in the order
    /// of the calls. `update` is foreign code in the middle of a commit: it has to be short, and must not wait for this database.
    /// (Under [`MultiVersion`](crate::MultiVersion), [`TimestampOrdering`](crate::TimestampOrdering) and [`Occ`](crate::Occ) a row that
    /// was changed after the transaction began is a conflict all the same.)
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

    /// Adds `amount` to the number under `key` when the transaction commits, by
    /// [`update_at_commit`](Self::update_at_commit): additions of several transactions to the same number do not conflict.
    /// Where there is none it becomes `amount`. [`Error::Overflow`] if the type cannot hold the sum.
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

    /// The rows of a range of keys, in order; see [`Rows`].
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

    /// All rows between two bounds in the order of the table's index, whatever that is: see
    /// [`Index::order_of`](crate::index::Index::order_of).
    pub(crate) fn walk<K: Key, V: Value + ?Sized>(
        &self,
        table: Result<&TableInner, Fault>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Rows<'_, K, V, C> {
        Rows::in_order_of_index(&self.0, table, from, to)
    }

    /// All rows of a table, in the order of their keys.
    pub fn scan_all<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> Rows<'_, K, V, C> {
        Rows::new(&self.0, table, Bound::<&&K>::Unbounded, Bound::Unbounded)
    }

    /// The rows whose keys begin with the encoded bytes of `prefix`: the first components of a tuple, or the
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

    /// Declares that this transaction will not write: from now on writes fail with [`Error::ReadOnly`].
    ///
    /// Declared before anything else is done, it makes the transaction cheaper, and it will meet no conflict:
    /// what it reads is the database as of one moment, and needs no tracking. (Not so under the schemes with one value per
    /// record, which have no snapshots: there it is a transaction like any other.)
    pub fn declare_read_only(&self) {
        self.0.declare_read_only();
    }

    /// Declares which partitions of the database this transaction needs, under [`HStore`](crate::HStore): waits until they are its
    /// own, in which no other one reads or writes until it ends. To be called before anything else is read or written.
    /// Under other schemes it does nothing, and does not ask for the partitions.
    ///
    /// [`partition_of`](Self::partition_of) says in which partition a row is, if it is in one
    /// ([`Database::partitioned_table`](crate::Database::partitioned_table)). Rows of other tables can be read by a transaction
    /// with any partition (one that has none takes all), and are written by one that has all, as are ranges read that may be in several.
    ///
    /// What an operation needs beyond that is taken when it begins: so a transaction that stays within one partition need not
    /// declare it. One that needs a partition which comes before one that it has, and is another transaction's, gives way, and its closure is
    /// run again with all that it needed from the beginning. So too few of them cost time, and nothing else. (An interactive transaction is not run again: it fails
    /// with [`Error::Conflict`].) A partition that an open transaction keeps for long is waited for as a locked row is.
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

    /// The partition that a row with this key is in, whether or not there is one. `None`: the table is not partitioned.
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

    /// Chooses when this transaction is acknowledged, instead of the database's [`Options::durability`]. One that
    /// only reads is acknowledged, under `Sync`, when what it may have seen is durable.
    ///
    /// [`Durability::None`] is for whole databases: an error here, unless it is the database's own.
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

    /// Identifies the snapshot that the transaction reads: two transactions with the same one see the same
    /// database but for their own writes, and one that begins later has no lesser one.
    pub fn snapshot_timestamp(&self) -> u64 {
        self.0.snapshot_timestamp()
    }
}

// ---- the engine's side
impl<C: ConcurrencyControl> Txn<C> {
    /// The transaction with this state.
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

    /// Finds the place of a row that there may not be yet.
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
