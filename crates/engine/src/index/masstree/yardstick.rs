//! The bare nodes, for the benchmark's hand-written lookup, which shows what the engine costs beyond such a lookup.

use super::Masstree;
use super::node::Find8;
use crate::index::RecordId;
use std::fmt;

/// The bare nodes of a tree of eight-byte keys.
#[derive(Clone, Copy)]
pub struct Yardstick<'t>(&'t Masstree);

impl fmt::Debug for Yardstick<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yardstick").finish_non_exhaustive()
    }
}

impl Masstree {
    /// Returns the tree's bare nodes.
    #[inline(always)]
    pub fn yardstick(&self) -> Yardstick<'_> {
        Yardstick(self)
    }
}

impl Yardstick<'_> {
    /// Returns the root's id and level.
    #[inline(always)]
    pub fn root(self) -> (u32, u8) {
        self.0.root()
    }

    /// Returns a node's address.
    #[inline(always)]
    pub fn at(self, id: u32) -> *const u8 {
        self.0.at(id)
    }

    /// Returns the child of an interior that covers `slice`, or 0 if the node is not readable now.
    ///
    /// # Safety
    /// The call is inside an epoch. `id` is an interior's, read inside the epoch.
    #[inline(always)]
    pub unsafe fn child_for(self, id: u32, slice: u64) -> u32 {
        self.0.node(id).child(self.0.simd, slice).unwrap_or(0)
    }

    /// Looks up a key in a border.
    ///
    /// # Safety
    /// The call is inside an epoch. `id` is a border's, read inside the epoch.
    #[inline(always)]
    pub unsafe fn find8(self, id: u32, slice: u64) -> Option<RecordId> {
        match self.0.node(id).find8(self.0.simd, slice) {
            Find8::Found(rid) => Some(RecordId(rid)),
            _ => None,
        }
    }
}
