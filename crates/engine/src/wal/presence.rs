//! Checks whether the segment that is being written still has its name.
//!
//! A process can still write and sync a file after somebody else has removed, moved or replaced it, without an error.
//! Its contents are lost all the same, because recovery finds files by their names. So the name is checked twice a
//! second, and when the next segment begins.

use super::format::name;
use crate::storage::{File, OpenMode, Operation, Storage, StorageError};
use crate::sync::{Arc, Mutex, lock};
use std::fmt;
use std::io::{self, ErrorKind};

/// Knows the segment that began last. `check` does not run while the database gives up that segment: a checkpoint
/// that lets go of it begins after another segment has begun.
pub(super) struct Presence {
    storage: Arc<dyn Storage>,
    /// The segment's number, and its file's [`File::id`].
    segment: Mutex<Option<(u64, Option<u128>)>>,
}

impl Presence {
    pub(super) fn new(storage: Arc<dyn Storage>) -> Presence {
        Presence { storage, segment: Mutex::new(None) }
    }

    /// Notes that a segment has begun in `file`. If the file's id cannot be read, only the name is checked.
    pub(super) fn begun(&self, number: u64, file: &dyn File) {
        *lock(&self.segment) = Some((number, file.id().ok().flatten()));
    }

    /// Fails if the segment's name leads to nothing or to another file. Any other failure of the check proves
    /// nothing.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        let segment = *lock(&self.segment);
        let Some((number, id)) = segment else { return Ok(()) };
        let found = match self.storage.open(&name(number), OpenMode::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(_) => return Ok(()),
            Ok(file) => match file.id() {
                Ok(found) => Some(found),
                Err(_) => return Ok(()),
            },
        };
        let is_there = found == Some(id);
        // Another segment may have begun meanwhile.
        if is_there || *lock(&self.segment) != segment {
            return Ok(());
        }
        Err(self.lost(&name(number)))
    }

    /// Returns the error that `file` is gone, which must exist while the database is open.
    pub(super) fn lost(&self, file: &str) -> StorageError {
        let shown =
            self.storage.path().map_or_else(|| file.into(), |path| path.join(file).display().to_string());
        let what = "somebody else has removed, moved or replaced the file while the database is open; what was \
                    committed last may be lost";
        StorageError::io(Operation::Write, shown, io::Error::new(ErrorKind::NotFound, what))
    }
}

impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presence").field("segment", &*lock(&self.segment)).finish_non_exhaustive()
    }
}
