//! Writes checkpoints while transactions go on.
//!
//! A checkpoint is fuzzy. Recovery replays the log over it from the position `start_lsn`.
//!
//! - Each run of rows is read as of a snapshot of its own, later than `start_lsn`; row by row if the scheme has no
//!   snapshots. So no snapshot is open for long.
//! - Everything that was appended before `start_lsn` is in every run. What came later may or may not be, and is
//!   replayed. The log has values, not differences, so replaying a change again does no harm.
//! - The checkpoint's rows are a state only together with the log up to `end_lsn`. That part of the log is durable
//!   before the checkpoint counts.
//!
//! Of each table, only the ranges of keys are written that were changed since the previous checkpoint. The head of
//! `index/touched` lists the steps that find them. `begin`, `is_settled` and `start` take these steps.
//!
//! Without a log everything is read as of one snapshot, and written.

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

/// How often the checkpointer asks whether every operation has ended that was in flight when the checkpoint began.
/// With the time between two questions this is a second: longer than a thread is kept from running when there is work
/// for several.
const SETTLE_TRIES: u32 = 500;

/// How many bytes of log a segment counts for that exists only because the database was opened again: the price of
/// opening and keeping a file. With [`CLOSING_LOG_BYTES_MIN`] this limits such segments to 32, however long segments
/// are.
const SHORT_SEGMENT_BYTES: u64 = 256 << 10;

/// A checkpoint is made when the database is closed if recovery would otherwise replay this much, which takes some
/// tenths of a second ...
const CLOSING_LOG_BYTES_MIN: u64 = 8 << 20;

/// ... and if the checkpoint writes at most this many times as much. A disk writes several times as fast as recovery
/// replays, so that takes less time than the next opening saves.
const CLOSING_WRITES_MAX: u64 = 2;

/// How many segments a checkpoint has to give up if it begins because room is scarce.
const URGENT_SEGMENTS: u64 = 4;

/// Makes checkpoints of one database, one after the other.
pub(super) struct Checkpointer<C: ConcurrencyControl> {
    engine: Arc<Engine<C>>,
    storage: Arc<dyn Storage>,
    database: DatabaseId,
    steps: Arc<dyn Steps>,
    log: Option<Writer>,
    /// Present if there are a log and an archive.
    archiver: Option<Archiver>,
    /// What has become of checkpoints, for others to read.
    status: Arc<Status>,
    /// The checkpoints that count, the newest last.
    kept: Vec<Manifest>,
    /// Where the log ended when the database was opened. Nothing earlier is needed besides what was recovered.
    base_lsn: Lsn,
    current: Option<Current<C>>,
    /// For each table, ranges that were changed since the newest checkpoint that counts and that a later, failed
    /// checkpoint had asked for. Empty if none has failed.
    pending: BTreeMap<u32, Vec<bool>>,
    /// The next number. Lower numbers are not used again, even if their files are gone.
    number_next: u64,
    /// True if a sync of the directory has failed. Which names exist is then unknown.
    has_lost_names: bool,
}

/// A checkpoint in progress.
struct Current<C: ConcurrencyControl> {
    number: u64,
    began_ns: u64,
    /// How many bytes of rows have been written.
    bytes: u64,
    /// How often the checkpointer has asked whether commits have ended. None once the checkpoint's start is known.
    tries: Option<u32>,
    start_lsn: Lsn,
    /// For each table, the ranges that have been changed.
    changed: Vec<Vec<bool>>,
    /// The tables in the order of their numbers, as they were when the checkpoint began.
    tables: Vec<TableEntry>,
    /// The index of the first unfinished table.
    at: usize,
    rows: Option<TableRows>,
    /// The single snapshot, if there is no log.
    snapshot: Option<Transaction<C>>,
    end_lsn: Option<Lsn>,
}

impl<C: ConcurrencyControl> Checkpointer<C> {
    /// Continues behind the existing checkpoints.
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

    /// Returns the number of the newest checkpoint that counts, or 0 if there is none, for closing the database.
    /// Returns none after a failed sync of the directory, when nothing can be said of the files.
    pub(super) fn newest(&self) -> Option<u64> {
        let newest = self.kept.last().map_or(0, |manifest| manifest.number);
        (!self.has_lost_names).then_some(newest)
    }

