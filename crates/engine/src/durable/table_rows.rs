//! The rows of one table on their way into a checkpoint. Ranges that were changed since the previous checkpoint are
//! written anew. The other ranges keep their files.
//!
//! Invariants:
//!
//! - `done` ascends and ends where the present range begins.
//! - A file has the rows of its range and no others. A file begins with the bound of a range, or with a bound between
//!   the last row of the file before and its own first row.
//!
//! Ranges and the order of keys follow the order of the table's index. If the index has no order of keys, that is
//! another order. Bounds and `last` are the bytes of that order ([`TableInner::push_order`]).
//!
//! Files have about the requested length.
//!
//! - Where changed ranges meet, a file that is still short continues into the next range. So short ranges are merged.
//! - A file ends when it has twice the length. So a range that grows is split.

use crate::cc::ConcurrencyControl;
use crate::checkpoint::{RowsFile, RowsOf, RowsRange, RowsWriter, TableEntry};
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::table::{Key, TableInner};
use crate::txn::Transaction;
use crate::wal::DatabaseId;
use std::ops::Bound;

/// How many bytes a run of rows has, about. The run is short enough to give the core back soon, and to hold a
/// snapshot only for moments.
const RUN_BYTES: usize = 256 << 10;

/// The greatest number of rows in a run.
const RUN_ROWS_MAX: usize = 4096;

/// Each time a table has this many more ranges, its next ranges become twice as long. So marks, manifests and
/// directories stay small compared with the table, however large it is.
const RANGES_PER_DOUBLING: usize = 1024;

/// A file ends only where a bound of at most this many bytes separates its last row from the next row. Bounds are
/// kept in memory.
const BOUND_BYTES_MAX: usize = 256;

/// Where files of rows are written, and for which checkpoint.
pub(super) struct Destination<'d> {
    pub(super) storage: &'d dyn Storage,
    pub(super) database: DatabaseId,
    /// The checkpoint's number.
    pub(super) checkpoint: u64,
    /// The requested length of files.
    pub(super) range_bytes: u64,
}

/// A table's rows on their way.
pub(super) struct TableRows {
    table: u32,
    fixed8: bool,
    /// The length that files aim at.
    aim_bytes: u64,
    old: Vec<Old>,
    /// The index of the range in `old` that is being checked or written.
    at: usize,
    /// The last row of that range that was written.
    last: Option<Vec<u8>>,
    file: Option<Growing>,
    /// How many files have been begun.
    parts: u32,
    done: Vec<RowsRange>,
}

/// A range in the previous checkpoint.
struct Old {
    from: Vec<u8>,
    /// None if there are no rows, or if there was no previous checkpoint.
    file: Option<RowsFile>,
    is_changed: bool,
}

/// A file that is being written.
struct Growing {
    from: Vec<u8>,
    writer: RowsWriter,
    /// The length at which the file ends.
    bytes_max: u64,
}

/// The result of a run.
enum Ran {
    /// There may be more rows.
    On,
    /// The file is long enough.
    Full,
    /// There are no more rows in the range.
    Through,
}

impl TableRows {
    /// Begins a table. `before` is its entry in the previous checkpoint, if it has one. `changed` says which of its
    /// ranges have been changed since. A table without ranges counts as having one.
    pub(super) fn new(
        entry: &TableEntry,
        before: Option<&TableEntry>,
        changed: &[bool],
        to: &Destination<'_>,
    ) -> TableRows {
        let ranges = before.map_or(&[][..], |before| &before.ranges);
        assert_eq!(changed.len(), ranges.len().max(1), "each range has been changed or not");
        let old = |(range, is_changed): (&RowsRange, &bool)| Old {
            from: range.from.clone(),
            file: Some(range.file),
            is_changed: *is_changed,
        };
        let mut old: Vec<Old> = ranges.iter().zip(changed).map(old).collect();
        if old.is_empty() {
            old.push(Old { from: Vec::new(), file: None, is_changed: changed[0] });
        }
        TableRows {
            table: entry.table.number,
            fixed8: entry.table.fixed8,
            aim_bytes: aim_bytes(to.range_bytes, old.len()),
            old,
            at: 0,
            last: None,
            file: None,
            parts: 0,
            done: Vec::new(),
        }
    }

