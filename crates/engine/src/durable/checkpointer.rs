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
use crate::metrics::{CheckpointStatistics, Clock};
use crate::storage::{Operation, Storage};
use crate::sync::{Mutex, lock};
use crate::txn::{AsKey, Engine, Key, TableInner, TableKind, Transaction};
use crate::wal::{DatabaseId, Expected, Lsn, Writer};
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

/// Segments that a checkpoint is to give up, if it begins because room is scarce.
const URGENT_SEGMENTS: u64 = 4;

/// Makes checkpoints of one database, one after the other.
pub(super) struct Checkpointer<C: ConcurrencyControl> {
    engine: Arc<Engine<C>>,
    storage: Arc<dyn Storage>,
    database: DatabaseId,
    planted: Planted,
    log: Option<Writer>,
    /// Where there is a log to archive, and an archive.
    archiver: Option<Archiver>,
    /// What has become of checkpoints, for others to read.
    status: Arc<Status>,
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
        let status = Arc::new(Status::default());
        lock(&status.0).last = kept.last().map(|last| (last.number, last.start_lsn));
        Checkpointer {
            engine,
            storage,
            database,
            planted,
            log,
            archiver,
            status,
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

    /// How many bytes of log are kept: what checkpoints to come can give up.
    pub(super) fn kept_log_bytes(&self) -> u64 {
        let oldest = self.kept.first().filter(|_| self.kept.len() == KEPT);
        let needed_lsn = oldest.map_or(Lsn(0), |manifest| manifest.start_lsn);
        self.log.as_ref().map_or(0, |log| log.appended_lsn().0.saturating_sub(needed_lsn.0))
    }

    /// The device is about full, and checkpoints can do something about that.
    pub(super) fn is_urgent(&self) -> bool {
        let Some(log) = &self.log else { return false };
        let room = log.room().statistics();
        let segment_bytes = self.engine.options.log_segment_bytes;
        // So that a device that is always about full is not written full of checkpoints.
        let worth_bytes = (room.checkpoint_bytes / 2).max(URGENT_SEGMENTS * segment_bytes);
        match room.is_short {
            true => self.kept_log_bytes() > segment_bytes,
            false => log.room().is_scarce() && self.kept_log_bytes() >= worth_bytes,
        }
    }

    /// Looks whether the disk keeps anybody waiting for too long, what room there is, and what of it the next checkpoint
    /// will need.
    pub(super) fn watch(&self) {
        let Some(log) = self.log.as_ref().filter(|log| !log.has_ended()) else { return };
        log.look(self.engine.options.log_wait_ns_max());
        if self.current.is_some() {
            return; // what the next one will need is as it was
        }
        let (memory_lsn, touched) = (log.appended_lsn(), log.touched());
        let last = self.kept.last();
        let tables = last.map_or(&[][..], |last| &last.tables);
        let is_rewritten = |entry: &&TableEntry| touched.contains(&entry.table.number);
        let rows = tables.iter().filter(is_rewritten).flat_map(|entry| &entry.ranges);
        let expected = Expected {
            rows_bytes: rows.map(|range| range.file.bytes).sum(),
            start_lsn: last.map_or(Lsn(0), |last| last.start_lsn),
            memory_bytes: self.engine.data_bytes(),
            memory_lsn,
        };
        log.room().expect(expected, memory_lsn);
    }

    /// Whether anything has been committed that the newest checkpoint may not have.
    pub(super) fn is_behind(&self) -> bool {
        match &self.log {
            Some(_) => self.log_bytes() > 0,
            None => self.kept.last().is_none_or(|last| C::now(&self.engine.shared) > last.timestamp),
        }
    }

    /// What others may ask about checkpoints.
    pub(super) fn status(&self) -> Arc<Status> {
        self.status.clone()
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        self.engine.clock.clone()
    }

    pub(super) fn log(&self) -> Option<&Writer> {
        self.log.as_ref()
    }

    /// The number of the newest that counts.
    pub(super) fn newest(&self) -> Option<u64> {
        self.kept.last().map(|last| last.number)
    }

    /// Begins a checkpoint, or goes on with it. After an error the next step begins a new one.
    pub(super) fn step(&mut self) -> Result<Step> {
        let stepped = self.step_once();
        let now_ns = self.engine.clock.now_ns();
        let last = self.kept.last().map(|last| (last.number, last.start_lsn));
        self.status.note(&stepped, last, now_ns);
        stepped
    }

    fn step_once(&mut self) -> Result<Step> {
        if let Err(error) = self.check_log().and_then(|()| self.check_stall()) {
            if let Some(current) = self.current.take() {
                self.give_up(current, &error);
            }
            self.leave_room();
            return Err(error);
        }
        let mut current = match self.current.take() {
            Some(current) => current,
            None => {
                if let Some(log) = &self.log {
                    log.room().begin_checkpoint(log.appended_lsn());
                }
                self.begin().inspect_err(|_| self.leave_room())?
            }
        };
        match self.step_current(&mut current) {
            Ok(Step::Done) => {
                self.leave_room();
                Ok(Step::Done)
            }
            Ok(step) => {
                self.current = Some(current);
                Ok(step)
            }
            Err(error) => {
                self.give_up(current, &error);
                let is_full =
                    matches!(&error, Error::Checkpoint(checkpoint::Error::Storage(error)) if error.is_full());
                if is_full && self.log.as_ref().is_some_and(|log| log.room().lend(log.appended_lsn())) {
                    return Ok(Step::Wrote(0)); // it begins anew, and has more room
                }
                self.leave_room();
                Err(error)
            }
        }
    }

    /// A checkpoint is over, and what it may have used of the room is held again.
    fn leave_room(&self) {
        if let Some(log) = &self.log {
            log.room().end_checkpoint();
            self.watch();
            log.tend();
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

    /// An error while the disk keeps everybody waiting: what a checkpoint waits for may never come.
    fn check_stall(&self) -> Result<()> {
        let refusal = self.log.as_ref().filter(|log| log.stall().is_some()).and_then(Writer::refusal);
        refusal.map_or(Ok(()), |why| Err(Error::Log(why)))
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

/// What has become of checkpoints.
#[derive(Default)]
pub(super) struct Status(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    made: u64,
    failed: u64,
    is_under_way: bool,
    last: Option<(u64, Lsn)>,
    made_at_ns: Option<u64>,
    error: Option<(String, u64)>,
}

impl Status {
    fn note(&self, stepped: &Result<Step>, last: Option<(u64, Lsn)>, now_ns: u64) {
        let mut noted = lock(&self.0);
        noted.is_under_way = matches!(stepped, Ok(Step::Wrote(_) | Step::Await(_)));
        match stepped {
            Ok(Step::Done) => {
                noted.made += 1;
                (noted.last, noted.made_at_ns) = (last, Some(now_ns));
            }
            Ok(_) => {}
            Err(error) => {
                noted.failed += 1;
                noted.error = Some((error.to_string(), now_ns));
            }
        }
    }

    /// As it is now, with the log at `end`.
    pub(super) fn statistics(&self, end: Option<Lsn>, now_ns: u64) -> CheckpointStatistics {
        let noted = lock(&self.0);
        let ago = |at_ns: u64| now_ns.saturating_sub(at_ns);
        let start_lsn = noted.last.map_or(Lsn(0), |(_, start_lsn)| start_lsn);
        CheckpointStatistics {
            made: noted.made,
            failed: noted.failed,
            is_under_way: noted.is_under_way,
            last_number: noted.last.map(|(number, _)| number),
            last_lsn: noted.last.map(|(_, start_lsn)| start_lsn.0),
            last_ago_ns: noted.made_at_ns.map(ago),
            lag_bytes: end.map_or(0, |end| end.0.saturating_sub(start_lsn.0)),
            last_error: noted.error.as_ref().map(|(text, _)| text.clone()),
            last_error_ago_ns: noted.error.as_ref().map(|(_, at_ns)| ago(*at_ns)),
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
