//! [`Slab`]: blocks of one size in a reserved range of addresses.
//!
//! Invariants:
//! - `1 <= next <= ready <= block_limit`
//! - Blocks below `ready` are committed and charged.
//! - An id below `next` is with a caller or in `freed`.

use super::account::{Kind, Memory, OutOfMemory};
use super::freed::Freed;
use super::os::{HUGE_PAGE, Region, page_bytes};
use crate::sync::CachePadded;
use crate::sync::unmodelled::atomic::{AtomicU64, Ordering};
use crate::sync::unmodelled::{Mutex, lock};
use std::ops::Range;
use std::sync::Arc;

const STEP_BYTES_MIN: usize = 64 << 10;
/// The number of new blocks that a thread takes at a time. All threads share the counter that they come from.
const NEW_BLOCKS: u32 = 32;
/// The size from which a slab takes big steps, because each step costs a system call and the grow lock.
const BIG_SLAB_BYTES: usize = 128 << 20;
const BIG_STEP_BYTES: usize = 32 << 20;

/// Blocks of one size in a reserved range of addresses, named by ids from 1.
pub struct Slab {
    base: *mut u8,
    block_shift: u32,
    /// The bound of ids: every id is below it.
    block_limit: u64,
    kind: Kind,
    memory: Arc<Memory>,
    region: Region,
    /// The bytes committed and charged, from the base.
    committed: Mutex<usize>,
    /// The bound of ids in committed memory: ids below it lie there.
    ready: CachePadded<AtomicU64>,
    /// The lowest id that was never handed out.
    next: CachePadded<AtomicU64>,
    freed: Freed,
}

// SAFETY: the base is an address range that the slab owns, and it is bound to no thread.
unsafe impl Send for Slab {}
// SAFETY: all state that changes is atomic or under a mutex.
unsafe impl Sync for Slab {}

impl Slab {
    /// Reserves addresses, without memory, for up to `blocks_max` blocks of `block_bytes` (a power of two). Halves the
    /// reservation while the system refuses it.
    pub fn reserve(
        memory: &Arc<Memory>,
        kind: Kind,
        block_bytes: usize,
        blocks_max: u32,
    ) -> Result<Slab, OutOfMemory> {
        assert!(block_bytes.is_power_of_two() && block_bytes >= 8, "a block is a power of two of bytes");
        let block_shift = block_bytes.trailing_zeros();
        // One block more, for the id 0, which is never handed out.
        let wanted = (blocks_max as usize + 1).checked_mul(block_bytes).ok_or(OutOfMemory)?;
        let region = reserve_region(wanted, 2 * block_bytes)?;
        Ok(Slab {
            base: region.base(),
            block_shift,
            block_limit: ((region.bytes() >> block_shift) as u64).min(u64::from(blocks_max) + 1),
            kind,
            memory: Arc::clone(memory),
            region,
            committed: Mutex::new(0),
            ready: CachePadded::new(AtomicU64::new(1)),
            next: CachePadded::new(AtomicU64::new(1)),
            freed: Freed::new(),
        })
    }

