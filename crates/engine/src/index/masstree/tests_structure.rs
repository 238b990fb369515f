//! Checks the invariants at the head of `node.rs` on a tree that no thread is changing.

use super::node::code;
use super::*;
use crate::index::model::Checked;

impl Checked for Masstree {
    /// Checks every level of every layer.
    fn check_structure(&self) {
        let mut layers = vec![self.root().0];
        while let Some(leftmost) = layers.pop() {
            let (root, height) = self.top(leftmost);
            assert!(self.node(root).head().has(Head::INFINITE), "a root has no neighbour");
            let mut expected = vec![root];
            for level in (0..=height).rev() {
                let level_nodes = self.check_level(expected[0], level);
                assert_eq!(level_nodes, expected, "level {level}: each node has one parent");
                if level > 0 {
                    let below = level_nodes.iter().flat_map(|&id| self.children(id));
                    expected = below.collect();
                    assert_eq!(self.node(expected[0]).up(), level_nodes[0]);
                } else if !self.fixed8 {
                    layers.extend(level_nodes.iter().flat_map(|&id| self.links(id)));
                }
            }
        }
    }
}

impl Masstree {
    fn children(&self, id: u32) -> Vec<u32> {
        let node = self.node(id);
        (0..=node.head().count()).map(|i| node.child_at(i)).collect()
    }

    fn links(&self, id: u32) -> Vec<u32> {
        let entries = self.node(id).entries(self.shape());
        let links = entries.as_slice().iter().filter(|entry| entry.code >= code::LAYER);
        links.map(|entry| entry.rid).collect()
    }

    /// Checks a level from its leftmost node on, and returns its nodes.
    fn check_level(&self, leftmost: u32, level: u8) -> Vec<u32> {
        let (mut id, mut before, mut low, mut nodes) = (leftmost, 0, 0, vec![]);
        loop {
            let node = self.node(id);
            let head = node.head();
            assert!(!head.is_unstable() && !head.has(Head::LOCKED) && head.level() == level);
            assert_eq!(head.has(Head::LEFTMOST), before == 0);
            assert_eq!((node.prev(), node.low()), (before, low), "no gap between neighbours");
            match level {
                0 => self.check_border(node),
                _ => self.check_interior(node),
            }
            nodes.push(id);
            (before, low) = (id, node.high());
            id = node.next();
            assert_eq!(head.has(Head::INFINITE), id == 0);
            if id == 0 {
                return nodes;
            }
        }
    }

    fn check_border(&self, node: &Node) {
        let (head, order) = (node.head(), node.permutation());
        let listed = (0..order.len()).fold(0, |live, place| live | 1u64 << (order.slot(place) + 1));
        assert_eq!(listed, head.live(), "the permutation lists the live slots");
        let entries = node.entries(self.shape());
        let orders: Vec<_> = entries.as_slice().iter().map(|e| (e.slice, code::rank(e.code))).collect();
        assert!(orders.is_sorted_by(|a, b| a < b));
        for (slice, _) in orders {
            assert!(slice >= node.low() && !node.is_beyond(head, slice));
        }
    }

    fn check_interior(&self, node: &Node) {
        let head = node.head();
        let keys: Vec<_> = (0..head.count()).map(|i| node.key(i)).collect();
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert!((head.count()..node::KEYS).all(|i| node.key(i) == u64::MAX));
        assert!(keys.iter().all(|&key| key > node.low() && !node.is_beyond(head, key)));
        for (i, child) in (0..=head.count()).map(|i| (i, node.child_at(i))) {
            let low = if i == 0 { node.low() } else { keys[i - 1] };
            assert_eq!(self.node(child).low(), low, "child {i} begins at its separator");
        }
    }
}
