//! The layout of a node: 256 bytes, four cache lines. The whole folder uses it.
//!
//! ```text
//!          border                                     interior
//! line 0   head | keys 0..7                           the same
//! line 1   keys 7..14 | high fence                    the same; keys not in use are all ones
//! line 2   permutation | 14 record ids                unused | 14 children
//! line 3   next | prev | low fence | suffixes |       the 15th child | the same
//!          stamp | up | 14 length codes
//! ```
//!
//! Each word is accessed only in its own size, because accesses of different sizes to the same bytes are not atomic.
//!
//! Invariants, for every node that is not deleted and whose head is not dirty:
//! * `low <= key < high` for its keys. LEFTMOST means that there is no low fence, INFINITE that there is no high fence.
//! * The `low` of its `next` equals its `high`. Levels are chains of nodes without gaps.
//! * A border's live slots are the slots that its permutation lists, in key order.
//! * An interior's keys ascend, and child `i` covers `keys[i-1]..keys[i]`.
//!
//! All writes happen under the node's latch ([`Latched`]). Readers take no latch. They read the head, then what they
//! want, then the head again. They discard the result if the head changed in more than the latch bit and the live bits.

use super::search::{self, LANES, Simd};
use crate::index::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::Backoff;

/// The entries of a border, and the keys of an interior.
pub(super) const KEYS: usize = 14;
/// The lane of the high fence, as a bit of a search's answer.
const HIGH_LANE: u32 = 1 << 15;

/// One block of the node slab.
#[repr(C, align(256))]
pub(super) struct Node {
    lanes: [AtomicU64; LANES],
    /// Of a border: the order of its slots.
    permutation: AtomicU64,
    /// Of a border: record ids. Of an interior: children, of which only the last of a full node is in the fourth line.
    /// There is one word more than needed, so that four bits are always within bounds.
    words: [AtomicU32; 16],
    next: AtomicU32,
    /// The left neighbor. It is written under that neighbor's latch, so it is a hint to other threads.
    prev: AtomicU32,
    low: AtomicU64,
    /// Fourteen pointers to suffixes, or null until the first suffix.
    pub(super) suffixes: AtomicPtr<AtomicPtr<u8>>,
    /// For phantom protection: the last commit of a transaction that has found keys absent here (see README.md).
    stamp: AtomicU64,
    /// Of a level's leftmost node: the leftmost node one level up, or 0 for a root.
    up: AtomicU32,
    /// The length code of each slot's key: see [`code`].
    codes: [AtomicU8; KEYS],
    _rest: [u8; 6],
}

// The weak memory checker's atomics are larger. It has only single nodes, and no slab of them.
#[cfg(not(braid_loom))]
const _: () = assert!(size_of::<Node>() == super::NODE_BYTES);
const _: () = assert!(KEYS == crate::index::PAGE_ENTRIES_MAX);

/// Length codes. 0 to 8 mean an inline key of that many bytes.
pub(super) mod code {
    /// A key longer than eight bytes; the rest is a suffix.
    pub(in super::super) const SUFFIX: u8 = 9;
    /// The least code of a link to the root of the next layer, which is on level `code - LAYER`.
    pub(in super::super) const LAYER: u8 = 0x80;
    /// Returns the rank of a code. Keys of one slice sort by length. A suffix or a layer is the longest, and a slice
    /// has at most one of them.
    pub(in super::super) fn rank(code: u8) -> u8 {
        code.min(SUFFIX)
    }
}

/// A node's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head(pub(super) u64);

impl Head {
    pub(super) const LOCKED: u64 = 1;
    /// The slots in use of a border: bits 1 to 14, as in a search's answer.
    pub(super) const LIVE: u64 = 0x7ffe;
    /// The node is being changed in a way that readers must not see.
    pub(super) const DIRTY: u64 = 1 << 15;
    /// The node is out of the tree.
    pub(super) const DELETED: u64 = 1 << 16;
    /// The node has no high fence.
    pub(super) const INFINITE: u64 = 1 << 17;
    /// The node has no low fence.
    pub(super) const LEFTMOST: u64 = 1 << 18;
    const COUNT_SHIFT: u32 = 20;
    const LEVEL_SHIFT: u32 = 24;
    const VERSION: u64 = 1 << 32;
    /// Bits whose change makes no difference to what a reader has read.
    const VOLATILE: u64 = Head::LOCKED | Head::LIVE;

