//! Copies a database that is in use, without its help. The copy relies on what the files promise to readers.
//!
//! A checkpoint needs its files of rows, which no longer change, and the log from its start to its end or beyond.
//! Both may be given up during the copy in favor of newer checkpoints. The copy then begins again with a newer
//! checkpoint.

use super::damage::{
    begin_copy, check_finished, clear_copy, end_copy, lock_empty, note_unlogged, unlogged_times,
};
use super::verify::{OpenCheck, inspect};
use crate::checkpoint::{self, Closed, Identity, Manifest, TableEntry};
use crate::error::{Error, Result};
use crate::storage::{OpenMode, Storage};
use crate::wal::{self, Lsn};
use std::io::ErrorKind;

/// How often a copy is begun. Each new beginning means that two checkpoints were made during the copy before.
const ATTEMPTS_MAX: u32 = 8;

/// How many bytes of a file of rows are copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// The checkpoint in the copy; none if the copy has only the log.
    pub checkpoint: Option<u64>,
    /// How many rows the checkpoint has.
    pub rows: u64,
    /// How many records the log has beyond the checkpoint.
    pub records: u64,
    /// How many bytes the files take on the device.
    pub bytes: u64,
    /// How often the copy was begun.
    pub attempts: u32,
}

/// Copies a database to an empty directory. This or another process may be using the database meanwhile. The copy has
/// what was durable when this began, and some of what came later, as a crash would leave it. The copy is durable, and
/// has been read as recovery would read it.
///
/// The copy has the mark of an orderly close: if anything is missing later, that is an error. Only the newest
/// checkpoint is copied. An unfinished copy is refused when it is opened.
pub fn backup(from: &dyn Storage, to: &dyn Storage) -> Result<Backup> {
    check_finished(from)?;
    if Identity::read(from)?.is_none() {
        return Err(Error::NoDatabase);
    }
    let _lock = lock_empty(to)?;
    begin_copy(to)?;
    let mut reason = String::new();
    for attempts in 1..=ATTEMPTS_MAX {
        match copy(from, to) {
            Ok(backup) => {
                end_copy(to)?;
                return Ok(Backup { attempts, ..backup });
            }
            Err(Failed::Moved(why)) => reason = why,
            Err(Failed::For(error)) => return Err(error),
        }
        clear_copy(to)?;
    }
    // Nothing is left of the copy.
    end_copy(to)?;
    Err(Error::BackupFailed { attempts: ATTEMPTS_MAX, reason })
}

/// Why an attempt failed.
enum Failed {
    /// Files went away, or did not fit together. Another attempt may find newer ones.
    Moved(String),
    For(Error),
}

impl<E: Into<Error>> From<E> for Failed {
    fn from(error: E) -> Failed {
        let error = error.into();
        let storage = match &error {
            Error::Storage(error) => Some(error),
            Error::Checkpoint(checkpoint::Error::Storage(error)) => Some(&**error),
            Error::Log(wal::Error::Storage(error)) => Some(&**error),
            _ => None,
        };
        match storage.map(|error| error.kind()) {
            Some(ErrorKind::NotFound | ErrorKind::UnexpectedEof) => Failed::Moved(error.to_string()),
            _ => Failed::For(error),
        }
    }
}

/// Makes one attempt.
fn copy(from: &dyn Storage, to: &dyn Storage) -> Result<Backup, Failed> {
    let database = Identity::read(from)?.ok_or(Error::NoDatabase)?.database;
    let newest = checkpoint::list(from)?.pop();
    let manifest = newest.map(|number| checkpoint::read(from, database, number)).transpose()?;
    // The contents of a closed database are known. If it is opened meanwhile, they do not fit, and the copy begins
    // again.
    let closed = Closed::read(from, database)?;
    // The log is copied first. A checkpoint counts when the log is durable up to its end, so what is copied now
    // reaches that end.
    let start_lsn = manifest.as_ref().map_or(Lsn(0), |manifest| manifest.start_lsn);
    if !wal::copy(from, to, database, start_lsn)? {
        return Err(Failed::Moved("the log was given up while it was copied".into()));
    }
    let tables = manifest.iter().flat_map(|manifest| &manifest.tables);
    for file in tables.flat_map(TableEntry::files) {
        copy_file(from, to, &file.file())?;
    }
    match &manifest {
        Some(manifest) => checkpoint::publish(to, database, manifest)?,
        None => to.sync_directory()?,
    }
    let times = unlogged_times(from)?;
    let is_unlogged = times > 0;
    if is_unlogged {
        note_unlogged(to, times)?;
    }
    if let Some(closed) = &closed {
        closed.publish(to, database)?;
    }
    Identity::create(to, database)?;
    let found = inspect(to, &mut |_| {})?;
    if let Some(damage) = found.damages().next() {
        return Err(Failed::Moved(damage.to_string()));
    }
    if let OpenCheck::Refused { reason } = found.outlook {
        return Err(Failed::Moved(reason));
    }
    let checkpoint = manifest.as_ref().map(|manifest: &Manifest| manifest.number);
    let closed = match closed {
        Some(closed) => closed,
        None => {
            // Nothing writes to the copy until it is opened. From now on all damage to it is noticed.
            let closed = Closed { end: found.end, checkpoint: checkpoint.unwrap_or_default(), is_unlogged };
            closed.publish(to, database)?;
            closed
        }
    };
    wal::trim(to, database, &closed.end)?;
    let mut bytes = 0;
    for file in &found.files {
        bytes += to.open(&file.file, OpenMode::Read)?.disk_bytes()?;
    }
    Ok(Backup { checkpoint, rows: found.rows, records: found.records, bytes, attempts: 1 })
}

/// Copies a file that no longer changes.
fn copy_file(from: &dyn Storage, to: &dyn Storage, name: &str) -> Result<(), Failed> {
    let file = from.open(name, OpenMode::Read)?;
    let copy = to.open(name, OpenMode::CreateNew)?;
    let (len_bytes, mut offset) = (file.len_bytes()?, 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    while offset < len_bytes {
        let bytes = CHUNK_BYTES.min(usize::try_from(len_bytes - offset).unwrap_or(CHUNK_BYTES));
        file.read_exact_at(offset, &mut chunk[..bytes])?;
        copy.write_all_at(offset, &chunk[..bytes])?;
        offset += bytes as u64;
    }
    Ok(copy.sync_data()?)
}
