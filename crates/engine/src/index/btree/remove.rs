//! Removal of keys, and of the nodes that it empties. A leaf is removed when it has no key left (free-at-empty:
//! Johnson, Shasha, B-trees with inserts and deletes: why free-at-empty is better than merge-at-half, JCSS 1993). An
//! interior is removed when it has one child left, which goes to the interior's neighbor.
//!
//! An empty leaf's range goes to its left sibling. If the leaf is its parent's first child, it takes over the content
//! of its right sibling instead, which is removed. Only siblings are therefore touched, and a leaf's lower bound never
//! changes.
//!
//! [`BTree::tidy`] goes down a key's path and mends one thing at a time, from the top. Each time it latches the parent
//! and two neighbors, each only if it is free. If one is not free, it begins anew.

use super::BTree;
use super::node::{Entry, Head, Latched};
use crate::epoch::Local;
use crate::index::{Key, Probe, RecordId, nodes, object};
use crate::suspend::Never;
use crate::sync::Backoff;

/// A node on a key's path, and how it was reached.
#[derive(Clone, Copy)]
struct Reached {
    id: u32,
    head: Head,
    /// The number of the node among the children of the node above.
    place: usize,
}

/// The outcome of an attempt to mend something.
enum Mended {
    Done,
    /// Another thread is there.
    Busy,
    /// The neighbor is full.
    Stays,
}

impl BTree {
    /// Removes the key if it maps to `rid`, and returns true if it did.
    pub(super) fn remove_key(&self, local: &Local, key: &Key, rid: u32) -> bool {
        let mut c = self.begin(false);
        loop {
            let probe;
            (c, probe) = self.descend(c, *key, &mut Never);
            if probe != Probe::Found(RecordId(rid)) {
                return false;
            }
            let mut leaf = Latched::lock(self.node(c.node), c.node);
            if leaf.head.has(Head::DELETED) || !self.is_named(&c) {
                drop(leaf);
                c = self.begin(false);
                continue;
            }
            let Ok(place) = self.place_of(leaf.node, leaf.head, key) else { return false };
            if leaf.node.value(self.fixed8, place) != rid {
                return false;
            }
            let entry = leaf.remove(self.fixed8, place);
            let is_empty = leaf.count() == 0;
            drop(leaf);
            retire_key(local, &entry);
            if is_empty {
                self.tidy(local, key);
            }
            return true;
        }
    }

    /// Removes everything needless on the key's path.
    #[cold]
    fn tidy(&self, local: &Local, key: &Key) {
        let mut backoff = Backoff::new();
        loop {
            let path = self.path(key, &mut backoff);
            match self.mend_path(local, &path) {
                Mended::Done => {}
                Mended::Busy => backoff.wait(),
                Mended::Stays => return,
            }
        }
    }

