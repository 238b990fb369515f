//! The look at whether the segment that is written still has its name.
//!
//! A file that somebody removes, moves away or replaces can still be written by a process that has it open, and synced
//! without an error. What is in it is lost all the same, since recovery finds files by their names. So the name is looked at
//! twice a second, and when the next segment begins.

use super::format::name;
use crate::storage::{File, OpenMode, Operation, Storage, StorageError};
use crate::sync::{Arc, Mutex, lock};
use std::fmt;
use std::io::{self, ErrorKind};

/// Knows the segment that has begun last. `check` does not run while the database gives up that segment: a checkpoint
/// that lets go of it begins after another one has begun.
pub(super) struct Presence {
    storage: Arc<dyn Storage>,
    /// Its number, and its file's [`File::id`].
    segment: Mutex<Option<(u64, Option<u128>)>>,
}

impl Presence {
    pub(super) fn new(storage: Arc<dyn Storage>) -> Presence {
        Presence { storage, segment: Mutex::new(None) }
    }

    /// A segment has begun, in this file. Without its id, which cannot be asked for, only the name is looked at.
    pub(super) fn begun(&self, number: u64, file: &dyn File) {
        *lock(&self.segment) = Some((number, file.id().ok().flatten()));
    }

    /// An error if the segment's name leads to nothing, or to another file. Any other failure to look says nothing.
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
        // (Another segment may have begun meanwhile.)
        if is_there || *lock(&self.segment) != segment {
            return Ok(());
        }
        Err(self.lost(&name(number)))
    }

    /// The error that this file is gone, of those that a database has as long as it is open.
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
