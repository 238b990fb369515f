//! Mixed keys: numbers of 64 bits in which neighboring keys lie anywhere. Kinds of index without an order of keys find
//! keys by these numbers, and are walked in an order that follows from them.
//!
//! That order is the order of *positions*. The position of a key is its mixed number with the bits reversed. A table
//! that grows by linear hashing tells its parts by the lowest bits, and these decide first in a position. Each part
//! therefore has a range of positions, and a split cuts the range in the middle. Keys with the same position are
//! ordered by their bytes.
//!
//! Positions are in files: the ranges of a checkpoint begin at positions, and data that has not changed since then
//! keeps its ranges. The numbers of keys therefore never change.

use super::{Key, object};
use std::cmp::Ordering as Order;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the number of a key. No two keys of eight bytes have the same number.
#[inline(always)]
pub(in crate::index) fn mix(key: &Key) -> u64 {
    match key.len {
        ..=8 => mix_short(key.slice, key.len),
        // SAFETY: a key's bytes are alive during an operation.
        _ => mix_long(unsafe { key.long_bytes() }),
    }
}

/// Returns the number of a key of up to eight bytes.
#[inline(always)]
pub(in crate::index) fn mix_short(slice: u64, len: u32) -> u64 {
    finish(slice ^ u64::from(len ^ 8).wrapping_mul(FACTOR))
}

/// Returns the number of a key longer than eight bytes.
#[inline(never)]
pub(in crate::index) fn mix_long(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len() > 8);
    // All bits of a word are mixed before the next word is added. Words of tuples differ in a few bits each, and a
    // product alone carries differences only upwards, so that the differences of two words could meet and cancel.
    let step = |hash: u64, word: u64| finish(hash.rotate_left(29) ^ word);
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(bytes.len() as u64, |hash, word| step(hash, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    if rest.is_empty() { hash } else { step(hash, u64::from_le_bytes(last)) }
}

/// Applies the finisher of SplitMix64, which is a bijection.
#[inline(always)]
fn finish(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Returns the number of a key as an entry stores it. `word` is the key itself, of up to eight bytes, or the address of
/// an object with all its bytes.
///
/// # Safety
/// The object of a long key is alive.
#[inline(always)]
pub(in crate::index) unsafe fn mix_entry(word: u64, code: u8) -> u64 {
    match code {
        ..=8 => mix_short(word, u32::from(code)),
        // SAFETY: the caller has promised that the object of a long key is alive.
        _ => mix_long(unsafe { long_key(word) }),
    }
}

/// Returns the bytes of a long key whose entry has this word.
///
/// # Safety
/// The object is alive.
#[inline(always)]
pub(in crate::index) unsafe fn long_key<'a>(word: u64) -> &'a [u8] {
    // SAFETY: the caller has promised that the object is alive, and the word of a long key's entry is its address.
    unsafe { object::bytes(std::ptr::with_exposed_provenance(word as usize)) }
}

/// Returns the position in the order of walks of a key with this number.
#[inline(always)]
pub(in crate::index) fn position_of(hash: u64) -> u64 {
    hash.reverse_bits()
}

/// Appends the bytes whose order is that of walks: the position, followed by the key where positions do not tell keys
/// apart.
pub(in crate::index) fn push_order(key: &Key, fixed8: bool, order: &mut Vec<u8>) {
    order.extend_from_slice(&position_of(mix(key)).to_be_bytes());
    if !fixed8 {
        order.extend_from_slice(key.bytes(&mut [0; 8]));
    }
}

/// Compares the bytes that `push_order` makes of a key at this position with `other`. `key` is empty where positions
/// tell keys apart.
pub(in crate::index) fn cmp_order(position: u64, key: &[u8], other: &[u8]) -> Order {
    let (own, len) = (position.to_be_bytes(), other.len().min(8));
    own[..len].cmp(&other[..len]).then_with(|| match other.len() {
        ..8 => Order::Greater,
        _ => key.cmp(&other[8..]),
    })
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    /// Proves that keys compare like the bytes of their order.
    #[test]
    fn order() {
        let keys: [&[u8]; 8] = [b"", b"\0", b"a", b"a\0", b"12345678", b"123456789", b"12345678\0", b"ab"];
        let order = |key: &[u8]| {
            let mut order = vec![];
            push_order(&Key::new(key), false, &mut order);
            order
        };
        let mut others: Vec<Vec<u8>> = keys.iter().map(|key| order(key)).collect();
        others.extend([vec![], vec![0x7f], vec![0xff; 9]]);
        others.extend(keys.iter().map(|key| order(key)[..5].to_vec()));
        for key in keys {
            let position = position_of(mix(&Key::new(key)));
            for other in &others {
                assert_eq!(cmp_order(position, key, other), order(key).cmp(other), "{key:?} and {other:?}");
            }
        }
    }

    /// Proves that keys that differ only in their length have different numbers, also in the form that entries have.
    #[test]
    fn lengths() {
        let mut numbers: Vec<u64> = (0..9).map(|len| mix(&Key::new(&[0; 8][..len]))).collect();
        assert_eq!(numbers[8], mix(&Key::from_u64(0)));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 9);
    }

    /// Proves that keys of several numbers get different mixed numbers when two of the numbers take many values,
    /// wherever these two are.
    #[test]
    fn tuples() {
        let words = |key: &[u32]| key.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        for len in 3..7 {
            for (i, j) in (0..len).flat_map(|j| (0..j).map(move |i| (i, j))) {
                for shifts in [(0, 0), (8, 0), (0, 24), (16, 16)] {
                    let key = |a: u32, b: u32| {
                        let mut key = vec![1; len];
                        (key[i], key[j]) = (a << shifts.0, b << shifts.1);
                        words(&key)
                    };
                    let all = (0..256).flat_map(|a| (0..256).map(move |b| (a, b)));
                    let mut numbers: Vec<u64> = all.map(|(a, b)| mix_long(&key(a, b))).collect();
                    numbers.sort_unstable();
                    numbers.dedup();
                    assert_eq!(numbers.len(), 1 << 16, "{len} numbers, the ones at {i} and {j}, {shifts:?}");
                }
            }
        }
    }
}
