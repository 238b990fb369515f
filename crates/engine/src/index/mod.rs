//! How a key finds its record. [`Index`] is the contract; one implementation per folder or file. [`TableIndex`] is an
//! index of any kind, together with what all kinds have in common: nothing outside of this folder names a kind.

use crate::epoch::Local;
use crate::memory::OutOfMemory;
use crate::suspend::Suspend;
use std::ops::Bound;

mod masstree;
#[cfg(test)]
#[cfg_attr(braid_shuttle, allow(dead_code, reason = "the models of schedules use a part of it"))]
mod model;
mod nodes;
mod table_index;
pub mod touched;

pub use crate::record::RecordId;
pub use masstree::Yardstick;
pub use nodes::Nodes;
pub use table_index::{Cursor, DERIVED, IndexKind, IndexOptions, TableIndex, Walk};

/// A search key: bytes in memory that outlives the operation. Eight bytes or fewer travel in `slice` alone.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The first eight bytes, big-endian, zero-padded: order-preserving.
    pub slice: u64,
    /// Length in bytes, at most [`KEY_BYTES_MAX`].
    pub len: u32,
    /// All `len` bytes when `len > 8`; unused (may dangle) otherwise.
    pub bytes: *const u8,
}

/// The longest key.
pub const KEY_BYTES_MAX: u32 = u16::MAX as u32;

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

/// Most entries of a page.
pub const PAGE_ENTRIES_MAX: usize = 14;

/// What a walk has read of a node: as long as that is so, the node holds the same keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which node.
    pub(crate) node: u32,
    /// In which state.
    pub(crate) head: u64,
}

/// The entries that a range walk came to, in the walk's order. A page serves one walk at a time:
/// it keeps the walk's place between two calls.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Entries in use.
    pub len: usize,
    /// Their records.
    pub ids: [RecordId; PAGE_ENTRIES_MAX],
    /// Their keys' slices, of the last layer the key reaches: the key itself where keys have eight bytes.
    pub slices: [u64; PAGE_ENTRIES_MAX],
    /// Where keys vary in length: the whole keys, one after the other. Empty otherwise.
    pub bytes: Vec<u8>,
    /// Where each key ends in `bytes`.
    pub ends: [u32; PAGE_ENTRIES_MAX],
    /// Whether keys have eight bytes, which are `slices` alone.
    pub is_fixed8: bool,
    /// Whether the walk is to leave marks.
    pub is_marking: bool,
    /// What the walk has read, from the first page on; the caller may take it.
    pub marks: Vec<Mark>,
    /// The walk's place: the bound it began at, and later the bytes that lead to its layer.
    pub(crate) position: Vec<u8>,
}

/// Contract: see README.md of this folder. All methods may be called concurrently from any thread inside an epoch.
pub trait Index: Send + Sync {
    /// A suspended point descent: plain data, owns nothing; dropping it cancels.
    type Cursor: Copy;
    /// A suspended range walk: plain data, owns nothing.
    type Walk: Copy;

    /// A descent at its first node, inside an epoch. The first step reads that node: who will come
    /// back for it later asks for its memory by [`prepare`](Self::prepare).
    fn start(&self, key: &Key) -> Self::Cursor;

    /// As `start`, for one of many keys in ascending order: `behind` is the one before, and `cursor` is where a
    /// descent for it has ended in this epoch. Goes on from there if it can. Where keys are not in order after all,
    /// that costs time and nothing else.
    ///
    /// # Safety
    /// Both keys' bytes are alive during the call.
    unsafe fn start_behind(&self, cursor: &Self::Cursor, behind: &Key, key: &Key) -> Self::Cursor;

    /// Asks for the memory that the first step reads.
    fn prepare(&self, cursor: &Self::Cursor);

    /// Goes on to the next probable miss. Never ends holding a latch.
    ///
    /// # Safety
    /// Inside an epoch entered before `start`; key bytes alive; the same key at every step.
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