    pub(super) fn new(level: u8, flags: u64) -> Head {
        Head(u64::from(level) << Head::LEVEL_SHIFT | flags)
    }
    #[inline(always)]
    pub(super) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }
    #[inline(always)]
    pub(super) fn is_unstable(self) -> bool {
        self.has(Head::DIRTY | Head::DELETED)
    }
    #[inline(always)]
    pub(super) fn live(self) -> u64 {
        self.0 & Head::LIVE
    }
    pub(super) fn is_live(self, slot: usize) -> bool {
        self.0 >> (slot + 1) & 1 != 0
    }
    #[inline(always)]
    pub(super) fn level(self) -> u8 {
        (self.0 >> Head::LEVEL_SHIFT) as u8
    }
    /// Returns the number of keys of an interior.
    pub(super) fn count(self) -> usize {
        (self.0 >> Head::COUNT_SHIFT & 0xf) as usize
    }
    /// Returns the mark of this head, which differs whenever the node's keys differ.
    pub(super) fn mark(self) -> u64 {
        self.0 & !Head::LOCKED
    }
    pub(super) fn set(&mut self, flag: u64, on: bool) {
        self.0 = if on { self.0 | flag } else { self.0 & !flag };
    }
    pub(super) fn set_live(&mut self, live: u64) {
        debug_assert!(live & !Head::LIVE == 0);
        self.0 = self.0 & !Head::LIVE | live;
    }
    pub(super) fn set_count(&mut self, count: usize) {
        debug_assert!(count <= KEYS);
        self.0 = self.0 & !(0xf << Head::COUNT_SHIFT) | (count as u64) << Head::COUNT_SHIFT;
    }
    fn bump(&mut self) {
        self.0 = self.0.wrapping_add(Head::VERSION);
    }
}

/// The answer of a border about an eight-byte key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Find8 {
    Absent,
    Found(u32),
    /// The border was split, was deleted, or is being changed.
    Unstable,
}

impl Node {
    #[inline(always)]
    pub(super) fn head(&self) -> Head {
        // Acquire: pairs with the Release in `Latched::publish_change` and in `Latched::drop`.
        Head(self.lanes[0].load(Ordering::Acquire))
    }

    /// Returns whether everything read since `head` is what the node held then.
    #[inline(always)]
    pub(super) fn is_still(&self, head: Head) -> bool {
        // The fence pairs with the Release fences in `Latched::try_lock`, `Latched::change` and
        // `Latched::publish_change`. If we have read a word written after one of them, we see the head of that time or
        // a later one.
        fence(Ordering::Acquire);
        (self.lanes[0].load(Ordering::Relaxed) ^ head.0) & !Head::VOLATILE == 0
    }

    /// Returns the child of an interior that covers `slice`, or that did and has split.
    #[inline(always)]
    pub(super) fn child(&self, simd: Simd, slice: u64) -> Option<u32> {
        let head = self.head();
        let mask = search::at_most(simd, &self.lanes, slice);
        if head.is_unstable() {
            return None;
        }
        let index = if mask & HIGH_LANE == 0 {
            // Keys ascend and the rest are all ones, so the mask is a run from lane 1 on.
            (!(mask | 1)).trailing_zeros() as usize - 1
        } else if head.has(Head::INFINITE) {
            head.count() // the greatest slice of all, equal to the unused keys
        } else {
            return None;
        };
        let child = self.words[index & 15].load(Ordering::Relaxed);
        self.is_still(head).then_some(child)
    }

    /// Looks up an eight-byte key in a border that holds only such keys.
    #[inline(always)]
    pub(super) fn find8(&self, simd: Simd, slice: u64) -> Find8 {
        let head = self.head();
        let mask = search::equal(simd, &self.lanes, slice) & head.live() as u32;
        if head.is_unstable() || self.is_beyond(head, slice) {
            return Find8::Unstable;
        }
        let found = match mask {
            0 => Find8::Absent,
            // Lane i is slot i - 1.
            _ => Find8::Found(self.words[(mask.trailing_zeros() as usize - 1) & 15].load(Ordering::Relaxed)),
        };
        if self.is_still(head) { found } else { Find8::Unstable }
    }

