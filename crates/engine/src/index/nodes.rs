//! Where the nodes of all indexes of a database lie: a slab for each size of node that they have, made when the first
//! index with such nodes is. The buckets in front of an index have a slab of their own, as they are named by their place in it.

use super::front::BUCKET_BYTES;
use crate::epoch::Local;
use crate::memory::{Kind, Memory, OutOfMemory, Slab};
use crate::sync::{Arc, Mutex, lock};

/// The slabs of one database.
pub struct Nodes {
    memory: Arc<Memory>,
    /// Of one size: as many as a slab has addresses for.
    nodes_max: u32,
    slabs: Mutex<Vec<(usize, Arc<Slab>)>>,
}

impl Nodes {
    /// Slabs of `nodes_max` nodes each, at most, which are charged to `memory`.
    pub fn new(memory: &Arc<Memory>, nodes_max: u32) -> Nodes {
        Nodes { memory: Arc::clone(memory), nodes_max, slabs: Mutex::default() }
    }

    /// The slab for nodes of this many bytes, a power of two.
    pub(super) fn of(&self, node_bytes: usize) -> Result<Arc<Slab>, OutOfMemory> {
        let mut slabs = lock(&self.slabs);
        if let Some((_, slab)) = slabs.iter().find(|(bytes, _)| *bytes == node_bytes) {
            return Ok(Arc::clone(slab));
        }
        let slab = Arc::new(Slab::reserve(&self.memory, Kind::Index, node_bytes, self.nodes_max)?);
        slabs.push((node_bytes, Arc::clone(&slab)));
        Ok(slab)
    }

    /// A slab of its own for the buckets in front of one index.
    pub(super) fn of_front(&self) -> Result<Slab, OutOfMemory> {
        Slab::reserve(&self.memory, Kind::Index, BUCKET_BYTES, self.nodes_max)
    }

    /// Nodes in use, of all sizes; while others change indexes, approximately.
    pub fn used(&self) -> u64 {
        lock(&self.slabs).iter().map(|(_, slab)| slab.used()).sum()
    }
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").field("used", &self.used()).finish_non_exhaustive()
    }
}

/// Nodes reserved for an operation; those left over go back.
pub(in crate::index) struct Spares<'a> {
    nodes: &'a Slab,
    ids: Vec<u32>,
}

impl<'a> Spares<'a> {
    pub(in crate::index) fn reserve(nodes: &'a Slab, count: usize) -> Result<Spares<'a>, OutOfMemory> {
        let mut spares = Spares { nodes, ids: Vec::with_capacity(count) };
        for _ in 0..count {
            spares.ids.push(nodes.allocate()?);
        }
        Ok(spares)
    }

    pub(in crate::index) fn take(&mut self) -> Option<u32> {
        self.ids.pop()
    }

    /// Makes sure of `count` nodes even where somebody else has filled a parent meanwhile.
    pub(in crate::index) fn ensure(&mut self, count: usize) -> Result<(), OutOfMemory> {
        while self.ids.len() < count {
            self.ids.push(self.nodes.allocate()?);
        }
        Ok(())
    }
}

impl Drop for Spares<'_> {
    fn drop(&mut self) {
        for &id in &self.ids {
            // SAFETY: allocated here, never published.
            unsafe { self.nodes.free(id) };
        }
    }
}

/// Gives a node back when nobody can be there any more.
///
/// # Safety
/// Of this slab, which outlives the epochs; unreachable for operations that start from now on.
pub(in crate::index) unsafe fn retire(local: &Local, slab: &Arc<Slab>, id: u32) {
    let slab = Arc::as_ptr(slab).cast_mut().cast::<u8>();
    // SAFETY: the caller's promise.
    unsafe { local.retire(slab, u64::from(id), reclaim) };
}

/// # Safety
/// `slab` is the slab of node `id`, which nobody reaches any more.
unsafe fn reclaim(_: &Local, slab: *mut u8, id: u64) {
    // SAFETY: the caller's promise.
    let slab = unsafe { &*slab.cast::<Slab>() };
    // SAFETY: the caller's promise.
    unsafe { slab.free(id as u32) };
}
