//! The existing files, and how a small file is published and read.

use super::error::damaged;
use super::format::Name;
use super::{Error, Result};
use crate::storage::{File, OpenMode, Storage};
use std::io::ErrorKind;

/// Returns the names of the existing files of checkpoints.
pub(super) fn names(storage: &dyn Storage) -> Result<Vec<Name>> {
    Ok(storage.list()?.iter().filter_map(|file| Name::parse(file)).collect())
}

/// Returns the number for a new checkpoint. It is higher than that of any existing file, finished or not, so that no
/// file is taken for an earlier one of the same name.
pub fn number_next(storage: &dyn Storage) -> Result<u64> {
    let last = names(storage)?.into_iter().max_by_key(|name| name.checkpoint());
    let Some((last, number)) = last.and_then(|name| Some((name, name.checkpoint()?))) else { return Ok(1) };
    number
        .checked_add(1)
        .ok_or_else(|| damaged(last.to_string(), 0, "no number is left for another checkpoint"))
}

/// Writes a file under a temporary name and renames it when it is whole and durable. Data that is durable when this
/// begins, and all names that exist then, are durable before the file gets its name.
pub(super) fn publish_file(storage: &dyn Storage, temporary: Name, name: Name, bytes: &[u8]) -> Result<()> {
    let (temporary, name) = (temporary.to_string(), name.to_string());
    let file = create_anew(storage, &temporary)?;
    file.write_all_at(0, bytes)?;
    file.sync_data()?;
    storage.sync_directory()?;
    storage.rename(&temporary, &name)?;
    Ok(storage.sync_directory()?)
}

/// Creates a file, in place of a file that an earlier attempt has left, whose contents are unknown.
fn create_anew(storage: &dyn Storage, name: &str) -> Result<Box<dyn File>> {
    match storage.open(name, OpenMode::CreateNew) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            storage.remove(name)?;
            Ok(storage.open(name, OpenMode::CreateNew)?)
        }
        file => Ok(file?),
    }
}

/// Opens the file, or returns none if the name does not exist.
pub(super) fn open(storage: &dyn Storage, name: Name) -> Result<Option<Box<dyn File>>> {
    match storage.open(&name.to_string(), OpenMode::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        file => Ok(Some(file?)),
    }
}

/// Reads all bytes of a file, which must not be longer than `bytes_max`.
pub(super) fn read_all(file: &dyn File, bytes_max: u64) -> Result<Vec<u8>> {
    let len_bytes = file.len_bytes()?;
    if len_bytes > bytes_max {
        return Err(damaged(file.name(), bytes_max, "the file is longer than it can be"));
    }
    let mut bytes = vec![0; len_bytes as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Fails if there are more bytes than allowed.
pub(super) fn check_bytes(file: &str, bytes: u64, bytes_max: u64) -> Result<()> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(Error::TooLarge { file: file.to_string(), bytes, bytes_max })
}
