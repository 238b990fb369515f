//! Removal of keys. A removal is a record that names the entry, for which there is always room. [`super::merge`]
//! handles nodes that it leaves with few entries.

use super::BwTree;
use super::descend::Cursor;
use super::text::Sought;
use super::word::Word;
use crate::epoch::Local;
use crate::index::Key;
use crate::suspend::Never;
use crate::sync::Backoff;

impl BwTree {
    /// Removes the key if it maps to `rid`, and returns true if it did.
    #[inline(never)]
    pub(super) fn remove_key(&self, local: &Local, key: &Key, rid: u32) -> bool {
        let (mut c, mut backoff, mut short) = (self.begin(), Backoff::new(), [0; 8]);
        let sought = Sought::new(key, self.is_fixed8, &mut short);
        loop {
            (c, _) = self.descend(c, *key, &mut Never);
            let view = self.view(c.word);
            let Some((target, value)) = view.find(&view.node.probe(&sought)) else { return false };
            if value != rid {
                return false;
            }
            if c.word.has(Word::FROZEN) {
                backoff.wait();
                c = self.begin();
            } else if !view.node.claim(target) {
                // Another thread is about to remove the same entry.
                backoff.wait();
                c.word = Word::NONE;
            } else if self.publish_removal(&mut c, target) {
                self.tidy_behind(local, c, &sought);
                return true;
            }
        }
    }

    /// Publishes the removal of a claimed target. Returns false if the node has another block or is frozen, and must be
    /// read again.
    fn publish_removal(&self, c: &mut Cursor, target: usize) -> bool {
        let node = self.view(c.word).node;
        let claimed = c.word;
        // The entry lives until this thread removes it: no other thread can.
        while claimed.is_same_block(c.word) && !c.word.has(Word::FROZEN) {
            // SAFETY: this thread has claimed the target, and its removal is not published.
            unsafe { node.write_removal(target, c.word.newest()) };
            let removed = c.word.with_newest(node.removal_of(target));
            if self.exchange(c.id, c.word, removed) {
                c.word = removed;
                return true;
            }
            c.word = self.word(c.id);
        }
        node.unclaim(target);
        c.word = Word::NONE;
        false
    }

    /// Keeps chains short, and the number of nodes low, where a key was removed. If memory is too short for that, it is
    /// left to others.
    fn tidy_behind(&self, local: &Local, c: Cursor, key: &Sought<'_>) {
        let view = self.view(c.word);
        let chain = view.chain();
        if view.live(&chain) <= self.capacity / 4 {
            self.tidy(local, key);
        } else if chain.len >= view.node.slots() {
            let _ = self.consolidate(local, c.id, c.word);
        }
    }
}
