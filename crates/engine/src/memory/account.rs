//! [`Memory`]: the account of one database, and the owner of everything its pools hand out.
//!
//! Invariants: the sum over all kinds never exceeds the limit by more than the reserve and the transactions' share; bytes are charged before the memory
//! is asked for and released if it is refused. Chunks live until the account goes: pools and slabs
//! hold it by `Arc`, so nothing of it is in use by then.

use super::chunks::Chunks;
use super::classes::CLASSES;
use super::rest::{CHUNK_BYTES_MIN, Rest};
use crate::sync::CachePadded;
use crate::sync::unmodelled::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::unmodelled::{Mutex, lock};
use std::alloc::Layout;
use std::collections::HashMap;
use std::sync::Arc;

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nodes of indexes.
    Index,
    /// Record headers.
    Records,
    /// Versions: keys and values.
    Versions,
    /// Open transactions: their places, what they have read and written, their buffers.
    Transactions,
    /// Everything else.
    Other,
}

/// The memory limit of the database is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// The account of one database.
pub struct Memory {
    limit_bytes: u64,
    /// The sum over `kinds`, or more for a moment while something is being charged.
    total: CachePadded<AtomicU64>,
    kinds: [CachePadded<AtomicU64>; KINDS],
    chunks: Mutex<Chunks>,
    large: Mutex<HashMap<usize, Large>>,
    shared: [SharedPool; KINDS],
}

/// What the pools of one kind have over, for each other.
pub(super) struct SharedPool {
    pub(super) classes: [SharedClass; CLASSES],
    /// Unused rests of chunks of pools that are gone.
    pub(super) rests: Mutex<Vec<Rest>>,
}

/// Free objects of one class.
#[derive(Default)]
pub(super) struct SharedClass {
    batches: Mutex<Vec<Batch>>,
    /// Length of `batches`, changed under its lock; a hint without the lock.
    available: AtomicUsize,
}

/// Free objects linked through their first words.
pub(super) struct Batch {
    pub(super) head: *mut u8,
    pub(super) count: u32,
}

struct Large {
    p: *mut u8,
    layout: Layout,
    kind: Kind,
}

const KINDS: usize = 5;
const OBJECT_ALIGN: usize = 16;

// SAFETY: a batch owns its objects; no thread has a claim on them.
unsafe impl Send for Batch {}
// SAFETY: as for `Batch`.
unsafe impl Send for Large {}

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the memory limit of the database is reached")
    }
}

impl std::error::Error for OutOfMemory {}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory")
            .field("limit_bytes", &self.limit_bytes)
            .field("total_used_bytes", &self.total_used_bytes())
            .finish_non_exhaustive()
    }
}

/// What transactions have for themselves: this part of the limit, and some hundreds of them at least.
const TRANSACTIONS_PART: u64 = 16;
const TRANSACTIONS_BYTES_MIN: u64 = 1 << 20;
/// The reserve beyond the limit: this part of it, within these bounds. Deletes may use it, so that a full
/// database can be emptied.
const RESERVE_PART: u64 = 64;
const RESERVE_BYTES_MIN: u64 = 1 << 20;
const RESERVE_BYTES_MAX: u64 = 64 << 20;

impl Memory {
    /// An account that grants `limit_bytes` in all.
    pub fn new(limit_bytes: u64) -> Arc<Memory> {
        Arc::new(Memory {
            limit_bytes,
            total: CachePadded::new(AtomicU64::new(0)),
            kinds: std::array::from_fn(|_| CachePadded::new(AtomicU64::new(0))),
            chunks: Mutex::new(Chunks::new()),
            large: Mutex::new(HashMap::new()),
            shared: std::array::from_fn(|_| SharedPool {
                classes: std::array::from_fn(|_| SharedClass::default()),
                rests: Mutex::new(Vec::new()),
            }),
        })
    }

    /// What the account grants.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Bytes that `kind` holds: whole chunks and steps, free objects in them included.
    pub fn used_bytes(&self, kind: Kind) -> u64 {
        // Relaxed: a statistic.
        self.kinds[kind as usize].load(Ordering::Relaxed)
    }

    /// Bytes held by all kinds; above the limit by the reserve and the transactions' share at most.
    pub fn total_used_bytes(&self) -> u64 {
        // Relaxed: a statistic.
        self.total.load(Ordering::Relaxed)
    }

    /// Counts `bytes` more for `kind`, or fails and counts nothing. For memory that is owned
    /// elsewhere; pools and slabs charge what they take themselves.
    pub fn charge(&self, kind: Kind, bytes: u64) -> Result<(), OutOfMemory> {
        self.charge_up_to(self.limit_bytes, kind, bytes)
    }

