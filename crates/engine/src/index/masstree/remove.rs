//! Removal of keys, and of the nodes and layers that it empties.
//!
//! 1. A key is removed by a new head without its live bit.
//! 2. If that leaves a border empty, the border's range goes to its left sibling. If the border is its parent's first
//!    child, it takes over the content of its right sibling instead, which is removed.
//! 3. Single-child ancestors are removed in the same way, up to the first ancestor with two children or more. Only this
//!    ancestor loses a child.
//! 4. An empty layer is removed with the link to it.
//!
//! The leftmost node of a level is therefore never removed before its layer, and an old root is always a place to start
//! from.
//!
//! One thread at a time takes nodes out of a tree (`Masstree::removal`). It tries the latches that it needs, and waits
//! for none of them while it holds another. If a latch is busy, or a split has not yet reached its parent, the empty
//! border stays. It is a valid node, and is removed when a neighbor is.

use super::border::Find;
use super::descend::{Cursor, Settled};
use super::node::{Head, Latched};
use super::{Masstree, suffix};
use crate::epoch::Local;
use crate::index::{Key, Probe, RecordId, nodes};
use crate::suspend::Never;
use crate::sync::Backoff;
use std::ptr::null_mut;

/// The outcome of an attempt to take an empty border out.
enum Unlinked {
    /// The border is out, and the border of this slice is empty too.
    AndNext(u64),
    /// The border is out.
    Done,
    /// The border is everything that its layer has.
    LayerEmpty,
    /// The border stays: it is no longer empty, or something is busy.
    Stays,
}

impl Masstree {
    /// Removes the key if it maps to `rid`; returns true if it did.
    pub(super) fn remove_key(&self, local: &Local, key: &Key, rid: u32) -> bool {
        let mut c = self.begin(Cursor::new(key));
        loop {
            if self.descend(&mut c, key, &mut Never) != Probe::Found(RecordId(rid)) {
                return false;
            }
            let mut border = Latched::lock(self.node(c.node), c.node);
            if border.head.has(Head::DELETED) {
                c = self.begin(Cursor::new(key));
                continue;
            }
            if border.node.is_beyond(border.head, c.slice) {
                c.node = border.node.next();
                continue;
            }
            let slot = match border.node.find_latched(self.shape(), border.head, c.slice, c.remaining(key)) {
                Find::Inline(slot) | Find::Suffix(slot) => slot,
                Find::Layer(slot, level) => {
                    c.enter_layer(key, border.node.rid(slot), level);
                    continue;
                }
                Find::Absent => return false,
            };
            let object = if c.remaining(key) > 8 { suffix::get(border.node, slot) } else { null_mut() };
            // SAFETY: the suffix is that of a live slot, and the border is latched.
            if !object.is_null() && unsafe { suffix::bytes(object) } != suffix::rest_of(key, c.depth) {
                return false;
            }
            if border.node.rid(slot) != rid {
                return false;
            }
            border.remove_entry(slot);
            let emptied = border.head.live() == 0;
            if !object.is_null() {
                suffix::set(border.node, slot, null_mut());
                // SAFETY: the suffix is out of its slot, so operations that start from now on cannot reach it.
                unsafe { suffix::retire(local, object) };
            }
            drop(border);
            if emptied {
                self.tidy(local, key, &c);
            }
            return true;
        }
    }

    /// Takes out an emptied border, and everything that becomes empty with it.
    #[cold]
    fn tidy(&self, local: &Local, key: &Key, c: &Cursor) {
        let _one_at_a_time = self.removal.lock();
        let (mut depth, mut leftmost, mut slice) = (c.depth, c.layer, c.slice);
        loop {
            match self.unlink_border(local, leftmost, slice) {
                Unlinked::AndNext(neighbour) => slice = neighbour,
                Unlinked::LayerEmpty if depth > 0 && self.unlink_layer(local, key, depth) => {
                    depth -= 1;
                    let Some(located) = self.locate(key, depth) else { return };
                    (leftmost, slice) = (located.leftmost, suffix::slice_at(key, depth));
                }
                _ => return,
            }
        }
    }

