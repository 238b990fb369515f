//! Range walks in both directions. Pages are copied optimistically out of a leaf and validated by its head. A walk's
//! place is a position among keys. The leaf that it holds is a guess, checked on arrival. Splits and removals in
//! between therefore cost a step to a neighbor or a new descent, and never an entry.

use super::BTree;
use super::node::{Entry, Head, Node};
use crate::index::{Key, PAGE_ENTRIES_MAX, Page, Paged, RecordId};
use crate::suspend::Suspend;
use crate::sync::Backoff;
use std::ops::Bound;

/// A suspended range walk. If keys vary in length, its position is in its page.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// The position, if keys have eight bytes.
    slice: u64,
    /// The parent's head when it named `node`, or the leaf's own head when a page of it was copied.
    known: u64,
    /// The node to read next. 0 means to descend from the root.
    node: u32,
    /// The parent that named `node`, or 0 for the root; or the leaf whose neighbor `node` is.
    from: u32,
    /// The place at which to go on in a leaf that has not changed.
    at: u16,
    came: Came,
    reverse: bool,
    /// Whether there is a position. Without one, all entries are still to come.
    is_bounded: bool,
    /// Whether the position itself is still to come.
    inclusive: bool,
    done: bool,
    /// The number of misses reported at this node beyond its own lines: for its prefix, then for the objects of its
    /// keys.
    asked: u8,
}

/// The way in which the walk came to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// From its parent, or to the root.
    Down,
    /// From the node's left neighbor.
    Right,
    /// From the node's right neighbor.
    Left,
    /// The walk has stayed there.
    Not,
}

/// The outcome of reading a leaf.
enum Gathered {
    /// The data read must not be used.
    Unstable,
    /// Memory has been requested.
    Suspended,
    /// There is nothing to show; the walk has moved on.
    Moved,
    Page,
}

impl Walk {
    pub(super) fn new(from: Bound<&Key>, reverse: bool, fixed8: bool, page: &mut Page) -> Walk {
        page.clear();
        page.is_fixed8 = fixed8;
        page.position.clear();
        let mut walk = Walk {
            slice: 0,
            known: 0,
            node: 0,
            from: 0,
            at: 0,
            came: Came::Down,
            reverse,
            is_bounded: false,
            inclusive: matches!(from, Bound::Included(_)),
            done: false,
            asked: 0,
        };
        if let Bound::Included(key) | Bound::Excluded(key) = from {
            walk.is_bounded = true;
            walk.slice = key.slice;
            if !fixed8 {
                page.position.extend_from_slice(key.bytes(&mut [0; 8]));
            }
        }
        walk
    }

    fn go(&mut self, node: u32, came: Came, from: u32, known: u64) {
        (self.node, self.came, self.from, self.known) = (node, came, from, known);
        self.asked = u8::from(came == Came::Not); // its prefix has been read
    }

    /// Makes the walk descend anew.
    fn restart(&mut self) {
        self.go(0, Came::Down, 0, 0);
    }
}

impl BTree {
    /// Goes on to the next probable miss or the next page.
    #[inline(never)]
    pub(super) fn walk_on<S: Suspend>(&self, w: &mut Walk, page: &mut Page, s: &mut S) -> Paged {
        page.clear();
        while !w.done {
            if w.node == 0 {
                w.go(self.root(), Came::Down, 0, 0);
                if self.miss(w.node, s) {
                    return Paged::Suspended;
                }
            }
            let node = self.node(w.node);
            let head = node.head();
            if head.is_unstable() || !self.has_arrived(w, node) {
                if self.settle_walk(w, head) && S::SUSPENDS {
                    return Paged::Suspended;
                }
                continue;
            }
            if !self.fixed8 && self.ask_prefix(node, &mut w.asked, s) {
                return Paged::Suspended;
            }
            if head.level() > 0 {
                let child = node.child(self.fixed8, self.walk_place(w, page, node, head));
                if node.is_still(head) {
                    w.go(child, Came::Down, w.node, head.0);
                    if self.miss(child, s) {
                        return Paged::Suspended;
                    }
                }
                continue;
            }
            match self.gather(w, page, node, head, s) {
                Gathered::Page => return Paged::Page,
                Gathered::Suspended => return Paged::Suspended,
                Gathered::Unstable => page.clear(),
                Gathered::Moved if w.node != 0 && !w.done => {
                    if self.miss(w.node, s) {
                        return Paged::Suspended;
                    }
                }
                Gathered::Moved => {}
            }
        }
        Paged::End
    }

    /// Requests the node that the walk reads next, if it is known.
    #[inline(always)]
    pub(super) fn prepare_walk<S: Suspend>(&self, w: &Walk, s: &mut S) {
        if w.came != Came::Not && w.node != 0 && !w.done {
            let _ = self.miss(w.node, s);
        }
    }

    /// Returns whether the walk may go on from the node, whose head has been read.
    #[inline(always)]
    fn has_arrived(&self, w: &Walk, node: &Node) -> bool {
        match w.came {
            Came::Down => self.names(w.from, w.known, w.node),
            // Keys to the left of a leaf never come into it, and it never covers fewer keys on that side.
            Came::Right => true,
            // On the right side it does cover fewer after a split: keys that are still to come may have moved to the
            // right.
            Came::Not => !w.reverse || node.head().0 == w.known,
            // No node has come in between the two.
            Came::Left => node.next() == w.from,
        }
    }

