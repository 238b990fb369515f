//! Masstree (Mao, Kohler, Morris, EuroSys 2012): a trie of B+-trees, each layer of which indexes
//! eight bytes of the key. README.md of this folder says what differs from the paper, and why it
//! is correct.
//!
//! Called by `txn` through [`Index`].

mod atomic;
mod border;
mod descend;
mod insert;
mod layers;
#[cfg(all(test, braid_loom))]
mod loom_tests;
mod node;
mod remove;
mod search;
#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
mod split;
mod suffix;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests_stress;
#[cfg(test)]
mod tests_structure;
mod walk;

pub use descend::Cursor;
pub use search::Simd;
pub use walk::Walk;

use crate::epoch::Local;
use crate::index::touched::Touched;
use crate::index::{Index, Inserted, Key, Mark, Page, Paged, Probe, RecordId};
use crate::memory::{OutOfMemory, Slab};
use crate::record::Kept;
use crate::suspend::{PrefetchOnly, Suspend};
use crate::sync::{Arc, Latch};
use atomic::{AtomicU64, Ordering};
use node::{Head, Node};
use std::ops::Bound;

/// Bytes of a node: what the slab's blocks must have.
pub const NODE_BYTES: usize = 256;

// SAFETY: `base` is an address in the slab, which is Sync; everything there is atomic.
unsafe impl Send for Masstree {}
// SAFETY: as above.
unsafe impl Sync for Masstree {}

/// An ordered index. Dropping it leaves its nodes to the slab; [`Masstree::clear`] gives them back.
pub struct Masstree {
    /// The first layer's root, `level << 32 | id`, or an earlier one, which is its leftmost
    /// descendant of that level: only grows.
    root: AtomicU64,
    /// Where node 0 would be: the slab never moves, and this spares descents a hop to it.
    base: *mut u8,
    simd: Simd,
    /// All keys have eight bytes.
    fixed8: bool,
    /// What its owner calls it.
    number: u32,
    nodes: Arc<Slab>,
    /// Held by who takes nodes out.
    removal: Latch,
    /// Places of removed records that only this tree will name again.
    kept: Kept,
    /// An error for tests.
    loses_stamps: bool,
    /// Which ranges of its keys were changed: noted by those who log changes. (Apart, as descents need the rest.)
    touched: Box<Touched>,
}

/// The number of trees that hold what is derived from other tables: no log and no checkpoint has their records.
pub const DERIVED: u32 = u32::MAX;

impl Masstree {
    /// An empty index whose nodes are blocks of `nodes` ([`NODE_BYTES`] each, and aligned so).
    /// Where `fixed8`, all keys have exactly eight bytes, and a lookup touches a line less.
    pub fn new(nodes: Arc<Slab>, fixed8: bool, simd: Simd) -> Result<Masstree, OutOfMemory> {
        let id = nodes.allocate()?;
        assert!(nodes.at(id) == at(nodes.at(0), id), "the slab's blocks are nodes");
        assert!(nodes.at(id).addr().is_multiple_of(NODE_BYTES), "the slab's blocks are aligned");
        let tree = Masstree {
            root: AtomicU64::new(u64::from(id)),
            base: nodes.at(0),
            simd: simd.resolve(),
            fixed8,
            number: 0,
            nodes,
            removal: Latch::new(),
            kept: Kept::new(),
            loses_stamps: false,
            touched: Box::default(),
        };
        tree.node(id).clear(0, Head::INFINITE | Head::LEFTMOST);
        Ok(tree)
    }

    /// The same, called by this number.
    pub fn numbered(self, number: u32) -> Masstree {
        Masstree { number, ..self }
    }

    /// What its owner calls it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Where the places of the table's removed records go, if they serve no other table.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Which ranges of its keys were changed.
    pub fn touched(&self) -> &Touched {
        &self.touched
    }

    /// Plants an error, to show that checks find it: splits leave the stamp with the left half alone.
    pub fn lose_stamps(&mut self) {
        self.loses_stamps = true;
    }

    /// Whether all keys have eight bytes.
    pub fn is_fixed8(&self) -> bool {
        self.fixed8
    }

    /// The node of this id. Ids come from links of the tree, read inside the present epoch.
    #[inline(always)]
    fn node(&self, id: u32) -> &Node {
        debug_assert!(id != 0);
        // SAFETY: a block of the slab, of the size and alignment of a node; a node is atomics only,
        // so that any bytes are one, and all who share the block access it so.
        unsafe { &*self.at(id).cast::<Node>() }
    }

