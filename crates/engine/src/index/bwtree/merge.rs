//! Merges of nodes with few entries: a node is merged with a neighbor of the same parent, the right node into the left
//! one. A root with one child is removed.
//!
//! A merge has a holder: a thread that has set a flag in the parent's word. As long as the flag is set, the parent is
//! neither split nor merged itself, so both neighbors stay in it. The steps are:
//!
//! 1. Freeze the content of the right node.
//! 2. Raise its stamp in the left node.
//! 3. Remove its name from the parent.
//! 4. Let the left node take over its content.
//!
//! README.md has the argument.

use super::BwTree;
use super::change::List;
use super::node::{self, COUNT_MAX, Shape};
use super::text::Sought;
use super::view::{View, Which};
use super::word::Word;
use crate::epoch::Local;
use crate::index::atomic::Ordering;
use crate::memory::OutOfMemory;
use crate::sync::Backoff;

/// A node on a key's path.
#[derive(Clone, Copy)]
struct Reached {
    id: u32,
    word: Word,
}

/// The outcome of an attempt to mend something.
enum Mended {
    Done,
    /// Another thread is at work there.
    Busy,
    /// There is nothing to do, or no memory for it.
    Stays,
}

impl BwTree {
    /// Removes everything needless on the key's path.
    #[cold]
    #[inline(never)]
    pub(super) fn tidy(&self, local: &Local, key: &Sought<'_>) {
        let mut backoff = Backoff::new();
        loop {
            let _ = self.post(local, key); // a node without a name is not merged
            match self.mend_path(local, &self.path(key)) {
                Mended::Done => {}
                Mended::Busy => backoff.wait(),
                Mended::Stays => return,
            }
        }
    }

    /// Returns the nodes on the key's path, the root first.
    fn path(&self, key: &Sought<'_>) -> Vec<Reached> {
        let (mut path, mut id) = (vec![], self.root().id());
        loop {
            let word = self.word(id);
            let view = self.view(word);
            if let Some(next) = view.beyond(key) {
                id = next;
                continue;
            }
            path.push(Reached { id, word });
            if view.level() == 0 {
                return path;
            }
            id = view.child(Which::UpTo(*key));
        }
    }

    /// Mends the uppermost node of a path that can be mended.
    fn mend_path(&self, local: &Local, path: &[Reached]) -> Mended {
        let lowered = self.lower_root(local, path[0]);
        if !matches!(lowered, Mended::Stays) {
            return lowered;
        }
        for above in path.windows(2) {
            match self.mend(local, above[0], above[1]) {
                Mended::Stays => {}
                mended => return mended,
            }
        }
        Mended::Stays
    }

    /// Makes the only child of the root the root.
    fn lower_root(&self, local: &Local, root: Reached) -> Mended {
        let view = self.view(root.word);
        let has_one_child = view.level() > 0 && view.live(&view.chain()) == 1;
        if !has_one_child || view.node.header().next != 0 || root.word.has(Word::FROZEN) {
            return Mended::Stays;
        }
        let child = view.first_child();
        let now = self.root();
        if now.id() != root.id || self.view(self.word(child)).node.header().next != 0 {
            return Mended::Stays;
        }
        if root.word.has(Word::HELD) || !self.exchange(root.id, root.word, root.word.with(Word::FROZEN)) {
            return Mended::Busy;
        }
        // Without a right neighbor the root gets no parent, and only this thread has frozen it.
        let is_lowered = self.set_root(now, child);
        assert!(is_lowered, "a root that is frozen stays the root");
        self.retire_view(local, &view);
        self.retire_id(local, root.id);
        Mended::Done
    }

    /// Merges a node that has few entries with a neighbor.
    fn mend(&self, local: &Local, parent: Reached, node: Reached) -> Mended {
        let few = self.view(node.word);
        if few.live(&few.chain()) > self.capacity / 4 {
            return Mended::Stays;
        }
        let children = List::of(&self.view(parent.word));
        let children = children.entries();
        let Some(place) = children.iter().position(|child| child.value == node.id) else {
            return Mended::Stays;
        };
        let left = place.saturating_sub(1);
        let Some(right) = children.get(left + 1).map(|child| child.value) else { return Mended::Stays };
        let left = children[left].value;
        match self.mergeable(left, right, self.capacity) {
            Ok(_) => {}
            Err(mended) => return mended,
        }
        let held = parent.word.with(Word::HELD);
        if parent.word.has(Word::FROZEN | Word::HELD) || !self.exchange(parent.id, parent.word, held) {
            return Mended::Busy;
        }
        let mended = self.merge(local, parent.id, left, right);
        let mut word = self.word(parent.id);
        while !self.exchange(parent.id, word, word.without(Word::HELD)) {
            word = self.word(parent.id);
        }
        let (word, view) = (word.without(Word::HELD), self.view(word));
        if view.chain().len >= view.node.slots() {
            let _ = self.consolidate(local, parent.id, word); // if it fails, another time
        }
        mended
    }

    /// Returns the words of two neighbors, if they can be merged into a node of `capacity` entries.
    fn mergeable(&self, left: u32, right: u32, capacity: usize) -> Result<(Word, Word), Mended> {
        let (left, right) = (self.word(left), (right, self.word(right)));
        if left.has(Word::FROZEN) || right.1.has(Word::FROZEN | Word::HELD) {
            return Err(Mended::Busy);
        }
        let (a, b) = (self.view(left), self.view(right.1));
        if a.node.header().next != right.0 {
            return Err(Mended::Stays); // a node without a name is between them
        }
        let (some, more) = (a.live(&a.chain()), b.live(&b.chain()));
        // Leaves that are nearly full would soon be split again.
        let is_leaf = a.level() == 0;
        let most = if is_leaf && some.min(more) > 0 { capacity * 3 / 4 } else { capacity };
        let fits = some + more <= most || is_leaf && some.min(more) == 0 && some + more <= COUNT_MAX;
        if fits { Ok((left, right.1)) } else { Err(Mended::Stays) }
    }

