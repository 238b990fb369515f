//! The layout of a bucket: one cache line with five entries and a head. A line of zeros is an empty bucket.
//!
//! All writes happen under the bucket's latch ([`Held`]). Readers take no latch. They read the head, then what they
//! want, then the head again. They discard the result if the head has changed, or says that the bucket is latched.

use super::BUCKET_BYTES;
use crate::index::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::Backoff;

/// The entries of a bucket: as many as fit into the line beside the head.
pub(super) const ENTRIES: usize = 5;

/// One block of the buckets' slab.
#[repr(C, align(64))]
pub(super) struct Bucket {
    tags: [AtomicU64; ENTRIES],
    ids: [AtomicU32; ENTRIES],
    head: AtomicU32,
}

// The weak memory checker's atomics are larger. It has no slab of buckets.
#[cfg(not(braid_loom))]
const _: () = assert!(size_of::<Bucket>() == BUCKET_BYTES);

/// The entries in use: bits 0 to 4 of the head.
const LIVE: u32 = (1 << ENTRIES) - 1;
const LATCHED: u32 = 1 << ENTRIES;
/// The lowest bit of the version: the rest of the head, of 26 bits, which changes with each change of the bucket. A
/// reader takes a changed bucket for unchanged only if it stands still between its two looks for exactly as many
/// changes of this one bucket as there are versions, or a multiple.
const VERSION: u32 = LATCHED << 1;

impl Bucket {
    /// Returns the id of a tag. Returns `None` also if the bucket is being changed.
    #[inline(always)]
    pub(super) fn find(&self, tag: u64) -> Option<u32> {
        // Acquire: pairs with the Release in `Held::drop`.
        let head = self.head.load(Ordering::Acquire);
        let hits = self.equal(tag) & head & LIVE;
        if hits == 0 || head & LATCHED != 0 {
            return None;
        }
        let id = self.ids.get(hits.trailing_zeros() as usize)?.load(Ordering::Relaxed);
        // Pairs with the Release fence in `try_hold`: a reader that has read a word written after it sees the latch, or
        // a later head.
        fence(Ordering::Acquire);
        (self.head.load(Ordering::Relaxed) == head).then_some(id)
    }

    /// Returns the places, used or not, that have this tag.
    #[inline(always)]
    fn equal(&self, tag: u64) -> u32 {
        let bit = |i: usize| u32::from(self.tags[i].load(Ordering::Relaxed) == tag) << i;
        (0..ENTRIES).fold(0, |hits, i| hits | bit(i))
    }

    /// Returns whether another entry would fit, at a recent moment.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.head.load(Ordering::Relaxed) & LIVE != LIVE // a hint: looked at again under the latch
    }

    /// Waits for the holder of the latch, if there is one, and latches the bucket.
    pub(super) fn hold(&self) -> Held<'_> {
        let mut backoff = Backoff::new();
        loop {
            // Relaxed: this only waits; `try_hold` decides. Meanwhile, reads keep the cache line shared.
            if self.head.load(Ordering::Relaxed) & LATCHED == 0
                && let Some(held) = self.try_hold()
            {
                return held;
            }
            backoff.wait();
        }
    }

    /// Latches the bucket if it is free.
    pub(super) fn try_hold(&self) -> Option<Held<'_>> {
        // Acquire: pairs with the Release in `Held::drop`.
        let head = self.head.fetch_or(LATCHED, Ordering::Acquire);
        if head & LATCHED != 0 {
            return None;
        }
        // Pairs with the Acquire fence in `find`.
        fence(Ordering::Release);
        Some(Held { bucket: self, head })
    }
}

/// A latched bucket. Dropping this publishes the changes and releases the latch.
pub(super) struct Held<'a> {
    bucket: &'a Bucket,
    /// The head that the bucket will have.
    head: u32,
}

impl Held<'_> {
    /// Returns the place of a tag that is in use.
    pub(super) fn place(&self, tag: u64) -> Option<usize> {
        let hits = self.bucket.equal(tag) & self.head;
        (hits != 0).then(|| hits.trailing_zeros() as usize)
    }

    pub(super) fn is_full(&self) -> bool {
        self.head & LIVE == LIVE
    }

    /// Adds an entry, if there is a place for it.
    pub(super) fn put(&mut self, tag: u64, id: u32) {
        debug_assert!(id != 0);
        debug_assert!(self.place(tag).is_none(), "a stale entry is in the way");
        if self.is_full() {
            return;
        }
        let place = (!self.head).trailing_zeros() as usize;
        self.bucket.tags[place].store(tag, Ordering::Relaxed);
        self.bucket.ids[place].store(id, Ordering::Relaxed);
        self.head = (self.head | 1 << place).wrapping_add(VERSION);
    }

    /// Returns the tag and id of a place, if the place is in use.
    pub(super) fn entry(&self, place: usize) -> Option<(u64, u32)> {
        let entry = || {
            let (tag, id) = (&self.bucket.tags[place], &self.bucket.ids[place]);
            (tag.load(Ordering::Relaxed), id.load(Ordering::Relaxed))
        };
        (self.head & 1 << place != 0).then(entry)
    }

    /// Removes the entry of a place in use.
    pub(super) fn clear(&mut self, place: usize) {
        debug_assert!(self.head & 1 << place != 0);
        self.head = (self.head & !(1 << place)).wrapping_add(VERSION);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        debug_assert!(self.head & LATCHED == 0);
        // Release: pairs with the Acquires in `find` and `try_hold`.
        self.bucket.head.store(self.head, Ordering::Release);
    }
}
