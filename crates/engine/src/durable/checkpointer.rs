//! Writing checkpoints while transactions go on.
//!
//! A checkpoint is fuzzy: each run of rows is read as of a snapshot of its own (or row by row, where the scheme has no
//! snapshots), later than the position `start_lsn` of the log that recovery goes on from. All that was appended before
//! that position is in every run; what came later may or may not be, and is replayed: values, not differences, so that
//! once more does no harm. Hence no snapshot is open for long, and what a checkpoint holds is a state only together with the log up to
//! `end_lsn`, which is durable before the checkpoint counts.
//!
//! Of each table only those ranges of keys are written that were changed since the checkpoint before; which these are is
//! found by the steps that the head of `index/touched` lists: `begin`, `is_settled` and `start` take them.
//!
//! Without a log all is read as of one snapshot, and written.

use super::archiver::Archiver;
use super::status::{Status, Step};
use super::steps::{KEPT, Steps};
use super::table_rows::{Destination, TableRows};
use crate::cc::ConcurrencyControl;
use crate::checkpoint::{self, CatalogEntry, IndexEntry, Manifest, TableEntry};
use crate::error::{Error, Result};
use crate::events::{event, ms, text};
use crate::kernel::Engine;
use crate::metrics::Clock;
use crate::storage::{Operation, Storage};
use crate::table::{Description, IndexColumn, IndexInfo, TableInner, TableKind, TableState};
use crate::txn::Transaction;
use crate::wal::{DatabaseId, Expected, Lsn, Writer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// So often it is asked whether every operation has ended that was in flight when the checkpoint began. With the time
/// between two looks that is a second: longer than a thread is kept from running where there is work for several.
const SETTLE_TRIES: u32 = 500;

/// Bytes of log that a segment counts for which the log has only because the database was opened again: the price of opening and keeping a
/// file. With [`CLOSING_LOG_BYTES_MIN`] it bounds such segments to 32, however long segments are.
const SHORT_SEGMENT_BYTES: u64 = 256 << 10;

/// A checkpoint is made when the database is closed if recovery would otherwise replay so much, which takes it some tenths
/// of a second ...
const CLOSING_LOG_BYTES_MIN: u64 = 8 << 20;

/// ... and it writes at most this many times as much: a disk writes several times as fast as recovery replays, so that is
/// less than the next opening saves.
const CLOSING_WRITES_MAX: u64 = 2;

/// Segments that a checkpoint is to give up, if it begins because room is scarce.
const URGENT_SEGMENTS: u64 = 4;

/// Makes checkpoints of one database, one after the other.
pub(super) struct Checkpointer<C: ConcurrencyControl> {
    engine: Arc<Engine<C>>,
    storage: Arc<dyn Storage>,
    database: DatabaseId,
    steps: Arc<dyn Steps>,
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
    /// Of each table the ranges that have been changed since the newest checkpoint that counts, as far as a later one,
    /// which failed, had asked; empty if none has failed.
    pending: BTreeMap<u32, Vec<bool>>,
    /// No number below is used again, also if its files are gone.
    number_next: u64,
    /// A sync of the directory has failed: which names there are nobody knows.
    has_lost_names: bool,
}

/// A checkpoint under way.
struct Current<C: ConcurrencyControl> {
    number: u64,
    began_ns: u64,
    /// How much of rows has been written.
    bytes: u64,
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

impl<C: ConcurrencyControl> Checkpointer<C> {
    /// Goes on behind the checkpoints that there are.
    pub(super) fn new(
        engine: Arc<Engine<C>>,
        storage: Arc<dyn Storage>,
        database: DatabaseId,
        steps: Arc<dyn Steps>,
        kept: Vec<Manifest>,
        base_lsn: Lsn,
    ) -> Self {
        let log = engine.log.get().map(|log| log.writer.clone());
        let archive = engine.options.archive.clone().filter(|_| log.is_some());
        let archiver = archive.map(|archive| {
            Archiver::new(archive, storage.clone(), database, engine.archive_statistics.clone(), engine.id)
        });
        let status = Arc::<Status>::default();
        status.set_last(kept.last());
        Checkpointer {
            engine,
            storage,
            database,
            steps,
            log,
            archiver,
            status,
            kept,
            base_lsn,
            current: None,
            pending: BTreeMap::new(),
            number_next: 0,
            has_lost_names: false,
        }
    }

    /// The newest checkpoint that counts, for closing the database: its number, or 0 if there is none. `None`: after a
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

    /// The same, with what its segments cost beside what is in them.
    pub(super) fn replay_bytes(&self) -> u64 {
        let short_segments = self.log.as_ref().map_or(0, Writer::short_segments);
        self.log_bytes().saturating_add(short_segments.saturating_mul(SHORT_SEGMENT_BYTES))
    }

    /// Returns true if a checkpoint takes less time now than it spares the next opening: before the database is closed, where
    /// there is a log. One that is under way may have to write everything.
    pub(super) fn pays(&self) -> bool {
        let (replayed, data) = (self.replay_bytes(), self.engine.data_bytes());
        let written = match self.current {
            Some(_) => data,
            None => data.min(self.changed_bytes().0.saturating_add(self.log_bytes())),
        };
        self.engine.options.checkpoint_log_bytes > 0
            && replayed >= CLOSING_LOG_BYTES_MIN
            && written <= replayed.saturating_mul(CLOSING_WRITES_MAX)
    }

    /// How many bytes of log are kept: what checkpoints to come can give up.
    pub(super) fn kept_log_bytes(&self) -> u64 {
        let needed_lsn = self.steps.needed_from(&self.kept).unwrap_or_default();
        self.log.as_ref().map_or(0, |log| log.appended_lsn().0.saturating_sub(needed_lsn.0))
    }

    /// The device is about full, and checkpoints can do something about that.
    pub(super) fn is_urgent(&self) -> bool {
        let Some(log) = &self.log else { return false };
        let room = log.room().statistics();
        let segment_bytes = self.engine.options.log_segment_bytes;
        // So that a device that is always about full is not written full of checkpoints.
        let worth_bytes = (room.checkpoint_bytes / 2).max(URGENT_SEGMENTS * segment_bytes);
        match room.is_short || log.refusal().is_some() {
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
        let memory_lsn = log.appended_lsn();
        let expected = Expected {
            checkpoints: KEPT.saturating_sub(self.kept.len()) as u64,
            rows_bytes: self.rewritten_bytes(),
            start_lsn: self.kept.last().map_or(Lsn(0), |last| last.start_lsn),
            memory_bytes: self.engine.data_bytes(),
            memory_lsn,
        };
        self.steps.keep_back(log.room(), expected, memory_lsn);
    }

    /// Looks whether the files without which the database cannot be opened again are still in its directory: somebody may
    /// have removed them, or the directory. If so, nothing is committed any more.
    pub(super) fn look_for_files(&self) {
        if let Some(log) = self.log.as_ref().filter(|log| !log.has_ended()) {
            self.steps.look_for_files(log, &*self.storage);
        }
    }

    /// How many bytes of the newest checkpoint's rows are in ranges that have been changed since; and no less than it
    /// wrote itself, for much can be changed until the next look, as a rule as much as before.
    fn rewritten_bytes(&self) -> u64 {
        let (changed, written) = self.changed_bytes();
        changed.max(written)
    }

    /// How many bytes of the newest checkpoint's rows are in ranges that have been changed since, and how many it wrote
    /// itself.
    fn changed_bytes(&self) -> (u64, u64) {
        let Some(last) = self.kept.last() else { return (0, 0) };
        let (mut changed, mut written) = (0, 0);
        for table in self.engine.all_tables() {
            let Some(entry) = self.before(table.number()) else { continue };
            let marked = table.touched().marked(&entry.bounds());
            for (range, is_marked) in entry.ranges.iter().zip(marked) {
                changed += if is_marked { range.file.bytes } else { 0 };
                written += if range.file.checkpoint == last.number { range.file.bytes } else { 0 };
            }
        }
        (changed, written)
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

    /// Begins a checkpoint, or goes on with it. After an error the next step begins a new one.
    pub(super) fn step(&mut self) -> Result<Step> {
        let stepped = self.step_once();
        if let Err(error) = &stepped
            && !matches!(error, Error::Closed)
        {
            event!(WARN, CHECKPOINT, "checkpoint failed", database = self.engine.id, error = text(error));
        }
        self.status.note(&stepped, self.kept.last(), self.engine.clock.now_ns());
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
                self.tell_made(&current);
                Ok(Step::Done)
            }
            Ok(step) => {
                current.bytes += if let Step::Wrote(bytes) = step { bytes } else { 0 };
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

    fn tell_made(&self, current: &Current<C>) {
        let made = || self.kept.last().expect("it was made just now");
        event!(
            INFO,
            CHECKPOINT,
            "checkpoint made",
            database = self.engine.id,
            checkpoint = current.number,
            tables = made().tables.len(),
            rows = made().rows(),
            bytes = current.bytes,
            lsn = made().start_lsn.0,
            duration_ms = ms(self.engine.clock.now_ns().saturating_sub(current.began_ns))
        );
    }

    /// What a checkpoint that is over may have used of the room is held again.
    fn leave_room(&self) {
        if let Some(log) = &self.log {
            log.room().end_checkpoint();
            self.watch();
            log.maintain();
        }
    }

    /// A checkpoint that has failed leaves nothing behind, and what it would have covered is left to the next one.
    fn give_up(&mut self, current: Current<C>, error: &Error) {
        if let Error::Checkpoint(checkpoint::Error::Storage(error)) = error {
            self.has_lost_names |= error.operation() == Operation::SyncDirectory;
        }
        if let Some(log) = &self.log {
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

    /// An error once the log has ended: then no checkpoint counts any more, and what there was before is kept.
    fn check_log(&self) -> Result<()> {
        match &self.log {
            Some(log) if !self.steps.can_count(log) => Err(log.refusal().map_or(Error::Closed, Error::Log)),
            _ => Ok(()),
        }
    }

    /// An error while the disk keeps everybody waiting: what a checkpoint waits for may never come.
    fn check_stall(&self) -> Result<()> {
        let refusal = self.log.as_ref().filter(|log| log.stall().is_some()).and_then(Writer::refusal);
        refusal.map_or(Ok(()), |why| Err(Error::Log(why)))
    }

    fn begin(&mut self) -> Result<Current<C>> {
        let number = checkpoint::number_next(&*self.storage)?.max(self.number_next);
        self.number_next = number + 1;
        event!(DEBUG, CHECKPOINT, "checkpoint begun", database = self.engine.id, checkpoint = number);
        let mut current = Current {
            number,
            began_ns: self.engine.clock.now_ns(),
            bytes: 0,
            tries: None,
            start_lsn: self.base_lsn,
            changed: Vec::new(),
            tables: Vec::new(),
            at: 0,
            rows: None,
            snapshot: None,
            end_lsn: None,
        };
        if self.log.is_none() {
            self.start(&mut current)?;
            return Ok(current);
        }
        for table in self.engine.all_tables() {
            self.steps.turn(table, &self.engine.epochs, &bounds(self.before(table.number())));
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
    fn start(&mut self, current: &mut Current<C>) -> Result<()> {
        if let Some(log) = &self.log {
            current.start_lsn = log.appended_lsn();
        }
        // Then the tables: one that is not among them is made by a later record, and what comes later of those that are says so again.
        let begin = || if self.log.is_none() { self.snapshot().map(Some) } else { Ok(None) };
        let (snapshot, described) = self.engine.described_tables(begin);
        current.snapshot = snapshot?;
        let tables: Vec<&TableInner> = described.iter().map(|(table, _)| *table).collect();
        current.changed = self.changed(&tables);
        let numbers = tables.iter().map(|table| table.number());
        self.pending = numbers.zip(current.changed.iter().cloned()).collect();
        let entry = |(table, description): &(&TableInner, Description)| TableEntry {
            table: entry(table.number(), &table.kind, description),
            ranges: Vec::new(),
        };
        current.tables = described.iter().map(entry).collect();
        current.tries = None;
        Ok(())
    }

    /// Of each table the ranges of the newest checkpoint that may have been changed since.
    fn changed(&self, tables: &[&TableInner]) -> Vec<Vec<bool>> {
        let changed = |table: &&TableInner| {
            let before = self.before(table.number());
            let pending = self.pending.get(&table.number()).map(Vec::as_slice);
            let changed = self.steps.take(table, &bounds(before), pending);
            if before.is_none() || self.log.is_none() { vec![true] } else { changed }
        };
        tables.iter().map(changed).collect()
    }

    /// A table as the newest checkpoint has it.
    fn before(&self, table: u32) -> Option<&TableEntry> {
        let tables = &self.kept.last()?.tables;
        let at = tables.binary_search_by_key(&table, |entry| entry.table.number).ok()?;
        Some(&tables[at])
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
            self.start(current)?;
            return Ok(Step::Wrote(0));
        }
        if current.at < current.tables.len() {
            return self.step_table(current).map(Step::Wrote);
        }
        let Some(log) = &self.log else { return self.publish(current, self.base_lsn) };
        // All that was read has been appended by now.
        let end_lsn = *current.end_lsn.get_or_insert_with(|| log.appended_lsn());
        if !self.steps.is_covered(log, end_lsn) {
            return Ok(Step::Await);
        }
        self.publish(current, end_lsn)
    }

    /// Goes on with the present table; returns the number of bytes of rows that were written.
    fn step_table(&self, current: &mut Current<C>) -> Result<u64> {
        let entry = &mut current.tables[current.at];
        if entry.table.is_emptied() {
            // What is still in memory of it is being deleted; rows that have come since are in the log.
            current.at += 1;
            return Ok(0);
        }
        let to = Destination {
            storage: &*self.storage,
            database: self.database,
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
        let table =
            self.engine.table(entry.table.number).expect("the log goes back to before the checkpoint");
        rows.write_run(&to, snapshot, table)
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
            start_lsn: self.steps.start_lsn(current.start_lsn, end_lsn),
            end_lsn,
            timestamp: match &current.snapshot {
                Some(snapshot) => snapshot.snapshot_timestamp(),
                None => C::now(&self.engine.shared),
            },
            tables: std::mem::take(&mut current.tables),
        };
        checkpoint::publish(&*self.storage, self.database, &manifest)?;
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
        if let (Some(log), Some(needed)) = (&self.log, self.steps.needed_from(&self.kept)) {
            let archived_lsn = self.archiver.as_ref().map_or(Lsn(u64::MAX), Archiver::kept_lsn);
            log.truncate_before(needed.min(archived_lsn));
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
pub(super) fn entry(number: u32, kind: &TableKind, description: &Description) -> CatalogEntry {
    let Description { name, types: (key_type, value_type), definitions, state, indexes } =
        description.clone();
    CatalogEntry {
        number,
        fixed8: kind.fixed8,
        name,
        key_type,
        value_type,
        index: kind.index_name().map(String::from),
        front: kind.front_name().map(String::from),
        definitions,
        is_cleared: state == TableState::Cleared,
        is_dropped: state == TableState::Dropped,
        indexes: indexes.into_iter().map(index_entry).collect(),
    }
}

fn index_entry(of: IndexInfo) -> IndexEntry {
    let columns = of.columns.into_iter().map(|column| (column.name, column.type_name)).collect();
    IndexEntry { name: of.name, is_unique: of.is_unique, columns }
}

fn index_info(of: IndexEntry) -> IndexInfo {
    let column = |(name, type_name)| IndexColumn::new(name, type_name);
    let mut info = IndexInfo::new(of.name, &[], of.is_unique);
    info.columns = of.columns.into_iter().map(column).collect();
    info
}

/// What a line says of its table, once it has no row that it is not to have.
pub(super) fn kind(entry: &CatalogEntry) -> Result<(TableKind, Description)> {
    let CatalogEntry { name, fixed8, definitions, is_dropped, indexes, .. } = entry.clone();
    let kind = TableKind::named(&name, fixed8, entry.index.as_deref(), entry.front.as_deref())?;
    let types = (entry.key_type.clone(), entry.value_type.clone());
    let state = if is_dropped { TableState::Dropped } else { TableState::InUse };
    let indexes = indexes.into_iter().map(index_info).collect();
    Ok((kind, Description { name, types, definitions, state, indexes }))
}
