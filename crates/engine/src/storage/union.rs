//! Several directories, read as one.

use super::{File, Holder, LOCK_NAME, LockGuard, OpenMode, Operation, Result, Space, Storage, StorageError};
use crate::sync::Arc;
use std::io::ErrorKind;

/// A directory together with files of other directories. It can only be read: everything else fails as on a read-only
/// medium.
#[derive(Debug)]
pub struct Union {
    base: Arc<dyn Storage>,
    /// The other directories. If several have a file, the last one's counts.
    others: Vec<Arc<dyn Storage>>,
    /// Which files of the other directories count.
    counts: fn(&str) -> bool,
}

impl Union {
    /// Joins all files of `base` with those files of `others` whose names `counts` accepts. If several files have one
    /// name, the last directory's counts.
    pub fn new(base: Arc<dyn Storage>, others: Vec<Arc<dyn Storage>>, counts: fn(&str) -> bool) -> Union {
        Union { base, others, counts }
    }
}

fn refused<T>(operation: Operation, name: &str) -> Result<T> {
    Err(StorageError::io(operation, name, ErrorKind::ReadOnlyFilesystem.into()))
}

impl Storage for Union {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        match mode {
            OpenMode::Read => {}
            OpenMode::CreateNew => return refused(Operation::Create, name),
            OpenMode::ReadWrite => return refused(Operation::Open, name),
        }
        let others = if (self.counts)(name) { &self.others[..] } else { &[] };
        for other in others.iter().rev() {
            match other.open(name, mode) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                opened => return opened,
            }
        }
        self.base.open(name, mode)
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut names = self.base.list()?;
        for other in &self.others {
            names.extend(other.list()?.into_iter().filter(|name| (self.counts)(name)));
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<()> {
        refused(Operation::Remove, name)
    }

    fn rename(&self, from: &str, _: &str) -> Result<()> {
        refused(Operation::Rename, from)
    }

    fn sync_directory(&self) -> Result<()> {
        refused(Operation::SyncDirectory, "")
    }

    fn lock(&self, _: &Holder) -> Result<LockGuard> {
        refused(Operation::Lock, LOCK_NAME)
    }

    fn space(&self) -> Result<Option<Space>> {
        self.base.space()
    }
}
