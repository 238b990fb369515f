//! [`Pool`]: a single-threaded size-class allocator.
//!
//! Each class keeps free objects in a list linked through their first words, last in, first out:
//!
//! 1. When the list holds a batch, it becomes the spare.
//! 2. If there is a spare already, that spare goes to the pools of other workers through [`Memory`].
//! 3. Objects that the lists do not have are cut from a chunk.
//!
//! A pool therefore never holds more than two batches of a class. No list is walked to split it. Workers that only free
//! feed workers that only allocate.
//!
//! An object comes back when no snapshot may need it, and has often left the caches by then. Each allocation therefore
//! prefetches the next object: the next allocation reads its link, and its caller writes to the rest.
//!
//! Invariants:
//! - `count` and `spare_count` are the lengths of the lists, and `count` is below a batch.
//! - `chunk` is a multiple of 16 bytes, 16-byte aligned, and owned by this pool alone.

use super::account::{Batch, Kind, Memory, OutOfMemory};
use super::classes::{
    BATCH_OBJECTS, CLASSES, POOLED_BYTES_MAX, SMALL_BYTES_MAX, batch_objects, class_bytes, class_of,
    class_within, small_class,
};
use super::rest::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Rest};
use crate::suspend::{prefetch, prefetch_bytes};
use crate::sync::unmodelled::lock;
use std::ptr::null_mut;
use std::sync::Arc;

/// The size-class allocator of one worker. An object may be freed into another worker's pool of the same kind.
pub struct Pool {
    lists: [FreeList; CLASSES],
    chunk: Rest,
    /// The size of the next chunk. It doubles, so that small databases stay small.
    chunk_bytes: usize,
    /// The bytes taken from the account since `forget_growth`.
    grown_bytes: usize,
    kind: Kind,
    memory: Arc<Memory>,
}

#[derive(Clone, Copy)]
struct FreeList {
    head: *mut u8,
    spare: *mut u8,
    count: u32,
    spare_count: u32,
}

/// The part of the next object that is prefetched: lines of a small object, bytes of a big one.
const SMALL_LINES_AHEAD: usize = 2;
const BIG_BYTES_AHEAD: usize = 1024;
/// The least size of a chunk's rest that is kept whole for other pools. Smaller rests become objects.
const REST_BYTES_MIN: usize = 4 << 10;
const EMPTY: FreeList = FreeList { head: null_mut(), spare: null_mut(), count: 0, spare_count: 0 };
const NO_CHUNK: Rest = Rest { next: null_mut(), bytes: 0 };
/// The byte with which debug builds fill freed memory, beyond the link.
#[cfg(debug_assertions)]
const POISON: u8 = 0xDD;

// SAFETY: the pool owns its free objects and its chunk, and they are bound to no thread.
unsafe impl Send for Pool {}

impl Pool {
    /// Makes an empty pool. It takes no memory before the first `allocate`.
    pub fn new(memory: &Arc<Memory>, kind: Kind) -> Pool {
        Pool {
            lists: [EMPTY; CLASSES],
            chunk: NO_CHUNK,
            chunk_bytes: CHUNK_BYTES_MIN,
            grown_bytes: 0,
            kind,
            memory: Arc::clone(memory),
        }
    }

    /// Allocates an object of at least `bytes`, 16-byte aligned, with undefined contents.
    #[inline]
    pub fn allocate(&mut self, bytes: usize) -> Result<*mut u8, OutOfMemory> {
        if bytes <= SMALL_BYTES_MAX {
            let class = small_class(bytes);
            let list = &mut self.lists[class];
            if !list.head.is_null() {
                // SAFETY: the list is not empty, because its head is not null.
                let p = unsafe { list.pop() };
                prefetch::<SMALL_LINES_AHEAD>(list.head);
                return Ok(p);
            }
            return self.refill(class);
        }
        self.allocate_big(bytes)
    }

