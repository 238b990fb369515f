//! Where the nodes of all indexes of a database lie: a slab for each size of node that they have, made when the first
//! index with such nodes is.

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