    /// Returns the nodes on the key's path, the root first.
    fn path(&self, key: &Key, backoff: &mut Backoff) -> Vec<Reached> {
        'root: loop {
            let (mut path, mut id, mut place): (Vec<Reached>, _, _) = (vec![], self.root(), 0);
            loop {
                let node = self.node(id);
                if !self.await_latch(id, backoff) {
                    continue 'root;
                }
                let head = node.head();
                let (parent, known) = path.last().map_or((0, 0), |above| (above.id, above.head.0));
                if head.is_unstable() || !self.names(parent, known, id) {
                    continue 'root;
                }
                path.push(Reached { id, head, place });
                if head.level() == 0 {
                    return path;
                }
                place = match self.place_of(node, head, key) {
                    Ok(place) => place + 1,
                    Err(place) => place,
                };
                id = node.child(self.fixed8, place);
                if !node.is_still(head) {
                    continue 'root;
                }
            }
        }
    }

    /// Mends the uppermost node of a path that can be mended.
    fn mend_path(&self, local: &Local, path: &[Reached]) -> Mended {
        let is_needless = |node: &Reached| node.head.count() == 0;
        if path.len() > 1 && is_needless(&path[0]) {
            return self.lower_root(local, &path[0]);
        }
        for above in path.windows(2).filter(|above| is_needless(&above[1]) && !is_needless(&above[0])) {
            match self.unlink(local, &above[0], &above[1]) {
                Mended::Stays => {}
                mended => return mended,
            }
        }
        Mended::Stays
    }

    /// Makes the only child of the root the root.
    fn lower_root(&self, local: &Local, root: &Reached) -> Mended {
        let Some(mut old) = self.try_latch(root) else { return Mended::Busy };
        if self.root() != old.id {
            return Mended::Busy;
        }
        self.set_root(&old, old.node.child(self.fixed8, 0));
        old.delete();
        self.retire(local, old);
        Mended::Done
    }

    /// Removes a node without an entry: a leaf without keys, or an interior with one child, which goes to a sibling.
    fn unlink(&self, local: &Local, parent: &Reached, gone: &Reached) -> Mended {
        let Some(parent) = self.try_latch(parent) else { return Mended::Busy };
        let place = gone.place;
        let left_id = match place.checked_sub(1) {
            Some(left) => parent.node.child(self.fixed8, left),
            None => gone.id,
        };
        let right_id = parent.node.child(self.fixed8, place.max(1));
        debug_assert!(left_id == gone.id || right_id == gone.id);
        let (left, right) = (self.node(left_id), self.node(right_id));
        let (Some(left), Some(right)) =
            (Latched::try_lock(left, left_id), Latched::try_lock(right, right_id))
        else {
            return Mended::Busy;
        };
        debug_assert!(
            !left.head.has(Head::DELETED) && !right.head.has(Head::DELETED),
            "the parent names them"
        );
        let is_as_reached = if place > 0 { right.head == gone.head } else { left.head == gone.head };
        if !is_as_reached {
            return Mended::Busy;
        }
        self.merge(local, parent, place.max(1) - 1, left, right)
    }

    /// Moves everything in `right` to `left`. One of the two has no entry. The separator between them is in `place` of
    /// their parent.
    fn merge(
        &self,
        local: &Local,
        mut parent: Latched<'_>,
        place: usize,
        mut left: Latched<'_>,
        mut right: Latched<'_>,
    ) -> Mended {
        let is_leaf = left.head.level() == 0;
        if !is_leaf && left.count() + right.count() == self.capacity {
            return Mended::Stays;
        }
        let separator = parent.remove(self.fixed8, place);
        right.delete();
        if is_leaf {
            retire_key(local, &separator);
            self.link_past(&left, &right);
        } else {
            let value = right.node.child(self.fixed8, 0);
            self.append(&mut left, &Entry { value, ..separator });
        }
        for at in 0..right.count() {
            self.append(&mut left, &right.node.entry(self.fixed8, at));
        }
        left.change(); // also if it has no more than before: its range is another
        drop(parent);
        self.retire(local, right);
        Mended::Done
    }
}

impl BTree {
    /// Adds an entry behind all others of a node.
    fn append(&self, node: &mut Latched<'_>, entry: &Entry) {
        if self.fixed8 {
            let count = node.count();
            return node.insert(true, count, entry);
        }
        let mut short = [0; 8];
        // SAFETY: a latch keeps the entry, or it was taken out under a latch in this epoch.
        let key = unsafe { entry.key(&mut short) };
        let skip = node.fit(key, !entry.object.is_null());
        let count = node.count();
        node.insert(false, count, &Entry::new(key, skip, entry.value, entry.object));
    }

    /// Extends `left`, a leaf, to the range of its right neighbor, which is out of the tree from now on.
    fn link_past(&self, left: &Latched<'_>, right: &Latched<'_>) {
        debug_assert!(left.node.next() == right.id);
        let beyond = right.node.next();
        left.node.set_next(beyond);
        if beyond != 0 {
            self.node(beyond).set_prev(left.id);
        }
        left.node.carry_stamp(right);
    }

    /// Takes the latch of a node, if it is free and the node is unchanged since it was reached.
    fn try_latch(&self, reached: &Reached) -> Option<Latched<'_>> {
        Latched::try_lock_as(self.node(reached.id), reached.id, reached.head)
    }

    /// Retires a deleted node: it is freed when no operation can be there any more.
    fn retire(&self, local: &Local, gone: Latched<'_>) {
        debug_assert!(gone.head.has(Head::DELETED));
        let id = gone.id;
        drop(gone);
        // SAFETY: the node is unlinked, so no operation that starts from now on gets there.
        unsafe { nodes::retire(local, &self.nodes, id) };
    }

    /// Retires all nodes and keys: they are freed when no operation can be reading them any more.
    ///
    /// # Safety
    /// As for [`clear`](crate::index::Index::clear).
    pub(super) unsafe fn clear_all(&self, local: &Local) {
        let mut ids = vec![self.root()];
        while let Some(id) = ids.pop() {
            let node = self.node(id);
            let head = node.head();
            if head.level() > 0 {
                ids.extend((0..=head.count()).map(|place| node.child(self.fixed8, place)));
            }
            (0..head.count()).for_each(|place| retire_key(local, &node.entry(self.fixed8, place)));
            // SAFETY: the caller has promised that no operation starts from now on.
            unsafe { nodes::retire(local, &self.nodes, id) };
        }
    }
}

/// Retires the object of a key that is no longer in any node: it is freed when no operation can be reading it.
fn retire_key(local: &Local, entry: &Entry) {
    if !entry.object.is_null() {
        // SAFETY: the entry is out of its node, and readers that find the node from now on find another version.
        unsafe { object::retire(local, entry.object) };
    }
}
