//! Pages, which range walks hand out, and the marks that walks leave.

use super::{RecordId, mixed, slice_of};
use std::ops::Bound;

/// The most entries of a page.
pub const PAGE_ENTRIES_MAX: usize = 14;

/// A note of what a walk has read of a node. As long as the node is in this state, it holds the same keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The node.
    pub(crate) node: u32,
    /// The state of the node.
    pub(crate) head: u64,
}

/// The entries that a range walk came to, in the walk's order. A page serves one walk at a time: it keeps the walk's
/// place between two calls.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The number of entries in use.
    pub len: usize,
    /// The records of the entries.
    pub ids: [RecordId; PAGE_ENTRIES_MAX],
    /// The slices of the keys, in the last layer that each key reaches. If keys have eight bytes, a slice is the whole
    /// key.
    pub slices: [u64; PAGE_ENTRIES_MAX],
    /// The whole keys, one after the other, if keys vary in length. Empty otherwise.
    pub bytes: Vec<u8>,
    /// The end of each key in `bytes`.
    pub ends: [u32; PAGE_ENTRIES_MAX],
    /// Whether all keys have eight bytes, and are in `slices` alone.
    pub is_fixed8: bool,
    /// Whether the index has no order of keys. Then its order goes by `positions`.
    pub(crate) is_mixed: bool,
    pub(crate) positions: [u64; PAGE_ENTRIES_MAX],
    /// Whether the walk should leave marks.
    pub is_marking: bool,
    /// The time as of which, and later, the walk may skip dead keys. 0 means that it skips none. See
    /// [`DeadEnds`](super::dead_end::DeadEnds).
    pub as_of: u64,
    /// The marks of everything that the walk has read, from the first page on. The caller may take them.
    pub marks: Vec<Mark>,
    /// The walk's place: first the bound at which it began, later the bytes that lead to its layer.
    pub(crate) position: Vec<u8>,
}

impl Page {
    /// Returns the number of entries before the end of a range, which is a bound in the order of the index.
    pub fn len_within(&self, to: Bound<&[u8]>, is_reverse: bool) -> usize {
        // As a rule, the whole page lies within the range.
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

    /// Returns a whole key, if keys vary in length.
    pub fn key(&self, i: usize) -> &[u8] {
        debug_assert!(!self.is_fixed8 && i < self.len);
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.bytes[start..self.ends[i] as usize]
    }

    /// Empties the page.
    #[inline(always)]
    pub(in crate::index) fn clear(&mut self) {
        self.len = 0;
        self.bytes.clear();
    }

    /// Leaves the mark that the walk has read a node with this head, unless the last mark is the same.
    #[inline(always)]
    pub(in crate::index) fn leave_mark(&mut self, node: u32, head: u64) {
        let mark = Mark { node, head };
        if self.is_marking && self.marks.last() != Some(&mark) {
            self.marks.push(mark);
        }
    }
}
