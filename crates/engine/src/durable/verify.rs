//! Checks all files of a database that is not open: which are good, and whether the database would open.

use super::damage::{Catalog, Damage, check_finished, check_record, has_fallback, lock_to_read};
use super::{Progress, RecoveryStage, mark};
use crate::checkpoint::{self, Block, Closed, Identity, Manifest, RowsFile, RowsReader};
use crate::error::{Error, Result};
use crate::storage::{OpenMode, Storage};
use crate::wal::{self, Cut, DatabaseId, End, Ending, Lsn, Reader, Remains, Remnant, Tail};
use std::collections::BTreeMap;

/// The result of the check whether a database would open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenCheck {
    /// The database would open.
    Opens {
        /// The checkpoint that it would open with; none if it would use the log alone.
        checkpoint: Option<u64>,
    },
    /// The database would not open.
    Refused {
        /// Why not.
        reason: String,
    },
}

/// The state of a database's files.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verification {
    /// The identity of the database; none if it cannot be read.
    pub database: Option<u128>,
    /// True if others were kept from writing meanwhile. That is impossible if no lock can be made, for example on a
    /// read-only medium.
    pub was_locked: bool,
    /// Every file that is needed, with what is wrong with it.
    pub files: Vec<FileReport>,
    /// What is missing besides, and the file in which it would be.
    pub missing: Vec<Damage>,
    /// The result of that check for this database.
    pub outlook: OpenCheck,
    /// How many rows that checkpoint has.
    pub rows: u64,
    /// How many good records the log has from the start of the oldest checkpoint on.
    pub records: u64,
    /// How many bytes of the log they take.
    pub log_bytes: u64,
    /// What recovery would cut off the end of the log: part of a write that was never completed, hence never
    /// acknowledged. This is no damage.
    pub cut: Option<Cut>,
    /// True if the database was closed in order, and the file `closed` says so.
    pub was_closed: bool,
    /// Where the log ends, if the database would open.
    pub(super) end: End,
}

/// A file of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// The file.
    pub file: String,
    /// The file's length.
    pub bytes: u64,
    /// How much room the file takes on the device.
    pub disk_bytes: u64,
    /// What is wrong with the file, if anything is.
    pub damages: Vec<Damage>,
}

impl Verification {
    /// Returns a report in which nothing has been found yet.
    fn new() -> Verification {
        Verification {
            database: None,
            was_locked: false,
            files: Vec::new(),
            missing: Vec::new(),
            outlook: OpenCheck::Opens { checkpoint: None },
            rows: 0,
            records: 0,
            log_bytes: 0,
            cut: None,
            was_closed: false,
            end: End::default(),
        }
    }

    /// Returns true if everything is as it was written, and the database would open.
    pub fn is_good(&self) -> bool {
        self.damages().next().is_none() && self.would_open()
    }

    /// Returns true if the database would open, perhaps in spite of damage.
    pub fn would_open(&self) -> bool {
        matches!(self.outlook, OpenCheck::Opens { .. })
    }

    /// Returns everything that is wrong.
    pub fn damages(&self) -> impl Iterator<Item = &Damage> {
        self.files.iter().flat_map(|file| &file.damages).chain(&self.missing)
    }
}

/// Reads all files of a database that is not open: its identity, every checkpoint with every block of rows, and the
/// log from the oldest checkpoint on. This changes nothing. `progress` is told how many rows of checkpoints and how
/// many records of the log have been read.
///
/// Fails if there is no database, or if another process has it open. Damage is no error.
pub fn verify(storage: &dyn Storage, progress: &mut dyn FnMut(&Progress)) -> Result<Verification> {
    let lock = lock_to_read(storage)?;
    check_finished(storage)?;
    let mut verification = inspect(storage, progress)?;
    verification.was_locked = lock.is_some();
    Ok(verification)
}

