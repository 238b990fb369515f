//! Salvages everything that can be read of a damaged database into a new one. `docs/design/durability.md` has the
//! rule.
//!
//! Invariant: each table of the new database has the state that a checkpoint's files and an unbroken part of the log
//! behind the checkpoint's start give, except for what the report says was left out.

use super::damage::{Damage, lock_to_read};
use super::{Progress, RecoveryStage, checkpointer, log_table, mark};
use crate::cc::ConcurrencyControl;
use crate::checkpoint::{
    self, Block, CatalogEntry, Closed, Identity, Manifest, RowsFile, RowsReader, TableEntry,
};
use crate::error::{Error, Result};
use crate::kernel::{Engine, Request, Which, describe_table, open_table};
use crate::options::Durability;
use crate::storage::Storage;
use crate::table::{Definitions, Description, IndexInfo, TableKind};
use crate::txn::{RawTable, Transaction, clear_table, drop_table};
use crate::wal::{self, Cut, DatabaseId, Ending, Gap, Lsn, Record, Remains, Remnant};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many bytes of changes one transaction of the new database makes. The changes of one transaction of the old
/// database stay together, and may be more.
const BATCH_BYTES: u64 = 1 << 20;

/// The most that a change takes in the log besides its key and value.
const CHANGE_BYTES: u64 = 32;

/// How a database is salvaged.
#[derive(Clone, Copy, Debug, Default)]
pub struct SalvageOptions {
    /// Continue behind damage of the log. Default: no, so that each salvaged table has a state that it once had. With
    /// this option, later changes are included whose predecessors may be missing.
    pub beyond_damage: bool,
}

/// What was salvaged, and what was not.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Salvage {
    /// What became of each table, in the order in which the tables were made.
    pub tables: Vec<SalvagedTable>,
    /// How many transactions of the log were applied, at least in part.
    pub transactions: u64,
    /// What is damaged or missing.
    pub damages: Vec<Damage>,
    /// How many changes were left out because nothing says which table they belong to.
    pub unknown_changes: u64,
    /// What was cut off the end of the log: part of a write that was never completed, hence never acknowledged.
    pub cut: Option<Cut>,
}

/// What became of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedTable {
    /// The table's name.
    pub name: String,
    /// The checkpoint whose rows were taken; none if the table is newer than all checkpoints.
    pub checkpoint: Option<u64>,
    /// How many rows came from that checkpoint.
    pub rows: u64,
    /// How many blocks of rows were left out because of damage.
    pub lost_blocks: u64,
    /// How many rows those blocks had.
    pub lost_rows: u64,
    /// How many changes of the log were made.
    pub changes: u64,
    /// How many changes of the log were readable but left out, because they are behind damage.
    pub left_out_changes: u64,
    /// The table's secondary indexes by columns.
    pub indexes: Vec<IndexInfo>,
    /// The indexes that the table can no longer have, and why. Salvaged rows may be of different moments.
    pub lost_indexes: Vec<(IndexInfo, String)>,
}

impl Salvage {
    /// Returns true if nothing was damaged or left out.
    pub fn is_complete(&self) -> bool {
        let has_indexes = self.tables.iter().all(|table| table.lost_indexes.is_empty());
        self.damages.is_empty() && self.unknown_changes == 0 && has_indexes
    }
}

/// A table of the new database.
struct Target {
    raw: RawTable,
    /// The table's rows are as of this position or later. Older changes are in them.
    start: Lsn,
    /// True if part of the log from `start` on is missing. Nothing behind that part counts.
    is_cut: bool,
    report: SalvagedTable,
}

/// Salvages one directory.
pub(crate) struct Salvager<'s, C: ConcurrencyControl> {
    pub(crate) from: &'s dyn Storage,
    pub(crate) engine: &'s Arc<Engine<C>>,
    pub(crate) options: SalvageOptions,
    pub(crate) progress: &'s mut dyn FnMut(&Progress),
}

/// The state of a file of rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Whole,
    /// Some of the file's blocks are good.
    Damaged,
    /// The file is missing, or nothing says where its blocks are.
    Illegible,
}

