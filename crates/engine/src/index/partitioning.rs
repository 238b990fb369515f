//! How keys tell the partition of the database to which they belong.
//!
//! This is declared once in the life of a process, before the first transaction can use the index. Until then, or if it
//! is never declared, every write concerns all partitions, and every read concerns any one partition.

use super::Key;
use super::slice_of;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::ops::Bound;

/// All partitions, however many there are.
const ALL: u64 = u64::MAX;
/// Any one partition.
const ANY: u64 = 0;
/// The bit that says that the partitioning has been declared.
const IS_SAID: u32 = 1 << 31;
const MASK_SHIFT: u32 = 8;

/// The partitioning of the keys of one index.
#[derive(Debug, Default)]
pub struct Partitioning {
    /// The number of leading bits of a key that decide, in the lowest byte; 0 means that none do. The next byte is the
    /// number of partitions less 1.
    word: AtomicU32,
    /// Whether there may be entries that lie in another partition than what they name.
    has_strays: AtomicBool,
}

impl Partitioning {
    /// Declares that the leading `bits` of keys decide, or that none do, in a database of so many partitions. If
    /// something else was declared before, the error is what was declared.
    pub fn say(&self, bits: Option<u32>, partitions: u32) -> Result<(), Option<u32>> {
        debug_assert!(bits.is_none_or(|bits| (1..=u64::BITS).contains(&bits)));
        debug_assert!(partitions.is_power_of_two() && partitions <= u64::BITS);
        let word = IS_SAID | bits.unwrap_or(0) | (partitions - 1) << MASK_SHIFT;
        // Relaxed: transactions get the index through data that is made afterwards.
        match self.word.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed) {
            Err(said) if said != word => Err(Some(said & 0xff).filter(|&bits| bits != 0)),
            _ => Ok(()),
        }
    }

    /// Returns the partitions, one bit each, that reading or writing this key concerns. 0 means any one.
    #[inline(always)]
    pub fn of_key(&self, key: &Key, writes: bool) -> u64 {
        let word = self.word.load(Ordering::Relaxed);
        match word & 0xff {
            0 if writes => ALL,
            0 => ANY,
            bits => 1 << (number_of(key.slice, bits) & u64::from(word >> MASK_SHIFT & 0xff)),
        }
    }

    /// Returns the number of the partition of a key, if keys decide.
    pub fn number_of(&self, key: &Key) -> Option<u32> {
        self.is_split().then(|| self.of_key(key, false).trailing_zeros())
    }

    /// Returns how many leading bits of keys decide, if any do.
    pub fn leading_bits(&self) -> Option<u32> {
        Some(self.word.load(Ordering::Relaxed) & 0xff).filter(|&bits| bits != 0)
    }

    /// Returns whether keys decide.
    #[inline(always)]
    pub fn is_split(&self) -> bool {
        self.word.load(Ordering::Relaxed) & 0xff != 0
    }

    /// Returns the partitions that reading a range of keys concerns, from its lower bound to its upper bound. See
    /// `of_key`.
    pub fn of_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, is_fixed8: bool) -> u64 {
        let bits = self.word.load(Ordering::Relaxed) & 0xff;
        if bits == 0 {
            return ANY;
        }
        let (Some(first), Some(last)) = (first_slice(from, is_fixed8), last_slice(to, is_fixed8, bits))
        else {
            return ALL;
        };
        // Slices ascend with keys, so all keys in between have the same number.
        match number_of(first, bits) == number_of(last, bits) {
            true => self.of_key(&Key::from_u64(first), false),
            false => ALL,
        }
    }

    /// Notes that an entry lies in another partition than what it names.
    pub fn note_stray(&self) {
        self.has_strays.store(true, Ordering::Relaxed); // found by those that get its partition afterwards
    }

    /// Returns whether everything that the entries name lies in the entries' partitions.
    pub fn is_aligned(&self) -> bool {
        self.is_split() && !self.has_strays.load(Ordering::Relaxed)
    }
}

#[inline(always)]
fn number_of(slice: u64, bits: u32) -> u64 {
    slice >> (u64::BITS - bits)
}

