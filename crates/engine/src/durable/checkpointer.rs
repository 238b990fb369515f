//! Writing checkpoints while transactions go on.
//!
//! A checkpoint is fuzzy: each run of rows is read as of a snapshot of its own, later than the position `start_lsn`
//! of the log that recovery goes on from. All that was appended before that position is in every run; what
//! came later may or may not be, and is replayed: values, not differences, so that once more does no harm. Hence
//! no snapshot is open for long, and what a checkpoint holds is a state only together with the log up to
//! `end_lsn`, which is durable before the checkpoint counts.
//!
//! Without a log all is read as of one snapshot.

use super::Planted;
use super::archiver::Archiver;
use crate::cc::ConcurrencyControl;
use crate::checkpoint::{self, CatalogEntry, Manifest, RowsOf, RowsRange, RowsWriter, TableEntry};
use crate::error::{Error, Result};
use crate::storage::{Operation, Storage};
use crate::txn::{AsKey, Engine, Key, TableInner, TableKind, Transaction};
use crate::wal::{DatabaseId, Lsn, Writer};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

/// Rows are read in runs of about so many bytes: short enough to give the core back soon, and to hold a snapshot for
/// moments only.
const RUN_BYTES: usize = 256 << 10;

/// Rows are synced in pieces: what has piled up in the system's memory delays the log's syncs.
const SYNC_BYTES: u64 = 256 << 10;

/// What there is to a run at most.
const RUN_ROWS_MAX: usize = 4096;

/// Checkpoints that are kept: the newest, and one to fall back on.
const KEPT: usize = 2;

/// Makes checkpoints of one database, one after the other.
pub(super) struct Checkpointer<C: ConcurrencyControl> {
    engine: Arc<Engine<C>>,
    storage: Arc<dyn Storage>,
    database: DatabaseId,
    planted: Planted,
    log: Option<Writer>,
    /// Where there is a log to archive, and an archive.
    archiver: Option<Archiver>,
    /// The newest last.
    kept: Vec<Manifest>,
    /// Where the log ended when the database was opened: nothing before is needed beside what was recovered.
    base_lsn: Lsn,
    current: Option<Current<C>>,
    /// No number below is used again, also if its files are gone.
    number_next: u64,
}

/// A checkpoint under way.
struct Current<C: ConcurrencyControl> {
    number: u64,
    start_lsn: Lsn,
    touched: BTreeSet<u32>,
    /// Tables in the order of their numbers, as they were when it began.
    tables: Vec<TableEntry>,
    /// The first table that is not done.
    at: usize,
    rows: Option<RowsWriter>,
    /// Bytes of it that were written since it was synced.
    unsynced: u64,
    /// Behind which key of the present table to go on.
    behind: Bound<Vec<u8>>,
    /// The one snapshot, where there is no log.
    snapshot: Option<Transaction<C>>,
    end_lsn: Option<Lsn>,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So many bytes have been written; there is more to do.
    Wrote(u64),
    /// The log has to become durable up to here first.
    Await(Lsn),
    /// The checkpoint counts.
    Done,
}

impl<C: ConcurrencyControl> Checkpointer<C> {
    /// Goes on behind the checkpoints that there are.
    pub(super) fn new(
        engine: Arc<Engine<C>>,
        storage: Arc<dyn Storage>,
        database: DatabaseId,
        planted: Planted,
        kept: Vec<Manifest>,
        base_lsn: Lsn,
    ) -> Self {
        let log = engine.log.get().map(|log| log.writer.clone());
        let archive = engine.options.archive.clone().filter(|_| log.is_some());
        let archiver = archive.map(|archive| {
            Archiver::new(archive, storage.clone(), database, engine.archive_statistics.clone())
        });
        Checkpointer {
            engine,
            storage,
            database,
            planted,
            log,
            archiver,
            kept,
            base_lsn,
            current: None,
            number_next: 0,
        }
    }

    /// How many bytes of log recovery would have to replay.
    pub(super) fn log_bytes(&self) -> u64 {
        let start_lsn = self.kept.last().map_or(Lsn(0), |manifest| manifest.start_lsn);
        self.log.as_ref().map_or(0, |log| log.appended_lsn().0.saturating_sub(start_lsn.0))
    }

    /// Whether anything has been committed that the newest checkpoint may not have.
    pub(super) fn is_behind(&self) -> bool {
        match &self.log {
            Some(_) => self.log_bytes() > 0,
            None => self.kept.last().is_none_or(|last| C::now(&self.engine.shared) > last.timestamp),
        }
    }

