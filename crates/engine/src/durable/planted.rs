//! Planted errors in what is made durable, and when, to show that the checks notice them. Most are other forms of one
//! of the [`Steps`]. Some are done from outside to a database whose threads the caller steps. Only a test's database
//! ever has one.

use super::background::Stepped;
use super::steps::{Apply, LogFrom, Proven, Steps, each_record, with_pending};
use crate::cc::ConcurrencyControl;
use crate::checkpoint::{self, Closed, Manifest, RowsFile, RowsReader};
use crate::epoch::Epochs;
use crate::error::{Error, Result};
use crate::kernel::Engine;
use crate::storage::Storage;
use crate::sync::{Mutex, lock};
use crate::table::TableInner;
use crate::wal::{self, DatabaseId, Ending, Expected, Lsn, Reader, Record, Room, Writer};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The error to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// No error. Everything except these tests uses this.
    None,
    /// A checkpoint counts before the log that it needs is durable.
    CheckpointBeforeLog,
    /// The log is cut off where the newest checkpoint begins, so the previous checkpoint has no log.
    LogTruncatedTooEarly,
    /// A checkpoint records where the log ended when it was written, instead of where the log was when it began.
    StartNotedLate,
    /// What has been changed is read before the checkpoint's start is noted.
    TouchedTakenEarly,
    /// What the log has changed is forgotten when the database is opened.
    TouchedForgotten,
    /// What a checkpoint would have covered is forgotten when it fails.
    TouchedForgottenByFailure,
    /// Checkpoints are written after the log has ended.
    CheckpointAfterLog,
    /// The presence of the database's files is not checked.
    FilesNotLookedFor,
    /// No room is reserved for checkpoints.
    NothingKeptBack,
    /// A restoration applies the first record that ends behind its point.
    PointOneLate,
    /// A restoration omits the record that ends at its point.
    PointOneEarly,
    /// Recovery omits the last record of the log.
    LastRecordDropped,
    /// Recovery applies the first record of the log again at its end.
    FirstRecordAgain,
    /// Recovery keeps the rows of tables that have been cleared or dropped.
    ClearedRowsKept,
    /// Timestamps begin anew after recovery.
    ClockNotResumed,
    /// The mark of an orderly close is published before the end of the log is durable.
    MarkBeforeLog,
    /// The mark of an orderly close is ignored.
    MarkIgnored,
    /// An error in reading the rows of checkpoints.
    Checkpoint(checkpoint::Planted),
    /// An error in reading the log.
    Log(wal::Planted),
}

impl Planted {
    /// Returns the steps with this error.
    pub(crate) fn steps(self) -> Arc<dyn Steps> {
        match self {
            Planted::None => Arc::new(Proven),
            planted => Arc::new(Erring { planted, taken: Mutex::default() }),
        }
    }

    /// Makes the engine of a database that was just opened forget what the log has changed, if that is the error.
    pub(crate) fn strike<C: ConcurrencyControl>(self, engine: &Engine<C>) {
        if self != Planted::TouchedForgotten {
            return;
        }
        for table in engine.all_tables() {
            table.touched().turn(&engine.epochs, &[]);
            table.touched().settle(&engine.epochs);
            table.touched().take(&[]);
        }
    }

    /// Closes a database, with this error.
    pub fn close<C: ConcurrencyControl>(self, mut stepped: Stepped<C>) -> Result<()> {
        if let (Planted::MarkBeforeLog, Some(flusher)) = (self, &mut stepped.flusher) {
            let newest = stepped.checkpointer.newest().unwrap_or_default();
            stepped.mark.publish_at(newest, flusher.end())?;
        }
        stepped.close()
    }
}

/// The steps with one error.
struct Erring {
    planted: Planted,
    /// For each table, the ranges that were read too early.
    taken: Mutex<BTreeMap<u32, Vec<bool>>>,
}

impl Steps for Erring {
    fn read_mark(&self, storage: &dyn Storage, database: DatabaseId) -> Result<(Option<Closed>, Ending)> {
        match self.planted {
            Planted::MarkIgnored => Ok((None, Ending::Unknown)),
            _ => Proven.read_mark(storage, database),
        }
    }