    /// Takes the empty border that covers `slice` out of its layer.
    fn unlink_border(&self, local: &Local, leftmost: u32, slice: u64) -> Unlinked {
        let Some(path) = self.path(leftmost, slice) else { return Unlinked::Stays };
        let is_single = |&id: &u32| self.node(id).head().count() == 0;
        if self.node(path[0]).head().live() != 0 {
            return Unlinked::Stays;
        }
        // Indexes into the path are levels: `path[0]` is the border, and `path[chain_len]` the first ancestor with two
        // children.
        let chain_len = 1 + path[1..].iter().take_while(|&id| is_single(id)).count();
        if chain_len == path.len() {
            return Unlinked::LayerEmpty;
        }
        match self.latch_chain(&path[..=chain_len], slice) {
            Some((ancestor, place, chain)) if place > 0 => self.give_left(local, ancestor, place, chain),
            Some((ancestor, _, chain)) => self.take_right(local, ancestor, chain),
            None => Unlinked::Stays,
        }
    }

    /// Returns the nodes that cover `slice`, by level, or `None` if the layer is gone.
    fn path(&self, leftmost: u32, slice: u64) -> Option<Vec<u32>> {
        let mut backoff = Backoff::new();
        let (mut id, mut level) = self.top(leftmost);
        let mut path = vec![0; usize::from(level) + 1];
        loop {
            path[usize::from(level)] = id;
            let node = self.node(id);
            let head = node.head();
            let is_read = !head.is_unstable() && !node.is_beyond(head, slice);
            if is_read && level == 0 {
                return Some(path);
            }
            match node.child(self.simd, slice) {
                Some(child) if is_read => (id, level) = (child, level - 1),
                _ => match self.settle(node, slice, &mut backoff) {
                    Settled::Stay => {}
                    Settled::Right(next) => id = next,
                    Settled::Gone => return None,
                },
            }
        }
    }

    /// Latches an ancestor and the chain of single children below it, and checks that it is a chain. The chain is
    /// returned by level.
    fn latch_chain(&self, path: &[u32], slice: u64) -> Option<(Latched<'_>, usize, Vec<Latched<'_>>)> {
        let (&top, below) = path.split_last().expect("the path has the ancestor");
        let ancestor = self.try_latch(top)?;
        if ancestor.node.is_beyond(ancestor.head, slice) {
            return None;
        }
        let count = ancestor.head.count();
        let place = (0..=count).find(|&i| Some(&ancestor.node.child_at(i)) == below.last())?;
        let mut chain = Vec::with_capacity(below.len());
        for (level, &id) in below.iter().enumerate() {
            let node = self.try_latch(id)?;
            let fits = match level {
                0 => node.head.live() == 0,
                _ => node.head.count() == 0 && node.node.child_at(0) == below[level - 1],
            };
            if !fits {
                return None;
            }
            chain.push(node);
        }
        (count > 0).then_some((ancestor, place, chain))
    }

    /// Gives the range of a chain to the chain's left siblings.
    fn give_left(
        &self,
        local: &Local,
        mut ancestor: Latched<'_>,
        place: usize,
        mut chain: Vec<Latched<'_>>,
    ) -> Unlinked {
        let mut id = ancestor.node.child_at(place - 1);
        let mut lefts = Vec::with_capacity(chain.len());
        for level in (0..chain.len()).rev() {
            let Some(left) = self.try_latch(id) else { return Unlinked::Stays };
            if left.node.next() != chain[level].id {
                return Unlinked::Stays;
            }
            id = left.node.child_at(left.head.count());
            lefts.push(left);
        }
        lefts.reverse();
        for (left, gone) in lefts.iter_mut().zip(&mut chain) {
            left.change();
            gone.change();
            self.absorb_range(left, gone);
        }
        remove_child(&mut ancestor, place);
        let neighbour = self.empty_neighbour(&lefts[0]);
        let gone = unlatch_deleted(chain);
        drop((lefts, ancestor));
        self.retire_all(local, gone);
        neighbour
    }

