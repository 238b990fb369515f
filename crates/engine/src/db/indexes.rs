//! Declaring secondary indexes.

use super::{Database, check_leading_bits};
use crate::cc::ConcurrencyControl;
use crate::error::Result;
use crate::secondary::{Declared, extractor, open_index};
use crate::table::{Function, Index, Key, Table, Value};

impl<C: ConcurrencyControl> Database<C> {
    /// Declares an index of a table: its rows, ordered by the keys that `extract` returns. Rows for which `extract`
    /// returns `None` are left out. Several rows may have the same key. From now on every write of a row maintains
    /// the index in the same transaction. [`Txn::scan_by`](crate::Txn::scan_by) reads by the index. A write that
    /// changes no key of the index costs one comparison.
    ///
    /// An index by a function is not stored. It is declared, and built, each time the database is opened.
    /// ([`index_on`](Self::index_on) declares an index by columns, which is stored.) The table can be in use
    /// meanwhile. Transactions that are open at the declaration have to end first, and the call waits up to a minute
    /// for them.
    ///
    /// `extract` must always return the same key for the same row, in every declaration. Otherwise lookups by the
    /// index may be wrong, and a row may be found under another row's key. Rows of other tables are never found. A
    /// second declaration with keys of the same type returns the existing index.
    ///
    /// # Errors
    /// After an error there is no such index.
    ///
    /// - [`Error::WouldDeadlock`](crate::Error::WouldDeadlock), at once, if the calling thread has a transaction
    ///   open, or runs this in a closure as a worker.
    /// - [`Error::Panicked`](crate::Error::Panicked) if `extract` panics.
    /// - Another error if the index cannot be built.
    ///
    /// ```
    /// use braiddb::{Database, Options, Plain, Table};
    /// use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
    ///
    /// #[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
    /// #[repr(C)]
    /// struct Customer { balance: i64, district: u32, last: [u8; 16], first: [u8; 12] }
    ///
    /// let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let customers: Table<u32, Plain<Customer>> = db.table("customers")?;
    /// // By two columns; rows are read where they lie, here and by scans.
    /// let by_name = db.index(customers, "by name", |_, customer: &Customer| {
    ///     Some((customer.district, customer.last))
    /// })?;
    ///
    /// let (last, first) = (*b"Lovelace\0\0\0\0\0\0\0\0", *b"Ada\0\0\0\0\0\0\0\0\0");
    /// let balance = db.worker().run(async |tx| {
    ///     tx.put(customers, 7, &Customer { balance: 100, district: 3, last, first }).await?;
    ///     let mut rows = tx.scan_by(by_name, (3, last)..=(3, last));
    ///     let Some((_, key, customer)) = rows.next().await? else { return Ok(None) };
    ///     assert_eq!(key, 7);
    ///     Ok(Some(customer.balance))
    /// })?;
    /// assert_eq!(balance, Some(100));
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn index<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        name: &str,
        extract: impl for<'v> Fn(&K, V::View<'v>) -> Option<I> + Send + Sync + 'static,
    ) -> Result<Index<I, K, V>> {
        self.declare(table, name, (false, None, None), extract)
    }

    /// Declares an index like [`index`](Self::index) in which no two rows may have the same key. A write that would
    /// make two returns [`Error::UniqueViolation`](crate::Error::UniqueViolation), and changes nothing.
    /// [`Txn::get_by`](crate::Txn::get_by) finds the row with a key.
    pub fn unique_index<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        name: &str,
        extract: impl for<'v> Fn(&K, V::View<'v>) -> Option<I> + Send + Sync + 'static,
    ) -> Result<Index<I, K, V>> {
        self.declare(table, name, (true, None, None), extract)
    }

    /// Declares an index like [`index`](Self::index) whose entries are in partitions by the leading bits of their
    /// keys, like the rows of a [`partitioned_table`](Self::partitioned_table). An entry can then be in the partition
    /// of its row. In an index without partitions, a write that changes an entry needs all partitions. If some
    /// entries are not in their row's partition, the only cost is that reads by the index need all partitions.
    pub fn partitioned_index<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        name: &str,
        leading_bits: u32,
        extract: impl for<'v> Fn(&K, V::View<'v>) -> Option<I> + Send + Sync + 'static,
    ) -> Result<Index<I, K, V>> {
        self.declare(table, name, (false, Some(leading_bits), None), extract)
    }

    /// Declares a [`unique_index`](Self::unique_index) with entries in partitions, like
    /// [`partitioned_index`](Self::partitioned_index).
    pub fn partitioned_unique_index<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        name: &str,
        leading_bits: u32,
        extract: impl for<'v> Fn(&K, V::View<'v>) -> Option<I> + Send + Sync + 'static,
    ) -> Result<Index<I, K, V>> {
        self.declare(table, name, (true, Some(leading_bits), None), extract)
    }

    /// Declares an index: its uniqueness, the number of leading bits that give an entry's partition, and the function
    /// that the name stands for.
    pub(super) fn declare<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        name: &str,
        (is_unique, leading_bits, function): (bool, Option<u32>, Option<Function>),
        extract: impl for<'v> Fn(&K, V::View<'v>) -> Option<I> + Send + Sync + 'static,
    ) -> Result<Index<I, K, V>> {
        leading_bits.map_or(Ok(()), check_leading_bits)?;
        let engine = self.engine();
        let table = table.of_database(engine.id)?;
        let declared = Declared {
            name: name.into(),
            key_type: I::type_name(),
            is_unique,
            leading_bits,
            extract: extractor::<I, K, V>(is_unique, extract),
            columns: None,
            function,
            projection: None,
        };
        open_index(engine, table, declared, || Ok(())).map(|index| Index::new(index, engine.id))
    }
}