    /// Returns true if all ranges are done.
    pub(super) fn is_finished(&self) -> bool {
        self.at == self.old.len() && self.file.is_none()
    }

    /// Returns the ranges, which must be done.
    pub(super) fn into_ranges(self) -> Vec<RowsRange> {
        assert!(self.is_finished());
        let mut ranges = self.done;
        // There may be no earlier rows.
        if let Some(first) = ranges.first_mut() {
            first.from.clear();
        }
        ranges
    }

    /// Takes over the files of unchanged ranges, up to a range that has to be written. Returns true if there is such
    /// a range.
    pub(super) fn pass_unchanged(&mut self) -> Result<bool> {
        while self.at < self.old.len() {
            if self.is_to_be_written() {
                return Ok(true);
            }
            self.end_file()?;
            let old = &mut self.old[self.at];
            if let Some(file) = old.file {
                self.done.push(RowsRange { from: std::mem::take(&mut old.from), file });
            }
            self.at += 1;
        }
        self.end_file()?;
        Ok(false)
    }

    /// Returns true if the present range has to be written. It has been changed, or it is so short that it is written
    /// together with a neighbor that is short, too, and has been changed.
    fn is_to_be_written(&self) -> bool {
        let (old, aim_bytes) = (&self.old[self.at], self.aim_bytes);
        let is_short = |bytes: u64| bytes < aim_bytes / 4;
        let is_short_file = |old: &Old| old.file.is_some_and(|file| is_short(file.bytes));
        let goes_on = || self.file.as_ref().is_some_and(|file| is_short(file.writer.bytes()));
        let is_before =
            || self.old.get(self.at + 1).is_some_and(|next| next.is_changed && is_short_file(next));
        // A last row shows that writing of the range has begun.
        old.is_changed || self.last.is_some() || (is_short_file(old) && (goes_on() || is_before()))
    }

    /// Writes the next run of rows of the present range, and returns the number of their bytes. The caller has called
    /// `pass_unchanged`.
    pub(super) fn write_run<C: ConcurrencyControl>(
        &mut self,
        to: &Destination<'_>,
        snapshot: &Transaction<C>,
        table: &TableInner,
    ) -> Result<u64> {
        let mut run = Run { rows: self, to, bytes: 0, count: 0 };
        let ran = match run.rows.fixed8 {
            true => run.write::<u64, C>(snapshot, table)?,
            false => run.write::<Vec<u8>, C>(snapshot, table)?,
        };
        let bytes = run.bytes as u64;
        match ran {
            Ran::On => {}
            Ran::Full => self.end_file()?,
            Ran::Through => {
                (self.at, self.last) = (self.at + 1, None);
                if self.file.as_ref().is_some_and(|file| file.writer.bytes() >= self.aim_bytes / 2) {
                    self.end_file()?;
                }
            }
        }
        Ok(bytes)
    }

    fn end_file(&mut self) -> Result<()> {
        let Some(Growing { from, writer, .. }) = self.file.take() else { return Ok(()) };
        debug_assert!(self.done.last().is_none_or(|last| last.from < from), "ranges ascend");
        self.done.push(RowsRange { from, file: writer.finish()? });
        Ok(())
    }

    /// Returns the file for the next row, which belongs to the present range and has this place in the order.
    fn file_for(&mut self, to: &Destination<'_>, order: &[u8]) -> Result<&mut Growing> {
        if self.file.is_none() {
            let old = &self.old[self.at];
            // If a file has ended within the range, the next one begins at the bound between its last row and this
            // row.
            let from =
                self.last.as_ref().map_or_else(|| old.from.clone(), |last| bound(last, order).to_vec());
            let bytes_max = match old.file.map(|file| file.bytes / self.aim_bytes) {
                // The length of the range is unknown.
                None => self.aim_bytes,
                Some(0 | 1) => self.aim_bytes.saturating_mul(2),
                // The parts are even, and a little longer, so that what has been added since leaves no short rest.
                Some(parts) => old.file.map_or(0, |file| file.bytes / parts / 8 * 9),
            };
            let of = RowsOf { checkpoint: to.checkpoint, table: self.table, part: self.parts };
            let writer = RowsWriter::create(to.storage, to.database, of, self.fixed8)?;
            self.parts += 1;
            self.file = Some(Growing { from, writer, bytes_max });
        }
        Ok(self.file.as_mut().expect("there just now"))
    }

