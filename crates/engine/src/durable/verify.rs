//! Looking at all files of a database that is not open: which are good, and whether it would open.

use super::damage::{Catalog, Damage, check_finished, check_record, has_fallback, lock_to_read};
use super::{Progress, Stage};
use crate::checkpoint::{self, Block, Identity, Manifest, RowsFile, RowsReader};
use crate::error::{Error, Result};
use crate::storage::{OpenMode, Storage};
use crate::wal::{self, DatabaseId, Lsn, Reader, Remains, Remnant};
use std::collections::BTreeMap;

/// Whether a database would open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It would.
    Opens {
        /// With this checkpoint; none: with the log alone.
        checkpoint: Option<u64>,
    },
    /// It would not.
    Refused {
        /// Why not.
        reason: String,
    },
}

/// What the files of a database are like.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verification {
    /// Which database it is; none if that cannot be read.
    pub database: Option<u128>,
    /// Whether others were kept from writing meanwhile. They were not where no lock can be made, as on a read-only
    /// medium.
    pub was_locked: bool,
    /// Every file that is needed: good, or what is wrong with it.
    pub files: Vec<FileReport>,
    /// What is missing besides, and in which file that would be.
    pub missing: Vec<Damage>,
    /// Whether the database would open.
    pub outlook: Outlook,
    /// Rows of that checkpoint.
    pub rows: u64,
    /// Good records of the log, from the start of the oldest checkpoint on.
    pub records: u64,
    /// How many bytes of the log they take.
    pub log_bytes: u64,
    /// Bytes at the end of the log of writes that were never completed, hence never acknowledged: no damage.
    pub dropped_bytes: u64,
    /// Whether the database was closed in order.
    pub was_closed: bool,
}

/// A file of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// The file.
    pub file: String,
    /// How long it is.
    pub bytes: u64,
    /// What is wrong with it, if anything is.
    pub damages: Vec<Damage>,
}

impl Verification {
    /// Nothing was found yet.
    fn new() -> Verification {
        Verification {
            database: None,
            was_locked: false,
            files: Vec::new(),
            missing: Vec::new(),
            outlook: Outlook::Opens { checkpoint: None },
            rows: 0,
            records: 0,
            log_bytes: 0,
            dropped_bytes: 0,
            was_closed: false,
        }
    }

    /// Whether everything is as it was written, and the database would open.
    pub fn is_good(&self) -> bool {
        self.damages().next().is_none() && self.would_open()
    }

    /// Whether the database would open, perhaps in spite of damage.
    pub fn would_open(&self) -> bool {
        matches!(self.outlook, Outlook::Opens { .. })
    }

    /// All that is wrong.
    pub fn damages(&self) -> impl Iterator<Item = &Damage> {
        self.files.iter().flat_map(|file| &file.damages).chain(&self.missing)
    }
}

/// Reads all files of a database that nobody has open: its identity, every checkpoint with every block of rows, and the
/// log from the oldest checkpoint on. Changes nothing. `progress` is told how far it is: of checkpoints, rows; of the
/// log, records.
///
/// An error if there is no database, or another process has it; damage is no error.
pub fn verify(storage: &dyn Storage, progress: &mut dyn FnMut(&Progress)) -> Result<Verification> {
    let lock = lock_to_read(storage)?;
    check_finished(storage)?;
    let mut verification = inspect(storage, progress)?;
    verification.was_locked = lock.is_some();
    Ok(verification)
}

