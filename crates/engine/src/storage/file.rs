//! A directory of a file system.

use super::directory::{self, Access, Directory, Kind};
use super::{
    Cause, File, Holder, LOCK_NAME, LockGuard, OpenMode, Operation, Result, Space, Storage, StorageError,
    check_name, is_name, system,
};
use std::fs;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// No lock file of ours is longer.
const LOCK_BYTES_MAX: u64 = 1024;

/// A directory of a file system. On Linux space is reserved by `fallocate`, data synced by `fdatasync`, names
/// by `fsync` of the directory, and the lock is `flock`'s on the file [`LOCK_NAME`] and on the directory: it ends with the
/// process.
///
/// The directory is the one to which the path led when it was opened: it may be renamed meanwhile, and something else may
/// take its path. (On Windows it cannot be renamed while it is open.)
///
/// A directory that may only be read can be opened, listed and its files read. All else fails with the
/// system's reason. Where a system cannot sync a directory, as on Windows, that does nothing.
#[derive(Clone, Debug)]
pub struct FileStorage {
    /// By this path errors name it.
    path: PathBuf,
    directory: Arc<Directory>,
}

impl FileStorage {
    /// The directory, which exists.
    pub fn open(directory: impl Into<PathBuf>) -> Result<FileStorage> {
        let path = directory.into();
        match Directory::open(&path) {
            Ok(directory) => Ok(FileStorage { path, directory: Arc::new(directory) }),
            Err(error) => Err(StorageError::io(Operation::Open, path.display().to_string(), error)),
        }
    }

    /// The directory, which is created, and made durable in its parent, unless it exists.
    pub fn create(directory: impl Into<PathBuf>) -> Result<FileStorage> {
        FileStorage::find_or_create(directory.into()).map(|(storage, _)| storage)
    }

    /// Creates the directory, unless it exists, and fills it. If `fill` fails and leaves no file, a directory that was created here is
    /// removed again.
    pub fn create_for<R, E: From<StorageError>>(
        directory: impl Into<PathBuf>,
        fill: impl FnOnce(&FileStorage) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let (storage, is_new) = FileStorage::find_or_create(directory.into())?;
        let filled = fill(&storage);
        if filled.is_err() && is_new {
            storage.remove_if_unused();
        }
        filled
    }

    /// Opens the directory, and creates it if it is not there. Returns true beside it if it was created.
    fn find_or_create(path: PathBuf) -> Result<(FileStorage, bool)> {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let failed = |error| StorageError::io(Operation::Create, path.display().to_string(), error);
        let is_new = match fs::create_dir(&path) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => return Err(failed(error)),
        };
        // (An existing directory as well: the process that created it may not have come to this.)
        system::sync_directory(parent).map_err(failed)?;
        Ok((FileStorage::open(path)?, is_new))
    }

    /// Removes the directory if it has no file but the lock's, and nobody holds that. Failures leave it there.
    fn remove_if_unused(&self) {
        let is_unused = |storage: &FileStorage| {
            let names = storage.directory.names();
            names.is_ok_and(|names| names.iter().all(|name| name == LOCK_NAME))
        };
        if !is_unused(self) {
            return;
        }
        let Ok(_held) = self.lock(&Holder::this_process(0)) else { return };
        if is_unused(self) && self.directory.remove(LOCK_NAME).is_ok() {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// What errors call a file: its path; the directory's own for no name.
    fn shown(&self, name: &str) -> String {
        let path = if name.is_empty() { self.path.clone() } else { self.path.join(name) };
        path.display().to_string()
    }

    fn failed(&self, operation: Operation, name: &str, error: io::Error) -> StorageError {
        StorageError::io(operation, self.shown(name), error)
    }

    /// The entries of the directory, sorted, of which `wanted` says yes to the name, if that is text.
    fn entries(&self, wanted: impl Fn(Option<&str>) -> bool) -> Result<Vec<String>> {
        let failed = |error| self.failed(Operation::List, "", error);
        let mut names = self.directory.names().map_err(failed)?;
        names.retain(|name| wanted(name.to_str()));
        names.sort_unstable();
        Ok(names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect())
    }

    /// Opens a regular file. What else has its name is an error, which says what it is and goes on as `advice` does: a link
    /// is not followed, and a pipe or device neither waited for nor read.
    fn open_regular(&self, name: &str, access: Access, advice: &str) -> io::Result<fs::File> {
        let irregular = |kind: Kind| {
            let what = match kind {
                Kind::Link => "it is a symbolic link",
                Kind::Directory => "it is a directory",
                Kind::Regular | Kind::Other => "it is no regular file",
            };
            io::Error::other(format!("{what}{advice}"))
        };
        match self.directory.kind(name) {
            Ok(kind) if kind != Kind::Regular => return Err(irregular(kind)),
            // What is there by the time it is opened is looked at again.
            Ok(_) | Err(_) => {}
        }
        let file = self.directory.open_file(name, access)?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(irregular(Kind::Other)) }
    }
}

