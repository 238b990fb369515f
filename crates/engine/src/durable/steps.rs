//! The decisions on which durability rests, each with the reason why it is right. Tests replace a single decision
//! (`planted.rs`) to show that the checks notice it. Such a database has other [`Steps`] than [`Proven`].

use crate::checkpoint::{self, Closed, Identity, Manifest, RowsFile, RowsReader};
use crate::epoch::Epochs;
use crate::error::{Error, Result};
use crate::storage::{OpenMode, Storage};
use crate::table::TableInner;
use crate::wal::{self, DatabaseId, Ending, Expected, Lsn, Reader, Record, Room, Writer};
use std::io::ErrorKind;
use std::ops::ControlFlow;

/// How many checkpoints are kept: the newest, and one to fall back on.
pub(super) const KEPT: usize = 2;

/// The part of a log, from a position on, that recovery applies.
#[derive(Clone, Copy)]
pub(crate) struct LogFrom<'l> {
    pub(super) storage: &'l dyn Storage,
    pub(super) database: DatabaseId,
    pub(super) start: Lsn,
    pub(super) ending: Ending,
}

/// What is done with a record. Its result says whether to continue.
pub(crate) type Apply<'a> = dyn FnMut(&Record<'_>) -> Result<ControlFlow<()>> + 'a;

/// The steps of recovery and of checkpoints.
pub(crate) trait Steps: Send + Sync {
    /// Reads the mark of an orderly close, with what it says of the end of the log. While the mark exists it is true,
    /// so anything that it names and that is missing is an error.
    fn read_mark(&self, storage: &dyn Storage, database: DatabaseId) -> Result<(Option<Closed>, Ending)> {
        let closed = Closed::read(storage, database)?;
        Ok((closed, Ending::of(closed.map(|closed| closed.end))))
    }

    /// Opens a file of rows. The reader checks it.
    fn open_rows(
        &self,
        storage: &dyn Storage,
        database: DatabaseId,
        rows: &RowsFile,
        fixed8: bool,
    ) -> checkpoint::Result<RowsReader> {
        RowsReader::open(storage, database, rows, fixed8)
    }

    /// Opens a log. The reader checks it.
    fn open_log<'l>(&self, log: &LogFrom<'l>) -> wal::Result<Reader<'l>> {
        Reader::with_ending(log.storage, log.database, log.start, log.ending)
    }

    /// Applies the records of a log, each once and in the order of the log, which respects every dependency. It stops
    /// at the end of the log or when `apply` breaks off. Returns the reader, positioned behind the last record.
    fn replay<'l>(&self, log: &LogFrom<'l>, apply: &mut Apply<'_>) -> Result<Reader<'l>> {
        each_record(self.open_log(log).map_err(Error::Log)?, apply)
    }

    /// Returns true if a record lies behind the point up to which a log is applied. A record counts only if all of it
    /// lies before that point.
    fn is_behind(&self, record: &Record<'_>, until: Lsn) -> bool {
        record.end_lsn > until
    }

    /// Returns true if recovery deletes the rows of a table when the log says that the table was cleared. The
    /// deletions themselves are not in the log.
    fn empties(&self) -> bool {
        true
    }

    /// Returns where timestamps continue: behind the latest recovered commit, so that new versions follow the
    /// recovered ones.
    fn resume_at(&self, latest: u64) -> u64 {
        latest
    }

    /// Begins a checkpoint for a table: changes from now on are noted apart, for the next checkpoint.
    fn turn(&self, table: &TableInner, epochs: &Epochs, bounds: &[&[u8]]) {
        table.touched().turn(epochs, bounds);
    }

    /// Returns the ranges of a table that a checkpoint has to write, once its start is known. Every change before the
    /// start has been noted by now. `pending` are ranges that a failed checkpoint would have covered; they are still
    /// to be written.
    fn take(&self, table: &TableInner, bounds: &[&[u8]], pending: Option<&[bool]>) -> Vec<bool> {
        with_pending(table.touched().take(bounds), pending)
    }

    /// Returns where replay starts over the rows of a checkpoint: where the log ended when the first row was read.
    /// The rows may or may not include what has been appended since.
    fn start_lsn(&self, started: Lsn, ended: Lsn) -> Lsn {
        debug_assert!(started <= ended, "a log grows");
        started
    }

    /// Returns true if a checkpoint may count. The rows can include anything that the log has up to its end, so all
    /// of that has to be durable.
    fn is_covered(&self, log: &Writer, end: Lsn) -> bool {
        log.durable_lsn() >= end
    }

    /// Returns true if checkpoints can be made. Once the log has ended they cannot, because a sync of the directory
    /// may have failed. Names of files that a checkpoint needs may then be lost although they are still visible.
    fn can_count(&self, log: &Writer) -> bool {
        !log.has_ended()
    }

    /// Ends the log if its last segment or the identity has lost its name. What is written then is lost, because
    /// recovery finds files by their names, although no write and no sync fails.
    fn look_for_files(&self, log: &Writer, storage: &dyn Storage) {
        log.look_for_segment();
        let identity = storage.open(Identity::FILE, OpenMode::Read);
        if identity.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            log.stop_without(Identity::FILE);
        }
    }

    /// Returns where the needed part of the log begins: at the start of the older of two checkpoints, which stands in
    /// for the newer one.
    fn needed_from(&self, kept: &[Manifest]) -> Option<Lsn> {
        kept.first().filter(|_| kept.len() == KEPT).map(|oldest| oldest.start_lsn)
    }

    /// Reserves room for the next checkpoint before the log takes it. When a log has filled the device, only a
    /// checkpoint makes room.
    fn keep_back(&self, room: &Room, expected: Expected, end: Lsn) {
        room.expect(expected, end);
    }
}

/// The steps for which the design argues.
pub(crate) struct Proven;

impl Steps for Proven {}

/// Applies the reader's records until `apply` breaks off.
pub(super) fn each_record<'l>(mut reader: Reader<'l>, apply: &mut Apply<'_>) -> Result<Reader<'l>> {
    while let Some(record) = reader.next_record().map_err(Error::Log)? {
        if apply(&record)?.is_break() {
            break;
        }
    }
    Ok(reader)
}

/// Returns the ranges that are in either list.
pub(super) fn with_pending(mut changed: Vec<bool>, pending: Option<&[bool]>) -> Vec<bool> {
    changed.iter_mut().zip(pending.unwrap_or_default()).for_each(|(changed, pending)| *changed |= pending);
    changed
}