/// As [`verify`], for who has the lock.
pub(super) fn inspect(storage: &dyn Storage, progress: &mut dyn FnMut(&Progress)) -> Result<Verification> {
    let mut inspector =
        Inspector { storage, progress, read: BTreeMap::new(), refused: None, found: Verification::new() };
    let database = match Identity::read(storage) {
        Ok(Some(identity)) => identity.database,
        Ok(None) => return Err(Error::NoDatabase),
        // What is no identity, beside other files of a database, was one.
        Err(error) if is_damage(storage, &error) => {
            inspector.file(Identity::FILE, [Damage::of(Identity::FILE, &error)]);
            inspector.found.outlook = Outlook::Refused { reason: error.to_string() };
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
    /// The files of rows that were read, and whether they are good: several checkpoints may have one.
    read: BTreeMap<String, (RowsFile, bool)>,
    /// Why recovery would not go over to an older checkpoint: what failed is no damage.
    refused: Option<String>,
    found: Verification,
}

impl Inspector<'_> {
    /// Notes a file.
    fn file(&mut self, file: &str, damages: impl IntoIterator<Item = Damage>) {
        let bytes = self.storage.open(file, OpenMode::Read).and_then(|file| file.len_bytes()).unwrap_or(0);
        let damages = damages.into_iter().collect();
        self.found.files.push(FileReport { file: file.into(), bytes, damages });
    }

    fn inspect(&mut self, database: DatabaseId) -> Result<()> {
        let (mut manifests, mut chosen, mut failure) = (Vec::new(), None, None);
        for number in checkpoint::list(self.storage)? {
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
        let checkpoint = chosen.as_ref().map(|chosen| chosen.number);
        self.found.rows = chosen.as_ref().map_or(0, Manifest::rows);
        let replayed = would_replay(self.storage, database, chosen.as_ref());
        let is_newest = checkpoint == checkpoint::list(self.storage)?.last().copied();
        let has_log = Reader::open(self.storage, database, Lsn(0)).is_ok_and(|reader| reader.has_begun());
        if !is_newest && (!has_fallback(self.storage)? || (checkpoint.is_none() && !has_log)) {
            self.refused = self.refused.take().or_else(|| failure.clone());
        }
        self.found.outlook = match (self.refused.take(), replayed) {
            (Some(reason), _) => Outlook::Refused { reason },
            (None, Ok(())) => Outlook::Opens { checkpoint },
            (None, Err(error)) => {
                // Without a checkpoint the log is too short: for want of a checkpoint.
                let is_short = matches!(error, Error::Log(wal::Error::Missing { .. }));
                let failure = failure.filter(|_| checkpoint.is_none() && is_short);
                Outlook::Refused { reason: failure.unwrap_or_else(|| error.to_string()) }
            }
        };
        Ok(())
    }

    /// What is wrong with a file of a checkpoint.
    fn damage(&mut self, file: &str, error: &checkpoint::Error) -> Damage {
        if !matches!(error, checkpoint::Error::Damaged { .. }) {
            self.refused = Some(error.to_string());
        }
        Damage::of(file, error)
    }

    /// Reads the rows of a checkpoint; true: all are good.
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
            (self.progress)(&Progress { stage: Stage::Checkpoint, done, total: Some(total) });
        }
        damages
    }

    fn inspect_log(&mut self, database: DatabaseId, start: Lsn) -> Result<()> {
        let mut remains = Remains::open(self.storage, database, start)?;
        let mut gaps = Vec::new();
        while let Some(remnant) = remains.next_remnant() {
            match remnant {
                Remnant::Gap(gap) => gaps.push(Damage::from(gap)),
                Remnant::Record(record) => {
                    self.found.records += 1;
                    self.found.log_bytes += record.end_lsn.0 - record.lsn.0;
                    let done = self.found.records;
                    (self.progress)(&Progress { stage: Stage::Log, done, total: None });
                }
            }
        }
        self.found.dropped_bytes = remains.dropped_bytes();
        self.found.was_closed = remains.is_closed();
        for (file, _) in remains.files() {
            let damages: Vec<Damage> = gaps.extract_if(.., |gap| gap.file == file).collect();
            self.file(&file, damages);
        }
        self.found.missing.extend(gaps);
        Ok(())
    }
}

/// Reads the log as recovery does, over this checkpoint.
fn would_replay(storage: &dyn Storage, database: DatabaseId, over: Option<&Manifest>) -> Result<()> {
    let mut catalog = Catalog::default();
    for entry in over.iter().flat_map(|manifest| &manifest.tables) {
        if !catalog.add(entry.table.clone()) {
            let (table, number) = (entry.table.name.clone(), entry.table.number);
            return Err(Error::CatalogDamaged { table, number });
        }
    }
    let start = over.map_or(Lsn(0), |manifest| manifest.start_lsn);
    let mut reader = Reader::open(storage, database, start)?;
    while let Some(record) = reader.next_record()? {
        check_record(&mut catalog, &record).map_err(|reason| wal::Error::Damaged {
            file: "log".into(),
            offset: 0,
            lsn: record.lsn,
            reason,
        })?;
    }
    let end_lsn = reader.finish()?.lsn();
    match over.map(|manifest| manifest.end_lsn).filter(|needed| *needed > end_lsn) {
        Some(lsn) => Err(wal::Error::Missing { lsn }.into()),
        None => Ok(()),
    }
}
