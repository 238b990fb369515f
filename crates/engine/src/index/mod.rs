//! How a key finds its record. [`Index`] is the contract; one implementation per folder or file. [`TableIndex`] is an
//! index of any kind, together with what all kinds have in common: nothing outside of this folder names a kind.

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

/// What a step of a descent came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Memory has been asked for; step again.
    Suspended,
    /// No such key.
    Absent,
    /// The key's record.
    Found(RecordId),
}

/// What an insertion came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The key was absent and now maps to the record.
    New,
    /// The key is there already, for this record; nothing has changed.
    Exists(RecordId),
}

/// What a step of a range walk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paged {
    /// Memory has been asked for; step again.
    Suspended,
    /// The page holds the next entries, one at least.
    Page,
    /// No more entries.
    End,
}

/// The cursor of a tree that may have a front: as long as that is asked, it has no place in the tree.
trait Unbegun: Copy {
    /// One of a descent that has not begun, which keeps a bucket's number instead.
    fn unbegun(bucket: u32) -> Self;

    /// The bucket's number, if it has not begun.
    fn bucket(&self) -> Option<u32>;
}

/// Contract: see README.md of this folder. All methods may be called concurrently from any thread inside an epoch.
pub trait Index: Send + Sync {
    /// A suspended point descent: plain data, owns nothing; dropping it cancels.
    type Cursor: Copy;
    /// A suspended range walk: plain data, owns nothing.
    type Walk: Copy;

    /// Walks go by the order of keys. (Else by an order of the index's own: see [`order_of`](Self::order_of).)
    const IS_ORDERED: bool = true;

    /// A descent at its first node, inside an epoch. The first step reads that node: a caller that comes
    /// back for it later asks for its memory by [`prepare`](Self::prepare). The lookup takes effect between the first step and
    /// its answer, not before: the scheme may have had to wait for its turn until then.
    fn start(&self, key: &Key) -> Self::Cursor;

    /// As `start`, for one of many keys in ascending order: `behind` is the one before, and `cursor` is where a
    /// descent for it has ended in this epoch. Goes on from there if it can. Where keys are not in order after all,
    /// that costs time and nothing else.
    ///
    /// # Safety
    /// The cursor is of this index; both keys' bytes are alive during the call.
    unsafe fn start_behind(&self, cursor: &Self::Cursor, behind: &Key, key: &Key) -> Self::Cursor;

    /// As `start_behind`, if the key belongs to the leaf that the cursor is at, as far as that tells.
    ///
    /// # Safety
    /// As `start_behind`.
    unsafe fn start_near(&self, cursor: &Self::Cursor, behind: &Key, key: &Key) -> Option<Self::Cursor>;

    /// Whether a descent that has not been stepped yet is a short one: the tree is so small that its nodes are in the caches if
    /// it is in use.
    ///
    /// # Safety
    /// The cursor is of this index.
    unsafe fn is_short(&self, cursor: &Self::Cursor) -> bool;

    /// Asks for the memory that the first step reads. Returns true if the caller should go on with another operation
    /// meanwhile.
    ///
    /// # Safety
    /// The cursor is of this index.
    unsafe fn prepare<S: Suspend>(&self, cursor: &Self::Cursor, s: &mut S) -> bool;

    /// Goes on to the next probable miss. Never ends holding a latch.
    ///
    /// # Safety
    /// The cursor is of this index; inside an epoch entered before `start`; key bytes alive; the same key at every step.
    unsafe fn step<S: Suspend>(&self, cursor: &mut Self::Cursor, key: &Key, s: &mut S) -> Probe;

    /// Maps an absent key to `id`. `cursor` is where a descent for `key` ended (Absent), as a hint: validated,
    /// redone if stale. On [`OutOfMemory`] nothing has changed.
    ///
    /// # Safety
    /// As `step`.
    unsafe fn insert(
        &self,
        local: &Local,
        cursor: &Self::Cursor,
        key: &Key,
        id: RecordId,
    ) -> Result<Inserted, OutOfMemory>;

