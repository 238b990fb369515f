//! A hash of keys and numbers.

/// Continues a hash with one more word. Every bit of the result depends on all bits of the word. This matters because
/// keys begin with their high bytes: neighboring keys differ only in the last byte, which is the highest byte of a
/// word.
#[inline]
pub(in crate::cc) fn mix(hash: u64, word: u64) -> u64 {
    const FACTOR: u128 = 0x8ebc_6af0_9c88_c6e3; // a factor of wyhash
    let wide = u128::from(hash.rotate_left(29) ^ word) * FACTOR;
    wide as u64 ^ (wide >> 64) as u64
}

/// Continues a hash with some bytes.
#[inline]
pub(in crate::cc) fn mix_bytes(hash: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, &byte| mix(hash, u64::from(byte)))
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Neighboring keys, alone and behind prefixes, are spread out: they meet nearly as many groups as random keys
    /// would.
    #[test]
    fn neighbours_lie_apart() {
        for prefix in [&b""[..], b"\0\0\0\x07", b"a longer prefix of all of these keys"] {
            for shift in [0, 1, 3, 5, 8, 13, 16, 24, 32, 40, 44, 48, 51] {
                let place = |n: u64| {
                    let key = [prefix, &(n << shift).to_be_bytes()].concat();
                    (mix_bytes(mix(0, 3), &key) >> 32) % 4096
                };
                let met: HashSet<u64> = (0..4096).map(place).collect();
                assert!(met.len() > 2200, "{} of 4096 by a shift of {shift}", met.len()); // by chance 2589
            }
        }
    }
}
