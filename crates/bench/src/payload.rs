//! Values to write: slices of one pool of random bytes, so that writing a value allocates nothing.

use crate::distribution::Rng;

/// Bytes of the pool beyond one value: enough for values to differ, little enough to stay in the cache.
const POOL_BYTES: usize = 4096;

/// The pool.
pub(crate) struct Payload {
    bytes: Vec<u8>,
    value_bytes: usize,
}

impl Payload {
    pub(crate) fn new(value_bytes: usize) -> Self {
        let mut rng = Rng::new(1);
        Payload { bytes: (0..POOL_BYTES + value_bytes).map(|_| rng.next_u64() as u8).collect(), value_bytes }
    }

    /// The value that a number picks.
    #[inline(always)]
    pub(crate) fn value(&self, number: u64) -> &[u8] {
        let at = number as usize % POOL_BYTES;
        &self.bytes[at..at + self.value_bytes]
    }
}
