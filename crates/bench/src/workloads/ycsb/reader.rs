//! The engine's structures for the yardsticks: the only glue between them and `braiddb::research`.

use super::access::FixedKeys;
use crate::engine::{Database, Scheme};
use braiddb::research::Structures;

/// Reads the structures of one table from one thread. It stays inside an epoch from beginning to end, so
/// nothing that it reaches is reclaimed: fit for a slice of a benchmark, not for anything else.
pub(crate) struct RawReader<C: Scheme>(Structures<C>);

/// What a node answers that has changed meanwhile: start again from the root.
pub(crate) struct Moved;

impl<C: Scheme> RawReader<C> {
    /// A reader of the table; `None` where the scheme keeps one value per record and no versions.
    pub(super) fn new(db: &Database<C>, table: FixedKeys) -> Option<RawReader<C>> {
        Structures::new(db, table.table()).map(RawReader)
    }
    /// A snapshot, as a transaction takes when it begins.
    #[inline(always)]
    pub(crate) fn begin(&self) -> u64 {
        self.0.begin()
    }
    /// The root's number and level; borders are on level 0.
    #[inline(always)]
    pub(crate) fn root(&self) -> (u32, u8) {
        self.0.root()
    }
    /// The address of a node.
    #[inline(always)]
    pub(crate) fn node(&self, node: u32) -> *const u8 {
        self.0.node(node)
    }
    /// The child of an interior node for a key; `None`: start again.
    #[inline(always)]
    pub(crate) fn child(&self, node: u32, key: u64) -> Option<u32> {
        // SAFETY: the node's number comes from `root` or `child` of this reader, which stays inside its
        // epoch.
        unsafe { self.0.child(node, key) }
    }
    /// The record of a key in a border node.
    #[inline(always)]
    pub(crate) fn record(&self, node: u32, key: u64) -> Result<Option<u32>, Moved> {
        // SAFETY: as above.
        unsafe { self.0.record(node, key) }.ok_or(Moved)
    }
    /// The address of a record's slot.
    #[inline(always)]
    pub(crate) fn slot(&self, record: u32) -> *const u8 {
        self.0.slot(record)
    }
    /// The value of a record that a snapshot sees.
    #[inline(always)]
    pub(crate) fn value(&self, record: u32, snapshot: u64) -> Option<&[u8]> {
        // SAFETY: the record's number comes from `record` of this reader, which stays inside its epoch.
        unsafe { self.0.value(record, snapshot) }
    }
}