    /// As `charge`, for open transactions, which have a share of their own: when data has filled the limit (what is
    /// deleted makes room for data only) they may take that much beyond; and the first `is_small` part of each, by
    /// which it can delete something, also when transactions have filled it.
    pub fn charge_transaction(&self, bytes: u64, is_small: bool) -> Result<(), OutOfMemory> {
        let charged = self.charge(Kind::Transactions, bytes);
        if charged.is_ok() {
            return charged;
        }
        let share = (self.limit_bytes / TRANSACTIONS_PART).max(TRANSACTIONS_BYTES_MIN);
        if is_small {
            return self.charge_up_to(self.limit_bytes.saturating_add(share), Kind::Transactions, bytes);
        }
        // Relaxed: as in `charge_up_to`.
        self.kinds[Kind::Transactions as usize]
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|&sum| sum <= share)
            })
            .map_err(|_| OutOfMemory)?;
        self.total.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn reserve_bytes(&self) -> u64 {
        (self.limit_bytes / RESERVE_PART).clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX)
    }

    fn charge_up_to(&self, limit_bytes: u64, kind: Kind, bytes: u64) -> Result<(), OutOfMemory> {
        // Relaxed: the counters guard no other data; the update itself keeps the sum in bounds.
        self.total
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |total| {
                total.checked_add(bytes).filter(|&sum| sum <= limit_bytes)
            })
            .map_err(|_| OutOfMemory)?;
        self.kinds[kind as usize].fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn charge_anyway(&self, kind: Kind, bytes: u64) {
        // Relaxed: as in `charge_up_to`.
        self.total.fetch_add(bytes, Ordering::Relaxed);
        self.kinds[kind as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes back a charge.
    pub fn release(&self, kind: Kind, bytes: u64) {
        // Relaxed: as in `charge`.
        let of_kind = self.kinds[kind as usize].fetch_sub(bytes, Ordering::Relaxed);
        let total = self.total.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(of_kind >= bytes && total >= bytes, "released more than was charged");
    }

    pub(super) fn shared(&self, kind: Kind) -> &SharedPool {
        &self.shared[kind as usize]
    }

    /// A new chunk of `bytes` (a power of two in the chunk sizes), or of less when memory is short.
    pub(super) fn chunk(&self, kind: Kind, bytes: usize) -> Result<Rest, OutOfMemory> {
        let mut bytes = bytes;
        while bytes >= CHUNK_BYTES_MIN {
            if self.charge(kind, bytes as u64).is_ok() {
                if let Some(chunk) = lock(&self.chunks).take(bytes) {
                    return Ok(chunk);
                }
                self.release(kind, bytes as u64);
            }
            bytes /= 2;
        }
        Err(OutOfMemory)
    }

    /// A least chunk from the reserve beyond the limit, for what gives memory back in the end.
    pub(super) fn chunk_from_reserve(&self, kind: Kind) -> Result<Rest, OutOfMemory> {
        // (What transactions have beyond the limit is no reason not to delete.)
        let beyond = self.reserve_bytes().saturating_add(self.used_bytes(Kind::Transactions));
        let limit_bytes = self.limit_bytes.saturating_add(beyond);
        self.charge_up_to(limit_bytes, kind, CHUNK_BYTES_MIN as u64)?;
        let chunk = lock(&self.chunks).take(CHUNK_BYTES_MIN);
        chunk.ok_or_else(|| {
            self.release(kind, CHUNK_BYTES_MIN as u64);
            OutOfMemory
        })
    }

    /// An object too large for the classes, registered so that it goes with the account.
    pub(super) fn allocate_large(&self, kind: Kind, bytes: usize) -> Result<*mut u8, OutOfMemory> {
        let layout = Layout::from_size_align(bytes, OBJECT_ALIGN).map_err(|_| OutOfMemory)?;
        self.charge(kind, bytes as u64)?;
        // SAFETY: `bytes` exceeds the largest class, so it is not 0.
        let p = unsafe { std::alloc::alloc(layout) };
        if p.is_null() {
            self.release(kind, bytes as u64);
            return Err(OutOfMemory);
        }
        lock(&self.large).insert(p.addr(), Large { p, layout, kind });
        Ok(p)
    }

    /// # Safety
    /// From `allocate_large(_, bytes)`; nobody reaches it any more.
    pub(super) unsafe fn free_large(&self, p: *mut u8, bytes: usize) {
        let large = lock(&self.large).remove(&p.addr()).expect("a large object is registered while it lives");
        debug_assert_eq!(large.layout.size(), bytes, "freed with another size than allocated");
        // SAFETY: it was registered, so it came from `alloc` with this layout and is freed once.
        unsafe { std::alloc::dealloc(large.p, large.layout) };
        self.release(large.kind, large.layout.size() as u64);
    }
}

impl SharedClass {
    /// Takes one batch, if there seems to be one.
    pub(super) fn take(&self) -> Option<Batch> {
        // Relaxed: a hint; the lock orders the objects themselves.
        if self.available.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut batches = lock(&self.batches);
        let batch = batches.pop();
        // Relaxed: a hint, as above.
        self.available.store(batches.len(), Ordering::Relaxed);
        batch
    }

    pub(super) fn give(&self, batch: Batch) {
        let mut batches = lock(&self.batches);
        batches.push(batch);
        // Relaxed: a hint, as in `take`.
        self.available.store(batches.len(), Ordering::Relaxed);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for (_, large) in lock(&self.large).drain() {
            // SAFETY: registered, so from `alloc` with this layout and not freed yet.
            unsafe { std::alloc::dealloc(large.p, large.layout) };
        }
    }
}