/// Checks the files like [`verify`], for a caller that has the lock.
pub(super) fn inspect(storage: &dyn Storage, progress: &mut dyn FnMut(&Progress)) -> Result<Verification> {
    let mut inspector = Inspector {
        storage,
        progress,
        closed: None,
        read: BTreeMap::new(),
        refused: None,
        unmarked: None,
        found: Verification::new(),
    };
    let database = match Identity::read(storage) {
        Ok(Some(identity)) => identity.database,
        Ok(None) => return Err(Error::NoDatabase),
        // A file that is no identity was one if other files of a database are beside it.
        Err(error) if is_damage(storage, &error) => {
            inspector.file(Identity::FILE, [Damage::of(Identity::FILE, &error)]);
            inspector.found.outlook = OpenCheck::Refused { reason: error.to_string() };
            return Ok(inspector.found);
        }
        Err(error) => return Err(error.into()),
    };
    inspector.found.database = Some(database.0);
    inspector.file(Identity::FILE, []);
    inspector.inspect(database)?;
    Ok(inspector.found)
}

fn is_damage(storage: &dyn Storage, error: &checkpoint::Error) -> bool {
    match error {
        checkpoint::Error::Damaged { .. } => true,
        checkpoint::Error::NotADatabase { .. } => {
            checkpoint::claimed_database(storage).or_else(|| wal::claimed_database(storage)).is_some()
        }
        _ => false,
    }
}

struct Inspector<'i> {
    storage: &'i dyn Storage,
    progress: &'i mut dyn FnMut(&Progress),
    /// What the database had when it was closed in order, if it was.
    closed: Option<Closed>,
    /// The files of rows that were read, and whether they are good. Several checkpoints may share a file.
    read: BTreeMap<String, (RowsFile, bool)>,
    /// Why recovery would not use an older checkpoint: what failed is no damage.
    refused: Option<String>,
    /// Why recovery would fail whatever checkpoints there are: the mark is damaged or untrue.
    unmarked: Option<String>,
    found: Verification,
}