    fn open_rows(
        &self,
        storage: &dyn Storage,
        database: DatabaseId,
        rows: &RowsFile,
        fixed8: bool,
    ) -> checkpoint::Result<RowsReader> {
        match self.planted {
            Planted::Checkpoint(planted) => planted.open(storage, database, rows, fixed8),
            _ => Proven.open_rows(storage, database, rows, fixed8),
        }
    }

    fn open_log<'l>(&self, log: &LogFrom<'l>) -> wal::Result<Reader<'l>> {
        match self.planted {
            Planted::Log(planted) => planted.open(log.storage, log.database, log.start, log.ending),
            _ => Proven.open_log(log),
        }
    }

    fn replay<'l>(&self, log: &LogFrom<'l>, apply: &mut Apply<'_>) -> Result<Reader<'l>> {
        let open = || self.open_log(log).map_err(Error::Log);
        match self.planted {
            Planted::LastRecordDropped => {
                let mut left = 0u64;
                each_record(open()?, &mut |record| {
                    left += u64::from(record.catalog().is_none());
                    Ok(ControlFlow::Continue(()))
                })?;
                each_record(open()?, &mut |record| {
                    left -= u64::from(record.catalog().is_none());
                    let is_last = left == 0 && record.catalog().is_none();
                    if is_last { Ok(ControlFlow::Continue(())) } else { apply(record) }
                })
            }
            Planted::FirstRecordAgain => {
                let reader = each_record(open()?, apply)?;
                if let Some(record) = open()?.next_record().map_err(Error::Log)? {
                    let _ = apply(&record)?;
                }
                Ok(reader)
            }
            _ => each_record(open()?, apply),
        }
    }

    fn is_behind(&self, record: &Record<'_>, until: Lsn) -> bool {
        match self.planted {
            Planted::PointOneLate => record.lsn >= until,
            Planted::PointOneEarly => record.end_lsn >= until,
            _ => Proven.is_behind(record, until),
        }
    }

    fn empties(&self) -> bool {
        self.planted != Planted::ClearedRowsKept
    }

    fn resume_at(&self, latest: u64) -> u64 {
        if self.planted == Planted::ClockNotResumed { 0 } else { latest }
    }

    fn turn(&self, table: &TableInner, epochs: &Epochs, bounds: &[&[u8]]) {
        Proven.turn(table, epochs, bounds);
        if self.planted == Planted::TouchedTakenEarly {
            lock(&self.taken).insert(table.number(), table.touched().take(bounds));
        }
    }

    fn take(&self, table: &TableInner, bounds: &[&[u8]], pending: Option<&[bool]>) -> Vec<bool> {
        let pending = pending.filter(|_| self.planted != Planted::TouchedForgottenByFailure);
        match lock(&self.taken).remove(&table.number()) {
            Some(early) => with_pending(early, pending),
            None => Proven.take(table, bounds, pending),
        }
    }

    fn start_lsn(&self, started: Lsn, ended: Lsn) -> Lsn {
        if self.planted == Planted::StartNotedLate { ended } else { Proven.start_lsn(started, ended) }
    }

    fn is_covered(&self, log: &Writer, end: Lsn) -> bool {
        self.planted == Planted::CheckpointBeforeLog || Proven.is_covered(log, end)
    }

    fn can_count(&self, log: &Writer) -> bool {
        self.planted == Planted::CheckpointAfterLog || Proven.can_count(log)
    }

    fn look_for_files(&self, log: &Writer, storage: &dyn Storage) {
        if self.planted != Planted::FilesNotLookedFor {
            Proven.look_for_files(log, storage);
        }
    }

    fn needed_from(&self, kept: &[Manifest]) -> Option<Lsn> {
        match self.planted {
            Planted::LogTruncatedTooEarly => kept.last().map(|newest| newest.start_lsn),
            _ => Proven.needed_from(kept),
        }
    }

    fn keep_back(&self, room: &Room, expected: Expected, end: Lsn) {
        if self.planted != Planted::NothingKeptBack {
            Proven.keep_back(room, expected, end);
        }
    }
}
