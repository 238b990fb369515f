//! The decisions on which durability rests, each with the reason why it is right. Where tests put another form of one in its
//! place, to show that the checks notice it (`planted.rs`), a database has other [`Steps`] than [`Proven`].

use crate::checkpoint::{self, Closed, Identity, Manifest, RowsFile, RowsReader};
use crate::epoch::Epochs;
use crate::error::{Error, Result};
use crate::storage::{OpenMode, Storage};
use crate::table::TableInner;
use crate::wal::{self, DatabaseId, Ending, Expected, Lsn, Reader, Record, Room, Writer};
use std::io::ErrorKind;
use std::ops::ControlFlow;

/// Checkpoints that are kept: the newest, and one to fall back on.
pub(super) const KEPT: usize = 2;

/// A log, from a position on, as it is recovered from.
#[derive(Clone, Copy)]
pub(crate) struct LogFrom<'l> {
    pub(super) storage: &'l dyn Storage,
    pub(super) database: DatabaseId,
    pub(super) start: Lsn,
    pub(super) ending: Ending,
}

/// What is done with a record; it says whether to go on.
pub(crate) type Apply<'a> = dyn FnMut(&Record<'_>) -> Result<ControlFlow<()>> + 'a;

/// The steps of recovery and of checkpoints.
pub(crate) trait Steps: Send + Sync {
    /// What the mark of an orderly close says of the database and of the end of its log. While it is there it is true, so
    /// whatever is missing of what it names is an error.
    fn read_mark(&self, storage: &dyn Storage, database: DatabaseId) -> Result<(Option<Closed>, Ending)> {
        let closed = Closed::read(storage, database)?;
        Ok((closed, Ending::of(closed.map(|closed| closed.end))))
    }

    /// A file of rows, which the reader checks.
    fn open_rows(
        &self,
        storage: &dyn Storage,
        database: DatabaseId,
        rows: &RowsFile,
        fixed8: bool,
    ) -> checkpoint::Result<RowsReader> {
        RowsReader::open(storage, database, rows, fixed8)
    }

    /// A log, which the reader checks.
    fn open_log<'l>(&self, log: &LogFrom<'l>) -> wal::Result<Reader<'l>> {
        Reader::with_ending(log.storage, log.database, log.start, log.ending)
    }

    /// Applies the records of a log, each once and in the order of the log, which respects every dependency, until there is
    /// none left or `apply` breaks off. Returns the reader, which is behind the last.
    fn replay<'l>(&self, log: &LogFrom<'l>, apply: &mut Apply<'_>) -> Result<Reader<'l>> {
        each_record(self.open_log(log).map_err(Error::Log)?, apply)
    }

    /// Whether a record lies behind the point up to which a log is applied: it counts when all of it lies before.
    fn is_behind(&self, record: &Record<'_>, until: Lsn) -> bool {
        record.end_lsn > until
    }

    /// Whether recovery deletes the rows of a table where the log says that it was cleared: their deletions are not in the log.
    fn empties(&self) -> bool {
        true
    }

    /// Where timestamps go on: behind the latest of all commits that were recovered, so that new versions come after theirs.
    fn resume_at(&self, latest: u64) -> u64 {
        latest
    }

    /// At the beginning of a checkpoint: what is changed from now on is noted apart, for the next one.
    fn turn(&self, table: &TableInner, epochs: &Epochs, bounds: &[&[u8]]) {
        table.touched().turn(epochs, bounds);
    }

    /// When it is known where a checkpoint starts: the ranges of a table that it has to write. Every change before the
    /// start is among those noted by now. Those that a checkpoint would have covered which has failed, `pending`, are still
    /// to be written.
    fn take(&self, table: &TableInner, bounds: &[&[u8]], pending: Option<&[bool]>) -> Vec<bool> {
        with_pending(table.touched().take(bounds), pending)
    }

    /// Where the log has to be replayed from over the rows of a checkpoint: from where it ended when the first row was read,
    /// for what has been appended since may be in the rows or not.
    fn start_lsn(&self, started: Lsn, ended: Lsn) -> Lsn {
        debug_assert!(started <= ended, "a log grows");
        started
    }

    /// Whether a checkpoint may count: the rows can hold anything of the log up to its end, so all of that has to be durable.
    fn is_covered(&self, log: &Writer, end: Lsn) -> bool {
        log.durable_lsn() >= end
    }

    /// Whether checkpoints can be made: not once the log has ended, for a sync of the directory may have failed. Then names
    /// of files that a checkpoint needs may be lost although they can be seen.
    fn can_count(&self, log: &Writer) -> bool {
        !log.has_ended()
    }

    /// Ends the log if its last segment, or the identity, has lost its name: what is written then is lost, for recovery finds
    /// files by their names, although no write and no sync of it fails.
    fn look_for_files(&self, log: &Writer, storage: &dyn Storage) {
        log.look_for_segment();
        let identity = storage.open(Identity::FILE, OpenMode::Read);
        if identity.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            log.stop_without(Identity::FILE);
        }
    }

    /// From where on the log is needed: from the start of the older of two checkpoints, which stands in for the newer one.
    fn needed_from(&self, kept: &[Manifest]) -> Option<Lsn> {
        kept.first().filter(|_| kept.len() == KEPT).map(|oldest| oldest.start_lsn)
    }

    /// Keeps room back for the next checkpoint before the log takes it: a log that has filled the device gets room again
    /// by a checkpoint alone.
    fn keep_back(&self, room: &Room, expected: Expected, end: Lsn) {
        room.expect(expected, end);
    }
}

/// The steps as they are argued for.
pub(crate) struct Proven;

impl Steps for Proven {}

/// Applies the records that the reader has, until `apply` breaks off.
pub(super) fn each_record<'l>(mut reader: Reader<'l>, apply: &mut Apply<'_>) -> Result<Reader<'l>> {
    while let Some(record) = reader.next_record().map_err(Error::Log)? {
        if apply(&record)?.is_break() {
            break;
        }
    }
    Ok(reader)
}

/// The ranges that are in one or the other.
pub(super) fn with_pending(mut changed: Vec<bool>, pending: Option<&[bool]>) -> Vec<bool> {
    changed.iter_mut().zip(pending.unwrap_or_default()).for_each(|(changed, pending)| *changed |= pending);
    changed
}