    /// Frees an object.
    ///
    /// # Safety
    /// `p` is from `allocate(bytes)` of any pool of this memory and kind, and no thread reaches it any more.
    #[inline]
    pub unsafe fn free(&mut self, p: *mut u8, bytes: usize) {
        if bytes <= SMALL_BYTES_MAX {
            let class = small_class(bytes);
            // SAFETY: the caller has promised that `p` is an unreachable object of these bytes, and `class` is the
            // class of them.
            unsafe { self.push(class, p, BATCH_OBJECTS) };
            return;
        }
        // SAFETY: the caller has promised that `p` is from `allocate(bytes)` and unreachable, which `free_big` asks
        // for.
        unsafe { self.free_big(p, bytes) }
    }

    /// Returns the bytes that the pool has taken from the account since `forget_growth`: allocations beyond what was
    /// freed.
    #[inline(always)]
    pub fn grown_bytes(&self) -> usize {
        self.grown_bytes
    }

    /// Starts to count growth anew.
    pub fn forget_growth(&mut self) {
        self.grown_bytes = 0;
    }

    /// Allocates like `allocate`, and may use the reserve beyond the limit. It is for small objects.
    #[cold]
    pub fn allocate_from_reserve(&mut self, bytes: usize) -> Result<*mut u8, OutOfMemory> {
        if let Ok(p) = self.allocate(bytes) {
            return Ok(p);
        }
        let class = class_of(bytes);
        let chunk = self.memory.chunk_from_reserve(self.kind)?;
        debug_assert!(class_bytes(class) <= chunk.bytes, "a small object");
        let old = std::mem::replace(&mut self.chunk, chunk);
        self.break_up(old);
        Ok(self.cut(class_bytes(class)))
    }

    #[inline(never)]
    fn allocate_big(&mut self, bytes: usize) -> Result<*mut u8, OutOfMemory> {
        if bytes > POOLED_BYTES_MAX {
            let p = self.memory.allocate_large(self.kind, bytes)?;
            self.grown_bytes += bytes;
            return Ok(p);
        }
        let class = class_of(bytes);
        let list = &mut self.lists[class];
        if list.head.is_null() {
            return self.refill(class);
        }
        // SAFETY: the list is not empty, because its head is not null.
        let p = unsafe { list.pop() };
        prefetch_bytes(list.head, 0, bytes.min(BIG_BYTES_AHEAD));
        Ok(p)
    }

    /// # Safety
    /// As for `free`.
    #[inline(never)]
    unsafe fn free_big(&mut self, p: *mut u8, bytes: usize) {
        if bytes > POOLED_BYTES_MAX {
            // SAFETY: `allocate` uses `allocate_large` for objects of this size.
            unsafe { self.memory.free_large(p, bytes) };
            return;
        }
        let class = class_of(bytes);
        // SAFETY: the caller has promised that `p` is an unreachable object of these bytes, and `class` is the class of
        // them.
        unsafe { self.push(class, p, batch_objects(class)) };
    }

    /// # Safety
    /// `p` is an object of `class` that no thread reaches.
    #[inline(always)]
    unsafe fn push(&mut self, class: usize, p: *mut u8, batch: u32) {
        debug_assert!(!p.is_null() && p.addr().is_multiple_of(16), "not from a pool");
        let list = &mut self.lists[class];
        // SAFETY: the caller has promised that no thread reaches the object, and an object has at least 16 bytes.
        unsafe { list.push(p, class) };
        if list.count >= batch {
            self.turn_over(class);
        }
    }

    /// Turns a list that has become a batch into the spare, and gives the old spare to the other pools.
    #[cold]
    fn turn_over(&mut self, class: usize) {
        let list = &mut self.lists[class];
        let spare = Batch { head: list.spare, count: list.spare_count };
        *list = FreeList { spare: list.head, spare_count: list.count, ..EMPTY };
        if spare.count > 0 {
            self.memory.shared(self.kind).classes[class].give(spare);
        }
    }