    /// Begins a checkpoint, or goes on with it. After an error the next step begins a new one.
    pub(super) fn step(&mut self) -> Result<Step> {
        if let Err(ended) = self.check_log() {
            self.current = None;
            return Err(ended);
        }
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.begin()?,
        };
        match self.step_current(&mut current) {
            Ok(Step::Done) => Ok(Step::Done),
            Ok(step) => {
                self.current = Some(current);
                Ok(step)
            }
            Err(error) => {
                self.give_up(current, &error);
                Err(error)
            }
        }
    }

    /// A checkpoint that has failed leaves nothing behind, and what it would have covered is left to the next one.
    fn give_up(&mut self, current: Current<C>, error: &Error) {
        if let Some(log) = &self.log {
            if self.planted != Planted::TouchedForgottenByFailure {
                log.touch(current.touched);
            }
            if let Error::Checkpoint(checkpoint::Error::Storage(error)) = error
                && error.operation() == Operation::SyncDirectory
            {
                log.stop(error.clone());
            }
            if log.has_ended() {
                return; // nobody knows which names there are
            }
        }
        drop(current.rows);
        // If that fails too, the next checkpoint that succeeds does it.
        let _ = checkpoint::remove_unneeded(&*self.storage, &self.kept);
    }

    /// An error once the log has ended. If a sync of the directory has failed, names of files that a checkpoint needs
    /// may be lost although they can be seen: then none counts any more, and what there was before is kept.
    fn check_log(&self) -> Result<()> {
        match &self.log {
            Some(log) if log.has_ended() && self.planted != Planted::CheckpointAfterLog => {
                Err(log.refusal().map_or(Error::Closed, Error::Log))
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self) -> Result<Current<C>> {
        // First what can fail: once they are asked for, the tables that have been changed are known here alone.
        let number = checkpoint::number_next(&*self.storage)?.max(self.number_next);
        self.number_next = number + 1;
        let snapshot = match &self.log {
            Some(_) => None,
            None => Some(self.snapshot()?),
        };
        // Then where the log is, and then the tables: one that is not among them is made by a later record.
        let of_log = self.log.as_ref().map(Writer::take_touched);
        let (start_lsn, touched) = of_log.unwrap_or((self.base_lsn, BTreeSet::new()));
        let tables = self.engine.all_tables();
        let entry = |table: &&TableInner| TableEntry {
            table: entry(table.number(), &table.kind),
            ranges: Vec::new(),
        };
        let tables = tables.iter().map(entry).collect();
        let behind = Bound::Unbounded;
        Ok(Current {
            number,
            start_lsn,
            touched,
            tables,
            at: 0,
            rows: None,
            unsynced: 0,
            behind,
            snapshot,
            end_lsn: None,
        })
    }

    fn snapshot(&self) -> Result<Transaction<C>> {
        let snapshot = Transaction::begin(&self.engine)?;
        snapshot.declare_read_only();
        Ok(snapshot)
    }

    fn step_current(&mut self, current: &mut Current<C>) -> Result<Step> {
        if let Some(entry) = current.tables.get_mut(current.at) {
            if let Some(ranges) = self.unchanged(&current.touched, entry.table.number) {
                entry.ranges = ranges;
                current.at += 1;
                return Ok(Step::Wrote(0));
            }
            return self.step_table(current).map(Step::Wrote);
        }
        let Some(log) = &self.log else { return self.publish(current, self.base_lsn) };
        // All that was read has been appended by now.
        let end_lsn = *current.end_lsn.get_or_insert_with(|| log.appended_lsn());
        if log.durable_lsn() < end_lsn && self.planted != Planted::CheckpointBeforeLog {
            return Ok(Step::Await(end_lsn));
        }
        self.publish(current, end_lsn)
    }

    /// The rows of a table that nothing has been committed to since the last checkpoint.
    fn unchanged(&self, touched: &BTreeSet<u32>, table: u32) -> Option<Vec<RowsRange>> {
        let last = self.kept.last().filter(|_| self.log.is_some())?;
        let entry = last.tables.get(table as usize)?;
        (!touched.contains(&table)).then(|| entry.ranges.clone())
    }

    /// Writes a run of rows of the present table; says how many bytes there were.
    fn step_table(&self, current: &mut Current<C>) -> Result<u64> {
        let entry = &mut current.tables[current.at];
        let rows = match &mut current.rows {
            Some(rows) => rows,
            None => {
                let of = RowsOf { checkpoint: current.number, table: entry.table.number, part: 0 };
                let (fixed8, planted) = (entry.table.fixed8, self.planted.of_checkpoint());
                let rows = RowsWriter::with_planted(&*self.storage, self.database, of, fixed8, planted)?;
                current.rows.insert(rows)
            }
        };
        let own;
        let snapshot = match &current.snapshot {
            Some(snapshot) => snapshot,
            None => {
                own = self.snapshot()?;
                &own
            }
        };
        let mut run = Run { rows, behind: &mut current.behind, bytes: 0, count: 0 };
        let is_finished = {
            let table = self.engine.all_tables()[current.at];
            match entry.table.fixed8 {
                true => run.write::<u64, C>(snapshot, table, self.engine.id)?,
                false => run.write::<Vec<u8>, C>(snapshot, table, self.engine.id)?,
            }
        };
        let bytes = run.bytes as u64;
        current.unsynced += bytes;
        if current.unsynced >= SYNC_BYTES {
            rows.sync()?;
            current.unsynced = 0;
        }
        if is_finished {
            let rows = current.rows.take().expect("there just now");
            entry.ranges = vec![RowsRange { from: Vec::new(), file: rows.finish()? }];
            current.at += 1;
            (current.behind, current.unsynced) = (Bound::Unbounded, 0);
        }
        Ok(bytes)
    }

    fn publish(&mut self, current: &mut Current<C>, end_lsn: Lsn) -> Result<Step> {
        let manifest = Manifest {
            number: current.number,
            start_lsn: if self.planted == Planted::StartNotedLate { end_lsn } else { current.start_lsn },
            end_lsn,
            timestamp: match &current.snapshot {
                Some(snapshot) => snapshot.snapshot_timestamp(),
                None => C::now(&self.engine.shared),
            },
            tables: std::mem::take(&mut current.tables),
        };
        let planted = self.planted.of_checkpoint();
        checkpoint::publish_with_planted(&*self.storage, self.database, &manifest, planted)?;
        self.check_log()?;
        self.kept.push(manifest);
        let surplus = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..surplus);
        checkpoint::remove_unneeded(&*self.storage, &self.kept)?;
        self.release_log();
        Ok(Step::Done)
    }

    /// Lets go of the part of the log that neither checkpoints nor the archive need any more.
    pub(super) fn release_log(&self) {
        let is_early = self.planted == Planted::LogTruncatedTooEarly;
        let needed = if is_early { self.kept.last() } else { self.kept.first() };
        let needed = needed.filter(|_| is_early || self.kept.len() == KEPT);
        if let (Some(log), Some(needed)) = (&self.log, needed) {
            let archived_lsn = self.archiver.as_ref().map_or(Lsn(u64::MAX), Archiver::kept_lsn);
            log.truncate_before(needed.start_lsn.min(archived_lsn));
        }
    }

    /// Has archived what has been finished of the log since.
    pub(super) fn archive_step(&mut self) {
        let (Some(archiver), Some(log)) = (&mut self.archiver, &self.log) else { return };
        let before = archiver.kept_lsn();
        archiver.step(log.durable_lsn());
        if archiver.kept_lsn() > before {
            self.release_log();
        }
    }
}