impl Storage for FileStorage {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>> {
        let create = mode == OpenMode::CreateNew;
        let operation = if create { Operation::Create } else { Operation::Open };
        check_name(operation, name)?;
        let access = match mode {
            OpenMode::CreateNew => Access::CreateNew,
            OpenMode::Read => Access::Read,
            OpenMode::ReadWrite => Access::ReadWrite,
        };
        let is_writable = mode != OpenMode::Read;
        let file = match self.open_regular(name, access, "") {
            // (Whatever it is that has the name.)
            Err(_) if create && self.directory.kind(name).is_ok() => Err(ErrorKind::AlreadyExists.into()),
            Ok(file) if mode == OpenMode::ReadWrite => sole(file),
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
        let removed = self.directory.remove(name);
        removed.map_err(|error| self.failed(Operation::Remove, name, error))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(Operation::Rename, from)?;
        check_name(Operation::Rename, to)?;
        let renamed = self.directory.rename(from, to);
        renamed.map_err(|error| self.failed(Operation::Rename, from, error))
    }

    fn sync_directory(&self) -> Result<()> {
        let synced = self.directory.sync();
        synced.map_err(|error| self.failed(Operation::SyncDirectory, "", error))
    }

    fn lock(&self, holder: &Holder) -> Result<LockGuard> {
        let failed = |error| self.failed(Operation::Lock, LOCK_NAME, error);
        // Whatever else has its name is refused: it is somebody's.
        let file = self
            .open_regular(LOCK_NAME, Access::Lock, ", and not the lock of a database: move it away")
            .map_err(failed)?;
        let taken = |by| StorageError::new(Operation::Lock, self.shown(""), Cause::Locked(by));
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(taken(read_holder(&file))),
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        let directory = match self.directory.try_lock() {
            // Its holder has another file for its lock, which has lost its name.
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(taken(None)),
            directory => directory.map_err(failed)?,
        };
        if !is_ours(&file) {
            let what = "it holds something else than the lock of a database: move it away";
            return Err(failed(io::Error::other(what)));
        }
        let held = Held { file, directory };
        // On a full disk the lock holds without a name: then others are told only that it is held.
        let _unnamed = held.name(holder);
        Ok(LockGuard::new(held))
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn space(&self) -> Result<Option<Space>> {
        self.directory.space().map_err(|error| self.failed(Operation::Space, "", error))
    }
}

/// The file, which is to be written to; an error if it has other names, whose owners would not expect that.
fn sole(file: fs::File) -> io::Result<fs::File> {
    if directory::has_other_names(&file)? {
        let what = "the file has another name as well (a hard link), where it would be changed too: put a copy in its \
                    place";
        return Err(io::Error::other(what));
    }
    Ok(file)
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
    /// The directory, locked itself, where that is possible.
    directory: Option<fs::File>,
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
        for held in self.directory.iter().chain([&self.file]) {
            let _still_closed = held.unlock();
        }
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

    fn disk_bytes(&self) -> Result<u64> {
        directory::disk_bytes(self.file.file()).map_err(|error| self.failed(Operation::Len, error))
    }

    fn id(&self) -> Result<Option<u128>> {
        directory::id(self.file.file()).map_err(|error| self.failed(Operation::Open, error))
    }
}
