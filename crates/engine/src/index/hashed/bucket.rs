//! The layout of a bucket: one cache line with four entries and a head. A line of zeros is an empty bucket.
//!
//! An entry is a word, a record's id and a *meta*. The word is a key of up to eight bytes, or the address of an object
//! with the bytes of a longer key. The meta has the key's length and a *tag*, eight bits of the key's number.
//!
//! All writes happen under the latch of the segment. Where readers can come, the bucket is [`BUSY`] meanwhile. Readers
//! take no latch. They read the head, then what they want, then the head again. They discard the result if the head has
//! changed.

use crate::index::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::index::{Key, mixed};
use crate::suspend::CACHE_LINE;

/// The entries of a bucket: as many as fit into the line beside the head.
pub(super) const ENTRIES: usize = 4;

/// One line of a segment or of its stash. In a stash the head has other bits: see [`Bucket::in_stash`].
#[repr(C, align(64))]
pub(super) struct Bucket {
    words: [AtomicU64; ENTRIES],
    ids: [AtomicU32; ENTRIES],
    /// 16 bits of each entry: its tag and its code.
    metas: AtomicU64,
    head: AtomicU64,
}

// The weak memory checker's atomics are larger. It has no slab of buckets.
#[cfg(not(braid_loom))]
const _: () = assert!(size_of::<Bucket>() == CACHE_LINE);

/// The entries in use: bits 0 to 3 of the head.
pub(super) const LIVE: u64 = (1 << ENTRIES) - 1;
/// The bucket is being changed.
pub(super) const BUSY: u64 = 1 << ENTRIES;
/// A key whose home is this bucket may be in the stash.
pub(super) const STASHED: u64 = BUSY << 1;
/// The lowest bit of the version: the rest of the head, of 58 bits, which changes with each change of the bucket.
pub(super) const VERSION: u64 = STASHED << 1;

/// The code of a key whose bytes are in an object. Any other code is the key's length.
pub(super) const LONG: u8 = 9;

/// The contents of one place of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) word: u64,
    pub(super) id: u32,
    pub(super) meta: u16,
}

impl Entry {
    pub(super) fn code(&self) -> u8 {
        self.meta as u8
    }

    /// Returns the key's number.
    ///
    /// # Safety
    /// The object of a long key is alive.
    pub(super) unsafe fn hash(&self) -> u64 {
        // SAFETY: the caller has promised that the object of a long key is alive.
        unsafe { mixed::mix_entry(self.word, self.code()) }
    }

    /// Returns whether this is the entry of a key. The caller has compared their metas, which are equal.
    ///
    /// # Safety
    /// The object of a long key is alive.
    #[inline(always)]
    pub(super) unsafe fn is_of(&self, key: &Key) -> bool {
        if self.code() != LONG {
            return self.word == key.slice;
        }
        // SAFETY: the caller has promised that the entry's object is alive. Equal metas say that the key is long, too,
        // and its bytes are alive.
        unsafe { mixed::long_key(self.word) == key.long_bytes() }
    }

    /// Returns all bytes of the entry's key. The bytes of a short key are written to `short`.
    ///
    /// # Safety
    /// The object of a long key is alive as long as the result is used.
    pub(super) unsafe fn key<'k>(&self, short: &'k mut [u8; 8]) -> &'k [u8] {
        if self.code() == LONG {
            // SAFETY: the caller has promised that the object of a long key is alive.
            return unsafe { mixed::long_key(self.word) };
        }
        *short = self.word.to_be_bytes();
        &short[..usize::from(self.code()).min(8)]
    }
}

/// Returns the meta of a key. The tag has bits of the key's number that choose neither the segment nor the bucket.
#[inline(always)]
pub(super) fn meta_of(hash: u64, len: u32) -> u16 {
    let (tag, code) = ((hash >> 48) as u8, len.min(u32::from(LONG)) as u8);
    u16::from(tag) << 8 | u16::from(code)
}

