//! [`Memory`]: the account of one database, and the owner of everything that its pools hand out.
//!
//! Invariants:
//! - The sum over all kinds exceeds the limit at most by the reserve, the transactions' share, and the bytes that
//!   [`Charge::add_anyway`](super::Charge::add_anyway) has charged. That function checks no limit.
//! - Bytes are charged before the memory is requested, and released if the request is refused.
//! - Chunks live until the account is dropped. Pools and slabs hold the account by `Arc`, so nothing of it is in use
//!   then.

use super::chunks::Chunks;
use super::classes::CLASSES;
use super::rest::{CHUNK_BYTES_MIN, Rest};
use crate::sync::CachePadded;
use crate::sync::unmodelled::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::unmodelled::{Mutex, lock};
use std::alloc::Layout;
use std::collections::HashMap;
use std::sync::Arc;

/// The uses of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nodes of indexes.
    Index,
    /// Headers of records.
    Records,
    /// Versions: keys and values.
    Versions,
    /// Open transactions: their places, what they have read and written, and their buffers.
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
    /// The sum over `kinds`. It is more for a moment while something is being charged.
    total: CachePadded<AtomicU64>,
    kinds: [CachePadded<AtomicU64>; KINDS],
    chunks: Mutex<Chunks>,
    large: Mutex<HashMap<usize, Large>>,
    shared: [SharedPool; KINDS],
}

/// Memory that the pools of one kind have to spare, for each other.
pub(super) struct SharedPool {
    pub(super) classes: [SharedClass; CLASSES],
    /// The unused rests of chunks of pools that are gone.
    pub(super) rests: Mutex<Vec<Rest>>,
}

/// Free objects of one class.
#[derive(Default)]
pub(super) struct SharedClass {
    batches: Mutex<Vec<Batch>>,
    /// The length of `batches`. It changes under the lock of `batches`; without the lock it is a hint.
    available: AtomicUsize,
}

/// Free objects, linked through their first words.
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

// SAFETY: a batch owns its objects, and no thread has a claim on them.
unsafe impl Send for Batch {}
// SAFETY: the account owns the object, as a batch owns its objects.
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

/// The transactions' own share: this part of the limit, and at least enough for some hundreds of transactions.
const TRANSACTIONS_PART: u64 = 16;
const TRANSACTIONS_BYTES_MIN: u64 = 1 << 20;
/// The reserve beyond the limit: this part of the limit, within these bounds. Deletes may use it, so that a full
/// database can be emptied.
const RESERVE_PART: u64 = 64;
const RESERVE_BYTES_MIN: u64 = 1 << 20;
const RESERVE_BYTES_MAX: u64 = 64 << 20;

impl Memory {
    /// Makes an account that grants `limit_bytes` in total.
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

    /// Returns the bytes that the account grants.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Returns the bytes that `kind` holds: whole chunks and steps, including the free objects in them.
    pub fn used_bytes(&self, kind: Kind) -> u64 {
        // Relaxed: a statistic.
        self.kinds[kind as usize].load(Ordering::Relaxed)
    }

    /// Returns the bytes that all kinds hold. The sum exceeds the limit at most by the reserve, the transactions'
    /// share, and the bytes that [`Charge::add_anyway`](super::Charge::add_anyway) has charged.
    pub fn total_used_bytes(&self) -> u64 {
        // Relaxed: a statistic.
        self.total.load(Ordering::Relaxed)
    }

    /// Charges `bytes` more to `kind`, or fails and charges nothing. It is for memory that is owned elsewhere; pools
    /// and slabs charge what they take themselves.
    pub fn charge(&self, kind: Kind, bytes: u64) -> Result<(), OutOfMemory> {
        self.charge_up_to(self.limit_bytes, kind, bytes)
    }

    /// Charges like `charge`, for open transactions, which have a share of their own. When data has filled the limit,
    /// they may take the share in addition, because deletions make room only for data. The first part of each
    /// transaction, marked by `is_small`, is granted even when transactions have filled the limit: the transaction can
    /// delete something with it.
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
        // Relaxed: the counters guard no other data, and the update itself keeps the sum in bounds.
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

    /// Takes a new chunk of `bytes` (a power of two within the chunk sizes), or a smaller one if memory is short.
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

    /// Takes a chunk of the least size from the reserve beyond the limit, for operations that give memory back in the
    /// end.
    pub(super) fn chunk_from_reserve(&self, kind: Kind) -> Result<Rest, OutOfMemory> {
        // Memory that transactions have beyond the limit does not prevent a delete.
        let beyond = self.reserve_bytes().saturating_add(self.used_bytes(Kind::Transactions));
        let limit_bytes = self.limit_bytes.saturating_add(beyond);
        self.charge_up_to(limit_bytes, kind, CHUNK_BYTES_MIN as u64)?;
        let chunk = lock(&self.chunks).take(CHUNK_BYTES_MIN);
        chunk.ok_or_else(|| {
            self.release(kind, CHUNK_BYTES_MIN as u64);
            OutOfMemory
        })
    }

    /// Allocates an object too large for the classes, and registers it so that it is freed with the account.
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
    /// `p` is from `allocate_large(_, bytes)`, and no thread reaches it any more.
    pub(super) unsafe fn free_large(&self, p: *mut u8, bytes: usize) {
        let large = lock(&self.large).remove(&p.addr()).expect("a large object is registered while it lives");
        debug_assert_eq!(large.layout.size(), bytes, "freed with another size than allocated");
        // SAFETY: the object was registered, so it came from `alloc` with this layout, and it is freed once.
        unsafe { std::alloc::dealloc(large.p, large.layout) };
        self.release(large.kind, large.layout.size() as u64);
    }
}

impl SharedClass {
    /// Takes one batch, if there seems to be one.
    pub(super) fn take(&self) -> Option<Batch> {
        // Relaxed: a hint. The lock orders the objects themselves.
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
            // SAFETY: the object is registered, so it came from `alloc` with this layout and is not freed yet.
            unsafe { std::alloc::dealloc(large.p, large.layout) };
        }
    }
}
