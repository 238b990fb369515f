//! Splits full nodes in the way of Lehman and Yao:
//!
//! 1. All memory is reserved before the first change.
//! 2. The left neighbor's `next` and high fence publish the right half at once.
//! 3. A separator in the parent publishes it later. No latch is held in between. Until then, descents find the right
//!    half by moving right.

use super::Masstree;
use super::border::Entry;
use super::descend::{Cursor, Settled};
use super::node::{Head, KEYS, Latched, Node, Permutation};
use super::suffix;
use crate::epoch::Local;
use crate::index::Key;
use crate::index::atomic::Ordering;
use crate::index::nodes::Spares;
use crate::memory::OutOfMemory;
use crate::sync::Backoff;
use std::ptr::null_mut;

/// The keys and children of an interior, with room for one more.
pub(super) struct Fan {
    pub(super) keys: [u64; KEYS + 1],
    pub(super) children: [u32; KEYS + 2],
    /// The number of keys, which is one less than that of children.
    pub(super) count: usize,
}

impl Fan {
    /// Reads the contents of a latched interior.
    pub(super) fn load(interior: &Latched<'_>) -> Fan {
        let mut fan = Fan { keys: [0; KEYS + 1], children: [0; KEYS + 2], count: interior.head.count() };
        for i in 0..fan.count {
            fan.keys[i] = interior.node.key(i);
        }
        for i in 0..=fan.count {
            fan.children[i] = interior.node.child_at(i);
        }
        fan
    }

    /// Adds a key and the child to its right. Returns the key's place.
    fn insert(&mut self, key: u64, child: u32) -> usize {
        let at = self.keys[..self.count].partition_point(|&k| k < key);
        debug_assert!(at == self.count || self.keys[at] != key);
        self.keys.copy_within(at..self.count, at + 1);
        self.children.copy_within(at + 1..=self.count, at + 2);
        (self.keys[at], self.children[at + 1]) = (key, child);
        self.count += 1;
        at
    }

    /// Removes key `at` and the child to its right.
    pub(super) fn remove(&mut self, at: usize) {
        self.keys.copy_within(at + 1..self.count, at);
        self.children.copy_within(at + 2..=self.count, at + 1);
        self.count -= 1;
    }

    /// Writes `count` keys from number `from`, and their children, into a node that no thread reads now.
    pub(super) fn store(&self, node: &Node, head: &mut Head, from: usize, count: usize) {
        for i in 0..KEYS {
            node.set_key(i, if i < count { self.keys[from + i] } else { u64::MAX });
        }
        for i in 0..=count {
            node.set_child(i, self.children[from + i]);
        }
        head.set_count(count);
    }
}

impl Masstree {
    /// Splits a full border, with one more entry.
    #[cold]
    pub(super) fn split_border(
        &self,
        local: &Local,
        mut border: Latched<'_>,
        entry: &Entry,
        c: &Cursor,
        key: &Key,
    ) -> Result<(), OutOfMemory> {
        let mut spares = Spares::reserve(&self.nodes, self.nodes_to_split(c.layer, c.slice))?;
        let has_block = !suffix::block_of(border.node).is_null();
        let block = if has_block { suffix::make_block(local)? } else { null_mut() };
        let mut entries = border.node.entries(self.shape());
        let place = entries.insert(*entry);
        let ascends = c.ascends || seems_to_ascend(border.node.permutation(), place);
        let cut = entries.cut(place, border.head.has(Head::INFINITE), ascends);
        let (left, right) = entries.as_slice().split_at(cut);
        let separator = right[0].slice;

        let id = spares.take().expect("reserved above");
        let node = self.node(id);
        let mut head = self.make_right(&border, id, separator);
        suffix::set_block(node, block);
        head.set_live(node.fill(self.shape(), right));
        node.set_head(head);

        border.change();
        if !self.loses_stamps {
            node.carry_stamp(border.node);
        }
        let live = border.node.fill(self.shape(), left);
        border.head.set_live(live);
        for slot in cut..KEYS {
            if has_block {
                suffix::set(border.node, slot, null_mut()); // now the right node's
            }
        }
        self.link_right(&mut border, id, separator);
        if self.finish_split(border, c.layer, separator, id, &mut spares) {
            self.publish_top(c, key);
        }
        Ok(())
    }

    /// Returns how many nodes a split of the border for `slice` takes at present: its right half, the right halves of
    /// all full ancestors from its parent up, and a new root if these reach the root.
    fn nodes_to_split(&self, leftmost: u32, slice: u64) -> usize {
        let (mut id, mut level) = self.top(leftmost);
        let height = usize::from(level);
        let (mut full, mut backoff) = (0, Backoff::new());
        while level > 0 {
            let node = self.node(id);
            let is_full = node.head().count() == KEYS;
            match node.child(self.simd, slice) {
                Some(child) => {
                    (id, level) = (child, level - 1);
                    full = if is_full { full + 1 } else { 0 };
                }
                None => match self.settle(node, slice, &mut backoff) {
                    Settled::Stay => {}
                    Settled::Right(next) => id = next,
                    Settled::Gone => {
                        ((id, level), full) = (self.top(leftmost), 0);
                    }
                },
            }
        }
        1 + full + usize::from(full >= height)
    }

