//! Tables: a name, an index, and types for keys and values.

use super::engine::Engine;
use super::fault::Fault;
use super::key::Key;
use super::value::Value;
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::index::masstree::{Masstree, Simd};
use crate::record::{RecordId, Slot};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// A table as the engine sees it.
pub(crate) struct TableInner {
    pub(crate) index: Masstree,
    /// Address of slot 0: the slot of a record is found by arithmetic alone.
    slots: *const Slot,
    name: String,
    types: (String, String),
}
// SAFETY: `slots` is an address in the records' slab; slots are Sync.
unsafe impl Send for TableInner {}
// SAFETY: as above.
unsafe impl Sync for TableInner {}

impl TableInner {
    /// The slot of record `id`. Pure arithmetic.
    #[inline(always)]
    pub(crate) fn slot(&self, id: RecordId) -> *const Slot {
        self.slots.wrapping_add(id.0 as usize)
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
        // SAFETY: tables are boxed and live as long as their database, which the caller holds.
        Ok(unsafe { self.inner.as_ref() })
    }
}

/// Creates the table, or opens it if it exists with these types.
pub(crate) fn open<C: ConcurrencyControl, K: Key, V: Value + ?Sized>(
    engine: &Arc<Engine<C>>,
    name: &str,
) -> Result<Table<K, V>> {
    let types = (K::type_name(), V::type_name());
    let mut tables = engine.tables.lock().expect("no panic while it is held");
    let inner = match tables.iter().find(|t| t.name == name) {
        Some(table) if table.types == types => NonNull::from(&**table),
        Some(table) => {
            let whole = |types: &(String, String)| format!("{} by {}", types.1, types.0);
            let (existing, requested) = (whole(&table.types), whole(&types));
            return Err(Error::TableMismatch { name: name.into(), existing, requested });
        }
        None => {
            let limit_bytes = engine.memory.limit_bytes();
            let mut index = Masstree::new(engine.nodes.clone(), K::FIXED8, Simd::Detect)
                .map_err(|_| Error::OutOfMemory { limit_bytes })?;
            if C::LOSES_STAMPS {
                index.lose_stamps();
            }
            let slots = engine.records.at(0).cast::<Slot>().cast_const();
            tables.push(Box::new(TableInner { index, slots, name: name.into(), types }));
            NonNull::from(&**tables.last().expect("pushed just now"))
        }
    };
    Ok(Table { inner, database: engine.id, types: PhantomData })
}
