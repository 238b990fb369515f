//! Scratch memory of a transaction: the bytes keep their addresses until the transaction ends.

use super::{Charge, Memory, OutOfMemory};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

/// Bump memory with stable addresses. Some of it is kept from one transaction to the next.
///
/// Invariant: what `copy` returned is valid and unchanged until `reset`, or until `release` of that copy.
#[derive(Debug)]
pub struct Arena {
    /// The owned chunks, of `CHUNK_BYTES` each. They are pointers because a reference to a chunk would invalidate the
    /// pointers into it that `copy` has returned.
    chunks: Vec<NonNull<u8>>,
    /// The charge of the chunks.
    charge: Charge,
    /// The number of chunks in use, and of bytes used in the last of them.
    used: usize,
    at: usize,
}

const CHUNK_BYTES: usize = 4096;
const CHUNK: Layout = Layout::new::<[u64; CHUNK_BYTES / size_of::<u64>()]>();
/// The number of chunks kept for the next transaction.
const KEPT: usize = 4;

impl Arena {
    /// Makes an arena without a chunk. Later chunks are charged to `memory`.
    pub fn new(memory: &Arc<Memory>) -> Self {
        Arena { chunks: Vec::new(), charge: Charge::new(memory), used: 0, at: 0 }
    }

    /// Copies `bytes`, which fit in one chunk.
    pub fn copy(&mut self, bytes: &[u8]) -> Result<*const u8, OutOfMemory> {
        let to = self.room(bytes.len())?;
        // SAFETY: there is room for `bytes.len()` bytes, to which no other pointer exists.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(to)
    }

    /// Returns room for `len` bytes, at most one chunk's worth. The caller makes the copy.
    #[inline]
    pub fn room(&mut self, len: usize) -> Result<*mut u8, OutOfMemory> {
        if !self.has_room(len) {
            self.begin_chunk()?;
        }
        Ok(self.take(len))
    }

    /// Returns room like `room`, at an address that is a multiple of eight.
    #[inline]
    pub fn room_aligned(&mut self, len: usize) -> Result<*mut u8, OutOfMemory> {
        self.at = self.at.next_multiple_of(align_of::<u64>());
        self.room(len)
    }

    /// Copies `bytes` whatever the memory limit is. It is for callers that cannot fail here, and that fail where they
    /// go on.
    pub fn copy_anyway(&mut self, bytes: &[u8]) -> *const u8 {
        if !self.has_room(bytes.len()) {
            if self.used == self.chunks.len() {
                self.charge.add_anyway(CHUNK_BYTES);
            }
            self.enter_chunk();
        }
        let to = self.take(bytes.len());
        // SAFETY: there is room for `bytes.len()` bytes, to which no other pointer exists, as in `copy`.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        to
    }

    /// Returns whether the chunk in use has room.
    #[inline(always)]
    fn has_room(&self, len: usize) -> bool {
        self.used > 0 && self.at + len <= CHUNK_BYTES
    }

    /// Continues in another chunk.
    #[cold]
    fn begin_chunk(&mut self) -> Result<(), OutOfMemory> {
        if self.used == self.chunks.len() {
            self.charge.add(CHUNK_BYTES)?;
        }
        self.enter_chunk();
        Ok(())
    }

    /// Puts the next chunk in use, and makes it if there is none. The chunk has been charged.
    fn enter_chunk(&mut self) {
        if self.used == self.chunks.len() {
            self.chunks.push(new_chunk());
        }
        (self.used, self.at) = (self.used + 1, 0);
    }

    /// Takes `len` bytes of the chunk in use.
    #[inline(always)]
    fn take(&mut self, len: usize) -> *mut u8 {
        assert!(self.at + len <= CHUNK_BYTES, "keys are shorter than a chunk");
        // SAFETY: the result is within the chunk, as asserted above.
        let to = unsafe { self.chunks[self.used - 1].add(self.at) }.as_ptr();
        self.at += len;
        to
    }

    /// Releases the copy of `len` bytes at `copy`, which no one reads any more. If it was the last copy, its memory is
    /// used again.
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
            // SAFETY: the chunk is from `new_chunk`, and no one uses what was copied there.
            unsafe { dealloc(chunk.as_ptr(), CHUNK) };
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.free_from(0);
    }
}

// SAFETY: the arena owns its chunks, and they are bound to no thread.
unsafe impl Send for Arena {}

fn new_chunk() -> NonNull<u8> {
    // SAFETY: the size of a chunk is not 0.
    NonNull::new(unsafe { alloc(CHUNK) }).unwrap_or_else(|| handle_alloc_error(CHUNK))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that copies stay intact while more are made, and that memory is used again after a reset.
    #[test]
    fn copies_stay() {
        let memory = Memory::new(u64::MAX);
        let mut arena = Arena::new(&memory);
        for round in 0..3u8 {
            let all: Vec<_> = (0..500usize)
                .map(|i| (arena.copy(&vec![round ^ i as u8; i % 700]).expect("memory"), i))
                .collect();
            for (at, i) in all {
                // SAFETY: the arena was not reset since the copy was made.
                let bytes = unsafe { std::slice::from_raw_parts(at, i % 700) };
                assert!(bytes.iter().all(|&b| b == round ^ i as u8));
            }
            arena.reset();
            assert!(arena.chunks.len() <= KEPT);
            assert_eq!(memory.total_used_bytes(), (arena.chunks.len() * CHUNK_BYTES) as u64);
        }
    }

    /// Proves that the last copy's memory is used again when the copy is released, and no other copy's memory.
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

    /// Proves that a copy is refused at the limit, and that earlier copies stay.
    #[test]
    fn limit() {
        let memory = Memory::new(0);
        let mut arena = Arena::new(&memory);
        let first = arena.copy(&[1; 1000]).expect("each has a little");
        let refused = (0..10_000).find(|_| arena.copy(&[2; 1000]).is_err());
        assert!(refused.is_some_and(|i| i > 10), "{refused:?}");
        arena.copy_anyway(&[3; 1000]);
        // SAFETY: the arena was not reset since the copy was made.
        assert_eq!(unsafe { std::slice::from_raw_parts(first, 1000) }, [1; 1000]);
    }
}