/// Returns a lower bound of the slices of all keys above the bound, or `None` if there is no bound.
fn first_slice(from: Bound<&[u8]>, is_fixed8: bool) -> Option<u64> {
    match from {
        Bound::Included(key) => Some(slice_of(key)),
        Bound::Excluded(key) if is_fixed8 => slice_of(key).checked_add(1),
        Bound::Excluded(key) => Some(slice_of(key)),
        Bound::Unbounded => None,
    }
}

/// Returns an upper bound of the slices of all keys below the bound, as exact as the leading bits need.
fn last_slice(to: Bound<&[u8]>, is_fixed8: bool, bits: u32) -> Option<u64> {
    let Bound::Excluded(key) = to else {
        return match to {
            Bound::Included(key) => Some(slice_of(key)),
            _ => None,
        };
    };
    let slice = slice_of(key);
    // A key below the bound with the same slice is a prefix of the bound, if that has at most eight bytes, and the rest
    // of the bound is zeros. There is no such key if the bound does not end in a zero.
    let has_none_equal = is_fixed8 || key.len() <= 8 && key.last().is_some_and(|&last| last != 0);
    let is_round = bits == u64::BITS || slice << bits == 0;
    if has_none_equal && (is_fixed8 || is_round) { slice.checked_sub(1) } else { Some(slice) }
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;

    fn split(bits: u32) -> Partitioning {
        let partitioning = Partitioning::default();
        assert_eq!(partitioning.say(Some(bits), 16), Ok(()));
        partitioning
    }

    /// Proves that the first declaration counts.
    #[test]
    fn said_once() {
        let partitioning = Partitioning::default();
        let key = Key::from_u64(5);
        assert_eq!((partitioning.of_key(&key, true), partitioning.of_key(&key, false)), (ALL, ANY));
        assert_eq!(partitioning.say(Some(8), 16), Ok(()));
        assert_eq!(partitioning.say(Some(8), 16), Ok(()));
        assert_eq!((partitioning.say(Some(9), 16), partitioning.say(None, 16)), (Err(Some(8)), Err(Some(8))));
        let unsplit = Partitioning::default();
        assert_eq!((unsplit.say(None, 16), unsplit.say(Some(1), 16)), (Ok(()), Err(None)));
    }

    /// Proves that the partition is the number in the leading bits, modulo the number of partitions.
    #[test]
    fn keys() {
        assert_eq!(split(64).of_key(&Key::from_u64(0x123), false), 1 << 3);
        assert_eq!(split(56).of_key(&Key::from_u64(0x1234), true), 1 << 2);
        assert_eq!(split(16).of_key(&Key::new(b"\x01\x07more than eight bytes"), true), 1 << 7);
        assert_eq!(split(16).number_of(&Key::new(b"\x01")), Some(0));
    }

    /// Proves that a range concerns one partition if all keys that can be in it do, and all partitions otherwise.
    #[test]
    fn ranges() {
        let fixed = |from: u64, to: u64| {
            let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
            let (from, to) = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
            split(56).of_range(from, to, true)
        };
        assert_eq!((fixed(0x100, 0x200), fixed(0x1ff, 0x201)), (1 << 1, ALL));
        let bytes =
            |from: &[u8], to: &[u8]| split(16).of_range(Bound::Included(from), Bound::Excluded(to), false);
        assert_eq!(bytes(b"\x00\x02", b"\x00\x03"), 1 << 2, "all with a prefix");
        assert_eq!(bytes(b"\x00\xff", b"\x01"), 1 << 15);
        assert_eq!(bytes(b"\x00\x02", b"\x00\x03\x00"), ALL, "the key 0003 is below");
        assert_eq!(bytes(b"\x00\xff", b"\x01\x00"), ALL, "the key 01 is below");
        assert_eq!(bytes(b"\x00\x02a", b"\x00\x02long and long"), 1 << 2);
        assert_eq!(split(16).of_range(Bound::Unbounded, Bound::Included(b"\x00\x00"), false), ALL);
        assert_eq!(Partitioning::default().of_range(Bound::Unbounded, Bound::Unbounded, false), ANY);
    }
}
