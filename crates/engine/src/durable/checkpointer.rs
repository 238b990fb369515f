//! Writing checkpoints while transactions go on.
//!
//! A checkpoint is fuzzy: each run of rows is read as of a snapshot of its own, later than the position `start_lsn`
//! of the log that recovery goes on from. All that was appended before that position is in every run; what
//! came later may or may not be, and is replayed: values, not differences, so that once more does no harm. Hence
//! no snapshot is open for long, and what a checkpoint holds is a state only together with the log up to
//! `end_lsn`, which is durable before the checkpoint counts.
//!
//! Of each table only those ranges of keys are written that were changed since the checkpoint before; which these are is
//! found by the steps that the head of `index/touched` lists: `begin`, `is_settled` and `start` take them.
//!
//! Without a log all is read as of one snapshot, and written.

use super::Planted;
use super::archiver::Archiver;
use super::table_rows::{Destination, TableRows};
use crate::cc::ConcurrencyControl;
use crate::checkpoint::{self, CatalogEntry, Manifest, TableEntry};
use crate::error::{Error, Result};
use crate::storage::{Operation, Storage};
use crate::txn::{Engine, TableInner, TableKind, Transaction};
use crate::wal::{DatabaseId, Lsn, Writer};
use std::sync::Arc;

/// So often it is asked whether every operation has ended that was in flight when the checkpoint began. With the time
/// between two looks that is a second: longer than a thread is kept from running where there is work for several.
const SETTLE_TRIES: u32 = 500;

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
    /// Of each table the ranges that have been changed since the newest checkpoint that counts, as far as a later one,
    /// which failed, had asked; empty if none has failed.
    pending: Vec<Vec<bool>>,
    /// No number below is used again, also if its files are gone.
    number_next: u64,
    /// A sync of the directory has failed: which names there are nobody knows.
    has_lost_names: bool,
}

