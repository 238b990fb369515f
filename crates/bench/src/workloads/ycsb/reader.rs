//! The engine's structures for the yardsticks. This file is the only connection between the yardsticks and
//! `braiddb::research`.

use super::access::FixedKeys;
use crate::engine::{Database, Scheme};
use braiddb::research::Structures;

/// Reads the structures of one table from one thread. It stays inside an epoch during its whole life, so that nothing
/// that it reaches is reclaimed. It is suitable only for a slice of a benchmark.
pub(crate) struct RawReader<C: Scheme>(Structures<C>);

/// A node has changed since; the search must restart from the root.
pub(crate) struct Moved;

impl<C: Scheme> RawReader<C> {
    /// Makes a reader of the table. Returns `None` if the scheme keeps one value per record and no versions.
    pub(super) fn new(db: &Database<C>, table: FixedKeys) -> Option<RawReader<C>> {
        Structures::new(db, table.table()).map(RawReader)
    }
    /// Takes a snapshot, as a transaction does when it begins.
    #[inline(always)]
    pub(crate) fn begin(&self) -> u64 {
        self.0.begin()
    }
    /// Returns the root's number and level. Borders are on level 0.
    #[inline(always)]
    pub(crate) fn root(&self) -> (u32, u8) {
        self.0.root()
    }
    /// Returns the address of a node.
    #[inline(always)]
    pub(crate) fn node(&self, node: u32) -> *const u8 {
        self.0.node(node)
    }
    /// Returns the child of an interior node for a key, or `None` if the search must restart.
    #[inline(always)]
    pub(crate) fn child(&self, node: u32, key: u64) -> Option<u32> {
        // SAFETY: the node's number comes from `root` or `child` of this reader, which stays inside its
        // epoch.
        unsafe { self.0.child(node, key) }
    }
    /// Returns the record of a key in a border node.
    #[inline(always)]
    pub(crate) fn record(&self, node: u32, key: u64) -> Result<Option<u32>, Moved> {
        // SAFETY: as above.
        unsafe { self.0.record(node, key) }.ok_or(Moved)
    }
    /// Returns the address of a record's slot.
    #[inline(always)]
    pub(crate) fn slot(&self, record: u32) -> *const u8 {
        self.0.slot(record)
    }
    /// Returns the value of a record that a snapshot sees.
    #[inline(always)]
    pub(crate) fn value(&self, record: u32, snapshot: u64) -> Option<&[u8]> {
        // SAFETY: the record's number comes from `record` of this reader, which stays inside its epoch.
        unsafe { self.0.value(record, snapshot) }
    }
}