impl Inspector<'_> {
    /// Notes a file.
    fn file(&mut self, file: &str, damages: impl IntoIterator<Item = Damage>) {
        let sizes = self.storage.open(file, OpenMode::Read);
        let sizes = sizes.and_then(|file| Ok((file.len_bytes()?, file.disk_bytes()?)));
        let (bytes, disk_bytes) = sizes.unwrap_or_default();
        let damages = damages.into_iter().collect();
        self.found.files.push(FileReport { file: file.into(), bytes, disk_bytes, damages });
    }

    /// Reads the mark of an orderly close. A damaged mark is an error of opening, and the rest is then read as after
    /// a crash.
    fn inspect_mark(&mut self, database: DatabaseId) {
        let damage = match Closed::read(self.storage, database) {
            Ok(None) => return,
            Ok(Some(closed)) => {
                self.closed = Some(closed);
                self.found.was_closed = true;
                None
            }
            Err(error) => {
                self.unmarked = Some(error.to_string());
                Some(Damage::of(Closed::FILE, &error))
            }
        };
        self.file(Closed::FILE, damage);
    }

    /// Returns what the mark says of the log's end, whether or not it is good.
    fn ending(&self) -> Ending {
        match (self.closed, &self.unmarked) {
            (Some(closed), _) => Ending::At(closed.end),
            (None, Some(_)) => Ending::Unknown,
            (None, None) => Ending::Open,
        }
    }

    /// Notes that the newest checkpoint is missing, or that it is not the mark's.
    fn inspect_numbers(&mut self, numbers: &[u64]) -> Option<String> {
        match mark::missing_checkpoint(self.closed.as_ref(), numbers) {
            Ok(None) => None,
            Ok(Some((number, error))) => {
                self.found.missing.push(Damage::of(Manifest::file(number), &error));
                Some(error.to_string())
            }
            Err(error) => {
                self.untrue(&error);
                None
            }
        }
    }

    /// Notes that the mark contradicts the other files.
    fn untrue(&mut self, error: &checkpoint::Error) {
        self.unmarked = Some(error.to_string());
        let damage = Damage::of(Closed::FILE, error);
        let files = self.found.files.iter_mut();
        files.filter(|file| file.file == Closed::FILE).for_each(|file| file.damages.push(damage.clone()));
    }

    fn inspect(&mut self, database: DatabaseId) -> Result<()> {
        self.inspect_mark(database);
        let numbers = checkpoint::list(self.storage)?;
        let (mut manifests, mut chosen) = (Vec::new(), None);
        let mut failure = self.inspect_numbers(&numbers);
        for number in numbers {
            let file = Manifest::file(number);
            match checkpoint::read(self.storage, database, number) {
                Ok(manifest) => {
                    self.file(&file, []);
                    if self.inspect_checkpoint(database, &manifest) {
                        (chosen, self.refused) = (Some(manifest.clone()), None);
                    } else {
                        failure = Some(format!("checkpoint {number} is damaged"));
                    }
                    manifests.push(manifest);
                }
                Err(error) => {
                    failure = Some(error.to_string());
                    let damage = self.damage(&file, &error);
                    self.file(&file, [damage]);
                }
            }
        }
        let oldest = manifests.iter().map(|manifest| manifest.start_lsn).min().unwrap_or_default();
        self.inspect_log(database, oldest)?;
        self.found.rows = chosen.as_ref().map_or(0, Manifest::rows);
        self.found.outlook = self.outlook(database, chosen.as_ref(), failure)?;
        Ok(())
    }

    /// Returns the result of a recovery that chooses the checkpoint `chosen`. `failure` says why it does not choose a
    /// newer one.
    fn outlook(
        &mut self,
        database: DatabaseId,
        chosen: Option<&Manifest>,
        failure: Option<String>,
    ) -> Result<OpenCheck> {
        let checkpoint = chosen.map(|chosen| chosen.number);
        let replayed = would_replay(self.storage, database, self.closed.as_ref(), chosen, self.ending());
        let named = self.closed.map(|closed| closed.checkpoint).filter(|number| *number > 0);
        let is_newest = checkpoint == checkpoint::list(self.storage)?.last().copied().max(named);
        let reader = Reader::with_ending(self.storage, database, Lsn(0), Ending::Unknown);
        let has_log = reader.is_ok_and(|reader| reader.has_begun());
        let is_unlogged =
            self.closed.is_some_and(|closed| closed.is_unlogged) || !has_fallback(self.storage)?;
        if !is_newest && (is_unlogged || (checkpoint.is_none() && !has_log)) {
            self.refused = self.refused.take().or_else(|| failure.clone());
        }
        let error = match (self.unmarked.take().or(self.refused.take()), replayed) {
            (Some(reason), _) => return Ok(OpenCheck::Refused { reason }),
            (None, Ok(end)) => {
                self.found.end = end;
                return Ok(OpenCheck::Opens { checkpoint });
            }
            (None, Err(error)) => error,
        };
        match &error {
            Error::Checkpoint(error) => self.untrue(error),
            // This includes a segment that is not needed.
            Error::Log(wal::Error::Foreign { file, .. })
                if !self.found.damages().any(|d| d.file == *file) =>
            {
                let (file, reason) = (file.clone(), error.to_string());
                self.found.missing.push(Damage { file, offset: Some(0), lsn: None, reason });
            }
            _ => {}
        }
        // If the log is too short without a checkpoint, the failure of the checkpoints is the reason.
        let is_short = matches!(error, Error::Log(wal::Error::Missing { .. }));
        let failure = failure.filter(|_| checkpoint.is_none() && is_short);
        Ok(OpenCheck::Refused { reason: failure.unwrap_or_else(|| error.to_string()) })
    }

    /// Returns what is wrong with a file of a checkpoint.
    fn damage(&mut self, file: &str, error: &checkpoint::Error) -> Damage {
        if !matches!(error, checkpoint::Error::Damaged { .. }) {
            self.refused = Some(error.to_string());
        }
        Damage::of(file, error)
    }

    /// Reads the rows of a checkpoint. Returns true if all are good.
    fn inspect_checkpoint(&mut self, database: DatabaseId, manifest: &Manifest) -> bool {
        let (mut is_good, mut done, total) = (true, 0, manifest.rows());
        let of_tables =
            manifest.tables.iter().flat_map(|entry| entry.files().map(|rows| (entry.table.fixed8, *rows)));
        for (fixed8, rows) in of_tables {
            let file = rows.file();
            let before = self.read.get(&file).filter(|(before, _)| *before == rows);
            is_good &= match before {
                Some((_, is_good)) => *is_good,
                None => {
                    let damages = self.inspect_rows(database, &rows, fixed8, done, total);
                    let is_good = damages.is_empty();
                    self.file(&file, damages);
                    self.read.insert(file, (rows, is_good));
                    is_good
                }
            };
            done += rows.rows;
        }
        is_good
    }

    fn inspect_rows(
        &mut self,
        database: DatabaseId,
        rows: &RowsFile,
        fixed8: bool,
        mut done: u64,
        total: u64,
    ) -> Vec<Damage> {
        let file = rows.file();
        let reader = match RowsReader::open(self.storage, database, rows, fixed8) {
            Ok(reader) => reader,
            Err(error) => return vec![self.damage(&file, &error)],
        };
        let (mut damages, mut block) = (Vec::new(), Block::new());
        for number in 0..reader.blocks() {
            if let Err(error) = reader.read_block(number, &mut block) {
                damages.push(self.damage(&file, &error));
            }
            done += reader.rows_of(number);
            (self.progress)(&Progress { stage: RecoveryStage::Checkpoint, done, total: Some(total) });
        }
        damages
    }

    fn inspect_log(&mut self, database: DatabaseId, start: Lsn) -> Result<()> {
        let mut remains = Remains::open(self.storage, database, start, self.ending())?;
        let mut gaps = Vec::new();
        while let Some(remnant) = remains.next_remnant() {
            match remnant {
                Remnant::Gap(gap) => gaps.push(Damage::from(gap)),
                Remnant::Record(record) => {
                    self.found.records += 1;
                    self.found.log_bytes += record.end_lsn.0 - record.lsn.0;
                    let done = self.found.records;
                    (self.progress)(&Progress { stage: RecoveryStage::Log, done, total: None });
                }
            }
        }
        self.found.cut = remains.cut();
        for (file, _) in remains.files() {
            let damages: Vec<Damage> = gaps.extract_if(.., |gap| gap.file == file).collect();
            self.file(&file, damages);
        }
        self.found.missing.extend(gaps);
        Ok(())
    }
}