    /// Returns the live slots whose key has this slice, as bits 1 to 14.
    #[inline(always)]
    pub(super) fn candidates(&self, simd: Simd, head: Head, slice: u64) -> u32 {
        search::equal(simd, &self.lanes, slice) & head.live() as u32
    }

    /// Returns how many live keys of a border have a slice of at most `slice`.
    pub(super) fn live_at_most(&self, simd: Simd, head: Head, slice: u64) -> usize {
        (search::at_most(simd, &self.lanes, slice) & head.live() as u32).count_ones() as usize
    }

    /// Returns whether `slice` lies to the right of this node.
    #[inline(always)]
    pub(super) fn is_beyond(&self, head: Head, slice: u64) -> bool {
        slice >= self.high() && !head.has(Head::INFINITE)
    }

    #[inline(always)]
    pub(super) fn high(&self) -> u64 {
        self.lanes[LANES - 1].load(Ordering::Relaxed)
    }
    pub(super) fn set_high(&self, high: u64) {
        self.lanes[LANES - 1].store(high, Ordering::Relaxed);
    }
    #[inline(always)]
    pub(super) fn key(&self, slot: usize) -> u64 {
        self.lanes[slot + 1].load(Ordering::Relaxed)
    }
    pub(super) fn set_key(&self, slot: usize, key: u64) {
        self.lanes[slot + 1].store(key, Ordering::Relaxed);
    }
    #[inline(always)]
    pub(super) fn rid(&self, slot: usize) -> u32 {
        self.words[slot].load(Ordering::Relaxed)
    }
    pub(super) fn set_rid(&self, slot: usize, rid: u32) {
        self.words[slot].store(rid, Ordering::Relaxed);
    }
    pub(super) fn code(&self, slot: usize) -> u8 {
        self.codes[slot].load(Ordering::Relaxed)
    }
    pub(super) fn set_code(&self, slot: usize, code: u8) {
        self.codes[slot].store(code, Ordering::Relaxed);
    }
    pub(super) fn child_at(&self, index: usize) -> u32 {
        self.words[index].load(Ordering::Relaxed)
    }
    pub(super) fn set_child(&self, index: usize, child: u32) {
        debug_assert!(index <= KEYS);
        self.words[index].store(child, Ordering::Relaxed);
    }

    /// Returns the right neighbor, or 0 if there is none.
    pub(super) fn next(&self) -> u32 {
        // Acquire: pairs with the Release in `set_next`.
        self.next.load(Ordering::Acquire)
    }
    pub(super) fn set_next(&self, next: u32) {
        // Release: pairs with the Acquire in `next`, and with those in `child`: the new node is whole.
        self.next.store(next, Ordering::Release);
    }

    /// Returns the order of a border's slots.
    pub(super) fn permutation(&self) -> Permutation {
        // Acquire: pairs with the Release in `set_permutation`.
        Permutation(self.permutation.load(Ordering::Acquire))
    }
    pub(super) fn set_permutation(&self, permutation: Permutation) {
        // Release: pairs with the Acquire in `permutation`: the entries it lists are whole.
        self.permutation.store(permutation.0, Ordering::Release);
    }

    /// Returns, for a level's leftmost node, the leftmost node one level up, or 0 for a root.
    pub(super) fn up(&self) -> u32 {
        // Acquire: pairs with the Release in `set_up`.
        self.up.load(Ordering::Acquire)
    }
    pub(super) fn set_up(&self, up: u32) {
        // Release: pairs with the Acquire in `up`: the new root is whole.
        self.up.store(up, Ordering::Release);
    }
    /// Returns the left neighbor, or a recent one; 0 if there is none.
    pub(super) fn prev(&self) -> u32 {
        // Acquire: pairs with the Release in `set_prev`.
        self.prev.load(Ordering::Acquire)
    }
    pub(super) fn set_prev(&self, prev: u32) {
        // Release: pairs with the Acquire in `prev`: the new neighbor is whole.
        self.prev.store(prev, Ordering::Release);
    }
    pub(super) fn low(&self) -> u64 {
        self.low.load(Ordering::Relaxed)
    }
    pub(super) fn set_low(&self, low: u64) {
        self.low.store(low, Ordering::Relaxed);
    }