    /// Takes an object from the first source that has one: the spare, a batch from another pool, the chunk, a new
    /// chunk.
    #[cold]
    fn refill(&mut self, class: usize) -> Result<*mut u8, OutOfMemory> {
        let list = &mut self.lists[class];
        debug_assert!(list.head.is_null() && list.count == 0, "refilled too early");
        if list.spare_count > 0 {
            *list = FreeList { head: list.spare, count: list.spare_count, ..EMPTY };
            // SAFETY: a spare is not empty.
            return Ok(unsafe { list.pop() });
        }
        if let Some(batch) = self.memory.shared(self.kind).classes[class].take() {
            *list = FreeList { head: batch.head, count: batch.count, ..EMPTY };
            // SAFETY: a batch is not empty.
            return Ok(unsafe { list.pop() });
        }
        let bytes = class_bytes(class);
        if self.chunk.bytes < bytes {
            self.next_chunk(bytes)?;
        }
        Ok(self.cut(bytes))
    }

    /// Cuts an object from the chunk, which has room for it.
    #[inline]
    fn cut(&mut self, bytes: usize) -> *mut u8 {
        debug_assert!(self.chunk.bytes >= bytes && bytes.is_multiple_of(16), "cut beyond the chunk");
        let p = self.chunk.next;
        self.chunk.next = p.wrapping_add(bytes);
        self.chunk.bytes -= bytes;
        p
    }

    /// Replaces the chunk by one with room for `bytes`. On failure, nothing has changed.
    #[cold]
    fn next_chunk(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let next = match self.take_rest(bytes) {
            Some(rest) => rest,
            None => {
                let chunk = self.memory.chunk(self.kind, self.chunk_bytes)?;
                self.grown_bytes += chunk.bytes;
                self.chunk_bytes = (self.chunk_bytes * 2).min(CHUNK_BYTES_MAX);
                chunk
            }
        };
        let old = std::mem::replace(&mut self.chunk, next);
        self.break_up(old);
        Ok(())
    }

    /// Takes the rest of another pool's chunk that has room for `bytes`.
    fn take_rest(&self, bytes: usize) -> Option<Rest> {
        let mut rests = lock(&self.memory.shared(self.kind).rests);
        let fitting = rests.iter().position(|rest| rest.bytes >= bytes)?;
        Some(rests.swap_remove(fitting))
    }

    /// Turns the rest of a chunk into free objects. Nothing of it is lost, however small.
    fn break_up(&mut self, mut rest: Rest) {
        while rest.bytes > 0 {
            let class = class_within(rest.bytes);
            // SAFETY: this pool owns the rest, and an object of the class fits in it.
            unsafe { self.push(class, rest.next, batch_objects(class)) };
            rest.next = rest.next.wrapping_add(class_bytes(class));
            rest.bytes -= class_bytes(class);
        }
    }
}

impl FreeList {
    /// # Safety
    /// The list is not empty.
    #[inline(always)]
    unsafe fn pop(&mut self) -> *mut u8 {
        let p = self.head;
        // SAFETY: a free object begins with the link to the next one.
        self.head = unsafe { p.cast::<*mut u8>().read() };
        self.count -= 1;
        p
    }

    /// # Safety
    /// `p` is an object of `class`, is in no list, and no thread reaches it.
    #[inline(always)]
    unsafe fn push(&mut self, p: *mut u8, class: usize) {
        #[cfg(debug_assertions)]
        // SAFETY: the object has these bytes, and the caller has promised that no thread reaches it.
        unsafe {
            p.write_bytes(POISON, class_bytes(class))
        };
        let _ = class;
        // SAFETY: the object has at least 16 bytes and is 16-byte aligned.
        unsafe { p.cast::<*mut u8>().write(self.head) };
        self.head = p;
        self.count += 1;
    }
}

impl Drop for Pool {
    /// Gives everything back to the account, for other pools.
    fn drop(&mut self) {
        let rest = std::mem::replace(&mut self.chunk, NO_CHUNK);
        if rest.bytes >= REST_BYTES_MIN {
            lock(&self.memory.shared(self.kind).rests).push(rest);
        } else {
            self.break_up(rest);
        }
        let shared = self.memory.shared(self.kind);
        for (list, class) in self.lists.iter().zip(&shared.classes) {
            for (head, count) in [(list.spare, list.spare_count), (list.head, list.count)] {
                if count > 0 {
                    class.give(Batch { head, count });
                }
            }
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("kind", &self.kind)
            .field("chunk_bytes", &self.chunk_bytes)
            .finish_non_exhaustive()
    }
}
