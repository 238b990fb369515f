//! A directory of a file system.

use super::{
    Cause, File, Holder, LOCK_NAME, LockGuard, OpenMode, Operation, Result, Space, Storage, StorageError,
    check_name, is_name, system,
};
use std::fs;
use std::io::{self, ErrorKind, Read, Seek, Write};
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
            // (Also of one that was there: the process that made it may not have come to this.)
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

    /// The entries of the directory, sorted, of which `wanted` says yes to the name, if that is text.
    fn entries(&self, wanted: impl Fn(Option<&str>) -> bool) -> Result<Vec<String>> {
        let failed = |error| self.failed(Operation::List, "", error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if wanted(name.to_str()) {
                names.push(name.to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The lock's file, open and not yet locked. Whatever else has its name is refused: it is somebody's.
    fn open_lock_file(&self) -> io::Result<fs::File> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        open_regular(
            &self.directory.join(LOCK_NAME),
            options,
            ", and not the lock of a database: move it away",
        )
    }
}

/// Opens a regular file. What else has its name is an error, which says what it is and goes on as `advice` does: a link is
/// not followed, and a pipe or device neither waited for nor read.
fn open_regular(path: &Path, options: fs::OpenOptions, advice: &str) -> io::Result<fs::File> {
    let irregular = |kind: fs::FileType| {
        let what = match (kind.is_symlink(), kind.is_dir()) {
            (true, _) => "it is a symbolic link",
            (_, true) => "it is a directory",
            _ => "it is no regular file",
        };
        io::Error::other(format!("{what}{advice}"))
    };
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => return Err(irregular(found.file_type())),
        // What is there by the time it is opened is looked at again.
        Ok(_) | Err(_) => {}
    }
    let file = system::open_unfollowed(path, options)?;
    let found = file.metadata()?;
    if found.is_file() { Ok(file) } else { Err(irregular(found.file_type())) }
}

impl Storage for FileStorage {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let create = mode == OpenMode::CreateNew;
        let operation = if create { Operation::Create } else { Operation::Open };
        check_name(operation, name)?;
        let is_writable = mode != OpenMode::Read;
        let mut options = fs::OpenOptions::new();
        options.read(true).write(is_writable).create_new(create);
        let file = match open_regular(&self.directory.join(name), options, "") {
            // (Whatever it is that has the name.)
            Err(_) if create && fs::symlink_metadata(self.directory.join(name)).is_ok() => {
                Err(ErrorKind::AlreadyExists.into())
            }
            file => file,
        };
        let file = file.map_err(|error| self.failed(operation, name, error))?;
        Ok(Box::new(SystemFile { shown: self.shown(name), is_writable, file: system::Positioned::new(file) }))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.entries(|name| name.is_some_and(is_name))
    }

    fn strangers(&self) -> Result<Vec<String>> {
        self.entries(|name| name != Some(LOCK_NAME) && !name.is_some_and(is_name))
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
        let file = self.open_lock_file().map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let cause = Cause::Locked(read_holder(&file));
                return Err(StorageError::new(Operation::Lock, self.shown(""), cause));
            }
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        if !is_ours(&file) {
            let what = "it holds something else than the lock of a database: move it away";
            return Err(failed(io::Error::other(what)));
        }
        let held = Held { file };
        // On a full disk the lock holds without a name: then others are told only that it is held.
        let _unnamed = held.name(holder);
        Ok(LockGuard::new(held))
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.directory)
    }

    fn space(&self) -> Result<Option<Space>> {
        system::space(&self.directory).map_err(|error| self.failed(Operation::Space, "", error))
    }
}

/// What a lock file holds, up to a byte more than one of ours can.
fn read_lock(mut file: &fs::File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    Read::by_ref(&mut file).take(LOCK_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_holder(file: &fs::File) -> Option<Holder> {
    Holder::parse(str::from_utf8(&read_lock(file).ok()?).ok()?)
}

/// Whether the file may be written over: it is empty, names a holder, or holds the zeros that a crash of the machine
/// can leave in place of a text. Anything else is somebody's.
fn is_ours(file: &fs::File) -> bool {
    let Ok(bytes) = read_lock(file) else { return false };
    let is_short = bytes.len() as u64 <= LOCK_BYTES_MAX;
    is_short && (bytes.iter().all(|byte| *byte == 0) || Holder::is_text(&bytes))
}

/// A lock file that is locked. The file stays: to remove it would let a third process lock a new one while
/// a second waits to lock this.
struct Held {
    file: fs::File,
}

impl Held {
    fn name(&self, holder: &Holder) -> io::Result<()> {
        self.file.set_len(0)?;
        (&self.file).rewind()?;
        (&self.file).write_all(holder.text().as_bytes())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // What it says would be out of date. If it fails, nobody looks at it while the lock is free.
        if is_ours(&self.file) {
            let _stale = self.file.set_len(0);
        }
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

    fn write_back(&self, offset: u64, bytes: u64) {
        self.file.write_back(offset, bytes);
    }

    fn len_bytes(&self) -> Result<u64> {
        let metadata = self.file.file().metadata();
        metadata.map(|metadata| metadata.len()).map_err(|error| self.failed(Operation::Len, error))
    }
}
