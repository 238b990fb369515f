//! What a transaction has found in the ranges that it has gone through. A record that it has come upon only later, or by
//! another operation, may have come into the range behind its back.

use crate::memory::{Charge, Memory, OutOfMemory};
use std::ops::Range;
use std::sync::Arc;

/// Room at first, and room that is kept for the next transaction.
const RANGES_FIRST: usize = 8;
const RANGES_KEPT: usize = 512;

/// What was found in one range: records by the numbers of their entries.
#[derive(Clone, Debug)]
struct InRange {
    /// All entries below this number whose records are in the range.
    below: usize,
    /// And these ones of `Found::listed`.
    listed: Range<usize>,
}

/// One per transaction, reused: what was found in each range, in the order in which they were noted.
#[derive(Debug)]
pub(super) struct Found {
    ranges: Vec<InRange>,
    listed: Vec<usize>,
    /// What is listed was found in the last range.
    pub(super) is_listing: bool,
    charge: Charge,
}

impl Found {
    /// Of no range yet.
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

    /// Adds a range, for which there is room: of the entries below this number, those were found that are in it.
    #[inline(always)]
    pub(super) fn push(&mut self, below: usize) {
        let listed = self.listed.len()..self.listed.len();
        self.ranges.push(InRange { below, listed });
        self.is_listing = true;
    }

    /// This entry's record was found in the range that was noted last.
    pub(super) fn list(&mut self, entry: usize) -> Result<(), OutOfMemory> {
        if !self.is_listing {
            return Ok(()); // noted before, and what was found there then is what counts
        }
        if self.listed.len() == self.listed.capacity() {
            self.charge.grow(&mut self.listed, 1, RANGES_FIRST)?;
        }
        self.listed.push(entry);
        let end = self.listed.len();
        self.ranges.last_mut().expect("one has been noted").listed.end = end;
        Ok(())
    }

    /// The record of this entry was in the range.
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