/// A salvage in progress.
struct Salvaging<'s, C: ConcurrencyControl> {
    of: Salvager<'s, C>,
    database: DatabaseId,
    /// What the database had when it was closed in order, if it was.
    closed: Option<Closed>,
    ending: Ending,
    tables: BTreeMap<u32, Target>,
    /// The numbers of tables that are known to have been dropped.
    dropped: BTreeSet<u32>,
    batch: Batch,
    /// Where the newest checkpoint begins. Tables that it lacks were made later.
    newest_start: Lsn,
    gaps: Vec<Gap>,
    done: Salvage,
}

impl<'s, C: ConcurrencyControl> Salvager<'s, C> {
    pub(crate) fn run(self) -> Result<Salvage> {
        if self.engine.has_had_tables() {
            return Err(Error::NotEmpty);
        }
        let _lock = lock_to_read(self.from)?;
        let mut done = Salvage::default();
        let database = database(self.from, &mut done)?;
        let closed = Closed::read(self.from, database);
        let ending = match &closed {
            Ok(closed) => Ending::of(closed.map(|closed| closed.end)),
            Err(_) => Ending::Unknown,
        };
        let closed = closed.unwrap_or_else(|error| {
            done.damages.push(Damage::of(Closed::FILE, &error));
            None
        });
        let bytes_max = BATCH_BYTES.min(self.engine.options.log_segment_bytes / 2);
        let batch = Batch { changes: Vec::new(), bytes: 0, bytes_max };
        let mut work = Salvaging {
            of: self,
            database,
            closed,
            ending,
            tables: BTreeMap::new(),
            dropped: BTreeSet::new(),
            batch,
            newest_start: Lsn(0),
            gaps: Vec::new(),
            done,
        };
        work.take_rows()?;
        work.take_log()?;
        work.finish()
    }
}

/// Returns which database this is. If its identity is damaged, other files tell.
fn database(from: &dyn Storage, done: &mut Salvage) -> Result<DatabaseId> {
    match Identity::read(from) {
        Ok(Some(identity)) => Ok(identity.database),
        Ok(None) => Err(Error::NoDatabase),
        // A file of an unsupported version is not read as something else.
        Err(error @ checkpoint::Error::UnsupportedVersion { .. }) => Err(error.into()),
        Err(error) => {
            done.damages.push(Damage::of(Identity::FILE, &error));
            let claimed = checkpoint::claimed_database(from).or_else(|| wal::claimed_database(from));
            claimed.ok_or(Error::Checkpoint(error))
        }
    }
}

/// Returns the name and the version in a definition.
fn head(line: &str) -> &str {
    line.split_once(": ").map_or(line, |(head, _)| head)
}

