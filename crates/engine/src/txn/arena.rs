//! A transaction's scratch memory: bytes that stay where they are until the transaction ends.

/// Bump memory with stable addresses, kept from one transaction to the next.
///
/// Invariant: what `copy` returned is valid and unchanged until `reset`.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    chunks: Vec<Box<[u8]>>,
    /// Chunks in use, and bytes used of the last of them.
    used: usize,
    at: usize,
}

const CHUNK_BYTES: usize = 4096;
/// Chunks kept for the next transaction.
const KEPT: usize = 16;

impl Arena {
    /// Copies `bytes`, at most a chunk's worth.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> *const u8 {
        assert!(bytes.len() <= CHUNK_BYTES, "keys are shorter than a chunk");
        if self.used == 0 || self.at + bytes.len() > CHUNK_BYTES {
            if self.used == self.chunks.len() {
                self.chunks.push(vec![0; CHUNK_BYTES].into_boxed_slice());
            }
            self.used += 1;
            self.at = 0;
        }
        let to = &mut self.chunks[self.used - 1][self.at..][..bytes.len()];
        to.copy_from_slice(bytes);
        self.at += bytes.len();
        to.as_ptr()
    }

    /// Forgets all copies.
    #[inline(always)]
    pub(crate) fn reset(&mut self) {
        if self.used > 0 {
            self.used = 0;
            self.chunks.truncate(KEPT);
        }
    }
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