    /// Merges two children of a parent that the caller holds.
    fn merge(&self, local: &Local, parent: u32, left: u32, right: u32) -> Mended {
        let (mut word, frozen) = match self.mergeable(left, right, self.capacity) {
            Ok(words) => words,
            Err(mended) => return mended,
        };
        let Ok(mut block) = self.build_merged(local, word, frozen) else { return Mended::Stays };
        if !self.exchange(right, frozen, frozen.with(Word::FROZEN)) {
            // SAFETY: the block was never published.
            unsafe { node::free(local, block) };
            return Mended::Busy;
        }
        let gone = self.view(frozen);
        if gone.level() == 0 {
            self.hand_stamp_on(right, left);
        }
        self.take_name(parent, &gone, right);
        while !self.exchange(left, word, Word::of(block, word.0 & Word::HELD)) {
            // SAFETY: the block was never published.
            unsafe { node::free(local, block) };
            let again = self.mergeable_still(left, right);
            let rebuilt = again.and_then(|now| self.build_merged(local, now, frozen).ok().zip(Some(now)));
            let Some((now, then)) = rebuilt else {
                // The right node has no name, but stays, as after a split that was not posted. Release: pairs with the
                // Acquire in `word`.
                self.mapped(right).word.store(frozen.0, Ordering::Release);
                self.unbar(local, right); // the thread that barred it may have found it frozen
                return Mended::Stays;
            };
            (block, word) = (now, then);
        }
        self.retire_view(local, &self.view(word));
        self.retire_view(local, &gone);
        // SAFETY: the left node now has another upper fence, so no new operation finds this key.
        unsafe { gone.node.header().low.retire(local) };
        self.retire_id(local, right);
        Mended::Done
    }

    /// Returns the word of the left of two neighbors, if it can take over the content of the right one, which is
    /// frozen.
    fn mergeable_still(&self, left: u32, right: u32) -> Option<Word> {
        let word = self.word(left);
        debug_assert!(!word.has(Word::FROZEN), "its parent is held");
        let (a, b) = (self.view(word), self.view(self.word(right)));
        let fits = a.live(&a.chain()) + b.live(&b.chain()) <= COUNT_MAX;
        (fits && a.node.header().next == right).then_some(word)
    }

    /// Builds a block with the entries of two neighbors.
    fn build_merged(&self, local: &Local, left: Word, right: Word) -> Result<*mut u8, OutOfMemory> {
        let (left, right) = (self.view(left), self.view(right));
        let (some, more) = (List::of(&left), List::of(&right));
        let (high, next) = (right.node.header().high, right.node.header().next);
        let shape = Shape { high, next, ..left.shape() };
        let parts = [(some.entries(), Some(left.node)), (more.entries(), Some(right.node))];
        node::build_from_reserve(local, &shape, &parts)
    }

    /// Removes the name of a child from a parent that the caller holds.
    fn take_name(&self, parent: u32, child: &View<'_>, id: u32) {
        let mut short = [0; 8];
        // SAFETY: the key is the child's, which is still in the tree.
        let low = unsafe { Sought::text(&child.node.header().low, &mut short) };
        loop {
            let word = self.word(parent);
            debug_assert!(word.has(Word::HELD) && !word.has(Word::FROZEN));
            let node = self.view(word).node;
            let named = self.view(word).find(&node.probe(&low));
            let (target, value) = named.expect("only the holder of a parent takes names out");
            assert!(value == id, "a name is that of the child");
            let is_claimed = node.claim(target);
            assert!(is_claimed, "only the holder of a parent takes names out");
            // SAFETY: this thread has claimed the target.
            unsafe { node.write_removal(target, word.newest()) };
            if self.exchange(parent, word, word.with_newest(node.removal_of(target))) {
                return;
            }
            node.unclaim(target);
        }
    }

    /// Retires all nodes and keys: they are freed when no operation can be reading them any more.
    ///
    /// # Safety
    /// As for [`clear`](crate::index::Index::clear).
    pub(super) unsafe fn clear_all(&self, local: &Local) {
        let (mut ids, mut leftmost) = (vec![], self.root().id());
        loop {
            let mut id = leftmost;
            while id != 0 {
                ids.push(id);
                id = self.view(self.word(id)).node.header().next;
            }
            let view = self.view(self.word(leftmost));
            if view.level() == 0 {
                break;
            }
            leftmost = view.first_child();
        }
        for id in ids {
            let word = self.word(id);
            let view = self.view(word);
            for (entry, _) in view.entries(&view.sorted()) {
                // SAFETY: the caller has promised that no operation starts from now on.
                unsafe { entry.retire(local) };
            }
            // SAFETY: the caller has promised that no operation starts from now on.
            unsafe { view.node.header().low.retire(local) };
            self.retire_view(local, &view);
            // Release: pairs with the Acquire in `word`. A thread that comes too late finds that its mark does not
            // hold.
            self.mapped(id).word.store(word.with(Word::FROZEN).0, Ordering::Release);
            self.retire_id(local, id);
        }
    }
}
