//! Fills an engine from its directory.
//!
//! 1. The newest good checkpoint is loaded.
//! 2. The log is applied from where that checkpoint begins.
//!
//! Recovery only reads, so the next attempt after an interruption finds the same. `wal::open` writes, but only
//! afterwards.

use super::load::Blocks;
use super::steps::{LogFrom, Steps};
use super::{Cut, checkpointer, damage, mark};
use crate::cc::ConcurrencyControl;
use crate::checkpoint::{self, Block, CatalogEntry, Closed, Manifest, TableEntry};
use crate::error::{Error, Result};
use crate::events::{event, ms, text};
use crate::kernel::{Engine, restore_table};
use crate::metrics::Clock;
use crate::replay::{Feed, Restorer, for_each_parallel, replay, resume};
use crate::storage::Storage;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, try_lock};
use crate::table::TableInner;
use crate::wal::{self, DatabaseId, Ending, Lsn, Point, Record, Tail};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What recovery is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStage {
    /// Loading the rows of a checkpoint.
    Checkpoint,
    /// Applying what the log has beyond the checkpoint.
    Log,
}

/// How far recovery is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What recovery is doing.
    pub stage: RecoveryStage,
    /// How many rows were loaded, or how many changes of the log were applied. Verification and salvage count the
    /// log's records instead.
    pub done: u64,
    /// The total, if it is known.
    pub total: Option<u64>,
}

/// What recovery has found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// The number of the checkpoint that was loaded.
    pub checkpoint: Option<u64>,
    /// Newer checkpoints that were not used, and why.
    pub damaged_checkpoints: Vec<(u64, String)>,
    /// How many rows the checkpoint has.
    pub rows: u64,
    /// How many transactions of the log were applied.
    pub transactions: u64,
    /// How many bytes of the log they took.
    pub log_bytes: u64,
    /// What was cut off the end of the log, and where: part of a write that was never completed, hence never
    /// acknowledged.
    pub cut: Option<Cut>,
    /// True if the database had been closed in order, and everything that it had then is present. Otherwise the end
    /// of the log is where good records end; whether the last write before it was whole cannot be known.
    pub was_closed: bool,
    /// How long loading the checkpoint took, in nanoseconds.
    pub load_ns: u64,
    /// How long applying the log took, in nanoseconds.
    pub replay_ns: u64,
}

impl Recovery {
    /// Emits what was found in the database with this number.
    pub(super) fn tell(&self, database: u64) {
        for (number, error) in &self.damaged_checkpoints {
            event!(
                WARN,
                RECOVERY,
                "checkpoint not used, because it is damaged",
                database = database,
                checkpoint = *number,
                error = text(error)
            );
        }
        if let Some(number) = self.checkpoint {
            event!(
                INFO,
                RECOVERY,
                "checkpoint loaded",
                database = database,
                checkpoint = number,
                rows = self.rows,
                duration_ms = ms(self.load_ns)
            );
        }
        event!(
            INFO,
            RECOVERY,
            "log replayed",
            database = database,
            transactions = self.transactions,
            bytes = self.log_bytes,
            was_closed = self.was_closed,
            duration_ms = ms(self.replay_ns)
        );
        if let Some(Cut { file, offset, lsn, bytes }) = &self.cut {
            event!(
                INFO,
                RECOVERY,
                "the log was cut off where a write had not been completed, of which nothing was acknowledged",
                database = database,
                file = text(file),
                offset = *offset,
                lsn = *lsn,
                bytes = *bytes
            );
        }
    }
}

/// Where an engine that has been filled continues.
pub(super) struct Found<C: ConcurrencyControl> {
    pub(super) engine: Arc<Engine<C>>,
    pub(super) tail: Tail,
    /// Everything before this point was applied, and nothing behind it.
    pub(super) reached: Point,
    /// Good checkpoints to keep, the newest last.
    pub(super) kept: Vec<Manifest>,
    pub(super) recovery: Recovery,
}

