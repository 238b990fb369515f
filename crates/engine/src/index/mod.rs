//! Indexes, which find the record of a key. [`Index`] is the contract, and each implementation has its folder or file.
//! [`TableIndex`] is an index of any kind, together with everything that all kinds have in common. Nothing outside of
//! this folder names a kind.

use crate::epoch::Local;
use crate::memory::OutOfMemory;
use crate::suspend::{PrefetchOnly, Suspend};
use std::ops::Bound;

mod atomic;
mod btree;
mod bwtree;
pub mod dead_end;
pub mod departed;
mod front;
mod hashed;
mod key;
mod kinds;
mod masstree;
mod mixed;
#[cfg(test)]
#[cfg_attr(braid_shuttle, allow(dead_code, reason = "the models of schedules use a part of it"))]
mod model;
mod nodes;
mod object;
mod page;
mod partitioning;
#[cfg(all(test, braid_shuttle))]
mod schedules;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod stress;
mod table_index;
pub mod touched;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tree_tests;

pub use crate::record::RecordId;
pub use front::Front;
pub use key::{Key, slice_of};
pub use kinds::{Cursor, IndexKind, Walk};
pub use masstree::Yardstick;
pub use nodes::Nodes;
pub use page::{Mark, PAGE_ENTRIES_MAX, Page};
pub use partitioning::Partitioning;
pub use table_index::{DERIVED, IndexOptions, TableIndex};

/// The outcome of a step of a descent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Memory has been requested. Step again.
    Suspended,
    /// There is no such key.
    Absent,
    /// The key's record.
    Found(RecordId),
}

/// The outcome of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The key was absent and now maps to the record.
    New,
    /// The key is there already, for this record. Nothing has changed.
    Exists(RecordId),
}

/// The outcome of a step of a range walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paged {
    /// Memory has been requested. Step again.
    Suspended,
    /// The page holds the next entries, at least one.
    Page,
    /// There are no more entries.
    End,
}

/// The cursor of a tree that may have a front. As long as the front is asked, the cursor has no place in the tree.
trait Unbegun: Copy {
    /// Makes the cursor of a descent that has not begun. It keeps a bucket's number instead of a place.
    fn unbegun(bucket: u32) -> Self;

    /// Returns the bucket's number, if the descent has not begun.
    fn bucket(&self) -> Option<u32>;
}

/// The contract of an index: see README.md of this folder. Any thread inside an epoch may call any method concurrently.
pub trait Index: Send + Sync {
    /// A suspended point descent. It is plain data and owns nothing; dropping it cancels the descent.
    type Cursor: Copy;
    /// A suspended range walk. It is plain data and owns nothing.
    type Walk: Copy;

    /// Whether walks go by the order of keys. If not, they go by an order of the index's own: see
    /// [`order_of`](Self::order_of).
    const IS_ORDERED: bool = true;

    /// Begins a descent at its first node, inside an epoch. The first step reads that node. A caller that comes back
    /// later for the first step requests the node's memory by [`prepare`](Self::prepare). The lookup takes effect
    /// between the first step and the answer, not earlier, because the scheme may have had to wait for its turn until
    /// the first step.
    fn start(&self, key: &Key) -> Self::Cursor;

    /// Begins a descent for one of many keys in ascending order. `behind` is the previous key, and `cursor` is where a
    /// descent for it has ended in this epoch. The descent continues from there if it can. If the keys are not in
    /// order, that costs time and nothing else.
    ///
    /// # Safety
    /// The cursor is of this index. The bytes of both keys are alive during the call.
    unsafe fn start_behind(&self, cursor: &Self::Cursor, behind: &Key, key: &Key) -> Self::Cursor;

    /// Begins a descent like `start_behind`, but only if the key seems to belong to the leaf at which the cursor is.
    ///
    /// # Safety
    /// As for `start_behind`.
    unsafe fn start_near(&self, cursor: &Self::Cursor, behind: &Key, key: &Key) -> Option<Self::Cursor>;

    /// Returns whether a descent that has not been stepped yet is short: the tree is so small that its nodes are in the
    /// caches if it is in use.
    ///
    /// # Safety
    /// The cursor is of this index.
    unsafe fn is_short(&self, cursor: &Self::Cursor) -> bool;

    /// Requests the memory that the first step reads. Returns true if the caller should go on with another operation
    /// meanwhile.
    ///
    /// # Safety
    /// The cursor is of this index.
    unsafe fn prepare<S: Suspend>(&self, cursor: &Self::Cursor, s: &mut S) -> bool;

    /// Goes on to the next probable miss. A step never ends holding a latch.
    ///
    /// # Safety
    /// The cursor is of this index. The call is inside an epoch that was entered before `start`. The key's bytes are
    /// alive, and the key is the same at every step.
    unsafe fn step<S: Suspend>(&self, cursor: &mut Self::Cursor, key: &Key, s: &mut S) -> Probe;