    /// Returns true if the file should end before the row with this place in the order. A bound may have
    /// `bound_bytes_max` bytes.
    fn is_full_before(&self, order: &[u8], bound_bytes_max: usize) -> bool {
        let (Some(file), Some(last)) = (&self.file, &self.last) else { return false };
        file.writer.bytes() >= file.bytes_max && bound(last, order).len() <= bound_bytes_max
    }
}

/// Returns the length of files for a table with this number of ranges.
fn aim_bytes(range_bytes: u64, ranges: usize) -> u64 {
    let doublings = (ranges / RANGES_PER_DOUBLING).min(30) as u32;
    range_bytes.saturating_mul(1 << doublings)
}

/// Returns the shortest bound between two places in the order, of which `last` is the lesser. The bound is above
/// `last` and not above `next`.
fn bound<'k>(last: &[u8], next: &'k [u8]) -> &'k [u8] {
    debug_assert!(last < next, "rows ascend");
    let common = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    &next[..=common]
}

/// A key that can be copied as its bytes.
trait RawKey: Key {
    fn copy_to(&self, bytes: &mut Vec<u8>);
}

impl RawKey for u64 {
    fn copy_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_be_bytes());
    }
}

impl RawKey for Vec<u8> {
    fn copy_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }
}

/// A run of rows on its way to a file.
struct Run<'r> {
    rows: &'r mut TableRows,
    to: &'r Destination<'r>,
    bytes: usize,
    count: usize,
}

impl Run<'_> {
    /// Writes rows of the present range behind `last`, and moves `last` along. A row is written once, even if this
    /// fails midway and is called again.
    fn write<K: RawKey, C: ConcurrencyControl>(
        &mut self,
        snapshot: &Transaction<C>,
        table: &TableInner,
    ) -> Result<Ran> {
        let from = match &self.rows.last {
            Some(last) => Bound::Excluded(last.clone()),
            None => Bound::Included(self.rows.old[self.rows.at].from.clone()),
        };
        let next = self.rows.old.get(self.rows.at + 1);
        let to = next.map_or(Bound::Unbounded, |next| Bound::Excluded(next.from.clone()));
        let (from, to) = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        let bound_bytes_max = BOUND_BYTES_MAX.min(table.bound_bytes_max());
        let (mut key_bytes, mut order) = (Vec::new(), Vec::new());
        let result = snapshot.with(async |txn| {
            let mut rows = txn.walk::<K, [u8]>(Ok(table), from, to).untracked();
            while self.bytes < RUN_BYTES && self.count < RUN_ROWS_MAX {
                let Some((key, value)) = rows.next().await? else { return Ok(Ran::Through) };
                key_bytes.clear();
                key.copy_to(&mut key_bytes);
                order.clear();
                table.push_order(&key_bytes, &mut order);
                if self.rows.is_full_before(&order, bound_bytes_max) {
                    return Ok(Ran::Full);
                }
                self.put(&key_bytes, &mut order, value)?;
            }
            Ok(Ran::On)
        });
        match result {
            // Another transaction's commit takes long. A few rows more or less in a run do not matter.
            Err(Error::Conflict) => Ok(Ran::On),
            result => result,
        }
    }

    /// Writes a row. The memory of its place in the order is swapped with `last`.
    fn put(&mut self, key: &[u8], order: &mut Vec<u8>, value: &[u8]) -> Result<()> {
        self.rows.file_for(self.to, order)?.writer.push(key, value)?;
        self.bytes += key.len() + value.len();
        self.count += 1;
        std::mem::swap(self.rows.last.get_or_insert_default(), order);
        Ok(())
    }
}