    /// Returns how many bytes of log recovery would have to replay.
    pub(super) fn log_bytes(&self) -> u64 {
        let start_lsn = self.kept.last().map_or(Lsn(0), |manifest| manifest.start_lsn);
        self.log.as_ref().map_or(0, |log| log.appended_lsn().0.saturating_sub(start_lsn.0))
    }

    /// Returns the same, plus the cost of the segments themselves.
    pub(super) fn replay_bytes(&self) -> u64 {
        let short_segments = self.log.as_ref().map_or(0, Writer::short_segments);
        self.log_bytes().saturating_add(short_segments.saturating_mul(SHORT_SEGMENT_BYTES))
    }

    /// Returns true if a checkpoint now takes less time than it saves at the next opening. This is asked before a
    /// database with a log is closed. A checkpoint that is in progress may have to write everything.
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

    /// Returns how many bytes of log are kept that future checkpoints can give up.
    pub(super) fn kept_log_bytes(&self) -> u64 {
        let needed_lsn = self.steps.needed_from(&self.kept).unwrap_or_default();
        self.log.as_ref().map_or(0, |log| log.appended_lsn().0.saturating_sub(needed_lsn.0))
    }

    /// Returns true if the device is almost full and a checkpoint would help.
    pub(super) fn is_urgent(&self) -> bool {
        let Some(log) = &self.log else { return false };
        let room = log.room().statistics();
        let segment_bytes = self.engine.options.log_segment_bytes;
        // This minimum keeps checkpoints from filling a device that is always almost full.
        let worth_bytes = (room.checkpoint_bytes / 2).max(URGENT_SEGMENTS * segment_bytes);
        match room.is_short || log.refusal().is_some() {
            true => self.kept_log_bytes() > segment_bytes,
            false => log.room().is_scarce() && self.kept_log_bytes() >= worth_bytes,
        }
    }

