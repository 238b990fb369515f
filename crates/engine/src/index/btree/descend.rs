//! The point descent: optimistic lock coupling as a step machine. Each node is read between two looks at its head. On
//! arrival at a node, its parent must still be as it was when it named the node.

use super::BTree;
use super::node::{Head, Node};
use crate::index::{Key, Probe, RecordId, Unbegun};
use crate::suspend::{Never, Suspend};
use crate::sync::Backoff;

/// A suspended point descent.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// The parent's head when it named `node`. 0 means that `node` was the root.
    pub(super) known: u64,
    /// The node to read next.
    pub(super) node: u32,
    /// The node that named `node`. 0 means that `node` was the root. With [`UNBEGUN`] there is no descent, and `node`
    /// is the number of a bucket.
    pub(super) parent: u32,
    /// The number of misses reported at this node beyond its own lines: for its prefix, then for the object of its key.
    asked: u8,
    /// Whether keys come in ascending order.
    pub(super) ascends: bool,
}

/// The mark of a cursor that has not begun, in place of a node. No slab has so many nodes.
const UNBEGUN: u32 = u32::MAX;

impl Unbegun for Cursor {
    #[inline(always)]
    fn unbegun(bucket: u32) -> Cursor {
        Cursor { known: 0, node: bucket, parent: UNBEGUN, asked: 0, ascends: false }
    }

    #[inline(always)]
    fn bucket(&self) -> Option<u32> {
        (self.parent == UNBEGUN).then_some(self.node)
    }
}

/// The outcome of a look into a leaf.
enum Looked {
    Done(Probe),
    /// The data read must not be used.
    Again,
}

impl BTree {
    /// Begins a descent at the root.
    #[inline(always)]
    pub(super) fn begin(&self, ascends: bool) -> Cursor {
        Cursor { known: 0, node: self.root(), parent: 0, asked: 0, ascends }
    }

    /// Returns a cursor for `key` at the leaf where a descent for a lesser key has ended, if that leaf has a key that
    /// is not less than `key`.
    pub(super) fn near(&self, c: Cursor, key: &Key) -> Option<Cursor> {
        let node = self.node(c.node);
        let head = node.head();
        if head.is_unstable() || head.level() != 0 || !self.is_named(&c) {
            return None;
        }
        let (mut short, count) = ([0; 8], head.count());
        let place = match self.fixed8 {
            true => node.below(count, key.slice),
            false => node.locate(count, key.bytes(&mut short)).unwrap_or_else(|place| place),
        };
        (place < count && node.is_still(head)).then_some(Cursor { asked: 0, ascends: true, ..c })
    }

    /// Returns whether the parent still names the node for the key. The caller has read the node's head before.
    #[inline(always)]
    pub(super) fn is_named(&self, c: &Cursor) -> bool {
        self.names(c.parent, c.known, c.node)
    }

    /// Returns whether a node is still the root, or its parent is unchanged since it named the node.
    #[inline(always)]
    pub(super) fn names(&self, parent: u32, known: u64, node: u32) -> bool {
        match parent {
            0 => self.root() == node,
            _ => self.node(parent).head().0 == known,
        }
    }

    /// Goes on to the next probable miss.
    #[inline(never)]
    pub(super) fn descend<S: Suspend>(&self, mut c: Cursor, key: Key, s: &mut S) -> (Cursor, Probe) {
        loop {
            let node = self.node(c.node);
            let head = node.head();
            if head.is_unstable() || !self.is_named(&c) {
                let is_long;
                (c, is_long) = self.settle(c, head);
                if is_long && S::SUSPENDS {
                    return (c, Probe::Suspended);
                }
                continue;
            }
            if !self.fixed8 && self.ask_prefix(node, &mut c.asked, s) {
                return (c, Probe::Suspended);
            }
            if head.level() == 0 {
                match self.look(&mut c, node, head, &key, s) {
                    Looked::Done(probe) => return (c, probe),
                    Looked::Again => continue,
                }
            }
            let child = self.child_for(node, head, &key);
            if !node.is_still(head) {
                continue;
            }
            c = Cursor { known: head.0, node: child, parent: c.node, asked: 0, ascends: c.ascends };
            if self.miss(child, s) {
                return (c, Probe::Suspended);
            }
        }
    }

