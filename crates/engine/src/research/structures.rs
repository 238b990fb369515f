//! The engine's structures without transactions. Handwritten yardsticks use them to show what transactions cost on top.

use crate::cc::{ConcurrencyControl, Reads};
use crate::db::Database;
use crate::index::Yardstick;
use crate::kernel::{Context, Engine};
use crate::record::{RecordId, Slot, Timestamp, Version, VersionKind};
use crate::sync::Fixed;
use crate::table::{Table, TableInner};
use std::fmt;
use std::sync::Arc;

/// Reads one table's structures from one thread. The reader stays in one epoch for its whole life: nothing that it
/// reaches is reclaimed, and little else in the database is.
pub struct Structures<C: ConcurrencyControl> {
    context: Fixed<Context<C>>,
    table: *const TableInner,
    _engine: Arc<Engine<C>>,
}

impl<C: ConcurrencyControl> fmt::Debug for Structures<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Structures").finish_non_exhaustive()
    }
}

impl<C: ConcurrencyControl> Structures<C> {
    /// Makes a reader of a table of `db`. Returns `None` if it does not know the nodes of the table's index, or if the
    /// scheme keeps no versions.
    pub fn new(db: &Database<C>, table: Table<u64, [u8]>) -> Option<Structures<C>> {
        if C::reads(db.engine().options.lab) != Reads::Snapshot {
            return None;
        }
        let engine = db.engine().clone();
        let table = table.inner(engine.id).expect("a table of this database");
        table.index.yardstick()?;
        let context = engine.context();
        context.enter();
        Some(Structures { context, table, _engine: engine })
    }

    #[inline(always)]
    fn table(&self) -> &TableInner {
        // SAFETY: tables live as long as the engine.
        unsafe { &*self.table }
    }

    #[inline(always)]
    fn index(&self) -> Yardstick<'_> {
        self.table().index.yardstick().expect("new has looked")
    }

    /// Returns the timestamp for a snapshot.
    #[inline(always)]
    pub fn begin(&self) -> u64 {
        C::now(self.context.env().shared)
    }

    /// Returns the root's id and level. Borders are on level 0.
    #[inline(always)]
    pub fn root(&self) -> (u32, u8) {
        self.index().root()
    }

    /// Returns a node's address.
    #[inline(always)]
    pub fn node(&self, node: u32) -> *const u8 {
        self.index().at(node)
    }

    /// Returns a slot's address.
    #[inline(always)]
    pub fn slot(&self, record: u32) -> *const u8 {
        self.table().record(RecordId(record)).cast()
    }

    /// Returns the child of an interior node for a key. `None` means that the caller must start again.
    ///
    /// # Safety
    /// `node` came from this reader.
    #[inline(always)]
    pub unsafe fn child(&self, node: u32, key: u64) -> Option<u32> {
        // SAFETY: inside the reader's epoch.
        match unsafe { self.index().child_for(node, key) } {
            0 => None,
            child => Some(child),
        }
    }

    /// Returns the record of a key in a border. An outer `None` means that the caller must start again.
    ///
    /// # Safety
    /// `node` came from this reader.
    #[inline(always)]
    pub unsafe fn record(&self, node: u32, key: u64) -> Option<Option<u32>> {
        // SAFETY: inside the reader's epoch.
        Some(unsafe { self.index().find8(node, key) }.map(|id| id.0))
    }

    /// Returns the value that a snapshot sees of a record.
    ///
    /// # Safety
    /// `record` came from this reader.
    #[inline(always)]
    pub unsafe fn value(&self, record: u32, snapshot: u64) -> Option<&[u8]> {
        // SAFETY: slots are never unmapped.
        let mut v = unsafe { &*self.table().record(RecordId(record)).cast::<Slot>() }.head();
        while !v.is_null() {
            // SAFETY: inside the reader's epoch.
            let version = unsafe { &*v };
            if version.stamp().is_committed_by(Timestamp(snapshot)) {
                // SAFETY: as above.
                let value = unsafe { &*Version::value(v) };
                return (version.kind() == VersionKind::Value).then_some(value);
            }
            v = version.next();
        }
        None
    }
}

impl<C: ConcurrencyControl> Drop for Structures<C> {
    fn drop(&mut self) {
        self.context.leave();
    }
}
