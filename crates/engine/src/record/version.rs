//! One version of a record: a 16-byte head and the value's bytes behind it.

use super::stamp::{Stamp, Timestamp};
use crate::sync::ExactU64;
#[cfg(not(any(braid_shuttle, braid_loom)))]
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
#[cfg(any(braid_shuttle, braid_loom))] // of the exact size of its value
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU8;

/// What values are copied by beside a thread that overwrites them.
const WORD_BYTES: usize = size_of::<u64>();

/// Longest value in bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// Head of a version; its bytes follow it in memory.
///
/// `link` is the pointer to the next older version, whose address has 48 bits; above it 13 bits of length,
/// a bit for lengths that need a word of their own in front of the bytes, a bit for tombstones, and one for
/// tombstones that were due to be removed while they were covered.
#[repr(C)]
#[derive(Debug)]
pub struct Version {
    stamp: AtomicU64,
    link: AtomicPtr<Version>,
}

/// What a version says of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionKind {
    /// It has this value.
    Value,
    /// It is deleted; the bytes tell how to clean up after it.
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
    /// Bytes of memory that a version of `length` value bytes takes.
    #[inline(always)]
    pub fn bytes_for(length: usize) -> usize {
        let word = if length > LENGTH_SHORT_MAX { size_of::<u64>() } else { 0 };
        size_of::<Version>() + word + length
    }

    /// Writes a whole version at `at`.
    ///
    /// # Safety
    /// `at` has room for `bytes_for(value.len())` bytes, is 8-byte aligned, and no one else looks at it.
    #[inline(always)]
    pub unsafe fn write(at: *mut Version, stamp: u64, next: *const Version, kind: VersionKind, value: &[u8]) {
        debug_assert!(value.len() <= VALUE_BYTES_MAX);
        debug_assert!(next.addr() & !ADDRESS == 0, "a user-space address fits 48 bits");
        let mut above = if kind == VersionKind::Tombstone { TOMBSTONE } else { 0 };
        // SAFETY: in bounds by the caller's promise.
        let mut bytes = unsafe { at.add(1) }.cast::<u8>();
        if value.len() <= LENGTH_SHORT_MAX {
            above |= value.len() << LENGTH_SHIFT;
        } else {
            above |= LONG;
            // SAFETY: as above; the head is 16 bytes, so the word is aligned.
            unsafe { bytes.cast::<u64>().write(value.len() as u64) };
            // SAFETY: as above.
            bytes = unsafe { bytes.add(size_of::<u64>()) };
        }
        // SAFETY: as above.
        unsafe { bytes.copy_from_nonoverlapping(value.as_ptr(), value.len()) };
        // SAFETY: `at` is valid for the head; atomics, because stale readers of a slot's own place
        // may still load them.
        let head = unsafe { &*at };
        head.link.store(next.cast_mut().map_addr(|address| address | above), Ordering::Relaxed);
        head.stamp.store(stamp, Ordering::Release); // pairs with the Acquire in `stamp`
    }

    /// When, or by whom, it was created.
    #[inline(always)]
    pub fn stamp(&self) -> Stamp {
        Stamp(self.stamp.load(Ordering::Acquire)) // pairs with the Release in `set_stamp`
    }

    /// Makes it committed at `at`.
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

    /// Takes a free place: true if it was free and is `stamp`'s now.
    #[inline(always)]
    pub(super) fn claim(&self, stamp: u64) -> bool {
        self.stamp.load(Ordering::Relaxed) == Stamp::FREE.0
            && self
                .stamp
                // Acquire: pairs with the Release that freed the place.
                .compare_exchange(Stamp::FREE.0, stamp, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Makes a place free if it still has this stamp.
    pub(super) fn release(&self, stamp: Stamp) {
        // Release: pairs with the Acquire in `claim`.
        let _ = self.stamp.compare_exchange(stamp.0, Stamp::FREE.0, Ordering::Release, Ordering::Relaxed);
    }

    /// In a slot's own place under schemes that keep a time there: lets it be no earlier than `at`.
    #[inline(always)]
    pub(super) fn raise_time(&self, at: u64) {
        // Relaxed, here and below: the schemes' fences order it with what comes before and after.
        if self.stamp.load(Ordering::Relaxed) < at {
            self.stamp.fetch_max(at, Ordering::Relaxed);
        }
    }

    /// That time.
    #[inline(always)]
    pub(super) fn time(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }

    /// The next older version, or null.
    #[inline(always)]
    pub fn next(&self) -> *const Version {
        // Acquire: pairs with the Release in `set_next`.
        self.link.load(Ordering::Acquire).map_addr(|address| address & ADDRESS)
    }

    /// Marks a tombstone as due to be removed. By the thread that prunes the chain.
    pub fn set_overdue(&self) {
        debug_assert_eq!(self.kind(), VersionKind::Tombstone);
        self.link.fetch_or(OVERDUE, Ordering::Relaxed); // ordered by fences of the callers
    }

    /// Takes that mark away; returns true if it was there.
    pub fn take_overdue(&self) -> bool {
        self.link.load(Ordering::Relaxed).addr() & OVERDUE != 0
            && self.link.fetch_and(!OVERDUE, Ordering::Relaxed).addr() & OVERDUE != 0
    }

    /// Unlinks what is behind it. Only one thread at a time prunes a chain. (A mark that is taken away meanwhile may
    /// come back: then it is found once more than needed.)
    pub fn set_next(&self, next: *const Version) {
        let above = self.link.load(Ordering::Relaxed).addr() & !ADDRESS;
        let link = next.cast_mut().map_addr(|address| address | above);
        self.link.store(link, Ordering::Release); // pairs with the Acquire in `next`
    }

    /// A value or a tombstone.
    #[inline(always)]
    pub fn kind(&self) -> VersionKind {
        if self.link.load(Ordering::Relaxed).addr() & TOMBSTONE == 0 {
            VersionKind::Value
        } else {
            VersionKind::Tombstone
        }
    }

    /// Bytes of memory it takes.
    ///
    /// # Safety
    /// As [`value`](Version::value).
    pub unsafe fn bytes_total(v: *const Version) -> usize {
        // SAFETY: the caller's promise.
        Version::bytes_for(unsafe { Version::value(v) }.len())
    }

    /// Writes other bytes in place of a value of the same length, beside threads that read by [`copy_to`](Version::copy_to).
    ///
    /// # Safety
    /// As [`value`](Version::value); no other thread writes them, or reads them in another way.
    pub unsafe fn overwrite(v: *const Version, bytes: &[u8]) {
        // SAFETY: by the caller's promise.
        let (to, to_rest) = unsafe { Version::shared(v) };
        let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
        assert_eq!(
            (to.len(), to_rest.len()),
            (words.len(), rest.len()),
            "a value is overwritten by one of its length"
        );
        // (Relaxed: ordered by the record's latch.)
        pairwise(to, words, |to, word| to.store(u64::from_ne_bytes(*word), Ordering::Relaxed));
        to_rest.iter().zip(rest).for_each(|(to, byte)| to.store(*byte, Ordering::Relaxed));
    }

    /// Copies the value beside a thread that overwrites it. The caller finds out whether one has meanwhile; then some of the bytes
    /// are of one value, and some of the other.
    ///
    /// # Safety
    /// As [`value`](Version::value); at `to` there is room for it.
    #[inline]
    pub unsafe fn copy_to(v: *const Version, to: *mut u8) {
        // SAFETY: by the caller's promise.
        let (words, rest) = unsafe { Version::shared(v) };
        let to_words = to.cast::<Cell<MaybeUninit<[u8; WORD_BYTES]>>>();
        // SAFETY: there is room, of which this thread alone knows.
        let to_words = unsafe { std::slice::from_raw_parts(to_words, words.len()) };
        // (Relaxed: see `overwrite`.)
        pairwise(words, to_words, |word, to| {
            to.set(MaybeUninit::new(word.load(Ordering::Relaxed).to_ne_bytes()));
        });
        for (i, byte) in (words.len() * WORD_BYTES..).zip(rest) {
            // SAFETY: there is room.
            unsafe { to.add(i).write(byte.load(Ordering::Relaxed)) };
        }
    }

    /// The value's bytes as one thread writes them beside others: words, and what is left behind them.
    ///
    /// # Safety
    /// As [`value`](Version::value).
    #[inline(always)]
    unsafe fn shared<'v>(v: *const Version) -> (&'v [ExactU64], &'v [AtomicU8]) {
        // SAFETY: by the caller's promise.
        let value = unsafe { Version::value(v) };
        let (words, rest) = (value.len() / WORD_BYTES, value.len() % WORD_BYTES);
        let behind = value.cast::<AtomicU8>().wrapping_add(words * WORD_BYTES);
        // SAFETY: within the value, whose memory is aligned to words.
        unsafe { (std::slice::from_raw_parts(value.cast(), words), std::slice::from_raw_parts(behind, rest)) }
    }

    /// The value's bytes. (By a pointer, as they lie behind what a reference would cover.)
    ///
    /// # Safety
    /// `v` is a version written by [`Version::write`] that is not reclaimed while the result is used.
    #[inline(always)]
    pub unsafe fn value(v: *const Version) -> *const [u8] {
        // SAFETY: live by the caller's promise.
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

/// Calls `each` for the elements of two lists of one length, four in a turn of the loop: where they are atomics, the compiler does not
/// unroll it by itself.
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

    /// Values of all lengths, short and long, come back whole, whatever happens to the link.
    #[test]
    fn round_trip() {
        for length in [0, 1, 8, 9, LENGTH_SHORT_MAX, LENGTH_SHORT_MAX + 1, 70_000, VALUE_BYTES_MAX] {
            check(length, VersionKind::Value);
        }
        check(20, VersionKind::Tombstone);
    }

    /// A value that is overwritten is the new one, whole, and what lies behind it stays as it was.
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

    /// A tombstone's mark is found once, and changes nothing else of it.
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
