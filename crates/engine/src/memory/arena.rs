//! A transaction's scratch memory: bytes that stay where they are until the transaction ends.

use super::{Charge, Memory, OutOfMemory};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

/// Bump memory with stable addresses, some of it kept from one transaction to the next.
///
/// Invariant: what `copy` returned is valid and unchanged until `reset`, or `release` of just that.
#[derive(Debug)]
pub struct Arena {
    /// Of `CHUNK_BYTES` each, owned. (By pointers: a reference to a chunk would end the right of those that `copy` has
    /// returned into it.)
    chunks: Vec<NonNull<u8>>,
    /// Of the chunks.
    charge: Charge,
    /// Chunks in use, and bytes used of the last of them.
    used: usize,
    at: usize,
}

const CHUNK_BYTES: usize = 4096;
const CHUNK: Layout = Layout::new::<[u64; CHUNK_BYTES / size_of::<u64>()]>();
/// Chunks kept for the next transaction.
const KEPT: usize = 4;

impl Arena {
    /// Without a chunk; those to come are charged to `memory`.
    pub fn new(memory: &Arc<Memory>) -> Self {
        Arena { chunks: Vec::new(), charge: Charge::new(memory), used: 0, at: 0 }
    }

    /// Copies `bytes`, at most a chunk's worth.
    pub fn copy(&mut self, bytes: &[u8]) -> Result<*const u8, OutOfMemory> {
        let to = self.room(bytes.len())?;
        // SAFETY: room for `bytes.len()` bytes, which nobody else has a pointer to.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(to)
    }

    /// Room for a copy of `len` bytes, at most a chunk's worth, which the caller makes.
    #[inline]
    pub fn room(&mut self, len: usize) -> Result<*mut u8, OutOfMemory> {
        if !self.has_room(len) {
            self.begin_chunk()?;
        }
        Ok(self.take(len))
    }

    /// As `room`, at an address that is a multiple of eight.
    #[inline]
    pub fn room_aligned(&mut self, len: usize) -> Result<*mut u8, OutOfMemory> {
        self.at = self.at.next_multiple_of(align_of::<u64>());
        self.room(len)
    }

    /// The same whatever the limit of memory: for callers that cannot fail here, and do where they go on.
    pub fn copy_anyway(&mut self, bytes: &[u8]) -> *const u8 {
        if !self.has_room(bytes.len()) {
            if self.used == self.chunks.len() {
                self.charge.add_anyway(CHUNK_BYTES);
            }
            self.enter_chunk();
        }
        let to = self.take(bytes.len());
        // SAFETY: as in `copy`.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        to
    }

    /// In the chunk in use.
    #[inline(always)]
    fn has_room(&self, len: usize) -> bool {
        self.used > 0 && self.at + len <= CHUNK_BYTES
    }

    /// Goes on in another chunk.
    #[cold]
    fn begin_chunk(&mut self) -> Result<(), OutOfMemory> {
        if self.used == self.chunks.len() {
            self.charge.add(CHUNK_BYTES)?;
        }
        self.enter_chunk();
        Ok(())
    }

    /// The next chunk is in use, which is made if there is none; it has been charged.
    fn enter_chunk(&mut self) {
        if self.used == self.chunks.len() {
            self.chunks.push(new_chunk());
        }
        (self.used, self.at) = (self.used + 1, 0);
    }

    /// Of the chunk in use.
    #[inline(always)]
    fn take(&mut self, len: usize) -> *mut u8 {
        assert!(self.at + len <= CHUNK_BYTES, "keys are shorter than a chunk");
        // SAFETY: within the chunk.
        let to = unsafe { self.chunks[self.used - 1].add(self.at) }.as_ptr();
        self.at += len;
        to
    }

    /// The copy of `len` bytes at `copy` is not looked at any more. If it was the last one, its memory is used again.
    pub fn release(&mut self, copy: *const u8, len: usize) {
        if self.used > 0 && self.at >= len {
            let last = self.chunks[self.used - 1].as_ptr().wrapping_add(self.at - len);
            self.at -= if std::ptr::eq(last.cast_const(), copy) { len } else { 0 };
        }
    }

    /// Forgets all copies.
    #[inline(always)]
    pub fn reset(&mut self) {
        if self.used > 0 {
            self.used = 0;
            if self.chunks.len() > KEPT {
                self.charge.give_back((self.chunks.len() - KEPT) * CHUNK_BYTES);
                self.free_from(KEPT);
                self.chunks.shrink_to(KEPT);
            }
        }
    }

    fn free_from(&mut self, first: usize) {
        for chunk in self.chunks.drain(first.min(self.chunks.len())..) {
            // SAFETY: from `new_chunk`; what was copied there is forgotten.
            unsafe { dealloc(chunk.as_ptr(), CHUNK) };
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.free_from(0);
    }
}

// SAFETY: the chunks are its own, and bound to no thread.
unsafe impl Send for Arena {}

fn new_chunk() -> NonNull<u8> {
    // SAFETY: a chunk has bytes.
    NonNull::new(unsafe { alloc(CHUNK) }).unwrap_or_else(|| handle_alloc_error(CHUNK))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies stay intact while more are made, and memory is used again after a reset.
    #[test]
    fn copies_stay() {
        let memory = Memory::new(u64::MAX);
        let mut arena = Arena::new(&memory);
        for round in 0..3u8 {
            let all: Vec<_> = (0..500usize)
                .map(|i| (arena.copy(&vec![round ^ i as u8; i % 700]).expect("memory"), i))
                .collect();
            for (at, i) in all {
                // SAFETY: not reset since.
                let bytes = unsafe { std::slice::from_raw_parts(at, i % 700) };
                assert!(bytes.iter().all(|&b| b == round ^ i as u8));
            }
            arena.reset();
            assert!(arena.chunks.len() <= KEPT);
            assert_eq!(memory.total_used_bytes(), (arena.chunks.len() * CHUNK_BYTES) as u64);
        }
    }

    /// The last copy's memory is used again when that is released, and no other's.
    #[test]
    fn releases() {
        let memory = Memory::new(u64::MAX);
        let mut arena = Arena::new(&memory);
        let first = arena.copy(&[1; 1000]).expect("memory");
        let mut last = std::ptr::null::<u8>();
        for i in 0..100 {
            let copy = arena.copy(&[i; 1000]).expect("memory");
            assert!(last.is_null() || last == copy);
            arena.release(first, 1000); // not the last
            arena.release(copy, 1000);
            last = copy;
        }
        assert_eq!((arena.used, arena.at), (1, 1000));
        arena.release(first, 1000);
        assert_eq!(arena.copy(&[2; 10]), Ok(first));
    }

    /// At the limit a copy is refused, and those before stay.
    #[test]
    fn limit() {
        let memory = Memory::new(0);
        let mut arena = Arena::new(&memory);
        let first = arena.copy(&[1; 1000]).expect("each has a little");
        let refused = (0..10_000).find(|_| arena.copy(&[2; 1000]).is_err());
        assert!(refused.is_some_and(|i| i > 10), "{refused:?}");
        arena.copy_anyway(&[3; 1000]);
        // SAFETY: not reset since.
        assert_eq!(unsafe { std::slice::from_raw_parts(first, 1000) }, [1; 1000]);
    }
}
