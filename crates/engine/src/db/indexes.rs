//! Declaring secondary indexes.

use super::{Database, check_leading_bits};
use crate::cc::ConcurrencyControl;
use crate::error::Result;
use crate::secondary::{Declared, extractor, open_index};
use crate::table::{Function, Index, Key, Table, Value};

impl<C: ConcurrencyControl> Database<C> {
    /// An index of a table: its rows in the order of what `extract` makes of them; those it makes nothing of are left
    /// out. Several rows may have the same key. From now on every write of a row maintains the index in
    /// the same transaction; [`Txn::scan_by`](crate::Txn::scan_by) reads by it. A write that changes no key of the
    /// index costs a comparison.
    ///
    /// An index by a function is not stored ([`index_on`](Self::index_on) declares one by columns, which is): it is declared each time that
    /// the database is opened, and built there and then. The
    /// table can be in use meanwhile; transactions that are open when an index is declared have to end first, which
    /// is waited for up to a minute. Where the calling thread has one open itself, or runs this in a closure as a worker, it is
    /// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock) at once. If
    /// the index cannot be built, that is an error, and there is no such index; so it is if `extract` panics
    /// ([`Error::Panicked`](crate::Error::Panicked)).
    ///
    /// Declared again with keys of the same type, it is the index that there is. `extract` must answer the same for
    /// the same row, always and in every declaration. If it does not, what is found by the index may be wrong, and a row
    /// may be found under another one's key; rows of other tables are never found.
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

    /// As [`index`](Self::index), but no two rows may have the same key: a write that would make two is
    /// [`Error::UniqueViolation`](crate::Error::UniqueViolation), and changes nothing.
    /// [`Txn::get_by`](crate::Txn::get_by) finds the row with a key.
    pub fn unique_index<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        name: &str,
        extract: impl for<'v> Fn(&K, V::View<'v>) -> Option<I> + Send + Sync + 'static,
    ) -> Result<Index<I, K, V>> {
        self.declare(table, name, (true, None, None), extract)
    }

    /// As [`index`](Self::index), with entries in partitions by the leading bits of their keys, as those of a
    /// [`partitioned_table`](Self::partitioned_table): so an entry can be where its row is. (Without, a write that changes an entry needs
    /// all partitions.) Where some are not, that does no harm, but that all partitions are needed to read by the index.
    pub fn partitioned_index<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        name: &str,
        leading_bits: u32,
        extract: impl for<'v> Fn(&K, V::View<'v>) -> Option<I> + Send + Sync + 'static,
    ) -> Result<Index<I, K, V>> {
        self.declare(table, name, (false, Some(leading_bits), None), extract)
    }

    /// The same of a [`unique_index`](Self::unique_index).
    pub fn partitioned_unique_index<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        name: &str,
        leading_bits: u32,
        extract: impl for<'v> Fn(&K, V::View<'v>) -> Option<I> + Send + Sync + 'static,
    ) -> Result<Index<I, K, V>> {
        self.declare(table, name, (true, Some(leading_bits), None), extract)
    }

    /// Whether it is unique, the leading bits that say to which partition entries belong, and which function the name stands for.
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
