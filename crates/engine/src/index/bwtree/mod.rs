//! An Open Bw-tree (Levandoski, Lomet, Sengupta: The Bw-Tree, ICDE 2013; Wang, Pavlo, Lim, Leis, Zhang, Kaminsky,
//! Andersen: Building a Bw-Tree Takes More Than Just Buzz Words, SIGMOD 2018). README.md of this folder says what is
//! different, and why it is correct.
//!
//! It is called through [`Index`], by way of [`crate::index::TableIndex`].

mod change;
mod descend;
mod insert;
mod merge;
mod node;
mod post;
mod remove;
#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests;
#[cfg(test)]
mod tests_structure;
mod text;
mod view;
mod walk;
mod word;

pub use descend::Cursor;
pub use walk::Walk;

use crate::epoch::Local;
use crate::index::atomic::{AtomicU64, Ordering};
use crate::index::{Index, Inserted, Key, Mark, Page, Paged, Probe, RecordId, nodes};
use crate::memory::{OutOfMemory, Slab};
use crate::suspend::Suspend;
use crate::sync::Arc;
use node::{CAPACITY_FIXED8, CAPACITY_MIXED, Header, SLOTS_MAX, Shape};
use std::ops::Bound;
use text::Text;
use view::View;
use word::Word;

/// The bytes of a mapping entry. The slab's blocks must have this size. Nodes themselves come from the pools.
pub const NODE_BYTES: usize = size_of::<Mapped>();

/// The lines of a node that are requested before it is read: of a usual node, all but the last values.
const LINES: usize = 10;
/// The distance between the numbers of two nodes. It leaves room for the numbers of one node's blocks.
const NUMBERS: u64 = 1 << 24;
/// The number of nodes made, over all trees, because an id can name a node of one tree after a node of another. The
/// blocks of a node are numbered from `NUMBERS` times that number. Only uniqueness matters, so no model of schedules
/// needs to see it.
static MADE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// An entry of the mapping table: where a node is. The table is a slab, so a node's id is its entry's id.
#[repr(C)]
struct Mapped {
    word: AtomicU64,
    /// For phantom protection: the last commit of a transaction that has found keys absent in this leaf.
    stamp: AtomicU64,
}

#[cfg(not(braid_loom))]
const _: () = assert!(size_of::<Mapped>() == 16);

/// The root's id, and the number of changes of the root, because the same node can become the root again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Root(u64);

impl Root {
    fn first(id: u32) -> Root {
        Root(id.into())
    }

    #[inline(always)]
    fn id(self) -> u32 {
        self.0 as u32
    }

    /// Returns the root that follows this one.
    fn then(self, id: u32) -> Root {
        Root(((self.0 >> 32) + 1) << 32 | u64::from(id))
    }
}

// SAFETY: `base` is an address in the slab, which is Sync. Everything that it leads to is atomic, or never changes once
// it is published.
unsafe impl Send for BwTree {}
// SAFETY: as for Send, everything that is shared is atomic, or never changes once it is published.
unsafe impl Sync for BwTree {}

/// An ordered index. Dropping it leaves its nodes to their slab and pools; [`Index::clear`] gives them back.
pub struct BwTree {
    /// The root, as a [`Root`].
    root: AtomicU64,
    /// The address at which mapping entry 0 would be. The slab never moves.
    base: *mut u8,
    is_fixed8: bool,
    /// A planted error, for tests.
    loses_stamps: bool,
    /// The most entries of a base.
    capacity: usize,
    map: Arc<Slab>,
    /// The block of the leaf that the tree begins with. It belongs to the tree, and has neither entries nor room for
    /// records.
    first: *mut Header,
}

impl Drop for BwTree {
    fn drop(&mut self) {
        // SAFETY: the block is from `limited`, and no thread reads the tree any more.
        drop(unsafe { Box::from_raw(self.first) });
    }
}

impl BwTree {
    /// Makes an empty index whose mapping entries are blocks of `map`. With `is_fixed8`, all keys have exactly eight
    /// bytes.
    pub fn new(map: Arc<Slab>, is_fixed8: bool) -> Result<BwTree, OutOfMemory> {
        let capacity = if is_fixed8 { CAPACITY_FIXED8 } else { CAPACITY_MIXED };
        BwTree::limited(map, is_fixed8, capacity, SLOTS_MAX)
    }

