//! What a bucket looks like: one cache line, five entries and a head. A line of zeros is an empty bucket.
//!
//! All writes happen under the bucket's latch ([`Held`]). Readers take none: they read the head, then what they want, then
//! the head again, and throw the result away where it is not the same, or says that the bucket is latched.

use super::BUCKET_BYTES;
use crate::index::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::Backoff;

/// Entries of a bucket: what fits into the line beside the head.
pub(super) const ENTRIES: usize = 5;

/// One block of the buckets' slab.
#[repr(C, align(64))]
pub(super) struct Bucket {
    tags: [AtomicU64; ENTRIES],
    ids: [AtomicU32; ENTRIES],
    head: AtomicU32,
}

// The weak memory checker's atomics are larger: it has no slab of buckets.
#[cfg(not(braid_loom))]
const _: () = assert!(size_of::<Bucket>() == BUCKET_BYTES);

/// The head's bits 0 to 4: entries in use.
const LIVE: u32 = (1 << ENTRIES) - 1;
const LATCHED: u32 = 1 << ENTRIES;
/// The rest of the head, which is another one after each change: 26 bits, so a reader would have to stand still between its
/// two looks for exactly as many changes of this one bucket, or a multiple, to take it for unchanged.
const VERSION: u32 = LATCHED << 1;

impl Bucket {
    /// The id under a tag. `None` also where the bucket is being changed.
    #[inline(always)]
    pub(super) fn find(&self, tag: u64) -> Option<u32> {
        // Acquire: pairs with the Release in Held::drop.
        let head = self.head.load(Ordering::Acquire);
        let hits = self.equal(tag) & head & LIVE;
        if hits == 0 || head & LATCHED != 0 {
            return None;
        }
        let id = self.ids.get(hits.trailing_zeros() as usize)?.load(Ordering::Relaxed);
        // Pairs with the Release fence in `hold`: having read a word written after it, we see the latch, or a later head.
        fence(Ordering::Acquire);
        (self.head.load(Ordering::Relaxed) == head).then_some(id)
    }

    /// The places, used or not, that have this tag.
    #[inline(always)]
    fn equal(&self, tag: u64) -> u32 {
        let bit = |i: usize| u32::from(self.tags[i].load(Ordering::Relaxed) == tag) << i;
        (0..ENTRIES).fold(0, |hits, i| hits | bit(i))
    }

    /// Whether another entry would fit, lately.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.head.load(Ordering::Relaxed) & LIVE != LIVE // a hint: looked at again under the latch
    }

    /// Latches the bucket, waiting for its holder.
    pub(super) fn hold(&self) -> Held<'_> {
        let mut backoff = Backoff::new();
        loop {
            // Relaxed: only waits; `try_hold` decides. Reading keeps the line shared meanwhile.
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
        // Acquire: pairs with the Release in Held::drop.
        let head = self.head.fetch_or(LATCHED, Ordering::Acquire);
        if head & LATCHED != 0 {
            return None;
        }
        // Pairs with the Acquire fence in `find`.
        fence(Ordering::Release);
        Some(Held { bucket: self, head })
    }
}

/// A bucket that is latched until this is dropped, which publishes what was changed.
pub(super) struct Held<'a> {
    bucket: &'a Bucket,
    /// What the head will be, but for the version.
    head: u32,
}

impl Held<'_> {
    /// The place of a tag that is in use.
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

    /// The tag and id of a place, if it is in use.
    pub(super) fn entry(&self, place: usize) -> Option<(u64, u32)> {
        let entry = || {
            let (tag, id) = (&self.bucket.tags[place], &self.bucket.ids[place]);
            (tag.load(Ordering::Relaxed), id.load(Ordering::Relaxed))
        };
        (self.head & 1 << place != 0).then(entry)
    }

    /// Takes the entry of a place in use out.
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
