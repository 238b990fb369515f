//! Keys, in the form in which indexes compare them.

/// A search key: bytes in memory that outlives the operation. A key of eight bytes or fewer is in `slice` alone.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The first eight bytes, big-endian and zero-padded, which preserves the order.
    pub slice: u64,
    /// The length in bytes, at most [`KEY_BYTES_MAX`].
    pub len: u32,
    /// All `len` bytes if `len > 8`. Otherwise unused, and possibly dangling.
    pub bytes: *const u8,
}

/// The longest key that an index takes, in bytes.
pub const KEY_BYTES_MAX: u32 = u16::MAX as u32;

impl Key {
    /// Makes the key of these bytes, which must outlive it. There are at most [`KEY_BYTES_MAX`] of them.
    #[inline]
    pub fn new(bytes: &[u8]) -> Key {
        debug_assert!(bytes.len() <= KEY_BYTES_MAX as usize);
        Key { slice: slice_of(bytes), len: bytes.len() as u32, bytes: bytes.as_ptr() }
    }

    /// Returns all bytes of the key. The bytes of a key that is in `slice` alone are written to `short`.
    pub fn bytes<'k>(&'k self, short: &'k mut [u8; 8]) -> &'k [u8] {
        if self.len > 8 {
            // SAFETY: a key's bytes are alive as long as the key.
            return unsafe { self.long_bytes() };
        }
        *short = self.slice.to_be_bytes();
        &short[..self.len as usize]
    }

    /// Returns all bytes of a key longer than eight.
    ///
    /// # Safety
    /// The bytes are alive as long as the result is used.
    pub unsafe fn long_bytes<'k>(&self) -> &'k [u8] {
        debug_assert!(self.len > 8);
        // SAFETY: the caller has promised that the bytes are alive, and a key longer than eight has `len` bytes at
        // `bytes`.
        unsafe { std::slice::from_raw_parts(self.bytes, self.len as usize) }
    }

    /// Makes a key of eight bytes. The order of such keys is that of the numbers.
    #[inline(always)]
    pub fn from_u64(number: u64) -> Key {
        Key { slice: number, len: 8, bytes: std::ptr::null() }
    }
}

/// Returns the first eight of these bytes, big-endian and zero-padded.
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