    /// Moves the walk on from a node that could not be read. Returns true if another thread holds the node for long.
    #[cold]
    fn settle_walk(&self, w: &mut Walk, head: Head) -> bool {
        let mut backoff = Backoff::new();
        let is_gone = head.has(Head::DELETED) || !self.await_latch(w.node, &mut backoff);
        if is_gone || !self.has_arrived(w, self.node(w.node)) {
            w.restart();
        }
        backoff.is_long()
    }

    /// Returns how many entries of a node lie to the left of the walk's position. Going up, these are behind the walk.
    /// Going down, they are still to come. In an interior, this is the child in which the walk goes on. The caller
    /// validates.
    fn walk_place(&self, w: &Walk, page: &Page, node: &Node, head: Head) -> usize {
        let count = head.count();
        if !w.is_bounded {
            return if w.reverse { count } else { 0 };
        }
        // Does the position itself lie to the left? If a child's key equals the position, the equal key is in the right
        // child.
        let is_left = if head.level() > 0 { !w.reverse || w.inclusive } else { w.reverse == w.inclusive };
        if self.fixed8 {
            return if is_left { node.up_to(count, w.slice) } else { node.below(count, w.slice) };
        }
        match node.locate(count, &page.position) {
            Ok(place) => place + usize::from(is_left),
            Err(place) => place,
        }
    }

    /// Copies the entries that are still to come from a leaf, up to a page.
    #[inline(always)]
    fn gather<S: Suspend>(
        &self,
        w: &mut Walk,
        page: &mut Page,
        node: &Node,
        head: Head,
        s: &mut S,
    ) -> Gathered {
        let is_same = w.came == Came::Not && w.known == head.0;
        let place = if is_same { usize::from(w.at) } else { self.walk_place(w, page, node, head) };
        let left = if w.reverse { place } else { head.count().saturating_sub(place) };
        let len = left.min(PAGE_ENTRIES_MAX);
        let neighbour = if w.reverse { node.prev() } else { node.next() };
        let is_read = match self.fixed8 {
            true => {
                copy_fixed8(w.reverse, place, len, node, page);
                node.is_still(head)
            }
            false => match self.copy_mixed(w, place, len, node, head, page, s) {
                Some(is_read) => is_read,
                None => return Gathered::Suspended,
            },
        };
        if !is_read {
            return Gathered::Unstable;
        }
        page.leave_mark(w.node, head.0);
        page.len = len;
        w.pass(page);
        if len < left {
            w.at = (if w.reverse { place - len } else { place + len }) as u16;
            w.go(w.node, Came::Not, 0, head.0);
        } else if neighbour == 0 {
            w.done = true;
        } else {
            w.go(neighbour, if w.reverse { Came::Left } else { Came::Right }, w.node, 0);
        }
        if len > 0 { Gathered::Page } else { Gathered::Moved }
    }

    /// Copies entries of a leaf of any length. Returns false if the data read must not be used, and `None` if the
    /// objects of the keys have been requested.
    #[expect(clippy::too_many_arguments, reason = "what a step of a walk has in hand")]
    fn copy_mixed<S: Suspend>(
        &self,
        w: &mut Walk,
        place: usize,
        len: usize,
        node: &Node,
        head: Head,
        page: &mut Page,
        s: &mut S,
    ) -> Option<bool> {
        let mut entries = [Entry::NONE; PAGE_ENTRIES_MAX];
        for (i, entry) in entries[..len].iter_mut().enumerate() {
            *entry = node.entry(false, if w.reverse { place - 1 - i } else { place + i });
        }
        if w.asked < 2 {
            w.asked = 2;
            let mut leave = false;
            for entry in entries[..len].iter().filter(|entry| !entry.object.is_null()) {
                leave |= s.miss::<1>(entry.object);
            }
            if leave {
                return None;
            }
        }
        if !node.is_still(head) {
            return Some(false);
        }
        for (i, entry) in entries[..len].iter().enumerate() {
            (page.ids[i], page.slices[i]) = (RecordId(entry.value), entry.slice);
            let mut short = [0; 8];
            // SAFETY: the object was the place's when the leaf was validated, and the epoch keeps it.
            page.bytes.extend_from_slice(unsafe { entry.key(&mut short) });
            page.ends[i] = page.bytes.len() as u32;
        }
        Some(true)
    }
}

impl Walk {
    /// Moves the position to the last entry of the page, which is then behind the walk.
    #[inline(always)]
    fn pass(&mut self, page: &mut Page) {
        let Some(last) = page.len.checked_sub(1) else { return };
        (self.is_bounded, self.inclusive) = (true, false);
        self.slice = page.slices[last];
        if !page.is_fixed8 {
            let start = if last == 0 { 0 } else { page.ends[last - 1] as usize };
            page.position.clear();
            page.position.extend_from_slice(&page.bytes[start..]);
        }
    }
}

/// Copies entries of a leaf of eight-byte keys. The caller validates.
#[inline(always)]
fn copy_fixed8(reverse: bool, place: usize, len: usize, node: &Node, page: &mut Page) {
    for i in 0..len {
        let at = if reverse { place - 1 - i } else { place + i };
        (page.slices[i], page.ids[i]) = (node.slice(at), RecordId(node.value(true, at)));
    }
}