    /// Takes over the stamp of `from`, if it is greater. This node is latched or unpublished, and takes keys or a range
    /// from `from`, which readers already find changed.
    pub(super) fn carry_stamp(&self, from: &Node) {
        // Pairs with the fence between `raise_stamp` and `is_as_marked`: either this thread sees the stamp, or the
        // thread that raised it sees the change.
        fence(Ordering::SeqCst);
        self.raise_stamp(from.stamp());
    }

    pub(super) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire) // pairs with the AcqRel in raise_stamp
    }

    pub(super) fn raise_stamp(&self, stamp: u64) {
        if self.stamp() < stamp {
            self.stamp.fetch_max(stamp, Ordering::AcqRel); // pairs with the Acquire in stamp
        }
    }

    /// Sets the head of an unpublished node.
    pub(super) fn set_head(&self, head: Head) {
        // Relaxed: the node is published with a Release.
        self.lanes[0].store(head.0, Ordering::Relaxed);
    }

    /// Makes a node that is in no slab.
    #[cfg(all(test, not(braid_shuttle)))]
    pub(super) fn unused() -> Node {
        Node {
            lanes: std::array::from_fn(|_| AtomicU64::new(0)),
            permutation: AtomicU64::new(0),
            words: std::array::from_fn(|_| AtomicU32::new(0)),
            next: AtomicU32::new(0),
            prev: AtomicU32::new(0),
            low: AtomicU64::new(0),
            suffixes: AtomicPtr::new(std::ptr::null_mut()),
            stamp: AtomicU64::new(0),
            up: AtomicU32::new(0),
            codes: std::array::from_fn(|_| AtomicU8::new(0)),
            _rest: [0; 6],
        }
    }

    /// Makes this unpublished node an empty node of `level`, and returns its head.
    pub(super) fn clear(&self, level: u8, flags: u64) -> Head {
        let mut head = Head(self.lanes[0].load(Ordering::Relaxed));
        head.bump();
        let version = head.0 & !(Head::VERSION - 1);
        for lane in &self.lanes[1..] {
            lane.store(if level > 0 { u64::MAX } else { 0 }, Ordering::Relaxed);
        }
        self.set_high(u64::MAX);
        for word in &self.words {
            word.store(0, Ordering::Relaxed);
        }
        self.permutation.store(0, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        self.prev.store(0, Ordering::Relaxed);
        self.low.store(0, Ordering::Relaxed);
        self.suffixes.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.stamp.store(0, Ordering::Relaxed);
        self.up.store(0, Ordering::Relaxed);
        let head = Head(version | Head::new(level, flags).0);
        self.set_head(head);
        head
    }
}

/// A node under its latch, which is released when this is dropped. The holder waits for no other latch on the same or a
/// lower level, except to the right. No latch is held across a suspension.
pub(super) struct Latched<'a> {
    pub(super) node: &'a Node,
    pub(super) id: u32,
    /// The head that the node will have when the latch is released.
    pub(super) head: Head,
}

