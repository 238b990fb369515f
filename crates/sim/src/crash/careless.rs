//! Storages that make a careful database careless: they contain mistakes that the oracle must find.

use crate::storage::SimulatedStorage;
use braiddb::storage::{File, Holder, LockGuard, OpenMode, Operation, Result, Space, Storage};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A mistake of the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Careless {
    /// Files whose names begin with this prefix are not synced.
    DataUnsynced(&'static str),
    /// Files whose names begin with this prefix are not synced, unless the last write was to the file's head.
    BodyUnsynced(&'static str),
    /// The directory is not synced.
    NamesUnsynced,
    /// The directory is not synced after a file with this prefix was created or became the target of a rename.
    NameUnsynced(&'static str),
    /// The directory is not synced after a file with this prefix was created. Renames are synced.
    CreationUnsynced(&'static str),
    /// The directory is not synced after a file with this prefix became the target of a rename. Creations are synced.
    RenameUnsynced(&'static str),
    /// A failed sync of data is reported as successful.
    FailedSyncIgnored,
    /// A failed sync of data is repeated, and the second result counts.
    FailedSyncRepeated,
    /// A failed sync of the directory is repeated, and the second result counts.
    FailedNamesRepeated,
    /// A failed write is reported as successful.
    FailedWriteIgnored,
    /// A short write is reported as complete.
    ShortWriteIgnored,
    /// A write to a file with this prefix is held back until the next write to the file.
    WriteKeptBack(&'static str),
    /// Files whose names begin with this prefix are not removed.
    RemovalIgnored(&'static str),
    /// The removal of a file with this prefix is delayed until a file of the log has next been synced.
    RemovedLate(&'static str),
}

impl Careless {
    /// Returns the storage with this mistake in it.
    pub fn over(self, inner: &SimulatedStorage) -> impl Storage + 'static {
        CarelessStorage {
            inner: inner.clone(),
            careless: self,
            is_deaf: AtomicBool::new(false),
            to_remove: Arc::default(),
        }
    }
}

#[derive(Debug)]
struct CarelessStorage {
    inner: SimulatedStorage,
    careless: Careless,
    /// If true, the next sync of the directory is left out.
    is_deaf: AtomicBool,
    /// The file whose removal is delayed.
    to_remove: Arc<Mutex<Option<String>>>,
}

impl CarelessStorage {
    /// Decides whether to leave out the next sync of the directory, after this name was created or became the target of
    /// a rename.
    fn names(&self, name: &str, is_created: bool) {
        let is_struck = match self.careless {
            Careless::NameUnsynced(prefix) => name.starts_with(prefix),
            Careless::CreationUnsynced(prefix) => is_created && name.starts_with(prefix),
            Careless::RenameUnsynced(prefix) => !is_created && name.starts_with(prefix),
            _ => return,
        };
        self.is_deaf.store(is_struck, Ordering::Relaxed);
    }
}

impl Storage for CarelessStorage {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let inner: Arc<dyn File> = self.inner.open(name, mode)?.into();
        if mode == OpenMode::CreateNew {
            self.names(name, true);
        }
        Ok(Box::new(CarelessFile {
            inner,
            careless: self.careless,
            kept_back: Mutex::new(None),
            has_body: AtomicBool::new(false),
            storage: self.inner.clone(),
            to_remove: self.to_remove.clone(),
        }))
    }
    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }
    fn remove(&self, name: &str) -> Result<()> {
        match self.careless {
            Careless::RemovalIgnored(prefix) if name.starts_with(prefix) => Ok(()),
            Careless::RemovedLate(prefix)
                if name.starts_with(prefix) && self.list()?.contains(&name.into()) =>
            {
                *lock(&self.to_remove) = Some(name.to_string());
                Ok(())
            }
            _ => self.inner.remove(name),
        }
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.names(to, false);
        self.inner.rename(from, to)
    }
    fn sync_directory(&self) -> Result<()> {
        if self.careless == Careless::NamesUnsynced || self.is_deaf.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.inner.sync_directory().or_else(|error| match self.careless {
            Careless::FailedNamesRepeated => self.inner.sync_directory(),
            _ => Err(error),
        })
    }
    fn lock(&self, holder: &Holder) -> Result<LockGuard> {
        self.inner.lock(holder)
    }
    fn space(&self) -> Result<Option<Space>> {
        self.inner.space()
    }
}

#[derive(Debug)]
struct CarelessFile {
    inner: Arc<dyn File>,
    careless: Careless,
    kept_back: Mutex<Option<(u64, Vec<u8>)>>,
    /// True if the last write was not to the file's head.
    has_body: AtomicBool,
    storage: SimulatedStorage,
    to_remove: Arc<Mutex<Option<String>>>,
}

impl CarelessFile {
    /// Writes what was held back, and holds back `next`.
    fn write_kept_back(&self, next: Option<(u64, Vec<u8>)>) -> Result<()> {
        match std::mem::replace(&mut *lock(&self.kept_back), next) {
            Some((offset, data)) => self.inner.write_all_at(offset, &data),
            None => Ok(()),
        }
    }

    /// Removes the file whose removal was delayed, if this file is part of the log.
    fn remove_late(&self) -> Result<()> {
        match lock(&self.to_remove).take_if(|_| self.name().starts_with("log-")) {
            Some(name) => self.storage.remove(&name).and_then(|()| self.storage.sync_directory()),
            None => Ok(()),
        }
    }
}

impl File for CarelessFile {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.inner.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.has_body.store(offset > 0, Ordering::Relaxed);
        if let Careless::WriteKeptBack(prefix) = self.careless
            && self.name().starts_with(prefix)
        {
            self.write_kept_back(Some((offset, data.to_vec())))?;
            return Ok(data.len());
        }
        match (self.inner.write_at(offset, data), self.careless) {
            (Ok(_), Careless::ShortWriteIgnored) => Ok(data.len()),
            (Err(error), Careless::FailedWriteIgnored) if error.operation() == Operation::Write => {
                Ok(data.len())
            }
            (written, _) => written,
        }
    }
    fn preallocate(&self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.preallocate(offset, bytes)
    }
    fn truncate(&self, len_bytes: u64) -> Result<()> {
        self.inner.truncate(len_bytes)
    }
    fn sync_data(&self) -> Result<()> {
        let is_left_out = match self.careless {
            Careless::DataUnsynced(prefix) => self.name().starts_with(prefix),
            Careless::BodyUnsynced(prefix) => {
                self.has_body.load(Ordering::Relaxed) && self.name().starts_with(prefix)
            }
            _ => false,
        };
        if is_left_out {
            return Ok(());
        }
        self.inner.sync_data().or_else(|error| match self.careless {
            Careless::FailedSyncIgnored => Ok(()),
            Careless::FailedSyncRepeated => self.inner.sync_data(),
            _ => Err(error),
        })?;
        self.remove_late()
    }
    fn len_bytes(&self) -> Result<u64> {
        self.inner.len_bytes()
    }
    fn id(&self) -> Result<Option<u128>> {
        self.inner.id()
    }
}

impl Drop for CarelessFile {
    fn drop(&mut self) {
        let _ = self.write_kept_back(None); // late, but not never
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
