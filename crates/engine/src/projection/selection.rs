//! Selection vectors: the rows of a batch that a query continues with.

use std::ops::Deref;

/// The numbers of some rows of a batch, ascending: a slice of `u32`. Conditions on columns make and narrow it without
/// branches that depend on values. A condition that holds for half of the rows costs no more than one that holds for
/// none.
///
/// ```
/// let (prices, counts) = ([5, 20, 30, 7], [1, 0, 2, 9]);
/// let mut selection = braiddb::Selection::default();
/// selection.select(&prices, |price| price >= 7);
/// selection.narrow(&counts, |count| count > 0);
/// assert_eq!(*selection, [2, 3]);
/// assert_eq!(selection.iter().map(|&row| prices[row as usize]).sum::<i32>(), 37);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// As long as the longest batch so far.
    rows: Vec<u32>,
    len: usize,
}

impl Selection {
    /// Selects the rows of `column` whose value meets the condition. Replaces the previous selection.
    pub fn select<T: Copy>(&mut self, column: &[T], mut condition: impl FnMut(T) -> bool) {
        if self.rows.len() < column.len() {
            self.rows.resize(column.len(), 0);
        }
        let (rows, mut len) = (&mut self.rows[..column.len()], 0);
        for (row, &value) in column.iter().enumerate() {
            rows[len] = row as u32;
            len += usize::from(condition(value));
        }
        self.len = len;
    }

    /// Selects the rows of a batch of `rows` rows for whose number the condition holds. Replaces the previous
    /// selection. For columns that are not slices, and for conditions on several columns.
    pub fn select_rows(&mut self, rows: usize, mut condition: impl FnMut(usize) -> bool) {
        if self.rows.len() < rows {
            self.rows.resize(rows, 0);
        }
        self.len = 0;
        for row in 0..rows {
            self.rows[self.len] = row as u32;
            self.len += usize::from(condition(row));
        }
    }

    /// Keeps the selected rows for whose number the condition holds.
    pub fn narrow_rows(&mut self, mut condition: impl FnMut(usize) -> bool) {
        let mut len = 0;
        for at in 0..self.len {
            let row = self.rows[at];
            self.rows[len] = row;
            len += usize::from(condition(row as usize));
        }
        self.len = len;
    }

    /// Keeps the selected rows whose value in another column of the same batch meets the condition.
    ///
    /// # Panics
    /// Panics if a selected row is not in `column`, because it is of another batch.
    pub fn narrow<T: Copy>(&mut self, column: &[T], mut condition: impl FnMut(T) -> bool) {
        self.narrow_rows(|row| condition(column[row]));
    }
}

impl Deref for Selection {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.rows[..self.len]
    }
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
    use super::*;

    /// Proves that a selection keeps what a filter would, also in a shorter batch than before.
    #[test]
    fn selects_as_filters_do() {
        let mut selection = Selection::default();
        for rows in [100u32, 10, 0, 50] {
            let column: Vec<u32> = (0..rows).map(|row| row * 7 % 11).collect();
            selection.select(&column, |value| value > 3);
            let kept: Vec<u32> = (0..rows).filter(|&row| column[row as usize] > 3).collect();
            assert_eq!(*selection, kept);
            selection.narrow(&column, |value: u32| value.is_multiple_of(2));
            let kept: Vec<u32> =
                kept.into_iter().filter(|&row| column[row as usize].is_multiple_of(2)).collect();
            assert_eq!(*selection, kept);
            selection.select_rows(column.len(), |row| column[row] > 3);
            selection.narrow_rows(|row| column[row].is_multiple_of(2));
            assert_eq!(*selection, kept);
        }
    }
}