impl<'a> Latched<'a> {
    /// Takes the latch if it is free.
    pub(super) fn try_lock(node: &'a Node, id: u32) -> Option<Latched<'a>> {
        // Acquire: pairs with the Release in `drop`.
        let head = Head(node.lanes[0].fetch_or(Head::LOCKED, Ordering::Acquire));
        if head.has(Head::LOCKED) {
            return None;
        }
        // The fence pairs with the one in `is_still`, for words written into free slots.
        fence(Ordering::Release);
        Some(Latched { node, id, head })
    }

    /// Waits for the holder of the latch, if there is one, and takes the latch.
    pub(super) fn lock(node: &'a Node, id: u32) -> Latched<'a> {
        let mut backoff = Backoff::new();
        loop {
            if !node.head().has(Head::LOCKED)
                && let Some(latched) = Latched::try_lock(node, id)
            {
                return latched;
            }
            backoff.wait();
        }
    }

    /// Keeps readers away until the latch is released, and makes earlier readers retry.
    pub(super) fn change(&mut self) {
        self.node.lanes[0].store(self.head.0 | Head::LOCKED | Head::DIRTY, Ordering::Relaxed);
        // The fence pairs with the one in `is_still`: a thread that sees a word written from here on sees DIRTY.
        fence(Ordering::Release);
        self.head.bump();
    }

    /// Makes readers that have already read the node retry. Shows the new head at once.
    pub(super) fn publish_change(&mut self) {
        self.head.bump();
        // Release: pairs with the Acquire in `head`.
        self.node.lanes[0].store(self.head.0 | Head::LOCKED, Ordering::Release);
        // The fence pairs with the one in `is_still`: a thread that sees a word written from here on sees this head.
        fence(Ordering::Release);
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        debug_assert!(!self.head.has(Head::LOCKED | Head::DIRTY));
        // Release: pairs with the Acquire in `head` and `try_lock`.
        self.node.lanes[0].store(self.head.0, Ordering::Release);
    }
}

/// The order of a border's slots: their number in the lowest four bits, then four bits for each place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permutation(pub(super) u64);

impl Permutation {
    /// Makes the order of the first `count` slots by number.
    pub(super) fn identity(count: usize) -> Permutation {
        debug_assert!(count <= KEYS);
        Permutation(0x0dcb_a987_6543_2100 & ((1 << (4 * count + 4)) - 1) | count as u64)
    }
    #[inline(always)]
    pub(super) fn len(self) -> usize {
        ((self.0 & 0xf) as usize).min(KEYS)
    }
    #[inline(always)]
    pub(super) fn slot(self, place: usize) -> usize {
        debug_assert!(place < KEYS);
        ((self.0 >> (4 * place + 4) & 0xf) as usize).min(KEYS - 1)
    }
    /// Returns the slots in their order, or in reverse.
    #[inline(always)]
    pub(super) fn sequence(self, reverse: bool) -> Sequence {
        if !reverse {
            return Sequence(self.0 >> 4);
        }
        let bytes = ((self.0 & !0xf) << (60 - 4 * self.len())).swap_bytes();
        Sequence((bytes & NIBBLES) << 4 | bytes >> 4 & NIBBLES)
    }
    pub(super) fn inserted(self, place: usize, slot: usize) -> Permutation {
        debug_assert!(place <= self.len() && self.len() < KEYS);
        let below = (1u64 << (4 * place + 4)) - 1;
        Permutation((self.0 & below | (slot as u64) << (4 * place + 4) | (self.0 & !below) << 4) + 1)
    }
    pub(super) fn removed(self, slot: usize) -> Permutation {
        let place = (0..self.len()).find(|&place| self.slot(place) == slot);
        let place = place.expect("a live slot is in the permutation");
        let below = (1u64 << (4 * place + 4)) - 1;
        Permutation((self.0 & below | self.0 >> 4 & !below) - 1)
    }
}

/// The lower half of each byte.
const NIBBLES: u64 = 0x0f0f_0f0f_0f0f_0f0f;

/// Numbers of slots, four bits each, the first one lowest.
#[derive(Clone, Copy)]
pub(super) struct Sequence(pub(super) u64);

impl Iterator for Sequence {
    type Item = usize;

    /// Returns the next slot. It never ends: the caller knows how many slots there are.
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let slot = (self.0 & 0xf) as usize;
        self.0 >>= 4;
        Some(slot.min(KEYS - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutation_keeps_order() {
        // Proves that insertions and removals at any place leave the other slots in order.
        let mut permutation = Permutation(0);
        let mut model: Vec<usize> = vec![];
        for (place, slot) in [(0, 3), (0, 13), (1, 0), (3, 7), (2, 5), (5, 9)] {
            permutation = permutation.inserted(place, slot);
            model.insert(place, slot);
        }
        for slot in [0, 3, 9] {
            permutation = permutation.removed(slot);
            model.retain(|&s| s != slot);
        }
        assert_eq!((0..permutation.len()).map(|p| permutation.slot(p)).collect::<Vec<_>>(), model);
        let all = Permutation::identity(KEYS);
        assert_eq!((0..all.len()).map(|p| all.slot(p)).collect::<Vec<_>>(), (0..KEYS).collect::<Vec<_>>());
    }
}