    /// Moves everything that the right siblings of a chain hold to the chain. The siblings are removed.
    fn take_right(&self, local: &Local, mut ancestor: Latched<'_>, mut chain: Vec<Latched<'_>>) -> Unlinked {
        let mut id = ancestor.node.child_at(1);
        let mut rights = Vec::with_capacity(chain.len());
        for level in (0..chain.len()).rev() {
            let Some(right) = self.try_latch(id) else { return Unlinked::Stays };
            if chain[level].node.next() != id {
                return Unlinked::Stays;
            }
            id = right.node.child_at(0);
            rights.push(right);
        }
        rights.reverse();
        for (heir, gone) in chain.iter_mut().zip(&mut rights) {
            heir.change();
            gone.change();
            match heir.head.level() {
                0 => self.inherit_entries(local, heir, gone),
                _ => inherit_children(heir, gone),
            }
            self.absorb_range(heir, gone);
        }
        remove_child(&mut ancestor, 1);
        let neighbour = self.empty_neighbour(&chain[0]);
        let gone = unlatch_deleted(rights);
        drop((chain, ancestor));
        self.retire_all(local, gone);
        neighbour
    }

    /// Returns the heir or one of its neighbors if it is empty: it may have stayed earlier because something was busy.
    fn empty_neighbour(&self, heir: &Latched<'_>) -> Unlinked {
        let is_empty = |id: u32| id != 0 && self.node(id).head().live() == 0;
        if heir.head.live() == 0 {
            Unlinked::AndNext(heir.node.low())
        } else if is_empty(heir.node.next()) {
            Unlinked::AndNext(heir.node.high())
        } else if is_empty(heir.node.prev()) {
            Unlinked::AndNext(self.node(heir.node.prev()).low())
        } else {
            Unlinked::Done
        }
    }

    /// Gives the range of `gone`, the right neighbor of `heir`, to `heir`. `gone` is out of the tree from now on.
    fn absorb_range(&self, heir: &mut Latched<'_>, gone: &mut Latched<'_>) {
        debug_assert!(heir.node.next() == gone.id);
        let beyond = gone.node.next();
        heir.node.set_high(gone.node.high());
        heir.node.set_next(beyond);
        heir.node.carry_stamp(gone.node);
        heir.head.set(Head::INFINITE, gone.head.has(Head::INFINITE));
        if beyond != 0 {
            self.node(beyond).set_prev(heir.id);
        }
        gone.head.set(Head::DELETED, true);
    }

    /// Moves the entries of the right neighbor to an empty border.
    fn inherit_entries(&self, local: &Local, heir: &mut Latched<'_>, gone: &Latched<'_>) {
        debug_assert!(heir.head.live() == 0);
        let entries = gone.node.entries(self.shape());
        let block = suffix::block_of(heir.node);
        suffix::set_block(heir.node, suffix::block_of(gone.node));
        suffix::set_block(gone.node, null_mut());
        let live = heir.node.fill(self.shape(), entries.as_slice());
        heir.head.set_live(live);
        // SAFETY: readers that start from now on see the other block.
        unsafe { suffix::retire_block(local, block) };
    }

    /// Retires nodes: they are freed when no operation can be there any more.
    fn retire_all(&self, local: &Local, gone: Vec<Gone>) {
        for Gone { id, block } in gone {
            // SAFETY: the node is unlinked, and readers that could still see the block are in an epoch.
            unsafe { suffix::retire_block(local, block) };
            // SAFETY: the node is unlinked, and readers that could still see it are in an epoch.
            unsafe { nodes::retire(local, &self.nodes, id) };
        }
    }

