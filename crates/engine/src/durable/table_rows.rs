//! The rows of one table on their way into a checkpoint: what was changed since the checkpoint before is written anew,
//! range by range, and the other ranges keep their files.
//!
//! Invariants: `done` ascends and ends where the present range begins; a file has the rows of its range and no others,
//! for a file is begun with the bound of a range, or with one between the last row of the file before and its own first.
//!
//! Ranges, and what is said here of the order of keys, go by the order of the table's index, which is another one where that has
//! no order of keys: bounds and `last` are the bytes of that order ([`TableInner::push_order`]).
//!
//! Files are about as long as was asked for. Where changed ranges meet, a file that is still short goes on into the next
//! one, so short ranges are merged; a file is ended when it has become twice too long, so a range that grows is split.

use crate::cc::ConcurrencyControl;
use crate::checkpoint::{RowsFile, RowsOf, RowsRange, RowsWriter, TableEntry};
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::table::{Key, TableInner};
use crate::txn::Transaction;
use crate::wal::DatabaseId;
use std::ops::Bound;

/// Rows are read in runs of about this many bytes: short enough to give the core back soon, and to hold a snapshot for
/// moments only.
const RUN_BYTES: usize = 256 << 10;

/// What there is to a run at most.
const RUN_ROWS_MAX: usize = 4096;

/// At this number of ranges, the next ones of a table become twice as long: marks, manifests and directories stay small
/// beside the table however large that is.
const RANGES_PER_DOUBLING: usize = 1024;

/// A file is ended only where a bound of at most this many bytes parts its last row from the next: bounds are kept in
/// memory.
const BOUND_BYTES_MAX: usize = 256;

/// Where files of rows are written to, and what for.
pub(super) struct Destination<'d> {
    pub(super) storage: &'d dyn Storage,
    pub(super) database: DatabaseId,
    /// The checkpoint's number.
    pub(super) checkpoint: u64,
    /// How long files are to be.
    pub(super) range_bytes: u64,
}

/// A table's rows on their way.
pub(super) struct TableRows {
    table: u32,
    fixed8: bool,
    /// How long files are to be.
    aim_bytes: u64,
    old: Vec<Old>,
    /// Which of them is being looked at or written.
    at: usize,
    /// The last row of that range that was written.
    last: Option<Vec<u8>>,
    file: Option<Growing>,
    /// Files begun so far.
    parts: u32,
    done: Vec<RowsRange>,
}

/// A range as the checkpoint before has it.
struct Old {
    from: Vec<u8>,
    /// None: there are no rows, or there was no such checkpoint.
    file: Option<RowsFile>,
    is_changed: bool,
}

/// A file that is being written.
struct Growing {
    from: Vec<u8>,
    writer: RowsWriter,
    /// When it has as many bytes, it is ended.
    bytes_max: u64,
}

/// What a run came to.
enum Ran {
    /// There may be more rows.
    On,
    /// The file is long enough.
    Full,
    /// There are no more rows in the range.
    Through,
}

impl TableRows {
    /// Of a table that the checkpoint before has like this, if it does; `changed` says which of its ranges have been
    /// changed since. A table without ranges counts as one that has one.
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

    /// Whether all ranges are done.
    pub(super) fn is_finished(&self) -> bool {
        self.at == self.old.len() && self.file.is_none()
    }

    /// The ranges, when they are done.
    pub(super) fn into_ranges(self) -> Vec<RowsRange> {
        assert!(self.is_finished());
        let mut ranges = self.done;
        // There may be no rows before.
        if let Some(first) = ranges.first_mut() {
            first.from.clear();
        }
        ranges
    }

    /// Takes over the files of ranges that have not been changed, up to one that has to be written; returns true if there is one.
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

    /// The present range has been changed; or it is so short that it is written together with one before or behind that
    /// is short, too, and has been changed.
    fn is_to_be_written(&self) -> bool {
        let (old, aim_bytes) = (&self.old[self.at], self.aim_bytes);
        let is_short = |bytes: u64| bytes < aim_bytes / 4;
        let is_short_file = |old: &Old| old.file.is_some_and(|file| is_short(file.bytes));
        let goes_on = || self.file.as_ref().is_some_and(|file| is_short(file.writer.bytes()));
        let is_before =
            || self.old.get(self.at + 1).is_some_and(|next| next.is_changed && is_short_file(next));
        // (The last row tells that writing it has begun.)
        old.is_changed || self.last.is_some() || (is_short_file(old) && (goes_on() || is_before()))
    }

    /// Writes the next run of rows of the present range, and returns the number of their bytes. The caller has asked `pass_unchanged`.
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

    /// The file in which the next row goes, which is the present range's and has this place in the order.
    fn file_for(&mut self, to: &Destination<'_>, order: &[u8]) -> Result<&mut Growing> {
        if self.file.is_none() {
            let old = &self.old[self.at];
            // After a file that was ended within the range, one begins where its last row is parted from this one.
            let from =
                self.last.as_ref().map_or_else(|| old.from.clone(), |last| bound(last, order).to_vec());
            let bytes_max = match old.file.map(|file| file.bytes / self.aim_bytes) {
                // Nothing says how much there is.
                None => self.aim_bytes,
                Some(0 | 1) => self.aim_bytes.saturating_mul(2),
                // Even parts; a little longer, so that what has been added since leaves no short rest.
                Some(parts) => old.file.map_or(0, |file| file.bytes / parts / 8 * 9),
            };
            let of = RowsOf { checkpoint: to.checkpoint, table: self.table, part: self.parts };
            let writer = RowsWriter::create(to.storage, to.database, of, self.fixed8)?;
            self.parts += 1;
            self.file = Some(Growing { from, writer, bytes_max });
        }
        Ok(self.file.as_mut().expect("there just now"))
    }

    /// Returns true if the file is to end before the row with this place in the order, where a bound may have `bound_bytes_max` bytes.
    fn is_full_before(&self, order: &[u8], bound_bytes_max: usize) -> bool {
        let (Some(file), Some(last)) = (&self.file, &self.last) else { return false };
        file.writer.bytes() >= file.bytes_max && bound(last, order).len() <= bound_bytes_max
    }
}

/// The length of the files of a table with this number of ranges.
fn aim_bytes(range_bytes: u64, ranges: usize) -> u64 {
    let doublings = (ranges / RANGES_PER_DOUBLING).min(30) as u32;
    range_bytes.saturating_mul(1 << doublings)
}

/// The shortest bound between two places in the order, of which the first is the lesser: behind that one, and not behind the other.
fn bound<'k>(last: &[u8], next: &'k [u8]) -> &'k [u8] {
    debug_assert!(last < next, "rows ascend");
    let common = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    &next[..=common]
}

/// Keys as their bytes.
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
    /// Writes rows of the present range behind `last`, which moves along. A row is written once, also if this fails
    /// midway and is called again.
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
            // Another one's commit takes long; some rows more or less in a run make no difference.
            Err(Error::Conflict) => Ok(Ran::On),
            result => result,
        }
    }

    /// Writes a row; the memory of its place in the order is exchanged.
    fn put(&mut self, key: &[u8], order: &mut Vec<u8>, value: &[u8]) -> Result<()> {
        self.rows.file_for(self.to, order)?.writer.push(key, value)?;
        self.bytes += key.len() + value.len();
        self.count += 1;
        std::mem::swap(self.rows.last.get_or_insert_default(), order);
        Ok(())
    }
}