/// A checkpoint under way.
struct Current<C: ConcurrencyControl> {
    number: u64,
    /// How often it was asked whether commits have ended; `None`: it is known where the checkpoint starts.
    tries: Option<u32>,
    start_lsn: Lsn,
    /// Of each table the ranges that have been changed.
    changed: Vec<Vec<bool>>,
    /// Tables in the order of their numbers, as they were when it began.
    tables: Vec<TableEntry>,
    /// The first table that is not done.
    at: usize,
    rows: Option<TableRows>,
    /// The one snapshot, where there is no log.
    snapshot: Option<Transaction<C>>,
    end_lsn: Option<Lsn>,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So many bytes have been written; there is more to do.
    Wrote(u64),
    /// Others have to go on first: the flusher, or commits in progress.
    Await,
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
            pending: Vec::new(),
            number_next: 0,
            has_lost_names: false,
        }
    }

    /// The newest checkpoint that counts, for who closes the database: its number, or 0 if there is none. `None`: after a
    /// sync that failed, nothing can be said of the files.
    pub(super) fn newest(&self) -> Option<u64> {
        let newest = self.kept.last().map_or(0, |manifest| manifest.number);
        (!self.has_lost_names).then_some(newest)
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
        if let Error::Checkpoint(checkpoint::Error::Storage(error)) = error {
            self.has_lost_names |= error.operation() == Operation::SyncDirectory;
        }
        if let Some(log) = &self.log {
            if self.planted == Planted::TouchedForgottenByFailure {
                self.pending.clear();
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
        let number = checkpoint::number_next(&*self.storage)?.max(self.number_next);
        self.number_next = number + 1;
        let snapshot = match &self.log {
            Some(_) => None,
            None => Some(self.snapshot()?),
        };
        let mut current = Current {
            number,
            tries: None,
            start_lsn: self.base_lsn,
            changed: Vec::new(),
            tables: Vec::new(),
            at: 0,
            rows: None,
            snapshot,
            end_lsn: None,
        };
        if self.log.is_none() {
            self.start(&mut current);
            return Ok(current);
        }
        let tables = self.engine.all_tables();
        for table in &tables {
            table.touched().turn(&self.engine.epochs, &bounds(self.before(table.number())));
        }
        if self.planted == Planted::TouchedTakenEarly {
            current.changed = self.changed(&tables);
        }
        current.tries = Some(0);
        Ok(current)
    }

    /// Whether commits have ended that were in progress when the checkpoint began, or have been waited for long enough.
    fn is_settled(&self, tries: u32) -> bool {
        let tables = self.engine.all_tables();
        // (All of them are asked.)
        let unsettled = tables.iter().filter(|table| !table.touched().settle(&self.engine.epochs)).count();
        unsettled == 0 || tries >= SETTLE_TRIES
    }

    /// Notes where the checkpoint starts, and what it has to write.
    fn start(&mut self, current: &mut Current<C>) {
        if let Some(log) = &self.log {
            current.start_lsn = log.appended_lsn();
        }
        // Then the tables: one that is not among them is made by a later record.
        let tables = self.engine.all_tables();
        if self.planted != Planted::TouchedTakenEarly {
            current.changed = self.changed(&tables);
        }
        current.changed.resize_with(tables.len(), || vec![true]);
        self.pending.clone_from(&current.changed);
        let entry = |table: &&TableInner| TableEntry {
            table: entry(table.number(), &table.kind),
            ranges: Vec::new(),
        };
        current.tables = tables.iter().map(entry).collect();
        current.tries = None;
    }

    /// Of each table the ranges of the newest checkpoint that may have been changed since.
    fn changed(&self, tables: &[&TableInner]) -> Vec<Vec<bool>> {
        let changed = |table: &&TableInner| {
            let before = self.before(table.number());
            let mut changed = table.touched().take(&bounds(before));
            if before.is_none() || self.log.is_none() {
                changed = vec![true];
            } else if let Some(pending) = self.pending.get(table.number() as usize) {
                changed.iter_mut().zip(pending).for_each(|(changed, pending)| *changed |= pending);
            }
            changed
        };
        tables.iter().map(changed).collect()
    }

    /// A table as the newest checkpoint has it.
    fn before(&self, table: u32) -> Option<&TableEntry> {
        self.kept.last()?.tables.get(table as usize)
    }

    fn snapshot(&self) -> Result<Transaction<C>> {
        let snapshot = Transaction::begin(&self.engine)?;
        snapshot.declare_read_only();
        Ok(snapshot)
    }

    fn step_current(&mut self, current: &mut Current<C>) -> Result<Step> {
        if let Some(tries) = current.tries {
            // (Not at once: others are to go on.)
            if tries == 0 || !self.is_settled(tries) {
                current.tries = Some(tries + 1);
                return Ok(Step::Await);
            }
            self.start(current);
            return Ok(Step::Wrote(0));
        }
        if current.at < current.tables.len() {
            return self.step_table(current).map(Step::Wrote);
        }
        let Some(log) = &self.log else { return self.publish(current, self.base_lsn) };
        // All that was read has been appended by now.
        let end_lsn = *current.end_lsn.get_or_insert_with(|| log.appended_lsn());
        if log.durable_lsn() < end_lsn && self.planted != Planted::CheckpointBeforeLog {
            return Ok(Step::Await);
        }
        self.publish(current, end_lsn)
    }

    /// Goes on with the present table; says how many bytes of rows were written.
    fn step_table(&self, current: &mut Current<C>) -> Result<u64> {
        let entry = &mut current.tables[current.at];
        let to = Destination {
            storage: &*self.storage,
            database: self.database,
            planted: self.planted,
            checkpoint: current.number,
            range_bytes: self.engine.options.checkpoint_range_bytes,
        };
        let rows = current.rows.get_or_insert_with(|| {
            let before = self.before(entry.table.number).filter(|_| self.log.is_some());
            TableRows::new(entry, before, &current.changed[current.at], &to)
        });
        if !rows.pass_unchanged()? {
            entry.ranges = current.rows.take().expect("there just now").into_ranges();
            current.at += 1;
            return Ok(0);
        }
        let own;
        let snapshot = match &current.snapshot {
            Some(snapshot) => snapshot,
            None => {
                own = self.snapshot()?;
                &own
            }
        };
        let table = self.engine.all_tables()[current.at];
        rows.write_run(&to, snapshot, table, self.engine.id)
    }

    /// Has changes noted for the ranges of the newest checkpoint, where they have become others.
    fn refit(&self) {
        for table in self.engine.all_tables() {
            table.touched().fit(&self.engine.epochs, &bounds(self.before(table.number())));
        }
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
        self.pending.clear();
        self.refit();
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

/// Where the ranges of a table begin, but for the first.
fn bounds(entry: Option<&TableEntry>) -> Vec<&[u8]> {
    entry.map_or_else(Vec::new, TableEntry::bounds)
}

/// A table's line in a manifest, and in the log.
pub(super) fn entry(number: u32, kind: &TableKind) -> CatalogEntry {
    let (key_type, value_type) = kind.types.clone();
    CatalogEntry { number, fixed8: kind.fixed8, name: kind.name.clone(), key_type, value_type }
}
