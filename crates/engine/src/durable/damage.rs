//! What is wrong with the files of a database, in the terms of the tools that check them.

use crate::checkpoint;
use crate::error::{Error, Result};
use crate::storage::{Holder, LockGuard, OpenMode, Operation, Storage};
use crate::wal::{self, Gap};
use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::time::{SystemTime, UNIX_EPOCH};

/// Something in a database's files that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// The position in the file, if it is known.
    pub offset: Option<u64>,
    /// The position in the log, for a file of the log.
    pub lsn: Option<u64>,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        if let Some(lsn) = self.lsn {
            write!(f, " (lsn {lsn})")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl From<Gap> for Damage {
    fn from(gap: Gap) -> Damage {
        let Gap { file, offset, lsn, reason, .. } = gap;
        Damage { file, offset: Some(offset), lsn: Some(lsn.0), reason }
    }
}

impl Damage {
    /// Returns what an error of reading this file of a checkpoint says.
    pub(super) fn of(file: impl Into<String>, error: &checkpoint::Error) -> Damage {
        let (offset, reason) = match error {
            checkpoint::Error::Damaged { offset, reason, .. } => (Some(*offset), (*reason).to_string()),
            checkpoint::Error::Storage(error) => (error.offset(), error.to_string()),
            error => (None, error.to_string()),
        };
        Damage { file: file.into(), offset, lsn: None, reason }
    }
}

/// Keeps others from writing to a database that is only read here. Returns none if nothing can be written, not even a
/// lock, because the medium is read-only or this user lacks the permission.
pub(super) fn lock_to_read(storage: &dyn Storage) -> Result<Option<LockGuard>> {
    match storage.lock(&holder()) {
        Ok(guard) => Ok(Some(guard)),
        Err(error)
            if error.operation() == Operation::Lock
                && matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) =>
        {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns this process as a holder from now on.
pub(crate) fn holder() -> Holder {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Holder::this_process(now_s)
}

/// The existing tables by their numbers, as the catalog's records make them, one after the other.
#[derive(Debug, Default)]
pub(super) struct Catalog(BTreeMap<u32, checkpoint::CatalogEntry>);

impl Catalog {
    /// Notes a table, or a new description of it. Returns false if another table is in its place. `has_gaps` is true
    /// for entries of a checkpoint, which omits tables that were dropped long before.
    pub(super) fn add(&mut self, entry: checkpoint::CatalogEntry, has_gaps: bool) -> bool {
        if let Some(existing) = self.0.get_mut(&entry.number) {
            let is_same = existing.is_of_same_table(&entry);
            if is_same {
                *existing = entry;
            }
            return is_same;
        }
        let is_free = entry.is_dropped || !self.0.values().any(|other| other.is_of(&entry.name));
        let next = self.0.last_key_value().map_or(0, |(number, _)| number + 1);
        let is_next = is_free && (entry.number == next || has_gaps && entry.number > next);
        if is_next {
            self.0.insert(entry.number, entry);
        }
        is_next
    }

    pub(super) fn has(&self, number: u32) -> bool {
        self.0.contains_key(&number)
    }
}

/// Checks a record as recovery reads it, and notes what it says of tables.
pub(super) fn check_record(catalog: &mut Catalog, record: &wal::Record<'_>) -> Result<(), &'static str> {
    if let Some(bytes) = record.catalog() {
        let entry = checkpoint::CatalogEntry::decode(bytes).ok_or("the record is no table")?;
        return if catalog.add(entry, false) {
            Ok(())
        } else {
            Err("the record makes a table that cannot be")
        };
    }
    match record.changes().all(|change| catalog.has(change.table)) {
        true => Ok(()),
        false => Err("the record changes a table that is not there"),
    }
}

/// A file that exists in a directory that is to become a copy of a database, until it is one.
const UNFINISHED: &str = "unfinished";

/// Locks the directory that is to become a copy of a database. Fails with [`Error::NotEmpty`] if it contains
/// anything, and then leaves no lock file in it.
pub(super) fn lock_empty(to: &dyn Storage) -> Result<LockGuard> {
    let check = || if to.list()?.is_empty() { Ok(()) } else { Err(Error::NotEmpty) };
    check()?;
    let lock = to.lock(&holder())?;
    check()?; // another process may have been faster
    Ok(lock)
}

/// Notes durably, in an empty directory, that its future contents are no database yet.
pub(super) fn begin_copy(to: &dyn Storage) -> Result<()> {
    to.open(UNFINISHED, OpenMode::CreateNew)?.sync_data()?;
    Ok(to.sync_directory()?)
}

/// Removes what was copied so far, which is useless. The copy begins again.
pub(super) fn clear_copy(to: &dyn Storage) -> Result<()> {
    let files = to.list()?;
    files.iter().filter(|file| *file != UNFINISHED).try_for_each(|file| Ok(to.remove(file)?))
}

/// Ends a copy that is whole and durable. It is a database as soon as this is durable.
pub(super) fn end_copy(to: &dyn Storage) -> Result<()> {
    to.sync_directory()?;
    to.remove(UNFINISHED)?;
    Ok(to.sync_directory()?)
}

/// Fails if a copy was not finished.
pub(super) fn check_finished(storage: &dyn Storage) -> Result<()> {
    if storage.list()?.iter().any(|name| name == UNFINISHED) { Err(Error::Unfinished) } else { Ok(()) }
}

/// A file that exists in a directory whose database has been open without a log. What its checkpoints have is then
/// nowhere else.
const UNLOGGED: &str = "unlogged";

/// Notes for good that the log does not cover the checkpoints, and how often the database has been open without one.
/// The file has a byte for each time but the first.
pub(super) fn note_unlogged(storage: &dyn Storage, times: u32) -> Result<()> {
    debug_assert!(times > unlogged_times(storage)?, "it is once more");
    let mode = if has_fallback(storage)? { OpenMode::CreateNew } else { OpenMode::ReadWrite };
    let file = storage.open(UNLOGGED, mode)?;
    if let Some(last) = u64::from(times).checked_sub(2)
        && file.len_bytes()? <= last
    {
        file.write_all_at(last, &[1])?;
    }
    file.sync_data()?;
    Ok(storage.sync_directory()?)
}

/// Returns how often the database has been opened without a log. No log has the changes of those times.
pub(super) fn unlogged_times(storage: &dyn Storage) -> Result<u32> {
    if has_fallback(storage)? {
        return Ok(0);
    }
    let len_bytes = storage.open(UNLOGGED, OpenMode::Read)?.len_bytes()?;
    Ok(u32::try_from(len_bytes).unwrap_or(u32::MAX).saturating_add(1))
}

/// Returns true if a damaged checkpoint may be skipped: the log has everything that it has beyond the previous
/// checkpoint.
pub(super) fn has_fallback(storage: &dyn Storage) -> Result<bool> {
    Ok(!storage.list()?.iter().any(|name| name == UNLOGGED))
}
