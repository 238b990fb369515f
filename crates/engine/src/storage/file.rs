//! A directory of a file system.

use super::{
    Cause, File, Holder, LOCK_NAME, LockGuard, OpenMode, Operation, Result, Space, Storage, StorageError,
    check_name, is_name, system,
};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// No lock file of ours is longer.
const LOCK_BYTES_MAX: u64 = 1024;

/// A directory of a file system. On Linux space is reserved by `fallocate`, data synced by `fdatasync`, names
/// by `fsync` of the directory, and the lock is `flock`'s on the file [`LOCK_NAME`]: it ends with the process.
///
/// A directory that may only be read can be opened, listed and its files read. All else fails with the
/// system's reason. Where a system cannot sync a directory, as on Windows, that does nothing.
#[derive(Clone, Debug)]
pub struct FileStorage {
    directory: PathBuf,
}

impl FileStorage {
    /// The directory, which exists.
    pub fn open(directory: impl Into<PathBuf>) -> Result<FileStorage> {
        let storage = FileStorage { directory: directory.into() };
        let failed = |error| storage.failed(Operation::Open, "", error);
        if !fs::metadata(&storage.directory).map_err(failed)?.is_dir() {
            return Err(failed(ErrorKind::NotADirectory.into()));
        }
        Ok(storage)
    }

    /// The directory, which is created, and made durable in its parent, unless it exists.
    pub fn create(directory: impl Into<PathBuf>) -> Result<FileStorage> {
        let storage = FileStorage { directory: directory.into() };
        let parent = match storage.directory.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let made = match fs::create_dir(&storage.directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            // (Also of one that was there: who has made it may not have come to this.)
            _ => system::sync_directory(parent),
        };
        made.map_err(|error| storage.failed(Operation::Create, "", error))?;
        FileStorage::open(storage.directory)
    }

    /// What errors call a file: its path; the directory's own for no name.
    fn shown(&self, name: &str) -> String {
        let path = if name.is_empty() { self.directory.clone() } else { self.directory.join(name) };
        path.display().to_string()
    }

    fn failed(&self, operation: Operation, name: &str, error: io::Error) -> StorageError {
        StorageError::io(operation, self.shown(name), error)
    }
}

impl Storage for FileStorage {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let create = mode == OpenMode::CreateNew;
        let operation = if create { Operation::Create } else { Operation::Open };
        check_name(operation, name)?;
        let is_writable = mode != OpenMode::Read;
        let mut options = fs::OpenOptions::new();
        options.read(true).write(is_writable).create_new(create);
        let file = options.open(self.directory.join(name));
        let file = file.map_err(|error| self.failed(operation, name, error))?;
        // Opening a directory to read succeeds, and reading it would be an obscure error later.
        match file.metadata() {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Err(self.failed(operation, name, io::Error::other("it is no regular file"))),
            Err(error) => return Err(self.failed(operation, name, error)),
        }
        Ok(Box::new(SystemFile { shown: self.shown(name), is_writable, file: system::Positioned::new(file) }))
    }

    fn list(&self) -> Result<Vec<String>> {
        let failed = |error| self.failed(Operation::List, "", error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_file = entry.file_type().map_err(failed)?.is_file();
            let name = entry.file_name().into_string().ok();
            names.extend(name.filter(|name| is_file && is_name(name)));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(Operation::Remove, name)?;
        let removed = fs::remove_file(self.directory.join(name));
        removed.map_err(|error| self.failed(Operation::Remove, name, error))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(Operation::Rename, from)?;
        check_name(Operation::Rename, to)?;
        let renamed = fs::rename(self.directory.join(from), self.directory.join(to));
        renamed.map_err(|error| self.failed(Operation::Rename, from, error))
    }

    fn sync_directory(&self) -> Result<()> {
        let synced = system::sync_directory(&self.directory);
        synced.map_err(|error| self.failed(Operation::SyncDirectory, "", error))
    }

    fn lock(&self, holder: &Holder) -> Result<LockGuard> {
        let failed = |error| self.failed(Operation::Lock, LOCK_NAME, error);
        // Never truncated before it is held: it may name another holder.
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(self.directory.join(LOCK_NAME)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let cause = Cause::Locked(read_holder(&file));
                return Err(StorageError::new(Operation::Lock, self.shown(""), cause));
            }
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        let held = Held { file };
        // On a full disk the lock holds without a name: then others are told only that it is held.
        let _unnamed = held.file.set_len(0).and_then(|()| (&held.file).write_all(holder.text().as_bytes()));
        Ok(LockGuard::new(held))
    }

    fn space(&self) -> Result<Option<Space>> {
        system::space(&self.directory).map_err(|error| self.failed(Operation::Space, "", error))
    }
}

fn read_holder(mut file: &fs::File) -> Option<Holder> {
    let mut text = String::new();
    Read::by_ref(&mut file).take(LOCK_BYTES_MAX).read_to_string(&mut text).ok()?;
    Holder::parse(&text)
}

/// A lock file that is locked. The file stays: to remove it would let a third process lock a new one while
/// a second waits to lock this.
struct Held {
    file: fs::File,
}

impl Drop for Held {
    fn drop(&mut self) {
        // What it says would be out of date. If it fails, nobody looks at it while the lock is free.
        let _stale = self.file.set_len(0);
        // Closing the file would do, but for a process that is being started just now: until it has become another
        // program it has the file open, too, and what it has open stays locked.
        let _still_closed = self.file.unlock();
    }
}

#[derive(Debug)]
struct SystemFile {
    shown: String,
    is_writable: bool,
    file: system::Positioned,
}

impl SystemFile {
    fn failed(&self, operation: Operation, error: io::Error) -> StorageError {
        StorageError::io(operation, &self.shown, error)
    }

    fn check_writable(&self, operation: Operation) -> Result<()> {
        if self.is_writable {
            return Ok(());
        }
        Err(StorageError::new(operation, &self.shown, Cause::ReadOnly))
    }
}

impl File for SystemFile {
    fn name(&self) -> &str {
        &self.shown
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.file.read_at(offset, buffer).map_err(|error| self.failed(Operation::Read, error).at(offset))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.check_writable(Operation::Write)?;
        self.file.write_at(offset, data).map_err(|error| self.failed(Operation::Write, error).at(offset))
    }

    fn preallocate(&self, offset: u64, bytes: u64) -> Result<()> {
        self.check_writable(Operation::Preallocate)?;
        let reserved = if bytes == 0 { Ok(()) } else { self.file.preallocate(offset, bytes) };
        reserved.map_err(|error| self.failed(Operation::Preallocate, error).at(offset))
    }

    fn truncate(&self, len_bytes: u64) -> Result<()> {
        self.check_writable(Operation::Truncate)?;
        let cut = self.file.file().set_len(len_bytes);
        cut.map_err(|error| self.failed(Operation::Truncate, error).at(len_bytes))
    }

    fn sync_data(&self) -> Result<()> {
        self.file.file().sync_data().map_err(|error| self.failed(Operation::SyncData, error))
    }

    fn len_bytes(&self) -> Result<u64> {
        let metadata = self.file.file().metadata();
        metadata.map(|metadata| metadata.len()).map_err(|error| self.failed(Operation::Len, error))
    }
}
