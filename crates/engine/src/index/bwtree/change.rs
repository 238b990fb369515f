//! Consolidation, which gives a node a new block without records, and splits, which are consolidations into two nodes
//! of a node that has become too large.

use super::node::{self, COUNT_MAX, Entry, Node, Shape, TARGETS_MAX};
use super::text::{Sought, Text, common};
use super::view::View;
use super::word::Word;
use super::{BwTree, first_number};
use crate::epoch::Local;
use crate::index::atomic::{Ordering, fence};
use crate::memory::OutOfMemory;

/// The entries of a node, in order.
pub(super) struct List {
    entries: [Entry; TARGETS_MAX],
    /// The slots of added entries; 0 for an entry of the base.
    slots: [u8; TARGETS_MAX],
    len: usize,
}

impl List {
    /// Makes the list of the live entries of a node.
    pub(super) fn of(view: &View<'_>) -> List {
        let chain = view.sorted();
        let mut list = List { entries: [Entry::NONE; TARGETS_MAX], slots: [0; TARGETS_MAX], len: 0 };
        for (entry, slot) in view.entries(&chain) {
            (list.entries[list.len], list.slots[list.len]) = (entry, slot);
            list.len += 1;
        }
        list
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[..self.len]
    }

    /// Returns where to cut a list that has become too long: the entries from there on move to the right. Ascending
    /// insertion leaves full nodes behind.
    fn cut(&self, capacity: usize, slots: usize) -> usize {
        let middle = self.len / 2;
        // The last inserted entry. It may end a run of inserted entries.
        let Some(end) = self.slots[..self.len].iter().rposition(|&slot| slot != 0) else { return middle };
        let run = self.slots[..=end].iter().rev().take_while(|&&slot| slot != 0).count();
        if run < 2.max(slots * 3 / 4) {
            middle
        } else if end + 1 == self.len {
            capacity.min(self.len - 1)
        } else {
            middle.max(end + 1)
        }
    }
}

impl View<'_> {
    /// Returns the shape that a successor of the block should have.
    pub(super) fn shape(&self) -> Shape {
        let header = self.node.header();
        Shape {
            level: header.level,
            slots: header.slots,
            is_fixed8: header.is_fixed8,
            low: header.low,
            high: header.high,
            next: header.next,
            number: header.number + 1,
        }
    }
}

impl BwTree {
    /// Gives a node that had this word a new block, or a new block and a new right neighbor. Does nothing if the node
    /// has changed.
    #[cold]
    #[inline(never)]
    pub(super) fn consolidate(&self, local: &Local, id: u32, word: Word) -> Result<(), OutOfMemory> {
        if word.has(Word::FROZEN) {
            return Ok(());
        }
        let view = self.view(word);
        let list = List::of(&view);
        if list.len > self.capacity && !word.has(Word::HELD) {
            return self.split(local, id, word, &view, &list);
        }
        if list.len > COUNT_MAX {
            return Err(OutOfMemory); // a node that is held has no room for that many
        }
        let block = node::build(local, &view.shape(), &[(list.entries(), Some(view.node))])?;
        if self.exchange(id, word, Word::of(block, word.0 & Word::HELD)) {
            self.retire_view(local, &view);
        } else {
            // SAFETY: the block was never published.
            unsafe { node::free(local, block) };
        }
        Ok(())
    }

    fn split(
        &self,
        local: &Local,
        id: u32,
        word: Word,
        view: &View<'_>,
        list: &List,
    ) -> Result<(), OutOfMemory> {
        let cut = list.cut(self.capacity, view.node.slots());
        debug_assert!(0 < cut && cut < list.len);
        let low = self.separate(local, view, &list.entries[cut - 1], &list.entries[cut])?;
        match self.split_at(local, id, word, view, list.entries().split_at(cut), low) {
            Ok(true) => {
                let mut short = [0; 8];
                // SAFETY: the object is the right half's, which is in the tree in this epoch.
                let _ = self.post(local, &unsafe { Sought::text(&low, &mut short) });
                Ok(())
            }
            failed => {
                // SAFETY: the key was never published.
                unsafe { low.free(local) };
                self.unbar(local, id);
                failed.map(|_| ())
            }
        }
    }

