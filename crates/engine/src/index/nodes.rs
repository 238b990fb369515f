//! The slabs for the nodes of all indexes of a database. There is one slab for each size of node, made with the first
//! index that has such nodes. The buckets of an index's front have a slab of their own, because their place in it names
//! them.

use super::front::BUCKET_BYTES;
use crate::epoch::Local;
use crate::memory::{Kind, Memory, OutOfMemory, Slab};
use crate::sync::{Arc, Mutex, lock};

/// The slabs of one database.
pub struct Nodes {
    memory: Arc<Memory>,
    /// The limit of nodes of one size: as many as a slab has addresses for.
    nodes_max: u32,
    slabs: Mutex<Vec<(usize, Arc<Slab>)>>,
}

impl Nodes {
    /// Makes slabs of at most `nodes_max` nodes each, which are charged to `memory`.
    pub fn new(memory: &Arc<Memory>, nodes_max: u32) -> Nodes {
        Nodes { memory: Arc::clone(memory), nodes_max, slabs: Mutex::default() }
    }

    /// Returns the slab for nodes of this many bytes, a power of two.
    pub(super) fn of(&self, node_bytes: usize) -> Result<Arc<Slab>, OutOfMemory> {
        let mut slabs = lock(&self.slabs);
        if let Some((_, slab)) = slabs.iter().find(|(bytes, _)| *bytes == node_bytes) {
            return Ok(Arc::clone(slab));
        }
        let slab = Arc::new(Slab::reserve(&self.memory, Kind::Index, node_bytes, self.nodes_max)?);
        slabs.push((node_bytes, Arc::clone(&slab)));
        Ok(slab)
    }

    /// Makes a slab for the buckets of the front of one index.
    pub(super) fn of_front(&self) -> Result<Slab, OutOfMemory> {
        Slab::reserve(&self.memory, Kind::Index, BUCKET_BYTES, self.nodes_max)
    }

    /// Returns the nodes in use, of all sizes. The figure is approximate while other threads change indexes.
    pub fn used(&self) -> u64 {
        lock(&self.slabs).iter().map(|(_, slab)| slab.used()).sum()
    }
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").field("used", &self.used()).finish_non_exhaustive()
    }
}

/// Nodes reserved for an operation. Those left over are given back.
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

    /// Reserves up to `count` nodes, because another thread may have filled a parent meanwhile.
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
            // SAFETY: the node was allocated here and never published.
            unsafe { self.nodes.free(id) };
        }
    }
}

/// Retires a node: it is freed when no operation can be there any more.
///
/// # Safety
/// The node is of this slab, which outlives the epochs. Operations that start from now on cannot reach it.
pub(in crate::index) unsafe fn retire(local: &Local, slab: &Arc<Slab>, id: u32) {
    let slab = Arc::as_ptr(slab).cast_mut().cast::<u8>();
    // SAFETY: the caller has promised that new operations cannot reach the node. The slab outlives the epochs, so
    // `reclaim` may run on any thread.
    unsafe { local.retire(slab, u64::from(id), reclaim) };
}

/// # Safety
/// `slab` is the slab of node `id`, which no operation reaches any more.
unsafe fn reclaim(_: &Local, slab: *mut u8, id: u64) {
    // SAFETY: the caller has promised that this is the slab, which is alive.
    let slab = unsafe { &*slab.cast::<Slab>() };
    // SAFETY: the caller has promised that the node is of this slab and that no operation reaches it.
    unsafe { slab.free(id as u32) };
}