/// Reads the log over this checkpoint as recovery does. Returns where it ends.
fn would_replay(
    storage: &dyn Storage,
    database: DatabaseId,
    closed: Option<&Closed>,
    over: Option<&Manifest>,
    ending: Ending,
) -> Result<End> {
    let tail = replay(storage, database, ending, over)?;
    if let Some(closed) = closed {
        mark::check_log(closed, &tail)?;
    }
    match over.map(|manifest| manifest.end_lsn).filter(|needed| *needed > tail.lsn()) {
        Some(lsn) => Err(tail.missing(lsn).into()),
        None => Ok(tail.end()),
    }
}

/// Reads the log over this checkpoint to its end.
fn replay(
    storage: &dyn Storage,
    database: DatabaseId,
    ending: Ending,
    over: Option<&Manifest>,
) -> Result<Tail> {
    let mut catalog = Catalog::default();
    for entry in over.iter().flat_map(|manifest| &manifest.tables) {
        if !catalog.add(entry.table.clone(), true) {
            let (table, number) = (entry.table.name.clone(), entry.table.number);
            return Err(Error::CatalogDamaged { table, number });
        }
    }
    let start = over.map_or(Lsn(0), |manifest| manifest.start_lsn);
    let mut reader = Reader::with_ending(storage, database, start, ending)?;
    while let Some(record) = reader.next_record()? {
        check_record(&mut catalog, &record).map_err(|reason| wal::Error::Damaged {
            file: "log".into(),
            offset: 0,
            lsn: record.lsn,
            reason,
        })?;
    }
    Ok(reader.finish()?)
}