    /// Maps an absent key to `id`. `cursor` is where a descent for `key` ended with `Absent`. It is a hint: it is
    /// validated, and the descent is repeated if it is stale. On [`OutOfMemory`] nothing has changed.
    ///
    /// # Safety
    /// As for `step`.
    unsafe fn insert(
        &self,
        local: &Local,
        cursor: &Self::Cursor,
        key: &Key,
        id: RecordId,
    ) -> Result<Inserted, OutOfMemory>;

    /// Removes the key if it still maps to `id`, and returns true if it did. Emptied nodes and layers are removed too.
    ///
    /// # Safety
    /// As for `step`.
    unsafe fn remove(&self, local: &Local, key: &Key, id: RecordId) -> bool;

    /// Returns the record of a key, if there is one. If `page` is marking, leaves in it a mark of where the key is or
    /// would be.
    ///
    /// # Safety
    /// As for `step`.
    unsafe fn look(&self, key: &Key, page: &mut Page) -> Option<RecordId> {
        let mut short = [0; 8];
        let bytes = key.bytes(&mut short);
        // SAFETY: the caller has promised that the key's bytes are alive, and the bound is this key.
        let mut walk = unsafe { self.walk(Bound::Included(key), false, page) };
        loop {
            // SAFETY: the walk is of this index, the page is its page, and the call is in the epoch in which the walk
            // began.
            match unsafe { self.next_page(&mut walk, page, &mut PrefetchOnly) } {
                Paged::Suspended => {}
                Paged::End => return None,
                Paged::Page => {
                    let is_there = page.len_within(Bound::Included(bytes), false) > 0;
                    return is_there.then_some(page.ids[0]);
                }
            }
        }
    }

    /// Appends bytes whose order is the order of walks: the key's own bytes, or what an index without an order of keys
    /// has in their place. Bounds of walks and of their pages are such bytes, or any number of the first of them.
    fn order_of(&self, key: &Key, order: &mut Vec<u8>) {
        order.extend_from_slice(key.bytes(&mut [0; 8]));
    }

    /// Begins a range walk at `from`, which is a lower bound, or an upper bound if `reverse`. The walk uses `page` from
    /// now on. The caller looks for the end of its range in the pages. A walk lives within one epoch; to go on in a
    /// later epoch, begin a new walk with the last key excluded.
    ///
    /// # Safety
    /// The bytes of the bound's key are alive during the call.
    unsafe fn walk(&self, from: Bound<&Key>, reverse: bool, page: &mut Page) -> Self::Walk;

    /// Goes on to the next probable miss or the next page. A page shows each of its keys as of some moment during the
    /// walk. A key that is there all the time appears once.
    ///
    /// # Safety
    /// The walk is of this index. The call is inside an epoch that was entered before `walk`. `page` is the one given
    /// to `walk`.
    unsafe fn next_page<S: Suspend>(&self, walk: &mut Self::Walk, page: &mut Page, s: &mut S) -> Paged;

    /// Requests the memory that `next_page` reads first, if it is known. It serves a caller that has a page, wants
    /// another, and has something else to do meanwhile. The answer of `s` is ignored.
    ///
    /// # Safety
    /// The walk is of this index.
    unsafe fn prepare_page<S: Suspend>(&self, walk: &Self::Walk, s: &mut S);

    /// Returns whether what a walk has read is unchanged: nothing was added there or removed.
    fn is_as_marked(&self, mark: &Mark) -> bool;

    /// Raises the stamp of the node that the mark names, if the node is unchanged since. Whatever happens to a node,
    /// its stamp goes with its keys: to both halves when it splits, to its heir when it is removed. The caller calls
    /// [`is_as_marked`](Self::is_as_marked) afterwards, with a sequentially consistent fence in between. If that
    /// returns true, [`stamp_of`](Self::stamp_of) will find the stamp.
    ///
    /// # Safety
    /// The call is inside an epoch.
    unsafe fn raise_stamp(&self, mark: &Mark, stamp: u64);

    /// Returns the stamp of the node that has this key or would have it, or a greater stamp.
    ///
    /// # Safety
    /// As for `step`.
    unsafe fn stamp_of(&self, key: &Key) -> u64;

    /// Reserves room for `keys` keys in total, if there is memory. The caller is inside an epoch, and then inserts keys
    /// in the order of walks. Without this, most of them would meet in the same place of an index that is not ordered,
    /// until the index has grown.
    fn reserve(&self, _local: &Local, _keys: u64) {}

    /// Gives everything back as soon as no operation can be reading it any more.
    ///
    /// # Safety
    /// The call is inside an epoch. No operation on this index starts from now on. None is in flight, except suspended
    /// ones that are never stepped again.
    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "tables are emptied row by row; the tests of each kind use it")
    )]
    unsafe fn clear(&self, local: &Local);

    /// Plants an error, to show that checks find it: splits leave the stamp with only one half.
    fn lose_stamps(&mut self);
}