/// A table's line in a manifest, and in the log.
pub(super) fn entry(number: u32, kind: &TableKind) -> CatalogEntry {
    let (key_type, value_type) = kind.types.clone();
    CatalogEntry { number, fixed8: kind.fixed8, name: kind.name.clone(), key_type, value_type }
}

/// Keys as their bytes.
trait RawKey: Key + AsKey<Self> {
    fn of(bytes: &[u8]) -> Self;
    fn copy_to(&self, bytes: &mut Vec<u8>);
}

impl RawKey for u64 {
    fn of(bytes: &[u8]) -> u64 {
        u64::from_be_bytes(bytes.try_into().expect("a fixed8 key"))
    }
    fn copy_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_be_bytes());
    }
}

impl RawKey for Vec<u8> {
    fn of(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
    fn copy_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }
}

/// A run of rows on its way to a file.
struct Run<'r> {
    rows: &'r mut RowsWriter,
    behind: &'r mut Bound<Vec<u8>>,
    bytes: usize,
    count: usize,
}

impl Run<'_> {
    /// Writes rows behind `behind`, which moves along; true: there are no more. A row is written once, also if
    /// this fails midway and is called again.
    fn write<K: RawKey, C: ConcurrencyControl>(
        &mut self,
        snapshot: &Transaction<C>,
        table: &TableInner,
        database: u64,
    ) -> Result<bool> {
        let from = match &*self.behind {
            Bound::Included(key) | Bound::Excluded(key) => Bound::Excluded(K::of(key)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let table = table.handle::<K, [u8]>(database);
        let result = snapshot.with(async |txn| {
            let mut rows = txn.scan(table, (from, Bound::Unbounded)).untracked();
            while self.bytes < RUN_BYTES && self.count < RUN_ROWS_MAX {
                let Some((key, value)) = rows.next().await? else { return Ok(true) };
                self.put(&key, value)?;
            }
            Ok(false)
        });
        match result {
            // Another one's commit takes long; some rows more or less in a run make no difference.
            Err(Error::Conflict) => Ok(false),
            result => result,
        }
    }

    fn put<K: RawKey>(&mut self, key: &K, value: &[u8]) -> Result<()> {
        let mut bytes = match std::mem::replace(self.behind, Bound::Unbounded) {
            Bound::Included(bytes) | Bound::Excluded(bytes) => bytes,
            Bound::Unbounded => Vec::new(),
        };
        bytes.clear();
        key.copy_to(&mut bytes);
        self.rows.push(&bytes, value)?;
        self.bytes += bytes.len() + value.len();
        self.count += 1;
        *self.behind = Bound::Excluded(bytes);
        Ok(())
    }
}
