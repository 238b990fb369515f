//! Checks the invariants at the head of `node.rs`, and those of the tree, on a tree that no thread is changing.

use super::*;
use crate::index::model::Checked;
use crate::index::object;
use node::{Entry, LONG};

impl Checked for BTree {
    fn check_structure(&self) {
        let root = self.root();
        let mut leaves = vec![];
        self.check_node(root, self.node(root).head().level(), &[], None, &mut leaves);
        let mut before = 0;
        for pair in leaves.windows(2) {
            assert_eq!(self.node(pair[0]).next(), pair[1], "leaves are linked in the order of keys");
        }
        for id in leaves {
            assert_eq!(self.node(id).prev(), before);
            before = id;
        }
        assert_eq!(self.node(before).next(), 0);
    }
}

impl BTree {
    /// Checks a node, whose keys are at least `low` and below `high`, and all nodes below it.
    fn check_node(&self, id: u32, level: u8, low: &[u8], high: Option<&[u8]>, leaves: &mut Vec<u32>) {
        let node = self.node(id);
        let head = node.head();
        assert!(!head.is_unstable() && head.level() == level && head.count() <= self.capacity);
        let entries: Vec<Entry> = (0..head.count()).map(|place| node.entry(self.fixed8, place)).collect();
        if !self.fixed8 {
            check_prefix(node, &entries);
        }
        let key = |entry: &Entry| {
            let mut short = [0; 8];
            // SAFETY: no thread changes the tree.
            unsafe { entry.key(&mut short) }.to_vec()
        };
        let keys: Vec<Vec<u8>> = entries.iter().map(key).collect();
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert!(keys.iter().all(|key| **key >= *low && high.is_none_or(|high| **key < *high)));
        if level == 0 {
            leaves.push(id);
            return;
        }
        for place in 0..=keys.len() {
            let low = place.checked_sub(1).map_or(low, |before| &keys[before]);
            let high = keys.get(place).map_or(high, |key| Some(&**key));
            self.check_node(node.child(self.fixed8, place), level - 1, low, high, leaves);
        }
    }
}

fn check_prefix(node: &Node, entries: &[Entry]) {
    let skip = node.skip();
    assert!(skip == 0 || entries.iter().any(|entry| entry.object == node.prefix()));
    for entry in entries {
        if entry.object.is_null() {
            assert!(skip == 0 && entry.code < LONG);
            continue;
        }
        // SAFETY: no thread changes the tree.
        let (key, prefix) = unsafe {
            (object::bytes(entry.object), if skip > 0 { object::bytes(node.prefix()) } else { &[][..] })
        };
        assert_eq!(key[..skip], prefix[..skip]);
        let expected = Entry::new(key, skip, entry.value, entry.object);
        assert_eq!((entry.slice, entry.code), (expected.slice, expected.code));
    }
}
