//! Typed handles of tables and of their secondary indexes.

use super::fault::Fault;
use super::inner::{IndexInner, TableInner};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A table of one database, with keys `K` and values `V`. `Copy`, so closures can capture it.
pub struct Table<K, V: ?Sized> {
    inner: NonNull<TableInner>,
    database: u64,
    types: PhantomData<fn(K, &V)>,
}

impl<K, V: ?Sized> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V: ?Sized> Copy for Table<K, V> {}
// SAFETY: dereferenced in `inner` only; a `TableInner` is shared between threads.
unsafe impl<K, V: ?Sized> Send for Table<K, V> {}
// SAFETY: as above.
unsafe impl<K, V: ?Sized> Sync for Table<K, V> {}

impl<K, V: ?Sized> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("database", &self.database).finish_non_exhaustive()
    }
}

impl<K, V: ?Sized> Table<K, V> {
    /// Returns the table, for as long as its database is held. Fails if nothing may be done with the table. Ids are
    /// never used twice, so equal ids mean that the table belongs to this very database, and is alive.
    #[inline(always)]
    pub(crate) fn inner(&self, database: u64) -> Result<&TableInner, Fault> {
        let inner = self.of_database(database)?;
        inner.check_usable()?;
        Ok(inner)
    }

    /// Returns the table like `inner`, whatever may be done with it.
    #[inline(always)]
    pub(crate) fn of_database(&self, database: u64) -> Result<&TableInner, Fault> {
        if self.database != database {
            return Err(Fault::WrongDatabase);
        }
        // SAFETY: tables stay where they are and live as long as their database, which the caller holds.
        Ok(unsafe { self.inner.as_ref() })
    }
}

impl TableInner {
    /// Returns a handle with these types, whatever the table's own types are. The keys of a fixed8 table can be
    /// `u64`, those of other tables bytes. Values are bytes.
    pub(crate) fn handle<K, V: ?Sized>(&self, database: u64) -> Table<K, V> {
        Table { inner: NonNull::from(self), database, types: PhantomData }
    }
}

/// An index of one table with keys `K` and values `V`, by keys `I`. Made by [`Database::index`],
/// [`Database::index_on`] and their unique forms. `Copy`, so closures can capture it.
///
/// [`Database::index`]: crate::Database::index
/// [`Database::index_on`]: crate::Database::index_on
pub struct Index<I, K, V: ?Sized> {
    inner: NonNull<IndexInner>,
    database: u64,
    types: PhantomData<fn(I, K, &V)>,
}

impl<I, K, V: ?Sized> Clone for Index<I, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<I, K, V: ?Sized> Copy for Index<I, K, V> {}
// SAFETY: dereferenced in `inner` only; an `IndexInner` is shared between threads.
unsafe impl<I, K, V: ?Sized> Send for Index<I, K, V> {}
// SAFETY: as above.
unsafe impl<I, K, V: ?Sized> Sync for Index<I, K, V> {}

impl<I, K, V: ?Sized> fmt::Debug for Index<I, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("database", &self.database).finish_non_exhaustive()
    }
}

impl<I, K, V: ?Sized> Index<I, K, V> {
    pub(crate) fn new(inner: &IndexInner, database: u64) -> Self {
        Index { inner: NonNull::from(inner), database, types: PhantomData }
    }

    /// Returns the index, for as long as its database is held, like [`Table`]'s.
    #[inline(always)]
    pub(crate) fn inner(&self, database: u64) -> Result<&IndexInner, Fault> {
        if self.database != database {
            return Err(Fault::WrongDatabase);
        }
        // SAFETY: indexes are boxed and live as long as their database, which the caller holds.
        let inner = unsafe { self.inner.as_ref() };
        inner.entries.check_usable()?;
        Ok(inner)
    }
}
