//! One version of a record: a 16-byte head, followed by the value's bytes.

use super::stamp::{Stamp, Timestamp};
use crate::sync::ExactU64;
#[cfg(not(any(braid_shuttle, braid_loom)))]
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
#[cfg(any(braid_shuttle, braid_loom))] // of the exact size of its value
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU8;

/// The unit in which values are copied while another thread may overwrite them.
const WORD_BYTES: usize = size_of::<u64>();

/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// The head of a version. The value's bytes follow it in memory.
///
/// `link` is the pointer to the next older version, whose address has 48 bits. Above the address it has 13 bits of
/// length and three single bits: one for lengths that need a word of their own before the bytes, one for tombstones,
/// and one for tombstones that were due to be removed while they were covered.
#[repr(C)]
#[derive(Debug)]
pub struct Version {
    stamp: AtomicU64,
    link: AtomicPtr<Version>,
}

/// What a version says of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionKind {
    /// The record has this value.
    Value,
    /// The record is deleted. The bytes tell how to clean up after it.
    Tombstone,
}

// A target without 64-bit addresses does not compile here.
const ADDRESS: usize = (1 << 48) - 1;
const LENGTH_SHIFT: u32 = 48;
const LENGTH_SHORT_MAX: usize = (1 << 13) - 1;
const LONG: usize = 1 << 61;
const TOMBSTONE: usize = 1 << 62;
const OVERDUE: usize = 1 << 63;

// The model checker's atomics are larger.
#[cfg(not(any(braid_shuttle, braid_loom)))]
const _: () = assert!(size_of::<Version>() == 16);

impl Version {
    /// Returns the bytes of memory that a version with a value of `length` bytes takes.
    #[inline(always)]
    pub fn bytes_for(length: usize) -> usize {
        let word = if length > LENGTH_SHORT_MAX { size_of::<u64>() } else { 0 };
        size_of::<Version>() + word + length
    }

    /// Writes a whole version at `at`.
    ///
    /// # Safety
    /// `at` has room for `bytes_for(value.len())` bytes, is 8-byte aligned, and no other thread looks at it.
    #[inline(always)]
    pub unsafe fn write(at: *mut Version, stamp: u64, next: *const Version, kind: VersionKind, value: &[u8]) {
        debug_assert!(value.len() <= VALUE_BYTES_MAX);
        debug_assert!(next.addr() & !ADDRESS == 0, "a user-space address fits 48 bits");
        let mut above = if kind == VersionKind::Tombstone { TOMBSTONE } else { 0 };
        // SAFETY: in bounds, because the caller has promised room for `bytes_for(value.len())` bytes at `at`.
        let mut bytes = unsafe { at.add(1) }.cast::<u8>();
        if value.len() <= LENGTH_SHORT_MAX {
            above |= value.len() << LENGTH_SHIFT;
        } else {
            above |= LONG;
            // SAFETY: in bounds, as above. The head is 16 bytes and `at` is aligned, so the word is aligned.
            unsafe { bytes.cast::<u64>().write(value.len() as u64) };
            // SAFETY: in bounds, as above: `bytes_for` counts the word.
            bytes = unsafe { bytes.add(size_of::<u64>()) };
        }
        // SAFETY: in bounds, as above. No other thread looks at the memory, so it does not overlap `value`.
        unsafe { bytes.copy_from_nonoverlapping(value.as_ptr(), value.len()) };
        // SAFETY: `at` is valid for the head. The fields are atomics because stale readers of a slot's own place may
        // still load them.
        let head = unsafe { &*at };
        head.link.store(next.cast_mut().map_addr(|address| address | above), Ordering::Relaxed);
        head.stamp.store(stamp, Ordering::Release); // pairs with the Acquire in `stamp`
    }

    /// Returns the time at which the version was committed, or the tag of the transaction that created it.
    #[inline(always)]
    pub fn stamp(&self) -> Stamp {
        Stamp(self.stamp.load(Ordering::Acquire)) // pairs with the Release in `set_stamp`
    }

    /// Marks the version as committed at `at`.
    #[inline(always)]
    pub fn set_committed(&self, at: Timestamp) {
        debug_assert!(self.stamp().tag().is_some());
        self.set_stamp(Stamp(at.0));
    }

    /// Sets the stamp word.
    #[inline(always)]
    pub fn set_stamp(&self, stamp: Stamp) {
        self.stamp.store(stamp.0, Ordering::Release); // pairs with the Acquire in `stamp`
    }

