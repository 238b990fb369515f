//! What a transaction has found in the ranges that it has gone through. A record that it has come upon only later, or
//! by another operation, may have come into the range without its notice.

use crate::memory::{Charge, Memory, OutOfMemory};
use std::ops::Range;
use std::sync::Arc;

/// Initial room, and room that is kept for the next transaction.
const RANGES_FIRST: usize = 8;
const RANGES_KEPT: usize = 512;

/// What was found in one range: records by the numbers of their entries.
#[derive(Clone, Debug)]
struct InRange {
    /// All entries below this number whose records are in the range.
    below: usize,
    /// And these entries of `Found::listed`.
    listed: Range<usize>,
}

/// What was found in each range, in the order in which the ranges were noted. One per transaction, reused.
#[derive(Debug)]
pub(super) struct Found {
    ranges: Vec<InRange>,
    listed: Vec<usize>,
    /// True if records that are listed were found in the last range.
    pub(super) is_listing: bool,
    charge: Charge,
}

impl Found {
    /// Makes an empty set.
    pub(super) fn new(memory: &Arc<Memory>) -> Found {
        Found { ranges: Vec::new(), listed: Vec::new(), is_listing: false, charge: Charge::new(memory) }
    }

    /// Makes room for one more range.
    #[inline(always)]
    pub(super) fn reserve(&mut self) -> Result<(), OutOfMemory> {
        if self.ranges.len() == self.ranges.capacity() {
            self.charge.grow(&mut self.ranges, 1, RANGES_FIRST)?;
        }
        Ok(())
    }

    /// Adds a range, for which there is room. Those of the entries below this number whose records are in the range
    /// were found there.
    #[inline(always)]
    pub(super) fn push(&mut self, below: usize) {
        let listed = self.listed.len()..self.listed.len();
        self.ranges.push(InRange { below, listed });
        self.is_listing = true;
    }

    /// Notes that this entry's record was found in the range that was noted last.
    pub(super) fn list(&mut self, entry: usize) -> Result<(), OutOfMemory> {
        if !self.is_listing {
            return Ok(()); // noted before: what was found there then counts
        }
        if self.listed.len() == self.listed.capacity() {
            self.charge.grow(&mut self.listed, 1, RANGES_FIRST)?;
        }
        self.listed.push(entry);
        let end = self.listed.len();
        self.ranges.last_mut().expect("one has been noted").listed.end = end;
        Ok(())
    }

    /// Returns true if the record of this entry was found in the range.
    pub(super) fn has(&self, range: usize, entry: usize) -> bool {
        let InRange { below, listed } = &self.ranges[range];
        entry < *below || self.listed[listed.clone()].contains(&entry)
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        if !self.ranges.is_empty() {
            self.charge.clear(&mut self.ranges, RANGES_KEPT);
            self.charge.clear(&mut self.listed, RANGES_KEPT);
        }
    }
}
