//! Tables: a name, an index, and types for keys and values.

use super::engine::Engine;
use super::fault::Fault;
use super::key::Key;
use super::secondary::Indexes;
use super::value::Value;
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::index::touched::Touched;
use crate::index::{Index, IndexKind, IndexOptions, TableIndex};
use crate::memory::{OutOfMemory, Slab};
use crate::record::{Record, RecordId};
use crate::sync::Fixed;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A table as the engine sees it.
pub(crate) struct TableInner {
    pub(crate) index: TableIndex,
    /// Address of record 0: a record is found by arithmetic alone.
    records: *const Record,
    /// Maintained by whoever writes rows.
    pub(super) indexes: Indexes,
    pub(crate) kind: TableKind,
}
// SAFETY: `records` is an address in the records' slab; records are Sync.
unsafe impl Send for TableInner {}
// SAFETY: as above.
unsafe impl Sync for TableInner {}

impl TableInner {
    /// The memory of record `id`. Pure arithmetic.
    #[inline(always)]
    pub(crate) fn record(&self, id: RecordId) -> *const Record {
        self.records.wrapping_add(id.0 as usize)
    }

    /// The id of the record with this memory.
    #[inline(always)]
    pub(super) fn id(&self, record: *const Record) -> RecordId {
        let id = (record.addr() - self.records.addr()) / size_of::<Record>();
        debug_assert_eq!(self.record(RecordId(id as u32)), record, "a record of this table");
        RecordId(id as u32)
    }
}

// ---- places for records
impl TableInner {
    /// The place of a new record: where records' ids are noted elsewhere as well, one that served this table before,
    /// if there is one.
    #[inline(always)]
    pub(super) fn allocate(&self, records: &Slab) -> std::result::Result<RecordId, OutOfMemory> {
        if !self.indexes.is_empty()
            && let Some(id) = self.index.kept().take()
        {
            return Ok(id);
        }
        records.allocate().map(RecordId)
    }

    /// Takes back the place of a record that came to nothing.
    ///
    /// # Safety
    /// From `allocate`, and never published.
    #[cold]
    pub(super) unsafe fn free(&self, records: &Slab, id: RecordId) {
        match self.index.kept().is_on() {
            true => self.index.kept().give(id),
            // SAFETY: the caller's promise.
            false => unsafe { records.free(id.0) },
        }
    }
}

/// A table of one database, with keys `K` and values `V`. `Copy`: closures take it along without ado.
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
    /// The table, for as long as its database is held. Ids are never used twice, so equal ids mean
    /// that the table is one of this very database's, and alive.
    #[inline(always)]
    pub(crate) fn inner(&self, database: u64) -> Result<&TableInner, Fault> {
        if self.database != database {
            return Err(Fault::WrongDatabase);
        }
        // SAFETY: tables stay where they are and live as long as their database, which the caller holds.
        Ok(unsafe { self.inner.as_ref() })
    }
}

/// What a table is called, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableKind {
    pub(crate) name: String,
    /// The types of keys and values, by name.
    pub(crate) types: (String, String),
    /// All keys have eight bytes.
    pub(crate) fixed8: bool,
    /// How keys find their records.
    pub(crate) index: IndexKind,
}

/// How a table is made: for [`Database::table_with`](crate::Database::table_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// The kind of index. Default: [`IndexKind::Masstree`].
    pub index: IndexKind,
}

impl TableKind {
    /// A table of this name for these types.
    pub(crate) fn of<K: Key, V: Value + ?Sized>(name: &str, index: IndexKind) -> TableKind {
        let types = (K::type_name(), V::type_name());
        TableKind { name: name.into(), types, fixed8: K::FIXED8, index }
    }

    /// The same, with an index of the kind of this name; without one, of the default kind.
    pub(crate) fn named(
        name: &str,
        types: (String, String),
        fixed8: bool,
        index: Option<&str>,
    ) -> Result<TableKind> {
        let unknown = |index: &str| Error::UnknownIndex { table: name.into(), index: index.into() };
        let index = index.map_or(Ok(IndexKind::default()), |index| {
            IndexKind::named(index).ok_or_else(|| unknown(index))
        })?;
        Ok(TableKind { name: name.into(), types, fixed8, index })
    }

