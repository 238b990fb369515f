//! Checks the invariants at the head of `node.rs`, and those of the tree, on a tree that no thread is changing.

use super::*;
use crate::index::model::Checked;
use node::COUNT_MAX;

impl Checked for BwTree {
    fn check_structure(&self) {
        let (mut level, mut names) = (self.view(self.word(self.root().id())).level(), vec![]);
        let mut leftmost = self.root().id();
        loop {
            let (named, below) = (std::mem::take(&mut names), &mut names);
            let ids = self.check_level(leftmost, level, below);
            // A named node is in the level, and an unnamed one can be reached from its left neighbor.
            assert!(named.iter().all(|(_, id)| ids.iter().any(|(_, other)| id == other)));
            assert!(named.iter().all(|name| ids.contains(name)), "a name is the node's least key");
            let view = self.view(self.word(leftmost));
            let Some(below) = level.checked_sub(1) else { break };
            (level, leftmost) = (below, view.first_child());
        }
    }
}

fn bytes(text: &Text) -> Vec<u8> {
    let mut short = [0; 8];
    // SAFETY: no thread changes the tree.
    unsafe { text.bytes(&mut short) }.to_vec()
}

impl BwTree {
    /// Checks the nodes of a level. Returns their least keys and ids, and adds the names that they have to `names`.
    fn check_level(&self, leftmost: u32, level: u8, names: &mut Vec<(Vec<u8>, u32)>) -> Vec<(Vec<u8>, u32)> {
        let (mut ids, mut id, mut low) = (vec![], leftmost, vec![]);
        while id != 0 {
            let word = self.word(id);
            assert!(!word.has(Word::FROZEN | Word::HELD | Word::BARRED), "nobody is at work");
            let view = self.view(word);
            let header = view.node.header();
            assert_eq!(header.level, level);
            assert_eq!(bytes(&header.low), low, "neighbours' fences are the same");
            ids.push((low, id));
            self.check_node(&view, names);
            low = bytes(&header.high);
            assert_eq!(header.next == 0, low.is_empty());
            id = header.next;
        }
        ids
    }

    fn check_node(&self, view: &View<'_>, names: &mut Vec<(Vec<u8>, u32)>) {
        let (node, chain) = (view.node, view.sorted());
        let header = node.header();
        assert!(node.count() <= COUNT_MAX && header.is_fixed8 == self.is_fixed8);
        let mut entries: Vec<(Vec<u8>, u32)> =
            view.entries(&chain).map(|(entry, _)| (bytes(&node.text(&entry)), entry.value)).collect();
        assert_eq!(entries.len(), view.live(&chain));
        assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
        let (low, high) = (bytes(&header.low), bytes(&header.high));
        assert!(entries.iter().all(|(key, _)| *key >= low && (header.next == 0 || *key < high)));
        let backwards: Vec<u32> = view.entries(&chain).rev().map(|(entry, _)| entry.value).collect();
        assert!(entries.iter().rev().map(|entry| entry.1).eq(backwards));
        let prefix = &low[..node.skip()];
        assert!(entries.iter().all(|(key, _)| key.starts_with(prefix)));
        for (entry, _) in view.entries(&chain) {
            assert!(self.is_fixed8 || entry.object.is_null() == (bytes(&node.text(&entry)).len() <= 8));
        }
        if header.level > 0 {
            if self.is_fixed8 && low.is_empty() {
                assert_eq!(std::mem::take(&mut entries[0].0), [0; 8], "as the least of all keys");
            }
            assert_eq!(entries[0].0, low, "the first name is the node's least key");
            names.extend(entries);
        }
    }
}