    /// Makes an empty index with at most `capacity` entries in a base, and `slots` added entries beside it.
    fn limited(
        map: Arc<Slab>,
        is_fixed8: bool,
        capacity: usize,
        slots: usize,
    ) -> Result<BwTree, OutOfMemory> {
        let id = map.allocate()?;
        assert!(map.at(id) == at(map.at(0), id), "the slab's blocks are mapping entries");
        let (low, high) = (Text::EMPTY, Text::EMPTY);
        let shape =
            Shape { level: 0, slots: slots as u8, is_fixed8, low, high, next: 0, number: first_number() };
        // The slots are for the block's successors: there is no room for records behind this block.
        let first = Box::new(shape.header(0, 0));
        first.fill_slots();
        let tree = BwTree {
            root: AtomicU64::new(Root::first(id).0),
            base: map.at(0),
            is_fixed8,
            loses_stamps: false,
            capacity,
            map,
            first: Box::into_raw(first),
        };
        let block = tree.first.cast();
        let mapped = tree.mapped(id);
        mapped.stamp.store(0, Ordering::Relaxed);
        mapped.word.store(Word::of(block, 0).0, Ordering::Release);
        Ok(tree)
    }

    /// Returns the mapping entry of this id. Ids come from the tree, read inside the present epoch, or from marks.
    #[inline(always)]
    fn mapped(&self, id: u32) -> &Mapped {
        debug_assert!(id != 0);
        // SAFETY: this is a block of the slab, of the size and alignment of an entry. An entry consists of atomics
        // only, so any bytes are one, and all users of the slab access it as an entry.
        unsafe { &*self.at(id).cast::<Mapped>() }
    }

    /// Returns a mapping entry's address, which may also be prefetched.
    #[inline(always)]
    fn at(&self, id: u32) -> *mut u8 {
        at(self.base, id)
    }

    #[inline(always)]
    fn word(&self, id: u32) -> Word {
        // Acquire: pairs with the Release in `exchange`: the block and its records are whole.
        Word(self.mapped(id).word.load(Ordering::Acquire))
    }

