//! Names new nodes in their parents. A node that a split has made is reached from its left neighbor. Until its parent
//! names it, that costs a step. A thread that makes a node, or finds an unnamed one, tries to have it named. It gives
//! up if others are changing the parent, or memory is short.

use super::node::{self, Entry, Shape};
use super::text::{Sought, Text};
use super::view::{View, Which};
use super::word::Word;
use super::{BwTree, Root, first_number};
use crate::epoch::Local;
use crate::memory::OutOfMemory;

/// A node that its parent does not name.
struct Unnamed {
    id: u32,
    low: Text,
    level: u8,
    /// The parent as of a moment before the node was seen.
    parent: Parent,
    /// The left neighbor.
    left: u32,
}

/// The parent that should name a node.
enum Parent {
    /// A node, which had this word.
    Node(u32, Word),
    /// A new root, because the left neighbor was the root.
    None(Root),
}

/// The most nodes that one call names.
const NAMED_MAX: usize = 32;

impl BwTree {
    /// Tries to have the nodes on a key's path named.
    #[cold]
    #[inline(never)]
    pub(super) fn post(&self, local: &Local, key: &Sought<'_>) -> Result<(), OutOfMemory> {
        for _ in 0..NAMED_MAX {
            let Some(unnamed) = self.first_unnamed(key) else { return Ok(()) };
            match unnamed.parent {
                Parent::None(root) => self.grow(local, root, &unnamed)?,
                Parent::Node(_, word) if word.has(Word::FROZEN) => return Ok(()),
                Parent::Node(parent, word) => self.name(local, parent, word, &unnamed)?,
            }
        }
        Ok(())
    }

    /// Returns the uppermost node on a key's path that its parent does not name, and that stays.
    fn first_unnamed(&self, key: &Sought<'_>) -> Option<Unnamed> {
        let root = self.root();
        let (mut id, mut parent) = (root.id(), None);
        loop {
            let word = self.word(id);
            let view = self.view(word);
            if let Some(next) = view.beyond(key) {
                let by = match parent {
                    Some((parent, word)) => Some(Parent::Node(parent, word)),
                    None => (id == root.id()).then_some(Parent::None(root)),
                };
                // A node that is being merged has no name any more, or will have none.
                if let Some(parent) = by.filter(|_| !self.word(next).has(Word::FROZEN)) {
                    let (low, level) = (view.node.header().high, view.level());
                    return Some(Unnamed { id: next, low, level, parent, left: id });
                }
                id = next;
                continue;
            }
            if view.level() == 0 {
                return None;
            }
            parent = Some((id, word));
            id = view.child(Which::UpTo(*key));
        }
    }

    /// Adds a name to the parent, if the parent has not changed.
    fn name(&self, local: &Local, parent: u32, word: Word, unnamed: &Unnamed) -> Result<(), OutOfMemory> {
        let node = self.view(word).node;
        let Some(slot) = node.take_slot() else { return self.consolidate(local, parent, word) };
        let text = self.copy(local, &unnamed.low)?;
        let mut short = [0; 8];
        // SAFETY: the key is this thread's own.
        let probe = node.probe(&unsafe { Sought::text(&text, &mut short) });
        let entry = Entry { slice: probe.slice, object: text.object, value: unnamed.id, code: probe.code };
        // SAFETY: the slot is this thread's own.
        unsafe { node.write_added(slot, &entry, word.newest()) };
        if !self.exchange(parent, word, word.with_newest(slot)) {
            // SAFETY: the key was never published.
            unsafe { text.free(local) };
        }
        Ok(())
    }

    /// Puts a new root above the root and its right neighbor, if the root is the one that was seen. If another root had
    /// come and gone since, the neighbor might no longer be in the tree.
    fn grow(&self, local: &Local, root: Root, unnamed: &Unnamed) -> Result<(), OutOfMemory> {
        let text = self.copy(local, &unnamed.low)?;
        let made = self.make_root(local, unnamed, &text);
        let is_root = made.is_ok_and(|id| {
            let is_root = self.set_root(root, id);
            if !is_root {
                self.unmap(local, id);
            }
            is_root
        });
        if !is_root {
            // SAFETY: the key was never published.
            unsafe { text.free(local) };
        }
        made.map(|_| ())
    }

    fn make_root(&self, local: &Local, unnamed: &Unnamed, text: &Text) -> Result<u32, OutOfMemory> {
        let left: View<'_> = self.view(self.word(unnamed.left));
        let shape = Shape {
            level: unnamed.level + 1,
            low: Text::EMPTY,
            high: Text::EMPTY,
            next: 0,
            number: first_number(),
            ..left.shape()
        };
        let entries = [Entry::whole(&Text::EMPTY, unnamed.left), Entry::whole(text, unnamed.id)];
        let block = node::build(local, &shape, &[(&entries, None)])?;
        self.map_block(block).inspect_err(|_| {
            // SAFETY: the block was never published.
            unsafe { node::free(local, block) };
        })
    }

    /// Makes a copy of a key for an entry.
    fn copy(&self, local: &Local, text: &Text) -> Result<Text, OutOfMemory> {
        let mut short = [0; 8];
        match text.object.is_null() {
            true => Ok(*text),
            // SAFETY: the key is the least key of a node that was in the tree in this epoch.
            false => Text::make(local, unsafe { text.bytes(&mut short) }),
        }
    }
}