    /// Allocates a block and returns its id, which is never 0. The block's bytes are zero if it was never used before,
    /// else they are whatever they were. A thread takes some new blocks at a time, and meets other threads only then.
    #[inline(always)]
    pub fn allocate(&self) -> Result<u32, OutOfMemory> {
        match self.freed.take() {
            Some(id) => Ok(id),
            None => self.allocate_new(),
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate_new(&self) -> Result<u32, OutOfMemory> {
        let run = self.new_run(NEW_BLOCKS)?;
        self.freed.keep(run.start + 1..run.end);
        Ok(run.start)
    }

    /// Allocates the block with the next id. It is for slabs whose blocks are named by their place and never freed.
    #[inline]
    pub fn allocate_next(&self) -> Result<u32, OutOfMemory> {
        self.allocate_run(1).map(|run| run.start)
    }

    /// Allocates between one and `count` blocks with consecutive ids, for a caller that needs many. A freed block comes
    /// alone, and before new ones.
    #[inline]
    pub fn allocate_run(&self, count: u32) -> Result<Range<u32>, OutOfMemory> {
        debug_assert!(count > 0);
        match self.freed.take() {
            Some(id) => Ok(id..id + 1),
            None => self.new_run(count),
        }
    }

    /// Takes blocks that were never handed out or, at the memory limit, a block that a thread keeps.
    fn new_run(&self, count: u32) -> Result<Range<u32>, OutOfMemory> {
        loop {
            if let Some(run) = self.take_next(count) {
                return Ok(run);
            }
            if let Err(OutOfMemory) = self.commit_more() {
                return self.freed.take_of_any().map(|id| id..id + 1).ok_or(OutOfMemory);
            }
        }
    }

    /// Frees a block.
    ///
    /// # Safety
    /// `id` is from `allocate`, and no thread reaches the block any more.
    pub unsafe fn free(&self, id: u32) {
        // Relaxed: this asserts something about the caller's own id, which was handed out before.
        debug_assert!(id != 0 && u64::from(id) < self.next.load(Ordering::Relaxed), "never handed out");
        self.freed.give(id);
    }

    /// Returns the block's address. It is pure arithmetic, so the address may also be computed to prefetch it.
    #[inline(always)]
    pub fn at(&self, id: u32) -> *mut u8 {
        self.base.wrapping_add((id as usize) << self.block_shift)
    }

    /// Returns the number of blocks in use. The figure is approximate while other threads allocate and free.
    pub fn used(&self) -> u64 {
        // Relaxed: statistics.
        let handed_out = self.next.load(Ordering::Relaxed) - 1;
        handed_out.saturating_sub(self.freed.len())
    }

    /// Returns the account that the blocks are charged to.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Returns how many blocks fit in the reservation. `allocate` fails beyond it, whatever the account grants.
    pub fn capacity(&self) -> u64 {
        self.block_limit - 1
    }

    /// Hands out the next ids below the watermark: `count`, or as many as there are.
    #[inline(always)]
    fn take_next(&self, count: u32) -> Option<Range<u32>> {
        // Acquire: pairs with the Release in `commit_more`, so the block is committed.
        let ready = self.ready.load(Ordering::Acquire);
        // Relaxed: ids carry no data, and the exchange makes each unique.
        let end = |next: u64| ready.min(next + u64::from(count));
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| (next < ready).then(|| end(next)))
            .ok()
            .map(|next| next as u32..end(next) as u32)
    }

    /// Commits one step more, or a smaller step if memory is short.
    #[cold]
    fn commit_more(&self) -> Result<(), OutOfMemory> {
        let mut committed = lock(&self.committed);
        // Relaxed: `ready` changes only under this lock, and a stale `next` costs one turn of the caller's loop.
        if self.next.load(Ordering::Relaxed) < self.ready.load(Ordering::Relaxed) {
            return Ok(());
        }
        let step_min = page_bytes().max(1 << self.block_shift).min(self.region.bytes() - *committed);
        let mut step =
            step_bytes(*committed).max(2 << self.block_shift).min(self.region.bytes() - *committed);
        while step > 0 && step >= step_min {
            if self.commit(*committed, step) {
                *committed += step;
                let ready = ((*committed >> self.block_shift) as u64).min(self.block_limit);
                // Release: pairs with the Acquire in `take_next`.
                self.ready.store(ready.max(1), Ordering::Release);
                // Relaxed: as above.
                return if self.next.load(Ordering::Relaxed) < ready { Ok(()) } else { Err(OutOfMemory) };
            }
            step = (step / 2) & !(page_bytes() - 1);
        }
        Err(OutOfMemory)
    }

    fn commit(&self, offset: usize, bytes: usize) -> bool {
        if self.memory.charge(self.kind, bytes as u64).is_err() {
            return false;
        }
        let committed = self.region.commit(offset, bytes);
        if !committed {
            self.memory.release(self.kind, bytes as u64);
        }
        committed
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.memory.release(self.kind, *lock(&self.committed) as u64);
    }
}

impl std::fmt::Debug for Slab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slab")
            .field("kind", &self.kind)
            .field("block_bytes", &(1u64 << self.block_shift))
            .field("used", &self.used())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

/// Returns the size of the next step. Doubling from 64 KiB keeps small databases small; later steps are whole huge
/// pages.
fn step_bytes(committed: usize) -> usize {
    if committed >= BIG_SLAB_BYTES { BIG_STEP_BYTES } else { committed.clamp(STEP_BYTES_MIN, HUGE_PAGE) }
}

/// Reserves `wanted` bytes in whole pages, or half, or half of that, but not less than `least`.
fn reserve_region(wanted: usize, least: usize) -> Result<Region, OutOfMemory> {
    let mut bytes = wanted;
    loop {
        if let Some(region) = Region::reserve(bytes.next_multiple_of(page_bytes())) {
            return Ok(region);
        }
        bytes /= 2;
        if bytes < least {
            return Err(OutOfMemory);
        }
    }
}
