//! Pages: what range walks hand out, and the marks that they leave.

use super::{RecordId, mixed, slice_of};
use std::ops::Bound;

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
    /// The index has no order of keys: then its order goes by these.
    pub(crate) is_mixed: bool,
    pub(crate) positions: [u64; PAGE_ENTRIES_MAX],
    /// Whether the walk is to leave marks.
    pub is_marking: bool,
    /// The walk may skip keys that are dead as of this time and later; 0: none. See [`DeadEnds`](super::dead_end::DeadEnds).
    pub as_of: u64,
    /// What the walk has read, from the first page on; the caller may take it.
    pub marks: Vec<Mark>,
    /// The walk's place: the bound it began at, and later the bytes that lead to its layer.
    pub(crate) position: Vec<u8>,
}

impl Page {
    /// The entries before the end of a range, which is a bound in the order of the index.
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
            _ if self.is_mixed => self.cmp_mixed(i, bound),
            true => self.slices[i].cmp(&slice_of(bound)),
            false => self.key(i).cmp(bound),
        };
        let order = if is_reverse { order.reverse() } else { order };
        order.is_lt() || is_included && order.is_eq()
    }

    #[cold]
    fn cmp_mixed(&self, i: usize, bound: &[u8]) -> std::cmp::Ordering {
        let key = if self.is_fixed8 { &[] } else { self.key(i) };
        mixed::cmp_order(self.positions[i], key, bound)
    }

    /// Appends the bytes by which the index orders a key: see [`Index::order_of`](super::Index::order_of).
    pub(crate) fn push_order(&self, i: usize, order: &mut Vec<u8>) {
        if self.is_mixed {
            order.extend_from_slice(&self.positions[i].to_be_bytes());
        }
        match self.is_fixed8 {
            true if self.is_mixed => {}
            true => order.extend_from_slice(&self.slices[i].to_be_bytes()),
            false => order.extend_from_slice(self.key(i)),
        }
    }

    /// A whole key, where keys vary in length.
    pub fn key(&self, i: usize) -> &[u8] {
        debug_assert!(!self.is_fixed8 && i < self.len);
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.bytes[start..self.ends[i] as usize]
    }

    /// Nothing is on it.
    #[inline(always)]
    pub(in crate::index) fn clear(&mut self) {
        self.len = 0;
        self.bytes.clear();
    }

    /// The walk has read a node with this head, unless the last mark says so.
    #[inline(always)]
    pub(in crate::index) fn leave_mark(&mut self, node: u32, head: u64) {
        let mark = Mark { node, head };
        if self.is_marking && self.marks.last() != Some(&mark) {
            self.marks.push(mark);
        }
    }
}