    /// Checks whether the disk keeps anything waiting for too long, how much room there is, and how much of it the
    /// next checkpoint will need.
    pub(super) fn watch(&self) {
        let Some(log) = self.log.as_ref().filter(|log| !log.has_ended()) else { return };
        log.look(self.engine.options.log_wait_ns_max());
        if self.current.is_some() {
            return; // the need of the next checkpoint has not changed
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

    /// Checks that the files without which the database cannot be opened again are still in its directory. They
    /// may have been removed, or the directory. If so, nothing more is committed.
    pub(super) fn look_for_files(&self) {
        if let Some(log) = self.log.as_ref().filter(|log| !log.has_ended()) {
            self.steps.look_for_files(log, &*self.storage);
        }
    }

    /// Returns how many bytes of the newest checkpoint's rows are in ranges that have been changed since. It returns
    /// at least what that checkpoint wrote itself, because much can change until the next check, usually as much as
    /// before.
    fn rewritten_bytes(&self) -> u64 {
        let (changed, written) = self.changed_bytes();
        changed.max(written)
    }

    /// Returns how many bytes of the newest checkpoint's rows are in ranges that have been changed since, and how
    /// many that checkpoint wrote itself.
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

    /// Returns true if anything has been committed that the newest checkpoint may lack.
    pub(super) fn is_behind(&self) -> bool {
        match &self.log {
            Some(_) => self.log_bytes() > 0,
            None => self.kept.last().is_none_or(|last| C::now(&self.engine.shared) > last.timestamp),
        }
    }

    /// Returns what others may ask about checkpoints.
    pub(super) fn status(&self) -> Arc<Status> {
        self.status.clone()
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        self.engine.clock.clone()
    }

    pub(super) fn log(&self) -> Option<&Writer> {
        self.log.as_ref()
    }

    /// Begins a checkpoint or continues it. After an error the next step begins a new checkpoint.
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
                    return Ok(Step::Wrote(0)); // it begins anew, with more room
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

    /// Ends a checkpoint's use of room. What it may have used is held again.
    fn leave_room(&self) {
        if let Some(log) = &self.log {
            log.room().end_checkpoint();
            self.watch();
            log.maintain();
        }
    }

    /// Removes what a failed checkpoint has written. What it would have covered is left to the next one.
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
                return; // which names exist is unknown
            }
        }
        drop(current.rows);
        // If this fails too, the next checkpoint that succeeds does it.
        let _ = checkpoint::remove_unneeded(&*self.storage, &self.kept);
    }

    /// Fails once the log has ended. No checkpoint counts then, and the earlier ones are kept.
    fn check_log(&self) -> Result<()> {
        match &self.log {
            Some(log) if !self.steps.can_count(log) => Err(log.refusal().map_or(Error::Closed, Error::Log)),
            _ => Ok(()),
        }
    }

    /// Fails while the disk is stalled: what a checkpoint waits for may never come.
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

    /// Returns true if the commits have ended that were in progress when the checkpoint began, or if they have been
    /// waited for long enough.
    fn is_settled(&self, tries: u32) -> bool {
        let tables = self.engine.all_tables();
        // Every table is asked, so that each one settles.
        let unsettled = tables.iter().filter(|table| !table.touched().settle(&self.engine.epochs)).count();
        unsettled == 0 || tries >= SETTLE_TRIES
    }

    /// Notes where the checkpoint starts, and what it has to write.
    fn start(&mut self, current: &mut Current<C>) -> Result<()> {
        if let Some(log) = &self.log {
            current.start_lsn = log.appended_lsn();
        }
        // The tables are listed after the position was taken. A later record creates each table that is missing in
        // the list. Later changes of the listed tables have records, too.
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

    /// Returns, for each table, the ranges of the newest checkpoint that may have been changed since.
    fn changed(&self, tables: &[&TableInner]) -> Vec<Vec<bool>> {
        let changed = |table: &&TableInner| {
            let before = self.before(table.number());
            let pending = self.pending.get(&table.number()).map(Vec::as_slice);
            let changed = self.steps.take(table, &bounds(before), pending);
            if before.is_none() || self.log.is_none() { vec![true] } else { changed }
        };
        tables.iter().map(changed).collect()
    }

    /// Returns a table's entry in the newest checkpoint.
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
            // The first question is put off, so that others can go on.
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
        // Everything that was read has been appended by now.
        let end_lsn = *current.end_lsn.get_or_insert_with(|| log.appended_lsn());
        if !self.steps.is_covered(log, end_lsn) {
            return Ok(Step::Await);
        }
        self.publish(current, end_lsn)
    }

    /// Continues the present table. Returns how many bytes of rows were written.
    fn step_table(&self, current: &mut Current<C>) -> Result<u64> {
        let entry = &mut current.tables[current.at];
        if entry.table.is_emptied() {
            // The table's rows in memory are being deleted. Newer rows are in the log.
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

    /// Fits the noting of changes to the ranges of the newest checkpoint, if the ranges have changed.
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

    /// Releases the part of the log that neither checkpoints nor the archive need any more.
    pub(super) fn release_log(&self) {
        if let (Some(log), Some(needed)) = (&self.log, self.steps.needed_from(&self.kept)) {
            let archived_lsn = self.archiver.as_ref().map_or(Lsn(u64::MAX), Archiver::kept_lsn);
            log.truncate_before(needed.min(archived_lsn));
        }
    }

    /// Archives the segments that have been finished since the last call.
    pub(super) fn archive_step(&mut self) {
        let (Some(archiver), Some(log)) = (&mut self.archiver, &self.log) else { return };
        let before = archiver.kept_lsn();
        archiver.step(log.durable_lsn());
        if archiver.kept_lsn() > before {
            self.release_log();
        }
    }
}

/// Returns where the ranges of a table begin, except for the first range.
fn bounds(entry: Option<&TableEntry>) -> Vec<&[u8]> {
    entry.map_or_else(Vec::new, TableEntry::bounds)
}

/// Returns a table's entry for a manifest or the log.
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

/// Returns what an entry says of its table. Rows that the table must not have are gone by then.
pub(super) fn kind(entry: &CatalogEntry) -> Result<(TableKind, Description)> {
    let CatalogEntry { name, fixed8, definitions, is_dropped, indexes, .. } = entry.clone();
    let kind = TableKind::named(&name, fixed8, entry.index.as_deref(), entry.front.as_deref())?;
    let types = (entry.key_type.clone(), entry.value_type.clone());
    let state = if is_dropped { TableState::Dropped } else { TableState::InUse };
    let indexes = indexes.into_iter().map(index_info).collect();
    Ok((kind, Description { name, types, definitions, state, indexes }))
}
