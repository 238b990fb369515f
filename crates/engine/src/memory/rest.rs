//! The unused piece of a chunk.

use super::os::HUGE_PAGE;

/// The size of a pool's first chunk, and the smallest size that is tried when memory is short.
pub(super) const CHUNK_BYTES_MIN: usize = 64 << 10;
pub(super) const CHUNK_BYTES_MAX: usize = HUGE_PAGE;

/// An unused piece of a chunk.
pub(super) struct Rest {
    pub(super) next: *mut u8,
    pub(super) bytes: usize,
}

// SAFETY: the holder owns the piece, and no thread has a claim on it.
unsafe impl Send for Rest {}
