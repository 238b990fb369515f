//! Masstree (Mao, Kohler, Morris, EuroSys 2012): a trie of B+-trees, each layer of which indexes eight bytes of the
//! key. README.md of this folder says what differs from the paper, and why it is correct.
//!
//! `txn` calls this through [`Index`].

mod border;
mod descend;
mod gather;
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
#[cfg(test)]
mod tests_structure;
mod walk;
mod yardstick;

pub use descend::Cursor;
use search::Simd;
pub use walk::Walk;
pub use yardstick::Yardstick;

use crate::epoch::Local;
use crate::index::atomic::{AtomicU64, Ordering};
use crate::index::{Index, Inserted, Key, Mark, Page, Paged, Probe, RecordId};
use crate::memory::{OutOfMemory, Slab};
use crate::suspend::Suspend;
use crate::sync::{Arc, Latch};
use node::{Head, Node};
use std::ops::Bound;

/// The bytes of a node. The slab's blocks must have this size.
pub const NODE_BYTES: usize = 256;

/// The root's level up to which a tree is small: up to fifteen borders, 210 keys.
const SHORT_LEVEL_MAX: u8 = 1;

// SAFETY: `base` is an address in the slab, which is Sync, and everything there is atomic.
unsafe impl Send for Masstree {}
// SAFETY: as for Send, everything that is reached through `base` is atomic.
unsafe impl Sync for Masstree {}

/// An ordered index. Dropping it leaves its nodes to the slab; [`Index::clear`] gives them back.
pub struct Masstree {
    /// The first layer's root as `level << 32 | id`, or an earlier root, which is the root's leftmost descendant of
    /// that level. The number only grows.
    root: AtomicU64,
    /// The address at which node 0 would be. The slab never moves, and this spares descents a hop to it.
    base: *mut u8,
    simd: Simd,
    /// Whether all keys have eight bytes.
    fixed8: bool,
    nodes: Arc<Slab>,
    /// Held to take nodes out.
    removal: Latch,
    /// A planted error, for tests.
    loses_stamps: bool,
}

impl Masstree {
    /// Makes an empty index whose nodes are blocks of `nodes`, of [`NODE_BYTES`] each and aligned to them. With
    /// `fixed8`, all keys have exactly eight bytes, and a lookup touches one line less.
    pub fn new(nodes: Arc<Slab>, fixed8: bool) -> Result<Masstree, OutOfMemory> {
        Masstree::searched_by(nodes, fixed8, Simd::Detect)
    }

    /// Makes an empty index whose nodes are searched in this way.
    fn searched_by(nodes: Arc<Slab>, fixed8: bool, simd: Simd) -> Result<Masstree, OutOfMemory> {
        let id = nodes.allocate()?;
        assert!(nodes.at(id) == at(nodes.at(0), id), "the slab's blocks are nodes");
        assert!(nodes.at(id).addr().is_multiple_of(NODE_BYTES), "the slab's blocks are aligned");
        let tree = Masstree {
            root: AtomicU64::new(u64::from(id)),
            base: nodes.at(0),
            simd: simd.resolve(),
            fixed8,
            nodes,
            removal: Latch::new(),
            loses_stamps: false,
        };
        tree.node(id).clear(0, Head::INFINITE | Head::LEFTMOST);
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

    fn shape(&self) -> border::Shape {
        border::Shape { simd: self.simd, fixed8: self.fixed8 }
    }

    /// Returns the first layer's root (or a recent one) and its level, 0 for a border.
    #[inline(always)]
    fn root(&self) -> (u32, u8) {
        // Acquire: pairs with the Release in `publish_top`: the new root is whole.
        let root = self.root.load(Ordering::Acquire);
        (root as u32, (root >> 32) as u8)
    }
}

#[inline(always)]
fn at(base: *mut u8, id: u32) -> *mut u8 {
    base.wrapping_add(id as usize * NODE_BYTES)
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
    unsafe fn start_near(&self, cursor: &Cursor, behind: &Key, key: &Key) -> Option<Cursor> {
        cursor.follow(behind, key).filter(|near| self.is_near(near))
    }

    #[inline(always)]
    unsafe fn is_short(&self, cursor: &Cursor) -> bool {
        cursor.level <= SHORT_LEVEL_MAX
    }

    #[inline(always)]
    unsafe fn prepare<S: Suspend>(&self, cursor: &Cursor, s: &mut S) -> bool {
        self.miss(cursor.node, cursor.level, s)
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
    unsafe fn prepare_page<S: Suspend>(&self, walk: &Walk, s: &mut S) {
        self.prepare_walk(walk, s);
    }

    fn is_as_marked(&self, mark: &Mark) -> bool {
        self.node(mark.node).head().mark() == mark.head
    }

    unsafe fn raise_stamp(&self, mark: &Mark, stamp: u64) {
        // A node out of the tree may be another node by now, in this tree or in another. That is harmless, and rare.
        if self.is_as_marked(mark) {
            self.node(mark.node).raise_stamp(stamp);
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
