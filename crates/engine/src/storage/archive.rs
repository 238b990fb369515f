//! Where finished files go before they are given up.

use super::{File, OpenMode, Storage, StorageError};
use std::fmt;
use std::io::ErrorKind;

/// How many bytes are copied at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Why a file could not be archived.
pub type ArchiveError = Box<dyn std::error::Error + Send + Sync>;

/// Keeps copies of the segments of a log, for restorations to times for which the database itself has given up the
/// needed segments.
///
/// Each finished segment is offered in order, from a thread that also writes checkpoints. Transactions do not wait
/// for it. The database gives a segment up only after it was kept. While keeping fails, the log grows, and the
/// segment is offered again twice a second.
pub trait Archive: Send + Sync + fmt::Debug + 'static {
    /// Keeps a copy of this file under its name. When this returns `Ok`, the copy is as durable as it will be, and
    /// the database may remove the file at once. A file that was kept before may be offered again, with the same
    /// contents.
    fn keep(&self, file: &dyn File, name: &str) -> Result<(), ArchiveError>;
}

/// An archive in a directory. Each file is copied under another name, synced, and renamed to its own.
#[derive(Debug)]
pub struct DirectoryArchive<S> {
    storage: S,
}

impl<S: Storage> DirectoryArchive<S> {
    /// Makes an archive in this directory.
    pub fn new(storage: S) -> DirectoryArchive<S> {
        DirectoryArchive { storage }
    }

    /// Returns true if the copy exists. Fails if something else has its name.
    fn has(&self, file: &dyn File, name: &str) -> Result<bool, ArchiveError> {
        let copy = match self.storage.open(name, OpenMode::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            copy => copy?,
        };
        let is_same = copy.len_bytes()? == file.len_bytes()? && {
            let (mut is_same, mut theirs) = (true, vec![0; CHUNK_BYTES]);
            for_each_chunk(file, |offset, chunk| {
                copy.read_exact_at(offset, &mut theirs[..chunk.len()])?;
                is_same &= theirs[..chunk.len()] == *chunk;
                Ok(())
            })?;
            is_same
        };
        if is_same {
            return Ok(true);
        }
        Err(format!(
            "the archive has another {name:?}: it is of another database, or was damaged; move it away, or choose \
             another archive"
        )
        .into())
    }
}

impl<S: Storage + 'static> Archive for DirectoryArchive<S> {
    fn keep(&self, file: &dyn File, name: &str) -> Result<(), ArchiveError> {
        if self.has(file, name)? {
            // The process that put it there may not have reached this sync.
            return Ok(self.storage.sync_directory()?);
        }
        let temporary = format!("{name}.new");
        match self.storage.remove(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let copy = self.storage.open(&temporary, OpenMode::CreateNew)?;
        copy.truncate(file.len_bytes()?)?;
        for_each_chunk(file, |offset, chunk| {
            // What was never written stays a hole.
            if chunk.iter().any(|byte| *byte != 0) { copy.write_all_at(offset, chunk) } else { Ok(()) }
        })?;
        copy.sync_data()?;
        self.storage.rename(&temporary, name)?;
        Ok(self.storage.sync_directory()?)
    }
}

fn for_each_chunk(
    file: &dyn File,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let (len_bytes, mut offset, mut chunk) = (file.len_bytes()?, 0, vec![0; CHUNK_BYTES]);
    while offset < len_bytes {
        let bytes = CHUNK_BYTES.min(usize::try_from(len_bytes - offset).unwrap_or(CHUNK_BYTES));
        file.read_exact_at(offset, &mut chunk[..bytes])?;
        take(offset, &chunk[..bytes])?;
        offset += bytes as u64;
    }
    Ok(())
}