impl<C: ConcurrencyControl> Salvaging<'_, C> {
    /// Takes the rows of all tables of the newest checkpoint whose manifest is good.
    fn take_rows(&mut self) -> Result<()> {
        let (mut manifests, numbers) = (Vec::new(), checkpoint::list(self.of.from)?);
        match mark::missing_checkpoint(self.closed.as_ref(), &numbers) {
            Ok(None) => {}
            Ok(Some((number, error))) => self.done.damages.push(Damage::of(Manifest::file(number), &error)),
            Err(error) => self.done.damages.push(Damage::of(Closed::FILE, &error)),
        }
        for number in numbers {
            match checkpoint::read(self.of.from, self.database, number) {
                Ok(manifest) => manifests.insert(0, manifest),
                Err(error) => self.done.damages.push(Damage::of(Manifest::file(number), &error)),
            }
        }
        let Some(newest) = manifests.first() else { return Ok(()) };
        self.newest_start = newest.start_lsn;
        for TableEntry { table, .. } in &newest.tables {
            match table.is_dropped {
                true => drop(self.dropped.insert(table.number)),
                false => self.take_table(table, &manifests)?,
            }
        }
        self.batch.commit(self.of.engine)
    }

    /// Takes the rows of a table from the newest checkpoint that has all of its files whole. If there is none, takes
    /// what is good in the newest files of which at least one can be opened. Files are not mixed: the keys of a bad
    /// block are unknown, and a row in an older file may have been deleted since.
    fn take_table(&mut self, entry: &CatalogEntry, manifests: &[Manifest]) -> Result<()> {
        let mut best: Option<(&Manifest, &TableEntry)> = None;
        for manifest in manifests {
            let Some(found) = manifest.tables.iter().find(|other| other.table.is_of_same_table(entry)) else {
                continue;
            };
            let states: Vec<State> = found.files().map(|file| self.look_at(file, entry.fixed8)).collect();
            let is_whole = states.iter().all(|state| *state == State::Whole);
            let is_legible = is_whole || states.iter().any(|state| *state != State::Illegible);
            if is_whole || (best.is_none() && is_legible) {
                best = Some((manifest, found));
            }
            if is_whole {
                break;
            }
        }
        let newest = manifests.first().expect("the table is of one");
        let (manifest, found) = best.map_or((newest, None), |(manifest, found)| (manifest, Some(found)));
        self.add_table(entry, manifest.start_lsn, Some(manifest.number))?;
        let mut files = found.into_iter().flat_map(TableEntry::files);
        files.try_for_each(|file| self.take_file(entry, file))
    }

    /// Returns the state of a file of rows, and notes what is wrong with it.
    fn look_at(&mut self, file: &RowsFile, fixed8: bool) -> State {
        let note = |damages: &mut Vec<Damage>, error| {
            let damage = Damage::of(file.file(), &error);
            if !damages.contains(&damage) {
                damages.push(damage);
            }
        };
        let damages = &mut self.done.damages;
        let reader = match RowsReader::open(self.of.from, self.database, file, fixed8) {
            Ok(reader) => reader,
            Err(error) => {
                note(damages, error);
                return State::Illegible;
            }
        };
        let (mut block, mut state) = (Block::new(), State::Whole);
        for number in 0..reader.blocks() {
            if let Err(error) = reader.read_block(number, &mut block) {
                note(damages, error);
                state = State::Damaged;
            }
        }
        state
    }

    /// Takes the good blocks of a file.
    fn take_file(&mut self, entry: &CatalogEntry, file: &RowsFile) -> Result<()> {
        let target = self.tables.get_mut(&entry.number).expect("added just now");
        let Ok(reader) = RowsReader::open(self.of.from, self.database, file, entry.fixed8) else {
            target.report.lost_blocks += file.blocks;
            target.report.lost_rows += file.rows;
            return Ok(());
        };
        let mut block = Block::new();
        for number in 0..reader.blocks() {
            if reader.read_block(number, &mut block).is_err() {
                target.report.lost_blocks += 1;
                target.report.lost_rows += reader.rows_of(number);
                continue;
            }
            for (key, value) in block.rows() {
                self.batch.make_room(self.of.engine, bytes_of(key, Some(value)))?;
                self.batch.push(target.raw, key, Some(value));
                target.report.rows += 1;
            }
            let done = target.report.rows;
            (self.of.progress)(&Progress { stage: RecoveryStage::Checkpoint, done, total: None });
        }
        Ok(())
    }

    /// Makes a table in the new database.
    fn add_table(&mut self, entry: &CatalogEntry, start: Lsn, checkpoint: Option<u64>) -> Result<()> {
        let engine = &**self.of.engine;
        let (kind, mut description) = checkpointer::kind(entry)?;
        while self.tables.values().any(|table| table.report.name == description.name) {
            // The record that renamed the other table is lost.
            description.name = format!("{} (table {})", description.name, entry.number);
        }
        let name = description.name.clone();
        // Indexes are made when all rows exist.
        let indexes = std::mem::take(&mut description.indexes);
        // A line that is no definition is left out, like everything else that cannot be read.
        let lines = description.definitions.iter().cloned();
        let lines: Vec<_> =
            lines.filter(|line| Definitions::of_lines(std::slice::from_ref(line)).is_ok()).collect();
        let definitions = Definitions::of_lines(&lines).unwrap_or_default();
        let request = Request { definitions, ..Request::raw(kind, description) };
        let note = |number, kind: &TableKind, of: &Description| log_table(engine, number, kind, of);
        let raw = open_table(engine, request, note, |table| RawTable::new(table, engine.id))?;
        let report = SalvagedTable { name, checkpoint, indexes, ..SalvagedTable::default() };
        let is_cut = self.gaps.iter().any(|gap| self.cuts(gap, start));
        self.tables.insert(entry.number, Target { raw, start, is_cut, report });
        Ok(())
    }

    /// Gives a table of the new database the log's new description.
    fn describe(&mut self, entry: &CatalogEntry) -> Result<()> {
        let engine = &**self.of.engine;
        let (_, mut description) = checkpointer::kind(entry)?;
        let is_whole = self.gaps.is_empty();
        let is_taken = |(number, table): (&u32, &Target)| {
            *number != entry.number && table.report.name == description.name
        };
        let is_taken = self.tables.iter().any(is_taken);
        let target = self.tables.get_mut(&entry.number).expect("the caller has looked");
        target.report.indexes = std::mem::take(&mut description.indexes);
        if is_taken {
            // The log renames the table later, or the record that renamed the other table is lost.
            description.name.clone_from(&target.report.name);
        }
        let (before, name) = (target.report.name.clone(), description.name.clone());
        let change = |_: &TableKind, existing: &mut Description| {
            if !is_whole {
                // Rows may follow definitions that a lost record has added.
                let known = |line: &&String| !description.definitions.iter().any(|of| head(of) == head(line));
                let more: Vec<_> = existing.definitions.iter().filter(known).cloned().collect();
                description.definitions.extend(more);
                description.definitions.sort();
            }
            *existing = description;
            Ok(())
        };
        let note = |number, kind: &TableKind, of: &Description| log_table(engine, number, kind, of);
        describe_table(engine, Which::Named(&before), change, note)?;
        target.report.name = name;
        Ok(())
    }

    /// Returns true if the gap ends a table whose rows are as of `start`.
    fn cuts(&self, gap: &Gap, start: Lsn) -> bool {
        !self.of.options.beyond_damage && gap.resumes.is_none_or(|resumes| start < resumes)
    }

    /// Makes the changes of the log from the oldest start on.
    fn take_log(&mut self) -> Result<()> {
        let starts = self.tables.values().map(|table| table.start).chain([self.newest_start]);
        let start = starts.min().expect("there is one");
        let mut remains = Remains::open(self.of.from, self.database, start, self.ending)?;
        let mut records = 0;
        while let Some(remnant) = remains.next_remnant() {
            match remnant {
                Remnant::Gap(gap) => self.note_gap(gap),
                Remnant::Record(record) => {
                    self.take_record(&record)?;
                    records += 1;
                    (self.of.progress)(&Progress { stage: RecoveryStage::Log, done: records, total: None });
                }
            }
        }
        self.done.cut = remains.cut();
        self.batch.commit(self.of.engine)
    }

    fn note_gap(&mut self, gap: Gap) {
        let mut tables = std::mem::take(&mut self.tables);
        for table in tables.values_mut() {
            table.is_cut |= self.cuts(&gap, table.start);
        }
        self.tables = tables;
        self.done.damages.push(gap.clone().into());
        self.gaps.push(gap);
    }

    /// Applies what the catalog says of a table from this position of the log on.
    fn take_entry(&mut self, entry: &CatalogEntry, at: Lsn) -> Result<()> {
        if entry.is_dropped {
            self.dropped.insert(entry.number);
            return match self.tables.remove(&entry.number) {
                Some(target) => self.empty(target.raw, Some(&target.report.name)),
                None => Ok(()),
            };
        }
        match self.tables.contains_key(&entry.number) {
            _ if self.dropped.contains(&entry.number) => return Ok(()),
            true => self.describe(entry)?,
            false => self.add_table(entry, self.newest_start, None)?,
        }
        let &Target { raw, start, .. } = &self.tables[&entry.number];
        if !entry.is_cleared || at < start {
            return Ok(());
        }
        self.empty(raw, None)?;
        // Whatever is missing earlier, the present contents are known.
        let target = self.tables.get_mut(&entry.number).expect("there just now");
        (target.start, target.is_cut) = (at, false);
        Ok(())
    }

    /// Deletes all rows of a table of the new database. If `dropped` is the table's name, deletes the table, too.
    fn empty(&mut self, raw: RawTable, dropped: Option<&str>) -> Result<()> {
        self.batch.commit(self.of.engine)?;
        let engine = self.of.engine;
        let table = raw.of_database(engine.id)?;
        let note = |number, kind: &TableKind, of: &Description| log_table(engine, number, kind, of);
        match dropped {
            Some(name) => drop_table(engine, table, name, note),
            None => clear_table(engine, table, note),
        }
    }

    fn take_record(&mut self, record: &Record<'_>) -> Result<()> {
        if let Some(bytes) = record.catalog() {
            return match CatalogEntry::decode(bytes) {
                Some(entry) => self.take_entry(&entry, record.lsn),
                None => Ok(()),
            };
        }
        let mut is_applied = false;
        // The record's changes stay together.
        let bytes = record.changes().map(|change| bytes_of(change.key, change.value)).sum();
        self.batch.make_room(self.of.engine, bytes)?;
        for change in record.changes() {
            let Some(table) = self.tables.get_mut(&change.table) else {
                self.done.unknown_changes += u64::from(!self.dropped.contains(&change.table));
                continue;
            };
            if record.lsn < table.start {
                continue; // already in the rows
            }
            if table.is_cut {
                table.report.left_out_changes += 1;
                continue;
            }
            self.batch.push(table.raw, change.key, change.value);
            table.report.changes += 1;
            is_applied = true;
        }
        self.done.transactions += u64::from(is_applied);
        Ok(())
    }

    /// Waits until everything is durable.
    fn finish(mut self) -> Result<Salvage> {
        debug_assert!(self.batch.changes.is_empty(), "all was committed");
        let last = Transaction::begin(self.of.engine)?;
        last.set_durability(Durability::Sync)?;
        last.commit()?;
        self.done.tables = self.tables.into_values().map(|table| table.report).collect();
        Ok(self.done)
    }
}

