//! Entries of a border: finding one, adding one, and moving many. Readers call only `find`, and validate. Everything
//! else needs the latch.

use super::node::{Head, KEYS, Latched, Node, Permutation, code};
use super::search::Simd;
use super::suffix;
use std::ptr::null_mut;

/// The place at which a border has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Find {
    /// The border does not have the key.
    Absent,
    /// The whole key is in this slot.
    Inline(usize),
    /// The key is perhaps in this slot; the suffix decides.
    Suffix(usize),
    /// The key is in the layer that this slot links to, whose root has this level.
    Layer(usize, u8),
}

/// The contents of one slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) slice: u64,
    /// The length code of the key: see [`code`].
    pub(super) code: u8,
    /// A record, or the root of a layer.
    pub(super) rid: u32,
    /// The suffix. Null unless the code says SUFFIX.
    pub(super) suffix: *mut u8,
}

impl Entry {
    pub(super) const NONE: Entry = Entry { slice: 0, code: 0, rid: 0, suffix: null_mut() };

    fn order(&self) -> (u64, u8) {
        (self.slice, code::rank(self.code))
    }
}

/// The entries of a border, with room for one more.
pub(super) struct Entries {
    array: [Entry; KEYS + 1],
    len: usize,
}

impl Entries {
    pub(super) fn new() -> Entries {
        Entries { array: [Entry::NONE; KEYS + 1], len: 0 }
    }

    pub(super) fn as_slice(&self) -> &[Entry] {
        &self.array[..self.len]
    }

    /// Adds an entry at its place in the order, and returns the place.
    pub(super) fn insert(&mut self, entry: Entry) -> usize {
        debug_assert!(self.len <= KEYS);
        let place = self.as_slice().partition_point(|e| e.order() < entry.order());
        self.array.copy_within(place..self.len, place + 1);
        self.array[place] = entry;
        self.len += 1;
        place
    }

    /// Returns where to cut a full border whose new entry is at `place`. The cut is never between keys of one slice, of
    /// which there are at most ten. Ascending insertions leave full nodes behind: nodes at the end of their layer, and
    /// nodes of a run of keys that is known or seen to ascend (`ascends`). Such a run sheds the keys that it is about
    /// to pass.
    pub(super) fn cut(&self, place: usize, is_last: bool, ascends: bool) -> usize {
        debug_assert!(self.len == KEYS + 1);
        let fits = |at: usize| self.array[at - 1].slice != self.array[at].slice;
        let middle = self.len.div_ceil(2);
        let behind = (place + 1).min(KEYS);
        if (is_last && place == KEYS || ascends && behind >= middle) && fits(behind) {
            return behind;
        }
        let by_distance = (0..middle).flat_map(|d| [middle - d, (middle + d).min(KEYS)]);
        by_distance.into_iter().find(|&at| at > 0 && fits(at)).expect("one slice has at most ten keys")
    }
}

impl Node {
    /// Looks for the key whose slice in this layer is `slice` and that has `remaining` bytes from this layer on. The
    /// caller validates.
    #[inline(always)]
    pub(super) fn find(&self, simd: Simd, head: Head, slice: u64, remaining: usize) -> Find {
        let mut mask = self.candidates(simd, head, slice);
        while mask != 0 {
            let slot = mask.trailing_zeros() as usize - 1;
            mask &= mask - 1;
            let code = self.code(slot);
            if remaining <= 8 {
                if usize::from(code) == remaining {
                    return Find::Inline(slot);
                }
            } else if code == code::SUFFIX {
                return Find::Suffix(slot);
            } else if code >= code::LAYER {
                return Find::Layer(slot, code - code::LAYER);
            }
        }
        Find::Absent
    }

    /// Finds like `find`, under the latch. Does not look at the codes of a tree of eight-byte keys.
    pub(super) fn find_latched(&self, tree: Shape, head: Head, slice: u64, remaining: usize) -> Find {
        if !tree.fixed8 {
            return self.find(tree.simd, head, slice, remaining);
        }
        match self.candidates(tree.simd, head, slice) {
            0 => Find::Absent,
            mask => Find::Inline(mask.trailing_zeros() as usize - 1),
        }
    }

    #[inline]
    pub(super) fn entry(&self, tree: Shape, slot: usize) -> Entry {
        let code = if tree.fixed8 { 8 } else { self.code(slot) };
        let suffix = if code == code::SUFFIX { suffix::get(self, slot) } else { null_mut() };
        Entry { slice: self.key(slot), code, rid: self.rid(slot), suffix }
    }

    pub(super) fn entries(&self, tree: Shape) -> Entries {
        let mut entries = Entries::new();
        let order = self.permutation();
        for place in 0..order.len() {
            entries.array[place] = self.entry(tree, order.slot(place));
        }
        entries.len = order.len();
        entries
    }

    fn set_entry(&self, tree: Shape, slot: usize, entry: &Entry) {
        self.set_key(slot, entry.slice);
        self.set_rid(slot, entry.rid);
        if !tree.fixed8 {
            self.set_code(slot, entry.code);
            suffix::set(self, slot, entry.suffix);
        }
    }

    /// Makes these entries, at most [`KEYS`] and sorted, the entries of a border that no thread reads now. Returns the
    /// live bits for the border's head.
    #[must_use]
    pub(super) fn fill(&self, tree: Shape, entries: &[Entry]) -> u64 {
        debug_assert!(entries.is_sorted_by_key(Entry::order));
        for (slot, entry) in entries.iter().enumerate() {
            self.set_entry(tree, slot, entry);
        }
        self.set_permutation(Permutation::identity(entries.len()));
        ((1 << entries.len()) - 1) << 1
    }
}

/// The properties that distinguish trees.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) simd: Simd,
    pub(super) fixed8: bool,
}

impl Latched<'_> {
    pub(super) fn is_full(&self) -> bool {
        self.head.live() == Head::LIVE
    }

    /// Adds an entry to a border that is not full. Readers need not notice it: the slot's live bit is set last, and a
    /// slot that was used before was given up with a new version.
    pub(super) fn insert_entry(&mut self, tree: Shape, entry: &Entry) {
        debug_assert!(!self.is_full());
        let node = self.node;
        let order = node.permutation();
        let mut place = node.live_at_most(tree.simd, self.head, entry.slice);
        while place > 0 && !tree.fixed8 && node.entry(tree, order.slot(place - 1)).order() > entry.order() {
            place -= 1;
        }
        let slot = (!(self.head.live() >> 1)).trailing_zeros() as usize;
        node.set_entry(tree, slot, entry);
        node.set_permutation(order.inserted(place, slot));
        self.head.set_live(self.head.live() | 1 << (slot + 1));
    }

    /// Removes an entry. Readers that have seen it retry.
    pub(super) fn remove_entry(&mut self, slot: usize) {
        debug_assert!(self.head.is_live(slot));
        self.head.set_live(self.head.live() & !(1 << (slot + 1)));
        self.publish_change();
        self.node.set_permutation(self.node.permutation().removed(slot));
    }
}
