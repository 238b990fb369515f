//! [`Chunks`]: what pools cut objects from, pieces of huge pages.
//!
//! A chunk smaller than a huge page is half of a chunk twice its size, and the other half waits for the next request
//! of this size (Knowlton's buddies, *A Fast Storage Allocator*, CACM 1965; nothing is merged, since chunks do not come
//! back). So many small pools lie in few huge pages: memory in small pages costs a miss of the address translation
//! for each access.
//!
//! Invariants: of each size below a huge page, at most one piece waits, since nothing is halved while one does; a piece
//! is aligned to its size, where regions are aligned to a huge page.

use super::os::{HUGE_PAGE, Region};
use super::rest::{CHUNK_BYTES_MIN, Rest};
use std::ptr::null_mut;

/// Sizes below a huge page.
const SIZES: usize = (HUGE_PAGE / CHUNK_BYTES_MIN).ilog2() as usize;

/// The regions of one account, and the pieces of them that nobody has yet.
pub(super) struct Chunks {
    regions: Vec<Region>,
    /// Of `CHUNK_BYTES_MIN`, twice that and so on; null: there is none.
    halves: [*mut u8; SIZES],
}

// SAFETY: the pieces are nobody else's, and not bound to a thread.
unsafe impl Send for Chunks {}

impl Chunks {
    pub(super) fn new() -> Chunks {
        Chunks { regions: Vec::new(), halves: [null_mut(); SIZES] }
    }

    /// Zeroed memory of `bytes`, a power of two between a least chunk and a huge page; `None`: the system has none.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Rest> {
        debug_assert!(bytes.is_power_of_two() && (CHUNK_BYTES_MIN..=HUGE_PAGE).contains(&bytes));
        let size = (bytes / CHUNK_BYTES_MIN).ilog2() as usize;
        // (With memory short, a region of this size may still be had.)
        let next = self.half(size).or_else(|| self.map(bytes))?;
        Some(Rest { next, bytes })
    }

    /// A piece of this size: one that waits, or half of one twice as large.
    fn half(&mut self, size: usize) -> Option<*mut u8> {
        if size == SIZES {
            return self.map(HUGE_PAGE);
        }
        let waiting = std::mem::replace(&mut self.halves[size], null_mut());
        if !waiting.is_null() {
            return Some(waiting);
        }
        let whole = self.half(size + 1)?;
        self.halves[size] = whole.wrapping_add(CHUNK_BYTES_MIN << size);
        Some(whole)
    }

    fn map(&mut self, bytes: usize) -> Option<*mut u8> {
        let region = Region::map(bytes)?;
        let base = region.base();
        self.regions.push(region);
        // The first region gets huge pages when there is a second one: a small database takes less memory without them, and
        // zeroing one would take a fifth of the time in which it is opened, used and closed.
        match self.regions.as_slice() {
            [_] => {}
            [first, second] => [first, second].into_iter().for_each(Region::prefer_huge_pages),
            [.., last] => last.prefer_huge_pages(),
            [] => unreachable!("one was added"),
        }
        Some(base)
    }
}
