//! A transaction's scratch memory: bytes that stay where they are until the transaction ends.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Bump memory with stable addresses, kept from one transaction to the next.
///
/// Invariant: what `copy` returned is valid and unchanged until `reset`.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    /// Of `CHUNK_BYTES` each, owned. (By pointers: a reference to a chunk would end the right of those that `copy` has
    /// returned into it.)
    chunks: Vec<NonNull<u8>>,
    /// Chunks in use, and bytes used of the last of them.
    used: usize,
    at: usize,
}

const CHUNK_BYTES: usize = 4096;
const CHUNK: Layout = Layout::new::<[u8; CHUNK_BYTES]>();
/// Chunks kept for the next transaction.
const KEPT: usize = 16;

impl Arena {
    /// Copies `bytes`, at most a chunk's worth.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> *const u8 {
        assert!(bytes.len() <= CHUNK_BYTES, "keys are shorter than a chunk");
        if self.used == 0 || self.at + bytes.len() > CHUNK_BYTES {
            if self.used == self.chunks.len() {
                self.chunks.push(new_chunk());
            }
            self.used += 1;
            self.at = 0;
        }
        // SAFETY: within the chunk, as was seen above.
        let to = unsafe { self.chunks[self.used - 1].add(self.at) }.as_ptr();
        // SAFETY: nobody reads this part of the chunk yet.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.at += bytes.len();
        to
    }

    /// Forgets all copies.
    #[inline(always)]
    pub(crate) fn reset(&mut self) {
        if self.used > 0 {
            self.used = 0;
            self.free_from(KEPT);
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
        let mut arena = Arena::default();
        for round in 0..3u8 {
            let all: Vec<_> =
                (0..500usize).map(|i| (arena.copy(&vec![round ^ i as u8; i % 700]), i)).collect();
            for (at, i) in all {
                // SAFETY: not reset since.
                let bytes = unsafe { std::slice::from_raw_parts(at, i % 700) };
                assert!(bytes.iter().all(|&b| b == round ^ i as u8));
            }
            arena.reset();
            assert!(arena.chunks.len() <= KEPT);
        }
    }
}
