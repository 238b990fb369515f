//! Splits full nodes, from the top down. Every full node on a key's path is split, each while its parent is latched and
//! has room. At most two latches are held, and the second one is taken only if it is free.

use super::BTree;
use super::node::{Entry, Head, Latched, common};
use crate::epoch::Local;
use crate::index::nodes::Spares;
use crate::index::{Key, object};
use crate::memory::OutOfMemory;
use crate::sync::Backoff;
use std::ptr::null_mut;

/// A full node on a key's path, and how it was reached.
struct Full {
    id: u32,
    head: Head,
    /// 0 means that the node is the root.
    parent: u32,
    parent_head: Head,
}

impl BTree {
    /// Makes room for one more key in the key's leaf, and in all nodes above it.
    #[cold]
    pub(super) fn make_room(&self, local: &Local, key: &Key, ascends: bool) -> Result<(), OutOfMemory> {
        let mut backoff = Backoff::new();
        while let Some(full) = self.first_full(key, &mut backoff) {
            if !self.try_split(local, &full, key, ascends)? {
                backoff.wait(); // another thread is there
            }
        }
        Ok(())
    }

    /// Returns the uppermost full node on the key's path.
    fn first_full(&self, key: &Key, backoff: &mut Backoff) -> Option<Full> {
        'root: loop {
            let (mut id, mut parent, mut parent_head) = (self.root(), 0, Head(0));
            loop {
                let node = self.node(id);
                if !self.await_latch(id, backoff) {
                    continue 'root;
                }
                let head = node.head();
                if head.is_unstable() || !self.names(parent, parent_head.0, id) {
                    continue 'root;
                }
                if head.count() == self.capacity {
                    return Some(Full { id, head, parent, parent_head });
                }
                if head.level() == 0 {
                    return None;
                }
                let child = self.child_for(node, head, key);
                if !node.is_still(head) {
                    continue 'root;
                }
                (parent, parent_head, id) = (id, head, child);
            }
        }
    }

    /// Splits a full node. Returns false if the node or its parent has changed or is latched.
    fn try_split(&self, local: &Local, full: &Full, key: &Key, ascends: bool) -> Result<bool, OutOfMemory> {
        let mut parent = None;
        if full.parent != 0 {
            match Latched::try_lock_as(self.node(full.parent), full.parent, full.parent_head) {
                None => return Ok(false),
                latched => parent = latched,
            }
        }
        let Some(node) = Latched::try_lock_as(self.node(full.id), full.id, full.head) else {
            return Ok(false);
        };
        if full.parent == 0 && self.root() != full.id {
            return Ok(false);
        }
        debug_assert!(parent.as_ref().is_none_or(|parent| parent.count() < self.capacity));
        self.split(local, parent, node, key, ascends)?;
        Ok(true)
    }

    fn split(
        &self,
        local: &Local,
        parent: Option<Latched<'_>>,
        mut left: Latched<'_>,
        key: &Key,
        ascends: bool,
    ) -> Result<(), OutOfMemory> {
        let mut spares = Spares::reserve(&self.nodes, 1 + usize::from(parent.is_none()))?;
        let cut = self.cut(&left, key, ascends);
        let has_prefix = parent.as_ref().is_some_and(|parent| parent.node.skip() > 0);
        // This is the last thing that can fail.
        let separator = match left.head.level() {
            0 => self.separate(local, &left, cut, has_prefix)?,
            _ => left.node.entry(self.fixed8, cut),
        };
        let right = spares.take().expect("reserved above");
        self.move_right(&mut left, cut, right);
        let separator = Entry { value: right, ..separator };
        match parent {
            Some(mut parent) => self.insert_separator(&mut parent, &separator),
            None => self.grow(&left, spares.take().expect("reserved for a root that splits"), &separator),
        }
        Ok(())
    }

    /// Returns where to cut a full node. The entries from there on move to the right; the first of them, in an
    /// interior, moves up instead. Ascending insertions leave full nodes behind: nodes at the end of a tree, and nodes
    /// of a run of keys that is known or seen to ascend. Such a run sheds the keys that it is about to pass.
    fn cut(&self, node: &Latched<'_>, key: &Key, ascends: bool) -> usize {
        let count = node.count();
        let (Ok(place) | Err(place)) = self.place_of(node.node, node.head, key);
        let middle = count / 2;
        if node.head.level() > 0 {
            // Both sides get at least two children.
            return if place == count { count - 2 } else { middle };
        }
        let ends = place == count;
        if ends && (ascends || node.node.next() == 0) {
            count - 1
        } else if !ends && ascends && place >= middle {
            place
        } else {
            middle
        }
    }

    /// Makes the shortest key that is greater than the keys below `cut` in a leaf, and not greater than the others.
    fn separate(
        &self,
        local: &Local,
        leaf: &Latched<'_>,
        cut: usize,
        has_prefix: bool,
    ) -> Result<Entry, OutOfMemory> {
        debug_assert!(0 < cut && cut < leaf.count());
        if self.fixed8 {
            return Ok(leaf.node.entry(true, cut));
        }
        let (below, above) = (leaf.node.entry(false, cut - 1), leaf.node.entry(false, cut));
        let (mut short, mut short_below) = ([0; 8], [0; 8]);
        // SAFETY: the entries are the leaf's own, and the latch keeps them.
        let (below, above) = unsafe { (below.key(&mut short_below), above.key(&mut short)) };
        let separator = &above[..=common(below, above)];
        let object = match separator.len() <= 8 && !has_prefix {
            true => null_mut(),
            false => object::make(local, separator)?,
        };
        Ok(Entry::new(separator, 0, 0, object))
    }

    /// Moves everything in `left` from `cut` on to a new node. The caller has the separator.
    fn move_right(&self, left: &mut Latched<'_>, cut: usize, right: u32) {
        let (node, count, level) = (self.node(right), left.count(), left.head.level());
        let mut head = node.clear(level);
        let first = cut + usize::from(level > 0);
        node.fill(self.fixed8, &mut head, (first..count).map(|place| left.node.entry(self.fixed8, place)));
        let beyond = left.node.next();
        if level > 0 {
            node.set_first(left.node.value(self.fixed8, cut));
        } else {
            node.set_next(beyond);
            node.set_prev(left.id);
            if !self.loses_stamps {
                node.carry_stamp(left);
            }
        }
        node.copy_prefix(left.node);
        node.tighten(self.fixed8, head.count());
        node.set_head(head);
        // The node is whole. From here on, walks may come to it from its right neighbor, whose latch this thread does
        // not hold.
        if level == 0 {
            left.node.set_next(right);
            if beyond != 0 {
                self.node(beyond).set_prev(right);
            }
        }
        left.truncate(self.fixed8, cut);
    }

    /// Adds the right half of a node that has just been split to the node's parent.
    fn insert_separator(&self, parent: &mut Latched<'_>, separator: &Entry) {
        if self.fixed8 {
            let place = parent.node.up_to(parent.count(), separator.slice);
            return parent.insert(true, place, separator);
        }
        let Entry { value, object, .. } = *separator;
        let mut short = [0; 8];
        // SAFETY: the entry is this thread's own, and no other thread has it.
        let key = unsafe { separator.key(&mut short) };
        let skip = parent.fit(key, !object.is_null());
        let (Ok(place) | Err(place)) = parent.node.locate(parent.count(), key);
        parent.insert(false, place, &Entry::new(key, skip, value, object));
    }

    /// Puts a new root above a root that has just been split.
    fn grow(&self, left: &Latched<'_>, root: u32, separator: &Entry) {
        let node = self.node(root);
        let mut head = node.clear(left.head.level() + 1);
        node.set_first(left.id);
        let mut entry = *separator;
        if !self.fixed8 {
            let mut short = [0; 8];
            // SAFETY: the entry is this thread's own, and no other thread has it.
            entry = Entry::new(unsafe { separator.key(&mut short) }, 0, separator.value, separator.object);
        }
        node.fill(self.fixed8, &mut head, std::iter::once(entry));
        node.set_head(head);
        self.set_root(left, root);
    }
}
