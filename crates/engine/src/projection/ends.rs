//! The ends of values of different lengths that are stored one after another.

use std::ops::Range;

/// One end for each value, in the order of values.
#[derive(Debug, Default)]
pub(super) struct Ends(Vec<usize>);

impl Ends {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the bytes of a value.
    pub(super) fn span(&self, row: usize) -> Range<usize> {
        self.begin(row)..self.0[row]
    }

    fn begin(&self, row: usize) -> usize {
        row.checked_sub(1).map_or(0, |before| self.0[before])
    }

    /// Returns where some values end, and where the first of them begins.
    pub(super) fn of(&self, rows: Range<usize>) -> (&[usize], usize) {
        (&self.0[rows.clone()], self.begin(rows.start))
    }

    /// Adds a value of this many bytes at the end.
    pub(super) fn push(&mut self, bytes: usize) {
        self.0.push(self.begin(self.len()) + bytes);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Frees unused room. Returns the number of bytes that are left.
    pub(super) fn shrink(&mut self) -> usize {
        self.0.shrink_to_fit();
        self.0.capacity() * size_of::<usize>()
    }
}