    /// Takes an empty layer, the layer at `depth`, out of the layer above. Returns true if it is out and has left the
    /// border above empty.
    fn unlink_layer(&self, local: &Local, key: &Key, depth: u16) -> bool {
        let Some((mut border, slot)) = self.latch_link(key, depth - 1) else { return false };
        let (mut id, _) = self.top(border.node.rid(slot));
        let mut nodes = vec![];
        loop {
            let Some(node) = self.try_latch(id) else { return false };
            if !node.head.has(Head::INFINITE) {
                return false;
            }
            let (level, is_empty) = (node.head.level(), node.head.live() == 0 && node.head.count() == 0);
            id = node.node.child_at(0);
            nodes.push(node);
            if !is_empty {
                return false;
            }
            if level == 0 {
                break;
            }
        }
        border.remove_entry(slot);
        for node in &mut nodes {
            node.head.set(Head::DELETED, true);
            node.publish_change();
            border.node.carry_stamp(node.node);
        }
        let emptied = border.head.live() == 0;
        let gone = unlatch_deleted(nodes);
        drop(border);
        self.retire_all(local, gone);
        emptied
    }

    /// Takes the latch of a node in the tree, if it becomes free soon.
    fn try_latch(&self, id: u32) -> Option<Latched<'_>> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(node) = Latched::try_lock(self.node(id), id) {
                return (!node.head.has(Head::DELETED)).then_some(node);
            }
            if backoff.is_long() {
                return None;
            }
            backoff.wait();
        }
    }

    /// Retires all nodes, layers and suffixes: they are freed when no operation can be reading them any more.
    ///
    /// # Safety
    /// As for [`clear`](crate::index::Index::clear).
    pub(super) unsafe fn clear_all(&self, local: &Local) {
        let mut layers = vec![self.root().0];
        while let Some(leftmost) = layers.pop() {
            let (mut first, mut level) = self.top(leftmost);
            loop {
                let below = self.node(first).child_at(0);
                let mut id = first;
                while id != 0 {
                    let node = self.node(id);
                    if level == 0 {
                        self.clear_border(local, id, &mut layers);
                    }
                    // SAFETY: the caller has promised that no operation starts from now on.
                    unsafe { nodes::retire(local, &self.nodes, id) };
                    id = node.next();
                }
                if level == 0 {
                    break;
                }
                (first, level) = (below, level - 1);
            }
        }
    }

    fn clear_border(&self, local: &Local, id: u32, layers: &mut Vec<u32>) {
        let node = self.node(id);
        for entry in node.entries(self.shape()).as_slice() {
            if entry.code >= super::node::code::LAYER {
                layers.push(entry.rid);
            } else if !entry.suffix.is_null() {
                // SAFETY: the caller of `clear_all` has promised that no operation starts from now on.
                unsafe { suffix::retire(local, entry.suffix) };
            }
        }
        // SAFETY: the caller of `clear_all` has promised that no operation starts from now on.
        unsafe { suffix::retire_block(local, suffix::block_of(node)) };
    }
}

/// A node that is out of the tree, and its block of suffixes, if it has one.
struct Gone {
    id: u32,
    block: *mut suffix::Block,
}

/// Releases nodes that are marked deleted. The caller does this before it releases their heirs: no thread may add a key
/// to an heir while a reader can still take the deleted node for the one that covers the key.
fn unlatch_deleted(nodes: Vec<Latched<'_>>) -> Vec<Gone> {
    let gone = nodes.into_iter().map(|node| {
        debug_assert!(node.head.has(Head::DELETED));
        let block = if node.head.level() == 0 { suffix::block_of(node.node) } else { null_mut() };
        Gone { id: node.id, block }
    });
    gone.collect()
}

/// Removes a child that is not the first, and the key to its left, from an interior.
fn remove_child(interior: &mut Latched<'_>, place: usize) {
    let mut fan = super::split::Fan::load(interior);
    fan.remove(place - 1);
    interior.change();
    fan.store(interior.node, &mut interior.head, 0, fan.count);
}

/// Moves the children of the right neighbor to an interior of one child. The neighbor's first child has already been
/// merged into that child.
fn inherit_children(heir: &mut Latched<'_>, gone: &Latched<'_>) {
    debug_assert!(heir.head.count() == 0);
    let mut fan = super::split::Fan::load(gone);
    fan.children[0] = heir.node.child_at(0);
    fan.store(heir.node, &mut heir.head, 0, fan.count);
}
