//! [`Chunks`]: the pieces of huge pages from which pools cut objects.
//!
//! A chunk smaller than a huge page is half of a chunk of twice its size. The other half waits for the next request of
//! this size (Knowlton's buddies, *A Fast Storage Allocator*, CACM 1965). Nothing is merged, because chunks do not come
//! back. Many small pools therefore lie in few huge pages; in small pages, each access to memory would cost a miss of
//! the address translation.
//!
//! Invariants:
//! - Of each size below a huge page, at most one piece waits, because nothing is halved while a piece waits.
//! - A piece is aligned to its size, if its region is aligned to a huge page.

use super::os::{HUGE_PAGE, Region};
use super::rest::{CHUNK_BYTES_MIN, Rest};
use std::ptr::null_mut;

/// The number of sizes below a huge page.
const SIZES: usize = (HUGE_PAGE / CHUNK_BYTES_MIN).ilog2() as usize;

/// The regions of one account, and the pieces of them that are not yet taken.
pub(super) struct Chunks {
    regions: Vec<Region>,
    /// The waiting piece of `CHUNK_BYTES_MIN` bytes, of twice that, and so on. Null means that there is none.
    halves: [*mut u8; SIZES],
}

// SAFETY: this owns the pieces, and they are not bound to a thread.
unsafe impl Send for Chunks {}

impl Chunks {
    pub(super) fn new() -> Chunks {
        Chunks { regions: Vec::new(), halves: [null_mut(); SIZES] }
    }

    /// Takes zeroed memory of `bytes`, a power of two between the least chunk and a huge page. Returns `None` if the
    /// system has no memory.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Rest> {
        debug_assert!(bytes.is_power_of_two() && (CHUNK_BYTES_MIN..=HUGE_PAGE).contains(&bytes));
        let size = (bytes / CHUNK_BYTES_MIN).ilog2() as usize;
        // If memory is short, a region of just this size may still be had.
        let next = self.half(size).or_else(|| self.map(bytes))?;
        Some(Rest { next, bytes })
    }

    /// Takes a piece of this size: a waiting one, or half of a piece twice as large.
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
        // The first region gets huge pages only when there is a second one. A small database takes less memory without
        // them, and zeroing one would take a fifth of the time in which a small database is opened, used and closed.
        match self.regions.as_slice() {
            [_] => {}
            [first, second] => [first, second].into_iter().for_each(Region::prefer_huge_pages),
            [.., last] => last.prefer_huge_pages(),
            [] => unreachable!("one was added"),
        }
        Some(base)
    }
}