    /// Removes the key if it still maps to `id`; returns true if it did. Emptied nodes and layers go too.
    ///
    /// # Safety
    /// As `step`.
    unsafe fn remove(&self, local: &Local, key: &Key, id: RecordId) -> bool;

    /// What there is under a key. If `page` is marking, it is left a mark of where the key is or would be.
    ///
    /// # Safety
    /// As `step`.
    unsafe fn look(&self, key: &Key, page: &mut Page) -> Option<RecordId> {
        let mut short = [0; 8];
        let bytes = key.bytes(&mut short);
        // SAFETY: by the caller's promise.
        let mut walk = unsafe { self.walk(Bound::Included(key), false, page) };
        loop {
            // SAFETY: in the epoch that the walk began in.
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

    /// Appends bytes whose order is that of walks: the key's own, or what an index without an order of keys has in their place.
    /// Bounds of walks and of their pages are such bytes, or as many of the first as one likes.
    fn order_of(&self, key: &Key, order: &mut Vec<u8>) {
        order.extend_from_slice(key.bytes(&mut [0; 8]));
    }

    /// A range walk that begins at `from`, a lower bound, or where `reverse` an upper bound. Takes
    /// `page` into its service. The caller looks for the end of its range in the pages. A walk
    /// lives within one epoch; to go on in a later one, begin anew with the last key excluded.
    ///
    /// # Safety
    /// The bound's key bytes are alive during the call.
    unsafe fn walk(&self, from: Bound<&Key>, reverse: bool, page: &mut Page) -> Self::Walk;

    /// Goes on to the next probable miss or the next page. A page shows each of its keys as of
    /// some moment during the walk; a key that is there all the time appears, once.
    ///
    /// # Safety
    /// The walk is of this index; inside an epoch entered before `walk`; `page` is the one given to `walk`.
    unsafe fn next_page<S: Suspend>(&self, walk: &mut Self::Walk, page: &mut Page, s: &mut S) -> Paged;

    /// Asks for the memory that `next_page` reads first, where that is known: for a caller that has got a page, wants another,
    /// and has something else to do meanwhile. (An answer of `s` is ignored.)
    ///
    /// # Safety
    /// The walk is of this index.
    unsafe fn prepare_page<S: Suspend>(&self, walk: &Self::Walk, s: &mut S);

    /// Whether what a walk has read is so still: nothing was added there or taken away.
    fn is_as_marked(&self, mark: &Mark) -> bool;

    /// Raises the stamp of the node that the mark names, if it is as it was marked. Whatever becomes of a
    /// node, the stamp goes with its keys: to both halves when it splits, to its heir when it goes.
    /// Called before [`is_as_marked`](Self::is_as_marked), with a sequentially consistent fence between:
    /// if that is true, the stamp is where [`stamp_of`](Self::stamp_of) will find it.
    ///
    /// # Safety
    /// Inside an epoch.
    unsafe fn raise_stamp(&self, mark: &Mark, stamp: u64);

    /// The stamp of the node that has this key or would have it, or a greater one.
    ///
    /// # Safety
    /// As `step`.
    unsafe fn stamp_of(&self, key: &Key) -> u64;

    /// Reserves room for `keys` keys in all, as far as there is memory. Called inside an epoch, before keys are inserted in the order of
    /// walks: an index that is not ordered would find most of them in the same place until it has grown.
    fn reserve(&self, _local: &Local, _keys: u64) {}

    /// Gives everything back when nobody can be reading it any more.
    ///
    /// # Safety
    /// Inside an epoch. No operation on this index starts from now on, and none is in flight but
    /// suspended ones that are never stepped again.
    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "tables are emptied row by row; the tests of each kind use it")
    )]
    unsafe fn clear(&self, local: &Local);

    /// Plants an error, to show that checks find it: splits leave the stamp with one half alone.
    fn lose_stamps(&mut self);
}