/// The recovery of one directory.
pub(super) struct Recoverer<'r, 'p> {
    pub(super) storage: &'r dyn Storage,
    pub(super) database: DatabaseId,
    /// What the database had when it was closed in order, if it was.
    pub(super) closed: Option<Closed>,
    /// What is known of the log's end.
    pub(super) ending: Ending,
    pub(super) steps: &'r dyn Steps,
    /// No record that ends behind this position is applied.
    pub(super) until: Lsn,
    pub(super) clock: &'r dyn Clock,
    pub(super) progress: Mutex<&'p mut (dyn FnMut(&Progress) + Send)>,
}

impl<'r, 'p> Recoverer<'r, 'p> {
    /// Prepares the recovery of everything that a directory has.
    pub(super) fn of_all(
        storage: &'r dyn Storage,
        database: DatabaseId,
        steps: &'r dyn Steps,
        clock: &'r dyn Clock,
        progress: &'p mut (dyn FnMut(&Progress) + Send),
    ) -> Result<Self> {
        let (closed, ending) = steps.read_mark(storage, database)?;
        let (until, progress) = (Lsn(u64::MAX), Mutex::new(progress));
        Ok(Recoverer { storage, database, closed, ending, steps, until, clock, progress })
    }

    /// Fills an engine. `make` creates empty engines, because an engine that was filled with half of a damaged
    /// checkpoint is useless.
    pub(super) fn run<C: ConcurrencyControl>(
        &self,
        make: &dyn Fn() -> Result<Arc<Engine<C>>>,
    ) -> Result<Found<C>> {
        let mut recovery = Recovery::default();
        let begin_ns = self.clock.now_ns();
        let (engine, kept) = self.load_newest(make, &mut recovery)?;
        let loaded_ns = self.clock.now_ns();
        let newest = kept.last();
        let start_lsn = newest.map_or(Lsn(0), |manifest| manifest.start_lsn);
        let applied = self.apply_log(&engine, start_lsn, newest.map_or(0, |manifest| manifest.timestamp))?;
        let (tail, reached) = (applied.tail, applied.reached);
        if let Some(closed) = &self.closed {
            mark::check_log(closed, &tail)?;
        }
        if let Some(end_lsn) = newest.map(|manifest| manifest.end_lsn).filter(|end| *end > tail.lsn()) {
            return Err(Error::Log(tail.missing(end_lsn)));
        }
        recovery.load_ns = loaded_ns.saturating_sub(begin_ns);
        recovery.replay_ns = self.clock.now_ns().saturating_sub(loaded_ns);
        recovery.transactions = applied.transactions;
        recovery.log_bytes = tail.lsn().0.saturating_sub(start_lsn.0);
        recovery.cut = tail.cut();
        recovery.was_closed = self.closed.is_some();
        resume(&engine, self.steps.resume_at(applied.timestamp))?;
        Ok(Found { engine, tail, reached, kept, recovery })
    }