    /// A node's address, also good for prefetching.
    #[inline(always)]
    fn at(&self, id: u32) -> *mut u8 {
        at(self.base, id)
    }

    fn shape(&self) -> border::Shape {
        border::Shape { simd: self.simd, fixed8: self.fixed8 }
    }

    /// The first layer's root (or lately so) and its level, 0 for a border.
    #[inline(always)]
    fn root(&self) -> (u32, u8) {
        // Acquire: pairs with the Release in grow: the new root is whole.
        let root = self.root.load(Ordering::Acquire);
        (root as u32, (root >> 32) as u8)
    }
}

#[inline(always)]
fn at(base: *mut u8, id: u32) -> *mut u8 {
    base.wrapping_add(id as usize * NODE_BYTES)
}

/// For the benchmark's hand-written lookup, which shows what the engine's costs beyond it.
#[doc(hidden)]
impl Masstree {
    /// The root's id and level.
    #[inline(always)]
    pub fn yardstick_root(&self) -> (u32, u8) {
        self.root()
    }
    /// A node's address.
    #[inline(always)]
    pub fn yardstick_at(&self, id: u32) -> *const u8 {
        self.at(id)
    }
    /// The child of an interior that covers `slice`; 0: not readable now.
    ///
    /// # Safety
    /// Inside an epoch; `id` is an interior's, read inside it.
    #[inline(always)]
    pub unsafe fn yardstick_child_for(&self, id: u32, slice: u64) -> u32 {
        self.node(id).child(self.simd, slice).unwrap_or(0)
    }
    /// Looks up in a border of a tree of eight-byte keys.
    ///
    /// # Safety
    /// Inside an epoch; `id` is a border's, read inside it.
    #[inline(always)]
    pub unsafe fn yardstick_find8(&self, id: u32, slice: u64) -> Option<RecordId> {
        match self.node(id).find8(self.simd, slice) {
            node::Find8::Found(rid) => Some(RecordId(rid)),
            _ => None,
        }
    }
}

impl Index for Masstree {
    type Cursor = Cursor;
    type Walk = Walk;

    #[inline(always)]
    fn start(&self, key: &Key) -> Cursor {
        self.begin(Cursor::new(key))
    }

    #[inline(always)]
    unsafe fn start_behind(&self, cursor: &Cursor, behind: &Key, key: &Key) -> Cursor {
        cursor.follow(behind, key).unwrap_or_else(|| self.start(key))
    }

    #[inline(always)]
    fn prepare(&self, cursor: &Cursor) {
        self.miss(cursor.node, cursor.level, &mut PrefetchOnly);
    }

    #[inline(always)]
    unsafe fn step<S: Suspend>(&self, cursor: &mut Cursor, key: &Key, s: &mut S) -> Probe {
        self.descend(cursor, key, s)
    }

    unsafe fn insert(
        &self,
        local: &Local,
        cursor: &Cursor,
        key: &Key,
        id: RecordId,
    ) -> Result<Inserted, OutOfMemory> {
        self.insert_key(local, *cursor, key, id.0)
    }

    unsafe fn remove(&self, local: &Local, key: &Key, id: RecordId) -> bool {
        self.remove_key(local, key, id.0)
    }

    unsafe fn walk(&self, from: Bound<&Key>, reverse: bool, page: &mut Page) -> Walk {
        Walk::new(from, reverse, self.fixed8, page)
    }

    #[inline]
    unsafe fn next_page<S: Suspend>(&self, walk: &mut Walk, page: &mut Page, s: &mut S) -> Paged {
        self.walk_on(walk, page, s)
    }

    #[inline(always)]
    fn prepare_page<S: Suspend>(&self, walk: &Walk, s: &mut S) {
        self.prepare_walk(walk, s);
    }

    fn is_as_marked(&self, mark: &Mark) -> bool {
        self.node(mark.node).head().mark() == mark.head
    }

    unsafe fn raise_stamp(&self, mark: &Mark, stamp: u64) {
        // (A node out of the tree may be another by now, in this tree or not: that is harmless, and rare.)
        if self.is_as_marked(mark) {
            self.node(mark.node).raise_stamp(stamp);
        }
    }

    unsafe fn stamp_of(&self, key: &Key) -> u64 {
        self.find_stamp(key)
    }
}