    /// The name of its kind of index, if that is not the default one.
    pub(crate) fn index_name(&self) -> Option<&'static str> {
        (self.index != IndexKind::default()).then(|| self.index.name())
    }

    /// What it holds, for people, in so far as that tells it from another one.
    fn unlike(&self, other: &TableKind) -> String {
        let (key_type, value_type) = &self.types;
        let how = if self.types != other.types {
            String::new()
        } else if self.fixed8 != other.fixed8 {
            format!(" of {}", if self.fixed8 { "eight bytes" } else { "any length" })
        } else {
            format!(" in an index of the kind {}", self.index.name())
        };
        format!("{value_type} by {key_type}{how}")
    }
}

impl TableInner {
    /// An empty table of this number.
    pub(super) fn new<C: ConcurrencyControl>(
        engine: &Engine<C>,
        number: u32,
        kind: TableKind,
    ) -> Result<TableInner> {
        let limit_bytes = engine.memory.limit_bytes();
        let options = IndexOptions { kind: kind.index, fixed8: kind.fixed8, number };
        let mut index =
            TableIndex::new(&engine.nodes, options).map_err(|_| Error::OutOfMemory { limit_bytes })?;
        if C::LOSES_STAMPS {
            index.lose_stamps();
        }
        let records = engine.records.at(0).cast::<Record>().cast_const();
        Ok(TableInner { index, records, indexes: Indexes::new(), kind })
    }

    /// The table's place in the database's list.
    pub(crate) fn number(&self) -> u32 {
        self.index.number()
    }

    /// Which ranges of its keys were changed.
    pub(crate) fn touched(&self) -> &Touched {
        self.index.touched()
    }

    /// A handle to it with these types, whatever its own are: a fixed8 table's keys can be had as `u64`, those of
    /// others as bytes; values as bytes.
    pub(crate) fn handle<K, V: ?Sized>(&self, database: u64) -> Table<K, V> {
        Table { inner: NonNull::from(self), database, types: PhantomData }
    }
}

/// Creates the table, or opens it if it exists with these types, and makes a handle of it. A table that exists may have
/// an index of another kind, unless that one `is_chosen`. `created` notes that there is one more, before anybody can use
/// it; if it fails, there is not.
pub(crate) fn open<C: ConcurrencyControl, R>(
    engine: &Engine<C>,
    mut kind: TableKind,
    is_chosen: bool,
    created: impl FnOnce(u32, &TableKind) -> Result<()>,
    handle: impl FnOnce(&TableInner) -> R,
) -> Result<R> {
    let mut tables = engine.tables.lock().expect("no panic while it is held");
    if let Some(table) = tables.iter().find(|table| table.kind.name == kind.name) {
        if !is_chosen {
            kind.index = table.kind.index;
        }
        if table.kind != kind {
            let (existing, requested) = (table.kind.unlike(&kind), kind.unlike(&table.kind));
            return Err(Error::TableMismatch { name: kind.name, existing, requested });
        }
        return Ok(handle(table));
    }
    let number = tables.len() as u32;
    let table = Fixed::new(TableInner::new(engine, number, kind)?);
    created(number, &table.kind)?;
    let handle = handle(&table);
    tables.push(table);
    Ok(handle)
}

/// Creates a table that there was, at recovery: the next in the database's list, if it is not in it already.
/// False: another one has its number or name.
pub(crate) fn restore<C: ConcurrencyControl>(
    engine: &Engine<C>,
    number: u32,
    kind: TableKind,
) -> Result<bool> {
    let mut tables = engine.tables.lock().expect("no panic while it is held");
    if tables.get(number as usize).is_some_and(|table| table.kind == kind) {
        return Ok(true);
    }
    if number as usize != tables.len() || tables.iter().any(|table| table.kind.name == kind.name) {
        return Ok(false);
    }
    tables.push(Fixed::new(TableInner::new(engine, number, kind)?));
    Ok(true)
}
