//! Keys, mixed: numbers of 64 bits in which neighbours lie anywhere. What kinds of index that have no order of keys find them
//! by; and the order in which these kinds are walked.
//!
//! That order is the one of *positions*. The position of a key is its mixed number with its bits reversed, so that the lowest
//! bits, by which a table that grows by linear hashing knows its parts, decide first: each part has the positions from one
//! to another, and a split parts them in the middle. Keys of one position come in the order of their bytes.
//!
//! Positions are in files: the ranges of a checkpoint begin at them, and what has not been changed since keeps its ranges. So the
//! numbers of keys never change.

use super::{Key, object};
use std::cmp::Ordering as Order;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of a key. Of keys of eight bytes no two have the same.
#[inline(always)]
pub(in crate::index) fn mix(key: &Key) -> u64 {
    match key.len {
        ..=8 => mix_short(key.slice, key.len),
        // SAFETY: a key's bytes are alive during an operation.
        _ => mix_long(unsafe { key.long_bytes() }),
    }
}

/// That of a key of up to eight bytes.
#[inline(always)]
pub(in crate::index) fn mix_short(slice: u64, len: u32) -> u64 {
    finish(slice ^ u64::from(len ^ 8).wrapping_mul(FACTOR))
}

/// That of a longer one.
#[inline(never)]
pub(in crate::index) fn mix_long(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len() > 8);
    // All bits of a word are mixed before the next one comes: words of tuples differ in a few bits each, and a product alone carries
    // differences upwards only, so those of two words could meet and cancel.
    let step = |hash: u64, word: u64| finish(hash.rotate_left(29) ^ word);
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(bytes.len() as u64, |hash, word| step(hash, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    if rest.is_empty() { hash } else { step(hash, u64::from_le_bytes(last)) }
}

/// The finisher of SplitMix64: a bijection.
#[inline(always)]
fn finish(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// The number of a key as an entry has it: up to eight bytes in `word`, or the address of an object with all of them.
///
/// # Safety
/// The object of a long key is one that is alive.
#[inline(always)]
pub(in crate::index) unsafe fn mix_entry(word: u64, code: u8) -> u64 {
    match code {
        ..=8 => mix_short(word, u32::from(code)),
        // SAFETY: the caller's promise.
        _ => mix_long(unsafe { long_key(word) }),
    }
}

/// The bytes of a long key of which an entry has this word.
///
/// # Safety
/// The object is one that is alive.
#[inline(always)]
pub(in crate::index) unsafe fn long_key<'a>(word: u64) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { object::bytes(std::ptr::with_exposed_provenance(word as usize)) }
}

/// Where walks come to a key with this number.
#[inline(always)]
pub(in crate::index) fn position_of(hash: u64) -> u64 {
    hash.reverse_bits()
}

/// Appends the bytes whose order is that of walks: the position, and the key, where positions do not tell keys apart.
pub(in crate::index) fn push_order(key: &Key, fixed8: bool, order: &mut Vec<u8>) {
    order.extend_from_slice(&position_of(mix(key)).to_be_bytes());
    if !fixed8 {
        order.extend_from_slice(key.bytes(&mut [0; 8]));
    }
}

/// Compares the bytes that `push_order` makes of a key at this position with others; `key` is empty where positions tell keys
/// apart.
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

    /// Proves that keys are compared as the bytes of their order are.
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

    /// Proves that keys that differ in their length alone have other numbers, as entries have them too.
    #[test]
    fn lengths() {
        let mut numbers: Vec<u64> = (0..9).map(|len| mix(&Key::new(&[0; 8][..len]))).collect();
        assert_eq!(numbers[8], mix(&Key::from_u64(0)));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 9);
    }

    /// Proves that keys of several numbers, of which two take many values, have as many numbers of their own, wherever the two are.
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