    /// Loads the newest checkpoint that is whole. Returns it, preceded by the checkpoint before it, if that exists.
    fn load_newest<C: ConcurrencyControl>(
        &self,
        make: &dyn Fn() -> Result<Arc<Engine<C>>>,
        recovery: &mut Recovery,
    ) -> Result<(Arc<Engine<C>>, Vec<Manifest>)> {
        let numbers = checkpoint::list(self.storage)?;
        let is_unlogged = self.closed.is_some_and(|closed| closed.is_unlogged);
        let (has_fallback, mut failure) = (damage::has_fallback(self.storage)? && !is_unlogged, None);
        if let Some((number, error)) = mark::missing_checkpoint(self.closed.as_ref(), &numbers)? {
            if !has_fallback {
                return Err(error.into());
            }
            recovery.damaged_checkpoints.push((number, error.to_string()));
            failure = Some(Error::Checkpoint(error));
        }
        for (at, number) in numbers.iter().enumerate().rev() {
            if self.is_beyond(*number) {
                continue;
            }
            let engine = make()?;
            match self.load(&engine, *number) {
                Ok((manifest, rows)) => {
                    (recovery.checkpoint, recovery.rows) = (Some(*number), rows);
                    let before = at.checked_sub(1).map(|at| self.read(numbers[at]));
                    let kept = before.and_then(Result::ok).into_iter().chain([manifest]).collect();
                    return Ok((engine, kept));
                }
                Err(Error::Checkpoint(error @ checkpoint::Error::Damaged { .. })) if has_fallback => {
                    recovery.damaged_checkpoints.push((*number, error.to_string()));
                    failure.get_or_insert(Error::Checkpoint(error));
                }
                Err(error) => return Err(error),
            }
        }
        // Without a checkpoint, the whole log is needed.
        match (failure, self.steps.open_log(&self.log_from(Lsn(0)))) {
            (Some(failure), Err(wal::Error::Missing { .. })) => Err(failure),
            (Some(failure), Ok(reader)) if !reader.has_begun() => Err(failure),
            _ => Ok((make()?, Vec::new())),
        }
    }

    /// Returns true if a checkpoint has or may have something from behind the end.
    fn is_beyond(&self, number: u64) -> bool {
        self.until != Lsn(u64::MAX) && self.read(number).is_ok_and(|manifest| manifest.end_lsn > self.until)
    }

    fn read(&self, number: u64) -> Result<Manifest> {
        checkpoint::read(self.storage, self.database, number).map_err(Error::Checkpoint)
    }

    /// Loads a checkpoint into an empty engine. Returns its number of rows.
    fn load<C: ConcurrencyControl>(&self, engine: &Arc<Engine<C>>, number: u64) -> Result<(Manifest, u64)> {
        let manifest = self.read(number)?;
        for entry in &manifest.tables {
            create(engine, &entry.table, true)?;
        }
        let table_of = |entry: &TableEntry| engine.table(entry.table.number).expect("made just now");
        let tables: Vec<_> = manifest.tables.iter().map(table_of).collect();
        let of_table = manifest.tables.iter().zip(&tables);
        let restorer = Restorer::new(engine)?;
        for (entry, table) in of_table.clone() {
            // Changes from the log are noted for the existing ranges.
            table.touched().fit(&engine.epochs, &entry.bounds());
            restorer.reserve(table, entry.rows());
        }
        drop(restorer);
        let blocks =
            Blocks::of(of_table.flat_map(|(entry, table)| entry.files().map(move |file| (*table, *file))));
        let (loaded, total) = (AtomicU64::new(0), manifest.rows());
        for_each_parallel(engine, threads(engine), blocks.count(), |restorer, number| {
            let mut block = Block::new();
            let table = blocks.read(number, &mut block, |table, file| {
                self.steps.open_rows(self.storage, self.database, file, table.kind.fixed8)
            })?;
            let rows = block.rows();
            let count = rows.len() as u64;
            restorer.load(table, rows, manifest.timestamp)?;
            self.show(RecoveryStage::Checkpoint, &loaded, count, Some(total));
            Ok(())
        })?;
        let loaded = loaded.into_inner();
        debug_assert_eq!(loaded, total, "a file has as many rows as its manifest says");
        Ok((manifest, loaded))
    }

    fn show(&self, stage: RecoveryStage, counter: &AtomicU64, more: u64, total: Option<u64>) {
        let done = counter.fetch_add(more, Ordering::Relaxed) + more;
        // If another thread is reporting its progress at this moment, that suffices.
        if let Some(mut progress) = try_lock(&self.progress) {
            progress(&Progress { stage, done, total });
        }
    }

