//! A B+-tree with optimistic lock coupling (Leis, Scheibner, Kemper, Neumann: The ART of practical synchronization,
//! DaMoN 2016). README.md of this folder says what its aims are, and why it is correct.
//!
//! It is called through [`Index`], by way of [`crate::index::TableIndex`].

mod descend;
mod insert;
mod node;
mod remove;
#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
mod split;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests;
#[cfg(test)]
mod tests_structure;
mod walk;

pub use descend::Cursor;
pub use node::NODE_BYTES;
pub use walk::Walk;

use crate::epoch::Local;
use crate::index::atomic::{AtomicU64, Ordering};
use crate::index::{Index, Inserted, Key, Mark, Page, Paged, Probe, RecordId};
use crate::memory::{OutOfMemory, Slab};
use crate::suspend::Suspend;
use crate::sync::Arc;
use node::{CAPACITY_FIXED8, CAPACITY_MIXED, Latched, Node};
use std::ops::Bound;

/// The lines of a node that are requested before it is read.
const LINES: usize = NODE_BYTES / crate::suspend::CACHE_LINE;

// SAFETY: `base` is an address in the slab, which is Sync, and everything there is atomic.
unsafe impl Send for BTree {}
// SAFETY: as for Send, everything that is reached through `base` is atomic.
unsafe impl Sync for BTree {}

/// An ordered index. Dropping it leaves its nodes to the slab; [`Index::clear`] gives them back.
pub struct BTree {
    /// The root's id. It changes under the latch of the old root.
    root: AtomicU64,
    /// The address at which node 0 would be. The slab never moves, and this spares descents a hop to it.
    base: *mut u8,
    /// Whether all keys have eight bytes.
    fixed8: bool,
    /// A planted error, for tests.
    loses_stamps: bool,
    /// The most entries of a node.
    capacity: usize,
    nodes: Arc<Slab>,
}

impl BTree {
    /// Makes an empty index whose nodes are blocks of `nodes`, of [`NODE_BYTES`] each and aligned to them. With
    /// `fixed8`, all keys have exactly eight bytes.
    pub fn new(nodes: Arc<Slab>, fixed8: bool) -> Result<BTree, OutOfMemory> {
        BTree::limited(nodes, fixed8, if fixed8 { CAPACITY_FIXED8 } else { CAPACITY_MIXED })
    }

    /// Makes an empty index with at most `capacity` entries in a node.
    fn limited(nodes: Arc<Slab>, fixed8: bool, capacity: usize) -> Result<BTree, OutOfMemory> {
        let id = nodes.allocate()?;
        assert!(nodes.at(id) == at(nodes.at(0), id), "the slab's blocks are nodes");
        assert!(nodes.at(id).addr().is_multiple_of(NODE_BYTES), "the slab's blocks are aligned");
        let root = AtomicU64::new(u64::from(id));
        let tree = BTree { root, base: nodes.at(0), fixed8, loses_stamps: false, capacity, nodes };
        tree.node(id).clear(0);
        Ok(tree)
    }

    /// Returns the node of this id. Ids come from links of the tree, read inside the present epoch.
    #[inline(always)]
    fn node(&self, id: u32) -> &Node {
        debug_assert!(id != 0);
        // SAFETY: this is a block of the slab, of the size and alignment of a node. A node consists of atomics only, so
        // any bytes are one, and all users of the block access it as a node.
        unsafe { &*self.at(id).cast::<Node>() }
    }

    /// Returns a node's address, which may also be prefetched.
    #[inline(always)]
    fn at(&self, id: u32) -> *mut u8 {
        at(self.base, id)
    }

    /// Reports that a node is about to be read.
    #[inline(always)]
    fn miss<S: Suspend>(&self, id: u32, s: &mut S) -> bool {
        s.miss::<LINES>(self.at(id))
    }

    /// Returns the root's id.
    #[inline(always)]
    fn root(&self) -> u32 {
        // Acquire: pairs with the Release in `set_root`: the root is whole.
        self.root.load(Ordering::Acquire) as u32
    }

    /// Makes another node the root. The old root is latched.
    fn set_root(&self, old: &Latched<'_>, id: u32) {
        debug_assert!(self.root() == old.id);
        // Release: pairs with the Acquire in `root`.
        self.root.store(u64::from(id), Ordering::Release);
    }
}

#[inline(always)]
fn at(base: *mut u8, id: u32) -> *mut u8 {
    base.wrapping_add(id as usize * NODE_BYTES)
}

fn is_ascending(behind: &Key, key: &Key) -> bool {
    let (mut short, mut short_behind) = ([0; 8], [0; 8]);
    key.bytes(&mut short) > behind.bytes(&mut short_behind)
}

impl Index for BTree {
    type Cursor = Cursor;
    type Walk = Walk;

    #[inline(always)]
    fn start(&self, _: &Key) -> Cursor {
        self.begin(false)
    }

    unsafe fn start_behind(&self, cursor: &Cursor, behind: &Key, key: &Key) -> Cursor {
        let ascends = is_ascending(behind, key);
        let near = if ascends { self.near(*cursor, key) } else { None };
        near.unwrap_or_else(|| self.begin(ascends))
    }

    unsafe fn start_near(&self, cursor: &Cursor, behind: &Key, key: &Key) -> Option<Cursor> {
        if is_ascending(behind, key) { self.near(*cursor, key) } else { None }
    }

    #[inline(always)]
    unsafe fn is_short(&self, cursor: &Cursor) -> bool {
        self.node(cursor.node).head().level() == 0
    }

    #[inline(always)]
    unsafe fn prepare<S: Suspend>(&self, cursor: &Cursor, s: &mut S) -> bool {
        self.miss(cursor.node, s)
    }

    // Functions that are out of line take and return the cursor by value. A caller that may also use another kind of
    // index then keeps its cursor in registers.
    #[inline(always)]
    unsafe fn step<S: Suspend>(&self, cursor: &mut Cursor, key: &Key, s: &mut S) -> Probe {
        let probe;
        (*cursor, probe) = self.descend(*cursor, *key, s);
        probe
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

    #[inline(always)]
    unsafe fn next_page<S: Suspend>(&self, walk: &mut Walk, page: &mut Page, s: &mut S) -> Paged {
        self.walk_on(walk, page, s)
    }

    #[inline(always)]
    unsafe fn prepare_page<S: Suspend>(&self, walk: &Walk, s: &mut S) {
        self.prepare_walk(walk, s);
    }

    fn is_as_marked(&self, mark: &Mark) -> bool {
        self.node(mark.node).head().0 == mark.head
    }

    unsafe fn raise_stamp(&self, mark: &Mark, stamp: u64) {
        // Raises the stamp also if the node is latched just now, because it may turn out to be unchanged. A node out of
        // the tree may be another node by now, in this tree or in another. That is harmless, and rare.
        let node = self.node(mark.node);
        if node.head().unlocked() == mark.head {
            node.raise_stamp(stamp);
        }
    }

    unsafe fn stamp_of(&self, key: &Key) -> u64 {
        self.find_stamp(key)
    }

    unsafe fn clear(&self, local: &Local) {
        // SAFETY: the caller has made the promise that `clear` asks for, and `clear_all` asks for the same.
        unsafe { self.clear_all(local) };
    }

    fn lose_stamps(&mut self) {
        self.loses_stamps = true;
    }
}