    /// Removes the key if it still maps to `id`; true: it did. Emptied nodes and layers go too.
    ///
    /// # Safety
    /// As `step`.
    unsafe fn remove(&self, local: &Local, key: &Key, id: RecordId) -> bool;

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
    /// Inside an epoch entered before `walk`; `page` is the one given to `walk`.
    unsafe fn next_page<S: Suspend>(&self, walk: &mut Self::Walk, page: &mut Page, s: &mut S) -> Paged;

    /// Asks for the memory that `next_page` reads first, where that is known: for who has got a page, wants another,
    /// and has something else to do meanwhile. (An answer of `s` is ignored.)
    fn prepare_page<S: Suspend>(&self, walk: &Self::Walk, s: &mut S);

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

    /// Gives everything back when nobody can be reading it any more.
    ///
    /// # Safety
    /// Inside an epoch. No operation on this index starts from now on, and none is in flight but
    /// suspended ones that are never stepped again.
    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "tables are not dropped yet; the tests of each kind use it")
    )]
    unsafe fn clear(&self, local: &Local);

    /// Plants an error, to show that checks find it: splits leave the stamp with one half alone.
    fn lose_stamps(&mut self);
}

impl Page {
    /// The entries before the end of a range.
    pub fn len_within(&self, to: Bound<&[u8]>, is_reverse: bool) -> usize {
        // As a rule the whole page is.
        if matches!(to, Bound::Unbounded) || self.len > 0 && self.is_within(self.len - 1, to, is_reverse) {
            return self.len;
        }
        (0..self.len).take_while(|&i| self.is_within(i, to, is_reverse)).count()
    }

    #[inline(always)]
    fn is_within(&self, i: usize, to: Bound<&[u8]>, is_reverse: bool) -> bool {
        let (bound, is_included) = match to {
            Bound::Unbounded => return true,
            Bound::Included(bound) => (bound, true),
            Bound::Excluded(bound) => (bound, false),
        };
        let order = match self.is_fixed8 {
            true => self.slices[i].cmp(&slice_of(bound)),
            false => self.key(i).cmp(bound),
        };
        let order = if is_reverse { order.reverse() } else { order };
        order.is_lt() || is_included && order.is_eq()
    }

    /// A whole key, where keys vary in length.
    pub fn key(&self, i: usize) -> &[u8] {
        debug_assert!(!self.is_fixed8 && i < self.len);
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.bytes[start..self.ends[i] as usize]
    }
}

impl Key {
    /// The key of these bytes, which must outlive it: [`KEY_BYTES_MAX`] of them at most.
    #[inline]
    pub fn new(bytes: &[u8]) -> Key {
        debug_assert!(bytes.len() <= KEY_BYTES_MAX as usize);
        Key { slice: slice_of(bytes), len: bytes.len() as u32, bytes: bytes.as_ptr() }
    }

    /// All its bytes; those of a key that travels in `slice` alone by way of `short`.
    pub fn bytes<'k>(&'k self, short: &'k mut [u8; 8]) -> &'k [u8] {
        if self.len > 8 {
            // SAFETY: alive for as long as the key.
            return unsafe { self.long_bytes() };
        }
        *short = self.slice.to_be_bytes();
        &short[..self.len as usize]
    }

    /// All bytes of a key longer than eight.
    ///
    /// # Safety
    /// They are alive for as long as the result is used.
    pub unsafe fn long_bytes<'k>(&self) -> &'k [u8] {
        debug_assert!(self.len > 8);
        // SAFETY: by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.bytes, self.len as usize) }
    }

    /// The key of eight bytes whose order is that of the numbers.
    #[inline(always)]
    pub fn from_u64(number: u64) -> Key {
        Key { slice: number, len: 8, bytes: std::ptr::null() }
    }
}

/// The first eight of these bytes, big-endian, zero-padded.
#[inline]
pub fn slice_of(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(first)
        }
    }
}
