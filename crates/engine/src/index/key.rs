//! Keys, as indexes compare them.

/// A search key: bytes in memory that outlives the operation. Eight bytes or fewer travel in `slice` alone.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The first eight bytes, big-endian, zero-padded: order-preserving.
    pub slice: u64,
    /// Length in bytes, at most [`KEY_BYTES_MAX`].
    pub len: u32,
    /// All `len` bytes when `len > 8`; unused (may dangle) otherwise.
    pub bytes: *const u8,
}

/// The longest key that an index takes.
pub const KEY_BYTES_MAX: u32 = u16::MAX as u32;

impl Key {
    /// The key of these bytes, which must outlive it: [`KEY_BYTES_MAX`] of them at most.
    #[inline]
    pub fn new(bytes: &[u8]) -> Key {
        debug_assert!(bytes.len() <= KEY_BYTES_MAX as usize);
        Key { slice: slice_of(bytes), len: bytes.len() as u32, bytes: bytes.as_ptr() }
    }

    /// All its bytes; those of a key that travels in `slice` alone by way of `short`.
    pub fn bytes<'k>(&'k self, short: &'k mut [u8; 8]) -> &'k [u8] {
        if self.len > 8 {
            // SAFETY: alive for as long as the key.
            return unsafe { self.long_bytes() };
        }
        *short = self.slice.to_be_bytes();
        &short[..self.len as usize]
    }

    /// All bytes of a key longer than eight.
    ///
    /// # Safety
    /// They are alive for as long as the result is used.
    pub unsafe fn long_bytes<'k>(&self) -> &'k [u8] {
        debug_assert!(self.len > 8);
        // SAFETY: by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.bytes, self.len as usize) }
    }

    /// The key of eight bytes whose order is that of the numbers.
    #[inline(always)]
    pub fn from_u64(number: u64) -> Key {
        Key { slice: number, len: 8, bytes: std::ptr::null() }
    }
}

/// The first eight of these bytes, big-endian, zero-padded.
#[inline]
pub fn slice_of(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(first)
        }
    }
}