    /// Prepares the unpublished right half of `left`, still without content. Returns its head.
    fn make_right(&self, left: &Latched<'_>, id: u32, separator: u64) -> Head {
        let (node, level) = (self.node(id), left.head.level());
        let head = node.clear(level, left.head.0 & Head::INFINITE);
        node.set_high(left.node.high());
        node.set_next(left.node.next());
        node.set_prev(left.id);
        node.set_low(separator);
        head
    }

    /// Makes `right` the neighbor of `left`, which is being changed.
    fn link_right(&self, left: &mut Latched<'_>, right: u32, separator: u64) {
        let beyond = left.node.next();
        left.node.set_high(separator);
        left.node.set_next(right);
        left.head.set(Head::INFINITE, false);
        if beyond != 0 {
            self.node(beyond).set_prev(right);
        }
    }

    /// Publishes the separators of a split and of the splits that follow from it. Returns true if the layer has a new
    /// root.
    fn finish_split(
        &self,
        left: Latched<'_>,
        leftmost: u32,
        mut separator: u64,
        mut right: u32,
        spares: &mut Spares<'_>,
    ) -> bool {
        let mut level = left.head.level();
        if is_root(&left) {
            self.grow(left, separator, right, spares);
            return true;
        }
        drop(left);
        loop {
            level += 1;
            let mut parent = self.latch_level(leftmost, level, separator);
            let mut fan = Fan::load(&parent);
            let place = fan.insert(separator, right);
            if fan.count <= KEYS {
                parent.change();
                fan.store(parent.node, &mut parent.head, 0, fan.count);
                return false;
            }
            if spares.ensure(1 + usize::from(is_root(&parent))).is_err() {
                // Another thread has filled the parent since the reservation. The tree is still correct: the new node
                // is found by moving right.
                return false;
            }
            (separator, right) = self.split_interior(&mut parent, &fan, place, spares);
            if is_root(&parent) {
                self.grow(parent, separator, right, spares);
                return true;
            }
        }
    }

    /// Cuts an interior that has become too large. Returns the separator and the new node, which its parent needs.
    fn split_interior(
        &self,
        left: &mut Latched<'_>,
        fan: &Fan,
        place: usize,
        spares: &mut Spares<'_>,
    ) -> (u64, u32) {
        debug_assert!(fan.count == KEYS + 1);
        let is_ascending = left.head.has(Head::INFINITE) && place == KEYS;
        let cut = if is_ascending { KEYS } else { KEYS / 2 };
        let separator = fan.keys[cut];
        let id = spares.take().expect("ensured by the caller");
        let mut head = self.make_right(left, id, separator);
        fan.store(self.node(id), &mut head, cut + 1, fan.count - cut - 1);
        self.node(id).set_head(head);
        left.change();
        fan.store(left.node, &mut left.head, 0, cut);
        self.link_right(left, id, separator);
        (separator, id)
    }

    /// Puts a new root above a root that has just been split and is still latched.
    fn grow(&self, left: Latched<'_>, separator: u64, right: u32, spares: &mut Spares<'_>) {
        let id = spares.take().expect("reserved for a root that splits");
        let (node, level) = (self.node(id), left.head.level() + 1);
        let mut head = node.clear(level, Head::INFINITE | Head::LEFTMOST);
        node.set_key(0, separator);
        node.set_child(0, left.id);
        node.set_child(1, right);
        head.set_count(1);
        node.set_head(head);
        left.node.set_up(id);
    }

    /// Latches the interior of `level` that covers `slice`. It exists, because a node below it has been split while it
    /// was not the root.
    fn latch_level(&self, leftmost: u32, level: u8, slice: u64) -> Latched<'_> {
        loop {
            let found = self.find_level(leftmost, level, slice);
            let mut id = found.expect("a layer keeps its levels while it has keys");
            loop {
                let node = Latched::lock(self.node(id), id);
                if node.head.has(Head::DELETED) {
                    break;
                }
                if !node.node.is_beyond(node.head, slice) {
                    return node;
                }
                id = node.node.next();
            }
        }
    }

    /// Tells the place at which descents enter the layer of `c` that the layer has a new root. Descents are correct
    /// without this.
    #[cold]
    fn publish_top(&self, c: &Cursor, key: &Key) {
        if c.depth == 0 {
            let (id, level) = self.top(c.layer);
            // Release: pairs with the Acquire in `root`. Higher levels win.
            self.root.fetch_max(u64::from(level) << 32 | u64::from(id), Ordering::Release);
            return;
        }
        let Some((mut border, slot)) = self.latch_link(key, c.depth - 1) else { return };
        let (id, level) = self.top(border.node.rid(slot));
        border.change();
        border.node.set_rid(slot, id);
        border.node.set_code(slot, super::node::code::LAYER + level);
    }
}

/// Returns whether a key that comes to `place` of a full border seems to continue a run of ascending keys: the two keys
/// before it lie in the slots that were filled last. This is true of about one in 200 random keys.
fn seems_to_ascend(order: Permutation, place: usize) -> bool {
    place >= 2 && order.slot(place - 1) == KEYS - 1 && order.slot(place - 2) == KEYS - 2
}

/// Returns whether the layer has no higher level. The answer is stable under the latch, because adding a level needs
/// it.
fn is_root(node: &Latched<'_>) -> bool {
    node.head.has(Head::LEFTMOST) && node.node.up() == 0
}