    /// Returns a node as of the moment when it had this word, which was found in this epoch.
    #[inline(always)]
    fn view(&self, word: Word) -> View<'_> {
        // SAFETY: the word was found in this epoch, and the epoch keeps blocks that were in the tree.
        unsafe { View::of(word) }
    }

    /// Changes a node, if it still has this word.
    fn exchange(&self, id: u32, from: Word, to: Word) -> bool {
        // Release: pairs with the Acquire in `word`. Acquire: what follows is later than what others have published.
        let exchanged =
            self.mapped(id).word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed);
        exchanged.is_ok()
    }

    #[inline(always)]
    fn root(&self) -> Root {
        // Acquire: pairs with the Release in `set_root`: the root is whole.
        Root(self.root.load(Ordering::Acquire))
    }

    /// Makes another node the root, if the root has not changed since `old` was read.
    fn set_root(&self, old: Root, id: u32) -> bool {
        // Release: pairs with the Acquire in `root`.
        self.root.compare_exchange(old.0, old.then(id).0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn stamp(&self, id: u32) -> u64 {
        self.mapped(id).stamp.load(Ordering::Acquire) // pairs with the AcqRel in raise_stamp_of
    }

    fn raise_stamp_of(&self, id: u32, stamp: u64) {
        if self.stamp(id) < stamp {
            self.mapped(id).stamp.fetch_max(stamp, Ordering::AcqRel); // pairs with the Acquire in stamp
        }
    }

    /// Returns whether the node that a mark names is unchanged since it was marked.
    fn marked(&self, mark: &Mark) -> bool {
        let word = self.word(mark.node);
        // A node that has left the tree stays frozen until its id is given to another node.
        word != Word::NONE && !word.has(Word::FROZEN | Word::BARRED) && self.view(word).mark() == mark.head
    }

    /// Gives back an id that was never published, and the block to which it leads.
    fn unmap(&self, local: &Local, id: u32) {
        let word = self.word(id);
        // Release: pairs with the Acquire in `word`, like every store of it.
        self.mapped(id).word.store(word.with(Word::FROZEN).0, Ordering::Release);
        // A thread with a mark of the id's last node may be looking at the block.
        // SAFETY: the block never gets into the tree.
        unsafe { node::retire(local, self.view(word).node) };
        // SAFETY: the id is from `map`, and only this thread has it.
        unsafe { self.map.free(id) };
    }

    /// Maps a new id to a block, which is not published yet.
    fn map_block(&self, block: *mut u8) -> Result<u32, OutOfMemory> {
        let id = self.map.allocate()?;
        self.mapped(id).stamp.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `word`.
        self.mapped(id).word.store(Word::of(block, 0).0, Ordering::Release);
        Ok(id)
    }

    /// Retires the block that a node had, and the keys that are no longer in its successor.
    fn retire_view(&self, local: &Local, view: &View<'_>) {
        for entry in view.dead_entries() {
            // SAFETY: the block's successor does not have the entry.
            unsafe { entry.retire(local) };
        }
        // SAFETY: the block has a successor, or the node has left the tree.
        unsafe { node::retire(local, view.node) };
    }

    /// Retires the id of a node that has left the tree: it is freed when no operation can be there any more.
    fn retire_id(&self, local: &Local, id: u32) {
        debug_assert!(self.word(id).has(Word::FROZEN));
        // SAFETY: no operation that starts from now on gets there.
        unsafe { nodes::retire(local, &self.map, id) };
    }
}

/// Returns the number of the first block of a new node.
fn first_number() -> u64 {
    MADE.fetch_add(1, Ordering::Relaxed).wrapping_mul(NUMBERS)
}

#[inline(always)]
fn at(base: *mut u8, id: u32) -> *mut u8 {
    base.wrapping_add(id as usize * NODE_BYTES)
}

fn is_ascending(behind: &Key, key: &Key) -> bool {
    let (mut short, mut short_behind) = ([0; 8], [0; 8]);
    key.bytes(&mut short) > behind.bytes(&mut short_behind)
}

impl Index for BwTree {
    type Cursor = Cursor;
    type Walk = Walk;

    #[inline(always)]
    fn start(&self, _: &Key) -> Cursor {
        self.begin()
    }

    unsafe fn start_behind(&self, cursor: &Cursor, behind: &Key, key: &Key) -> Cursor {
        let near = if is_ascending(behind, key) { self.near(*cursor, key) } else { None };
        near.unwrap_or_else(|| self.begin())
    }

    unsafe fn start_near(&self, cursor: &Cursor, behind: &Key, key: &Key) -> Option<Cursor> {
        if is_ascending(behind, key) { self.near(*cursor, key) } else { None }
    }

    #[inline(always)]
    unsafe fn is_short(&self, cursor: &Cursor) -> bool {
        cursor.word != Word::NONE && self.view(cursor.word).level() == 0
    }

    #[inline(always)]
    unsafe fn prepare<S: Suspend>(&self, cursor: &Cursor, s: &mut S) -> bool {
        s.miss::<LINES>(cursor.word.block())
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
        Walk::new(from, reverse, self.is_fixed8, page)
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
        self.marked(mark)
    }

    unsafe fn raise_stamp(&self, mark: &Mark, stamp: u64) {
        // A node that is unchanged since it was marked is in the tree, and its id is the node's for the whole epoch. A
        // node that is being merged may stay, and then match its mark again. A stamp that is too great does no harm,
        // even in another node.
        if self.word(mark.node).has(Word::FROZEN) || self.marked(mark) {
            self.raise_stamp_of(mark.node, stamp);
        }
    }

    unsafe fn stamp_of(&self, key: &Key) -> u64 {
        self.stamp(self.leaf_of(key))
    }

    unsafe fn clear(&self, local: &Local) {
        // SAFETY: the caller has made the promise that `clear` asks for, and `clear_all` asks for the same.
        unsafe { self.clear_all(local) };
    }

    fn lose_stamps(&mut self) {
        self.loses_stamps = true;
    }
}