    /// Claims a free place for `stamp`. Returns true if the place was free.
    #[inline(always)]
    pub(super) fn claim(&self, stamp: u64) -> bool {
        self.stamp.load(Ordering::Relaxed) == Stamp::FREE.0
            && self
                .stamp
                // Acquire: pairs with the Release that freed the place.
                .compare_exchange(Stamp::FREE.0, stamp, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Frees a place if it still has this stamp.
    pub(super) fn release(&self, stamp: Stamp) {
        // Release: pairs with the Acquire in `claim`.
        let _ = self.stamp.compare_exchange(stamp.0, Stamp::FREE.0, Ordering::Release, Ordering::Relaxed);
    }

    /// Raises the time in a slot's own place to at least `at`, under schemes that keep a time there.
    #[inline(always)]
    pub(super) fn raise_time(&self, at: u64) {
        // Relaxed, here and in `time`: the schemes' fences order the access with what they do before and after it.
        if self.stamp.load(Ordering::Relaxed) < at {
            self.stamp.fetch_max(at, Ordering::Relaxed);
        }
    }

    /// Returns the time in a slot's own place, under schemes that keep a time there.
    #[inline(always)]
    pub(super) fn time(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }

    /// Returns the next older version, or null.
    #[inline(always)]
    pub fn next(&self) -> *const Version {
        // Acquire: pairs with the Release in `set_next`.
        self.link.load(Ordering::Acquire).map_addr(|address| address & ADDRESS)
    }

    /// Marks a tombstone as due to be removed. Only the thread that prunes the chain calls this.
    pub fn set_overdue(&self) {
        debug_assert_eq!(self.kind(), VersionKind::Tombstone);
        self.link.fetch_or(OVERDUE, Ordering::Relaxed); // ordered by fences of the callers
    }

    /// Clears the mark that `set_overdue` sets. Returns true if it was set.
    pub fn take_overdue(&self) -> bool {
        self.link.load(Ordering::Relaxed).addr() & OVERDUE != 0
            && self.link.fetch_and(!OVERDUE, Ordering::Relaxed).addr() & OVERDUE != 0
    }

    /// Replaces the link, which unlinks the versions behind this one. Only one thread at a time prunes a chain. A mark
    /// that is taken away meanwhile may come back; it is then found once more than needed.
    pub fn set_next(&self, next: *const Version) {
        let above = self.link.load(Ordering::Relaxed).addr() & !ADDRESS;
        let link = next.cast_mut().map_addr(|address| address | above);
        self.link.store(link, Ordering::Release); // pairs with the Acquire in `next`
    }

    /// Returns whether the version is a value or a tombstone.
    #[inline(always)]
    pub fn kind(&self) -> VersionKind {
        if self.link.load(Ordering::Relaxed).addr() & TOMBSTONE == 0 {
            VersionKind::Value
        } else {
            VersionKind::Tombstone
        }
    }

    /// Returns the bytes of memory that the version takes.
    ///
    /// # Safety
    /// As for [`value`](Version::value).
    pub unsafe fn bytes_total(v: *const Version) -> usize {
        // SAFETY: the caller has made the promise that `value` asks for.
        Version::bytes_for(unsafe { Version::value(v) }.len())
    }

    /// Overwrites the value with another of the same length, while other threads may read it by
    /// [`copy_to`](Version::copy_to).
    ///
    /// # Safety
    /// As for [`value`](Version::value). In addition, no other thread writes the bytes or reads them in another way.
    pub unsafe fn overwrite(v: *const Version, bytes: &[u8]) {
        // SAFETY: the caller has made the promise that `value` asks for, and `shared` asks for no more.
        let (to, to_rest) = unsafe { Version::shared(v) };
        let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
        assert_eq!(
            (to.len(), to_rest.len()),
            (words.len(), rest.len()),
            "a value is overwritten by one of its length"
        );
        // Relaxed: ordered by the record's latch.
        pairwise(to, words, |to, word| to.store(u64::from_ne_bytes(*word), Ordering::Relaxed));
        to_rest.iter().zip(rest).for_each(|(to, byte)| to.store(*byte, Ordering::Relaxed));
    }

    /// Copies the value while another thread may overwrite it. The caller checks afterwards whether that happened. If
    /// it did, some of the copied bytes are of the old value and some of the new.
    ///
    /// # Safety
    /// As for [`value`](Version::value). In addition, `to` has room for the value.
    #[inline]
    pub unsafe fn copy_to(v: *const Version, to: *mut u8) {
        // SAFETY: the caller has made the promise that `value` asks for, and `shared` asks for no more.
        let (words, rest) = unsafe { Version::shared(v) };
        let to_words = to.cast::<Cell<MaybeUninit<[u8; WORD_BYTES]>>>();
        // SAFETY: the caller has promised room at `to`, and only this thread knows of that memory.
        let to_words = unsafe { std::slice::from_raw_parts(to_words, words.len()) };
        // Relaxed: see `overwrite`.
        pairwise(words, to_words, |word, to| {
            to.set(MaybeUninit::new(word.load(Ordering::Relaxed).to_ne_bytes()));
        });
        for (i, byte) in (words.len() * WORD_BYTES..).zip(rest) {
            // SAFETY: in bounds, because `to` has room for the whole value.
            unsafe { to.add(i).write(byte.load(Ordering::Relaxed)) };
        }
    }

    /// Returns the value's bytes in the form in which one thread writes them while others read: whole words, then the
    /// remaining bytes.
    ///
    /// # Safety
    /// As for [`value`](Version::value).
    #[inline(always)]
    unsafe fn shared<'v>(v: *const Version) -> (&'v [ExactU64], &'v [AtomicU8]) {
        // SAFETY: the caller has made the promise that `value` asks for.
        let value = unsafe { Version::value(v) };
        let (words, rest) = (value.len() / WORD_BYTES, value.len() % WORD_BYTES);
        let behind = value.cast::<AtomicU8>().wrapping_add(words * WORD_BYTES);
        // SAFETY: both slices lie within the value, and its memory is aligned to words.
        unsafe { (std::slice::from_raw_parts(value.cast(), words), std::slice::from_raw_parts(behind, rest)) }
    }

    /// Returns the value's bytes. The result is a pointer because the bytes lie behind what a reference would cover.
    ///
    /// # Safety
    /// `v` is a version written by [`Version::write`], and is not reclaimed while the result is used.
    #[inline(always)]
    pub unsafe fn value(v: *const Version) -> *const [u8] {
        // SAFETY: the caller has promised that `v` is a version that is not reclaimed.
        let link = unsafe { &*v }.link.load(Ordering::Relaxed).addr();
        let bytes = v.wrapping_add(1).cast::<u8>();
        if link & LONG == 0 {
            return std::ptr::slice_from_raw_parts(bytes, link >> LENGTH_SHIFT & LENGTH_SHORT_MAX);
        }
        // SAFETY: a long version has its length in the word behind its head.
        let length = unsafe { *bytes.cast::<u64>() } as usize;
        std::ptr::slice_from_raw_parts(bytes.wrapping_add(size_of::<u64>()), length)
    }
}

/// Calls `each` for the pairs of two lists of equal length, four pairs in each turn of the loop. The compiler does not
/// unroll loops over atomics by itself.
#[inline(always)]
fn pairwise<A, B>(a: &[A], b: &[B], each: impl Fn(&A, &B)) {
    let ((fours_a, rest_a), (fours_b, rest_b)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    for ([a0, a1, a2, a3], [b0, b1, b2, b3]) in fours_a.iter().zip(fours_b) {
        each(a0, b0);
        each(a1, b1);
        each(a2, b2);
        each(a3, b3);
    }
    rest_a.iter().zip(rest_b).for_each(|(a, b)| each(a, b));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(length: usize, kind: VersionKind) {
        let mut memory = vec![0u64; Version::bytes_for(length).div_ceil(8)];
        let value: Vec<u8> = (0..length).map(|i| i as u8).collect();
        let at = memory.as_mut_ptr().cast::<Version>();
        let next = std::ptr::without_provenance(0x7fff_ffff_fff0);
        // SAFETY: the memory has the size asked for, and is ours.
        let got = unsafe {
            Version::write(at, 9, next, kind, &value);
            let v = &*at;
            assert_eq!((v.stamp(), v.next(), v.kind()), (Stamp(9), next, kind));
            assert_eq!(Version::bytes_total(at), Version::bytes_for(length));
            v.set_next(std::ptr::null());
            assert_eq!((v.next(), v.kind()), (std::ptr::null(), kind));
            &*Version::value(at)
        };
        assert_eq!(got, value);
    }

    /// Proves that values of all lengths, short and long, come back whole, whatever happens to the link.
    #[test]
    fn round_trip() {
        for length in [0, 1, 8, 9, LENGTH_SHORT_MAX, LENGTH_SHORT_MAX + 1, 70_000, VALUE_BYTES_MAX] {
            check(length, VersionKind::Value);
        }
        check(20, VersionKind::Tombstone);
    }

    /// Proves that an overwritten value is the new one, whole, and that the memory behind it is unchanged.
    #[test]
    fn overwritten() {
        for length in [0, 1, 7, 8, 9, 24, 31, 300] {
            let mut memory = vec![u64::MAX; Version::bytes_for(length).div_ceil(8) + 1];
            let at = memory.as_mut_ptr().cast::<Version>();
            let value: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let mut copy = vec![0; length];
            // SAFETY: the memory is large enough, and ours.
            unsafe {
                Version::write(at, 9, std::ptr::null(), VersionKind::Value, &vec![7; length]);
                Version::overwrite(at, &value);
                Version::copy_to(at, copy.as_mut_ptr());
            }
            assert_eq!((copy, memory.last()), (value, Some(&u64::MAX)));
        }
    }

    /// Proves that a tombstone's mark is found once, and that it changes nothing else of the tombstone.
    #[test]
    fn overdue() {
        let mut memory = [0u64; 4];
        let at = memory.as_mut_ptr().cast::<Version>();
        let next = 0x7fff_ffff_fff0u64 as *const Version;
        // SAFETY: the memory is large enough, and ours.
        unsafe {
            Version::write(at, 9, next, VersionKind::Tombstone, &[1; 16]);
            let v = &*at;
            assert!(!v.take_overdue());
            v.set_overdue();
            assert_eq!((v.next(), v.kind()), (next, VersionKind::Tombstone));
            assert!(v.take_overdue() && !v.take_overdue());
            assert_eq!((v.next(), v.kind()), (next, VersionKind::Tombstone));
        }
    }
}
