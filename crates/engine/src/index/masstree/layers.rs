//! Finds a layer above the present one again, by the key that led down from it. This is cold: it is needed when a layer
//! gets a new root or is removed.

use super::border::Find;
use super::descend::Settled;
use super::node::{Head, Latched};
use super::{Masstree, suffix};
use crate::index::Key;
use crate::sync::Backoff;

/// The way of a key through a layer.
pub(super) struct Located {
    /// The border that covers the key's slice, or did a moment ago.
    pub(super) border: u32,
    /// A leftmost node of the layer.
    pub(super) leftmost: u32,
}

impl Masstree {
    /// Finds the key's border in the layer below `depth` others. Returns `None` if there is no such layer.
    pub(super) fn locate(&self, key: &Key, depth: u16) -> Option<Located> {
        let mut leftmost = self.root().0;
        for above in 0..depth {
            leftmost = self.link_of(leftmost, suffix::slice_at(key, above))?;
        }
        let border = self.find_level(leftmost, 0, suffix::slice_at(key, depth))?;
        Some(Located { border, leftmost })
    }

    /// Returns the root that the link for `slice` names in the layer of `leftmost`.
    fn link_of(&self, leftmost: u32, slice: u64) -> Option<u32> {
        let mut backoff = Backoff::new();
        let mut id = self.find_level(leftmost, 0, slice)?;
        loop {
            let node = self.node(id);
            let head = node.head();
            if !head.is_unstable() && !node.is_beyond(head, slice) {
                let found = match node.find(self.simd, head, slice, usize::MAX) {
                    Find::Layer(slot, _) => Some(node.rid(slot)),
                    _ => None,
                };
                if node.is_still(head) {
                    return found;
                }
            }
            match self.settle(node, slice, &mut backoff) {
                Settled::Stay => {}
                Settled::Right(next) => id = next,
                Settled::Gone => id = self.find_level(leftmost, 0, slice)?,
            }
        }
    }

    /// Latches the border of the layer below `depth` others that links to the key's next layer. Returns the border with
    /// the link's slot, or `None` if there is no such link.
    pub(super) fn latch_link(&self, key: &Key, depth: u16) -> Option<(Latched<'_>, usize)> {
        let slice = suffix::slice_at(key, depth);
        loop {
            let mut id = self.locate(key, depth)?.border;
            loop {
                let border = Latched::lock(self.node(id), id);
                if border.head.has(Head::DELETED) {
                    break;
                }
                if border.node.is_beyond(border.head, slice) {
                    id = border.node.next();
                    continue;
                }
                return match border.node.find(self.simd, border.head, slice, usize::MAX) {
                    Find::Layer(slot, _) => Some((border, slot)),
                    _ => None,
                };
            }
        }
    }
}