    /// Returns the child of an interior for a key. The caller validates.
    #[inline(always)]
    pub(super) fn child_for(&self, node: &Node, head: Head, key: &Key) -> u32 {
        if self.fixed8 {
            return node.child(true, node.up_to(head.count(), key.slice));
        }
        let mut short = [0; 8];
        let place = match node.locate(head.count(), key.bytes(&mut short)) {
            Ok(place) => place + 1,
            Err(place) => place,
        };
        node.child(false, place)
    }

    /// Returns the place at which a leaf has a key, or would have it. The caller validates.
    #[inline(always)]
    pub(super) fn place_of(&self, node: &Node, head: Head, key: &Key) -> Result<usize, usize> {
        if self.fixed8 {
            let place = node.below(head.count(), key.slice);
            let is_there = place < head.count() && node.slice(place) == key.slice;
            return if is_there { Ok(place) } else { Err(place) };
        }
        let mut short = [0; 8];
        node.locate(head.count(), key.bytes(&mut short))
    }

    /// Looks into a leaf.
    #[inline(always)]
    fn look<S: Suspend>(&self, c: &mut Cursor, node: &Node, head: Head, key: &Key, s: &mut S) -> Looked {
        if !self.fixed8 && c.asked < 2 {
            // The first object that may be the key's.
            c.asked = 2;
            let place = node.below(head.count(), node_slice(node, key));
            if place < head.count() && s.miss::<1>(node.object(place)) {
                return Looked::Done(Probe::Suspended);
            }
        }
        let probe = match self.place_of(node, head, key) {
            Ok(place) => Probe::Found(RecordId(node.value(self.fixed8, place))),
            Err(_) => Probe::Absent,
        };
        if node.is_still(head) { Looked::Done(probe) } else { Looked::Again }
    }

    /// Reports that the bytes that all keys of the node have in common are about to be read, if there are any. Returns
    /// true if the operation should be left.
    #[inline(always)]
    pub(super) fn ask_prefix<S: Suspend>(&self, node: &Node, asked: &mut u8, s: &mut S) -> bool {
        if *asked > 0 || node.skip() == 0 {
            return false;
        }
        *asked = 1;
        s.miss::<1>(node.prefix())
    }

    /// Moves the cursor on from a node that could not be read. If a thread is changing the node, waits a moment: no
    /// latch is held across a suspension, so its holder is running, or soon will be. Returns true if that takes long.
    #[cold]
    #[inline(never)]
    fn settle(&self, c: Cursor, head: Head) -> (Cursor, bool) {
        let mut backoff = Backoff::new();
        let is_gone = head.has(Head::DELETED) || !self.await_latch(c.node, &mut backoff);
        let c = match is_gone || !self.is_named(&c) {
            true => self.begin(c.ascends),
            false => c,
        };
        (c, backoff.is_long())
    }

    /// Waits a moment until a node is not latched. Returns false if it is out of the tree.
    pub(super) fn await_latch(&self, node: u32, backoff: &mut Backoff) -> bool {
        let node = self.node(node);
        while node.head().is_unstable() {
            if node.head().has(Head::DELETED) {
                return false;
            }
            if backoff.is_long() {
                backoff.wait();
                return true;
            }
            backoff.wait();
        }
        true
    }

    /// Returns the stamp of the leaf that has the key or would have it.
    pub(super) fn find_stamp(&self, key: &Key) -> u64 {
        let mut c = self.begin(false);
        loop {
            (c, _) = self.descend(c, *key, &mut Never);
            let node = self.node(c.node);
            let head = node.head();
            let stamp = node.stamp();
            if !head.is_unstable() && self.is_named(&c) && node.is_still(head) {
                return stamp;
            }
        }
    }
}

/// Returns the slice to search for in a node, if the key begins with the node's prefix.
#[inline(always)]
fn node_slice(node: &Node, key: &Key) -> u64 {
    let mut short = [0; 8];
    crate::index::slice_of(key.bytes(&mut short).get(node.skip()..).unwrap_or(&[]))
}
