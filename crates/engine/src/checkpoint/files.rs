//! Which files there are; how a small file is published and read.

use super::error::damaged;
use super::format::Name;
use super::{Error, Result};
use crate::storage::{File, OpenMode, Storage};
use std::io::ErrorKind;

/// The files of checkpoints, with what they are.
pub(super) fn names(storage: &dyn Storage) -> Result<Vec<Name>> {
    Ok(storage.list()?.iter().filter_map(|file| Name::parse(file)).collect())
}

/// The number for a new checkpoint: higher than that of any file there is, finished or not, so that no file is
/// ever taken for one that was written before under the same name.
pub fn number_next(storage: &dyn Storage) -> Result<u64> {
    let last = names(storage)?.into_iter().max_by_key(|name| name.checkpoint());
    let Some((last, number)) = last.and_then(|name| Some((name, name.checkpoint()?))) else { return Ok(1) };
    number
        .checked_add(1)
        .ok_or_else(|| damaged(last.to_string(), 0, "no number is left for another checkpoint"))
}

/// Writes a file under a temporary name and gives it its own when it is whole and durable. What is durable when
/// this begins, names excepted, and all names that exist then, are durable before the file has its name.
pub(super) fn publish_file(storage: &dyn Storage, temporary: Name, name: Name, bytes: &[u8]) -> Result<()> {
    let (temporary, name) = (temporary.to_string(), name.to_string());
    let file = create_anew(storage, &temporary)?;
    file.write_all_at(0, bytes)?;
    file.sync_data()?;
    storage.sync_directory()?;
    storage.rename(&temporary, &name)?;
    Ok(storage.sync_directory()?)
}

/// A new file, in place of one that an attempt before has left. What that holds is not known.
fn create_anew(storage: &dyn Storage, name: &str) -> Result<Box<dyn File>> {
    match storage.open(name, OpenMode::CreateNew) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            storage.remove(name)?;
            Ok(storage.open(name, OpenMode::CreateNew)?)
        }
        file => Ok(file?),
    }
}

/// The file, or none if there is no such name.
pub(super) fn open(storage: &dyn Storage, name: Name) -> Result<Option<Box<dyn File>>> {
    match storage.open(&name.to_string(), OpenMode::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        file => Ok(Some(file?)),
    }
}

/// All bytes of a file that can be no longer than this.
pub(super) fn read_all(file: &dyn File, bytes_max: u64) -> Result<Vec<u8>> {
    let len_bytes = file.len_bytes()?;
    if len_bytes > bytes_max {
        return Err(damaged(file.name(), bytes_max, "the file is longer than it can be"));
    }
    let mut bytes = vec![0; len_bytes as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// An error if there are more bytes than there may be.
pub(super) fn check_bytes(file: &str, bytes: u64, bytes_max: u64) -> Result<()> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(Error::TooLarge { file: file.to_string(), bytes, bytes_max })
}