#[inline(always)]
pub(super) fn tag_of(meta: u16) -> u8 {
    (meta >> 8) as u8
}

impl Bucket {
    #[inline(always)]
    pub(super) fn head(&self) -> u64 {
        // Acquire: pairs with the Release in `close`.
        self.head.load(Ordering::Acquire)
    }

    /// Returns whether everything read since `head` is what the bucket held then.
    #[inline(always)]
    pub(super) fn is_still(&self, head: u64) -> bool {
        // The fence pairs with the Release fence in `open`. If we have read a word written after it, we see the head of
        // that time or a later one.
        fence(Ordering::Acquire);
        self.head.load(Ordering::Relaxed) == head
    }

    /// Returns the entries in use by this head that have this meta, one bit each.
    #[inline(always)]
    pub(super) fn with_meta(&self, head: u64, meta: u16) -> u64 {
        let metas = self.metas.load(Ordering::Relaxed);
        let bit = |at: usize| u64::from((metas >> (16 * at)) as u16 == meta) << at;
        (0..ENTRIES).fold(0, |hits, at| hits | bit(at)) & head & LIVE
    }

    /// Returns the contents of a place, whether it is in use or not.
    #[inline(always)]
    pub(super) fn entry(&self, at: usize) -> Entry {
        let meta = (self.metas.load(Ordering::Relaxed) >> (16 * at)) as u16;
        Entry { word: self.words[at].load(Ordering::Relaxed), id: self.ids[at].load(Ordering::Relaxed), meta }
    }

    /// Returns a place that is free by this head.
    pub(super) fn free_place(head: u64) -> Option<usize> {
        let free = !head & LIVE;
        (free != 0).then(|| free.trailing_zeros() as usize)
    }

    /// Returns the places in use by this head.
    pub(super) fn places(head: u64) -> impl Iterator<Item = usize> {
        (0..ENTRIES).filter(move |at| head >> at & 1 != 0)
    }
}

// ---- under the segment's latch
impl Bucket {
    /// Opens the bucket: from now on, readers discard what they read. `close` must follow.
    #[inline]
    pub(super) fn open(&self) -> u64 {
        let head = self.head.load(Ordering::Relaxed); // changed only under the latch
        debug_assert!(head & BUSY == 0, "nobody else has opened it");
        self.head.store(head | BUSY, Ordering::Relaxed);
        fence(Ordering::Release); // pairs with the Acquire fence in `is_still`
        head
    }

    /// Closes the bucket, which makes the changes since `open` count. `head` is the new head, with the old version.
    #[inline]
    pub(super) fn close(&self, head: u64) {
        debug_assert!(head & BUSY == 0);
        // Release: pairs with the Acquire in `head`.
        self.head.store(head.wrapping_add(VERSION), Ordering::Release);
    }

    /// Puts an entry into a free place.
    pub(super) fn write(&self, at: usize, entry: &Entry) {
        debug_assert!(entry.id != 0);
        self.words[at].store(entry.word, Ordering::Relaxed);
        self.ids[at].store(entry.id, Ordering::Relaxed);
        let (metas, shift) = (self.metas.load(Ordering::Relaxed), 16 * at);
        let metas = metas & !(0xffff << shift) | u64::from(entry.meta) << shift;
        self.metas.store(metas, Ordering::Relaxed);
    }
}

// ---- a line of a stash, whose readers go by the head of the segment. The line's own head says which entries are in
// use, and which line follows.
const NEXT_SHIFT: u32 = 32;

impl Bucket {
    /// Returns the entries in use, and the next line, or 0.
    pub(super) fn in_stash(&self) -> (u64, u32) {
        let head = self.head.load(Ordering::Relaxed); // the caller validates, or has the latch
        (head & LIVE, (head >> NEXT_SHIFT) as u32)
    }

    pub(super) fn set_in_stash(&self, live: u64, next: u32) {
        debug_assert!(live & !LIVE == 0);
        self.head.store(live | u64::from(next) << NEXT_SHIFT, Ordering::Relaxed); // as the entries
    }
}