    /// Makes the least key of a right half. In a leaf this is the shortest key that is greater than all keys in the
    /// left half.
    fn separate(
        &self,
        local: &Local,
        view: &View<'_>,
        below: &Entry,
        above: &Entry,
    ) -> Result<Text, OutOfMemory> {
        let (below, above) = (view.node.text(below), view.node.text(above));
        if self.is_fixed8 {
            return Ok(above);
        }
        let (mut short, mut short_below) = ([0; 8], [0; 8]);
        // SAFETY: the entries live in a node of this epoch.
        let (below, above) = unsafe { (below.bytes(&mut short_below), above.bytes(&mut short)) };
        let len = if view.level() == 0 { common(below, above) + 1 } else { above.len() };
        Text::make(local, &above[..len])
    }

    /// Splits the node at a key. Returns false if the node has changed.
    fn split_at(
        &self,
        local: &Local,
        id: u32,
        mut word: Word,
        view: &View<'_>,
        (left, right): (&[Entry], &[Entry]),
        low: Text,
    ) -> Result<bool, OutOfMemory> {
        let shape = view.shape();
        let right = Shape { low, number: first_number(), ..shape }.build(local, right, view.node)?;
        let right_id = self.map_block(right).inspect_err(|_| {
            // SAFETY: the block was never published.
            unsafe { node::free(local, right) };
        })?;
        let left = Shape { high: low, next: right_id, ..shape }.build(local, left, view.node);
        let left = left.inspect_err(|_| self.unmap(local, right_id))?;
        let is_split = (view.level() > 0 || self.bar(id, &mut word, right_id))
            && self.exchange(id, word, Word::of(left, 0));
        if is_split {
            self.retire_view(local, view);
        } else {
            self.unmap(local, right_id);
            // SAFETY: the block was never published.
            unsafe { node::free(local, left) };
        }
        Ok(is_split)
    }

    /// Makes marks of a leaf invalid, and hands the leaf's stamp on to another node, not yet published. Returns false
    /// if the leaf has changed.
    fn bar(&self, id: u32, word: &mut Word, heir: u32) -> bool {
        let barred = word.with(Word::BARRED);
        if *word != barred && !self.exchange(id, *word, barred) {
            return false;
        }
        *word = barred;
        self.hand_stamp_on(id, heir);
        true
    }

    /// Gives a leaf that was barred for an abandoned split a new block with all its entries, of which marks can hold.
    /// The flag must not be removed by itself: another thread may be about to split the barred leaf, and to hand its
    /// stamp on.
    pub(super) fn unbar(&self, local: &Local, id: u32) {
        loop {
            let word = self.word(id);
            if !word.has(Word::BARRED) || word.has(Word::FROZEN) {
                return;
            }
            let view = self.view(word);
            let list = List::of(&view);
            if list.len > COUNT_MAX {
                return; // the next insertion splits it
            }
            let parts = [(list.entries(), Some(view.node))];
            let Ok(block) = node::build_from_reserve(local, &view.shape(), &parts) else { return };
            if self.exchange(id, word, Word::of(block, word.0 & Word::HELD)) {
                return self.retire_view(local, &view);
            }
            // SAFETY: the block was never published.
            unsafe { node::free(local, block) };
        }
    }

    /// Raises the stamp of another leaf to that of a leaf whose word already says that marks of it do not hold.
    pub(super) fn hand_stamp_on(&self, id: u32, heir: u32) {
        // Pairs with the fence between `raise_stamp` and `is_as_marked`: either this thread sees the stamp, or the
        // thread that raised it sees the word.
        fence(Ordering::SeqCst);
        if !self.loses_stamps {
            self.raise_stamp_of(heir, self.stamp(id));
        }
    }
}

impl Shape {
    fn build(&self, local: &Local, entries: &[Entry], from: Node<'_>) -> Result<*mut u8, OutOfMemory> {
        node::build(local, self, &[(entries, Some(from))])
    }
}