    /// Applies all records of the log from `start_lsn` on.
    fn apply_log<C: ConcurrencyControl>(
        &self,
        engine: &Arc<Engine<C>>,
        start_lsn: Lsn,
        timestamp: u64,
    ) -> Result<Applied> {
        let (mut transactions, mut timestamp) = (0, timestamp);
        let (mut read, mut reached) = (None, None);
        let done = AtomicU64::new(0);
        let progress = |changes: usize| self.show(RecoveryStage::Log, &done, changes as u64, None);
        replay(engine, threads(engine), &progress, |feed| {
            // The tables by number, because each change asks for one.
            let mut tables: Vec<Option<&TableInner>> = Vec::new();
            read = Some(self.steps.replay(&self.log_from(start_lsn), &mut |record| {
                if self.steps.is_behind(record, self.until) {
                    reached = Some(record.lsn);
                    return Ok(ControlFlow::Break(()));
                }
                if let Some(entry) = record.catalog() {
                    let entry = CatalogEntry::decode(entry).ok_or_else(|| damaged(record, "no table"))?;
                    create(engine, &entry, false)?;
                    if entry.is_emptied() && self.steps.empties() {
                        feed.settle()?;
                        Restorer::new(engine)?.empty(engine.table(entry.number).expect("made just now"))?;
                    }
                } else {
                    apply(feed, engine, &mut tables, record)?;
                    transactions += 1;
                }
                timestamp = timestamp.max(record.commit_timestamp);
                Ok(ControlFlow::Continue(()))
            })?);
            Ok(())
        })?;
        let reader = read.expect("the log was replayed just now");
        let unix_ns = reader.mark().map(|mark| mark.unix_ns);
        // What is behind the end may be damaged or missing.
        let tail = match reached {
            Some(_) => reader.tail().clone(),
            None => reader.finish().map_err(Error::Log)?,
        };
        // No transaction lies between the end and the first record behind it.
        let lsn = reached.unwrap_or(tail.lsn()).min(self.until);
        let reached = Point { lsn, unix_ns };
        Ok(Applied { tail, reached, transactions, timestamp })
    }

    fn log_from(&self, start: Lsn) -> LogFrom<'_> {
        LogFrom { storage: self.storage, database: self.database, start, ending: self.ending }
    }
}

/// What the log had.
struct Applied {
    tail: Tail,
    reached: Point,
    transactions: u64,
    /// The latest timestamp, the checkpoint's included.
    timestamp: u64,
}

fn threads<C: ConcurrencyControl>(engine: &Engine<C>) -> usize {
    engine.options.workers.max(1)
}

/// Makes a table that existed, unless the checkpoint has it already.
fn create<C: ConcurrencyControl>(engine: &Engine<C>, entry: &CatalogEntry, has_gaps: bool) -> Result<()> {
    let (kind, description) = checkpointer::kind(entry)?;
    if restore_table(engine, entry.number, kind, description, has_gaps)? {
        return Ok(());
    }
    Err(Error::CatalogDamaged { table: entry.name.clone(), number: entry.number })
}

fn apply<'t, C: ConcurrencyControl>(
    feed: &mut Feed<'t, '_, C>,
    engine: &'t Engine<C>,
    known: &mut Vec<Option<&'t TableInner>>,
    record: &Record<'_>,
) -> Result<()> {
    for change in record.changes() {
        let at = change.table as usize;
        let table = match known.get(at).copied().flatten() {
            Some(table) => table,
            None => {
                let table =
                    engine.table(change.table).ok_or_else(|| damaged(record, "a change of no table"))?;
                known.resize(known.len().max(at + 1), None);
                *known[at].insert(table)
            }
        };
        feed.push(table, change.key, change.value, record.commit_timestamp)?;
    }
    Ok(())
}

/// Returns the error of a record that is as it was written but makes no sense.
fn damaged(record: &Record<'_>, reason: &'static str) -> Error {
    Error::Log(wal::Error::Damaged { file: "log".into(), offset: 0, lsn: record.lsn, reason })
}