/// Changes for the next transaction of the new database, in order.
struct Batch {
    changes: Vec<(RawTable, Vec<u8>, Option<Vec<u8>>)>,
    bytes: u64,
    bytes_max: u64,
}

/// Returns about how many bytes a change takes in the log.
fn bytes_of(key: &[u8], value: Option<&[u8]>) -> u64 {
    (key.len() + value.map_or(0, <[u8]>::len)) as u64 + CHANGE_BYTES
}

impl Batch {
    /// Commits the collected changes, unless there is room for `bytes` more.
    fn make_room<C: ConcurrencyControl>(&mut self, engine: &Arc<Engine<C>>, bytes: u64) -> Result<()> {
        let is_full = !self.changes.is_empty() && self.bytes + bytes > self.bytes_max;
        if is_full { self.commit(engine) } else { Ok(()) }
    }

    fn push(&mut self, table: RawTable, key: &[u8], value: Option<&[u8]>) {
        self.bytes += bytes_of(key, value);
        self.changes.push((table, key.to_vec(), value.map(<[u8]>::to_vec)));
    }

    fn commit<C: ConcurrencyControl>(&mut self, engine: &Arc<Engine<C>>) -> Result<()> {
        let transaction = Transaction::begin(engine)?;
        transaction.set_durability(Durability::Async)?;
        transaction.with(async |txn| {
            for (table, key, value) in &self.changes {
                match value {
                    Some(value) => table.put(txn, key, value).await?,
                    None => drop(table.delete(txn, key).await?),
                }
            }
            Ok(())
        })?;
        self.changes.clear();
        self.bytes = 0;
        transaction.commit()
    }
}
