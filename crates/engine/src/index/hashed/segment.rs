//! The head of a segment: the latch of a thread that changes one of its keys, its version, the stash, and the stamps.
//! It lies apart from the segment's buckets, because most lookups do not read it. A head of zeros is that of an empty
//! segment.

use crate::index::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::Backoff;

/// The bytes of a head. The blocks of its slab must have this size.
pub(super) const HEAD_BYTES: usize = 128;
/// The groups of a segment's buckets. Each has one stamp.
pub(super) const STAMPS: usize = 8;

/// One block of the heads' slab.
#[repr(C, align(128))]
pub(super) struct Head {
    word: AtomicU64,
    /// The first line of the stash, or 0.
    stash: AtomicU32,
    /// For phantom protection: the last commit of a transaction that has found keys absent in these buckets.
    stamps: [AtomicU64; STAMPS],
}

// The weak memory checker's atomics are larger. It has no slab of heads.
#[cfg(not(braid_loom))]
const _: () = assert!(size_of::<Head>() == HEAD_BYTES);

const LATCHED: u64 = 1;
const VERSION: u64 = 2;

impl Head {
    #[inline(always)]
    pub(super) fn word(&self) -> u64 {
        // Acquire: pairs with the Release in `Held::drop`.
        self.word.load(Ordering::Acquire)
    }

    pub(super) fn is_latched(word: u64) -> bool {
        word & LATCHED != 0
    }

    /// Returns the word that the segment has while it is not latched.
    pub(super) fn version(word: u64) -> u64 {
        word & !LATCHED
    }

    /// Returns whether everything read since `word` is what the segment held then.
    #[inline(always)]
    pub(super) fn is_still(&self, word: u64) -> bool {
        // The fence pairs with the Release fence in `try_hold`.
        fence(Ordering::Acquire);
        self.word.load(Ordering::Relaxed) == word
    }

    /// Returns the first line of the stash, or 0. The caller validates, or has the latch.
    pub(super) fn stash(&self) -> u32 {
        self.stash.load(Ordering::Relaxed)
    }

    /// Raises a stamp.
    pub(super) fn raise_stamp(&self, group: usize, stamp: u64) {
        self.stamps[group].fetch_max(stamp, Ordering::Relaxed); // fences order it: see the folder's README
    }

    pub(super) fn stamp(&self, group: usize) -> u64 {
        self.stamps[group].load(Ordering::Relaxed) // as above
    }

    /// Waits for the holder of the latch, if there is one, and latches the segment.
    pub(super) fn hold(&self) -> Held<'_> {
        let mut backoff = Backoff::new();
        loop {
            // Relaxed: this only waits; `try_hold` decides. Meanwhile, reads keep the cache line shared.
            if self.word.load(Ordering::Relaxed) & LATCHED == 0
                && let Some(held) = self.try_hold()
            {
                return held;
            }
            backoff.wait();
        }
    }

    /// Latches the segment if it is free.
    pub(super) fn try_hold(&self) -> Option<Held<'_>> {
        // Acquire: pairs with the Release in `Held::drop`.
        let word = self.word.fetch_or(LATCHED, Ordering::Acquire);
        if word & LATCHED != 0 {
            return None;
        }
        fence(Ordering::Release); // pairs with the Acquire fence in `is_still`
        Some(Held { head: self, word, is_changed: false })
    }
}

/// A latched segment. Dropping this releases the latch.
pub(super) struct Held<'h> {
    pub(super) head: &'h Head,
    word: u64,
    is_changed: bool,
}

impl Held<'_> {
    /// Announces a change, which makes marks void.
    pub(super) fn change(&mut self) {
        self.is_changed = true;
    }

    pub(super) fn set_stash(&mut self, line: u32) {
        self.change();
        self.head.stash.store(line, Ordering::Relaxed); // readers validate
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let version = if self.is_changed { VERSION } else { 0 };
        // Release: pairs with the Acquires in `word` and `try_hold`.
        self.head.word.store(self.word.wrapping_add(version), Ordering::Release);
    }
}
