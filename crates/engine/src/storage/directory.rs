//! An open directory. Its files are reached through it instead of by its path. This is the other part of storage that
//! knows what operating systems do differently.
//!
//! A directory that is renamed while it is open is still the same directory, and another one may take its path.
//!
//! - On Unix each operation names a file relative to the directory's descriptor. So it acts on the directory that was
//!   opened, wherever that is now.
//! - On Windows a handle that does not share deletion keeps the directory and those above it from being renamed or
//!   removed. The path is resolved once, so that no link on it can be switched.

use super::Space;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

/// How a file of a directory is opened. If the file's own name is a symbolic link, it is not followed. Opening a pipe
/// does not wait for its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// To read.
    Read,
    /// To read and write.
    ReadWrite,
    /// A new file, to read and write.
    CreateNew,
    /// The lock's file, to read and write. It is created if it is missing. On Windows it cannot be removed while it
    /// is open.
    Lock,
}

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Regular,
    Directory,
    Link,
    Other,
}

#[cfg(all(unix, not(miri)))]
pub(super) use by_descriptor::Directory;
#[cfg(not(all(unix, not(miri))))]
pub(super) use by_path::Directory;

#[cfg(all(unix, not(miri)))]
mod by_descriptor {
    use super::*;
    use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
    use rustix::io::retry_on_intr;
    use std::ffi::{OsStr, OsString};
    use std::fs::TryLockError;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::OpenOptionsExt;

    /// A directory, by its descriptor.
    #[derive(Debug)]
    pub(in crate::storage) struct Directory {
        handle: File,
    }

    impl Directory {
        /// Opens the directory to which the path now leads.
        pub(in crate::storage) fn open(path: &Path) -> io::Result<Directory> {
            let mut options = File::options();
            options.read(true).custom_flags(OFlags::DIRECTORY.bits() as i32);
            Ok(Directory { handle: options.open(path)? })
        }

        pub(in crate::storage) fn open_file(&self, name: &str, access: Access) -> io::Result<File> {
            let how = match access {
                Access::Read => OFlags::RDONLY,
                Access::ReadWrite => OFlags::RDWR,
                Access::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
                Access::Lock => OFlags::RDWR | OFlags::CREATE,
            };
            let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o666); // less the process's mask
            let opened = retry_on_intr(|| rustix::fs::openat(&self.handle, name, flags, mode))?;
            Ok(File::from(opened))
        }

        pub(in crate::storage) fn kind(&self, name: &str) -> io::Result<Kind> {
            let found = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => Kind::Regular,
                FileType::Directory => Kind::Directory,
                FileType::Symlink => Kind::Link,
                _ => Kind::Other,
            })
        }

        /// Returns all names in the directory.
        pub(in crate::storage) fn names(&self) -> io::Result<Vec<OsString>> {
            let mut names = Vec::new();
            for entry in Dir::read_from(&self.handle)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if !matches!(name, b"." | b"..") {
                    names.push(OsStr::from_bytes(name).to_os_string());
                }
            }
            Ok(names)
        }

        pub(in crate::storage) fn remove(&self, name: &str) -> io::Result<()> {
            Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())?)
        }

        pub(in crate::storage) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            Ok(rustix::fs::renameat(&self.handle, from, &self.handle, to)?)
        }

        /// Makes the directory's names durable.
        pub(in crate::storage) fn sync(&self) -> io::Result<()> {
            self.handle.sync_all()
        }

        /// Returns the room on the directory's device.
        pub(in crate::storage) fn space(&self) -> io::Result<Option<Space>> {
            let found = rustix::fs::fstatvfs(&self.handle)?;
            let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
            Ok(Some(Space { total_bytes: bytes(found.f_blocks), free_bytes: bytes(found.f_bavail) }))
        }

        /// Locks the directory itself until the handle is unlocked or closed. So the lock is held even if somebody
        /// removes or replaces the lock's file. Returns `None` if the file system does not lock directories.
        pub(in crate::storage) fn try_lock(&self) -> io::Result<Option<File>> {
            // The lock needs another open file than `handle`, on which a second lock would count as the first.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let own =
                File::from(retry_on_intr(|| rustix::fs::openat(&self.handle, ".", flags, Mode::empty()))?);
            match own.try_lock() {
                Ok(()) => Ok(Some(own)),
                Err(TryLockError::WouldBlock) => Err(ErrorKind::WouldBlock.into()),
                Err(TryLockError::Error(_)) => Ok(None),
            }
        }
    }
}

#[cfg(not(all(unix, not(miri))))]
mod by_path {
    use super::*;
    use std::ffi::OsString;
    use std::fs;
    use std::path::PathBuf;

    /// A directory, by a path that leads to it as long as the directory is open. Under Miri, which has no calls
    /// relative to descriptors, the path may lead elsewhere.
    #[derive(Debug)]
    pub(in crate::storage) struct Directory {
        path: PathBuf,
        /// Keeps others from renaming or removing the directory.
        #[cfg(windows)]
        _held: File,
    }

    impl Directory {
        /// Opens the directory to which the path now leads.
        pub(in crate::storage) fn open(path: &Path) -> io::Result<Directory> {
            if !fs::metadata(path)?.is_dir() {
                return Err(ErrorKind::NotADirectory.into());
            }
            #[cfg(windows)]
            {
                let path = fs::canonicalize(path)?;
                let _held = shared_without_deletion(File::options().read(true)).open(&path)?;
                Ok(Directory { path, _held })
            }
            #[cfg(not(windows))]
            Ok(Directory { path: path.to_path_buf() })
        }

        pub(in crate::storage) fn open_file(&self, name: &str, access: Access) -> io::Result<File> {
            let mut options = File::options();
            options.read(true).write(access != Access::Read);
            options.create_new(access == Access::CreateNew).create(access == Access::Lock);
            #[cfg(windows)]
            {
                use std::os::windows::fs::OpenOptionsExt;
                // This opens the link itself, which the caller finds to be no regular file.
                const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
                if access == Access::Lock {
                    shared_without_deletion(&mut options);
                }
                options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
            }
            options.open(self.path.join(name))
        }

        pub(in crate::storage) fn kind(&self, name: &str) -> io::Result<Kind> {
            let found = fs::symlink_metadata(self.path.join(name))?.file_type();
            Ok(match (found.is_file(), found.is_symlink(), found.is_dir()) {
                (true, ..) => Kind::Regular,
                (_, true, _) => Kind::Link,
                (.., true) => Kind::Directory,
                _ => Kind::Other,
            })
        }

        /// Returns all names in the directory.
        pub(in crate::storage) fn names(&self) -> io::Result<Vec<OsString>> {
            fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name())).collect()
        }

        pub(in crate::storage) fn remove(&self, name: &str) -> io::Result<()> {
            fs::remove_file(self.path.join(name))
        }

        pub(in crate::storage) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            fs::rename(self.path.join(from), self.path.join(to))
        }

        /// Checks only that the directory exists. Windows has no call that syncs names; they are in the journal of
        /// the file system.
        pub(in crate::storage) fn sync(&self) -> io::Result<()> {
            fs::metadata(&self.path).map(drop)
        }

        /// Returns no room: that of the device is not known here.
        pub(in crate::storage) fn space(&self) -> io::Result<Option<Space>> {
            fs::metadata(&self.path).map(|_| None)
        }

        /// Returns no lock: how to lock the directory itself is not known here. The lock's file cannot be removed.
        pub(in crate::storage) fn try_lock(&self) -> io::Result<Option<File>> {
            Ok(None)
        }
    }

    /// Keeps others from renaming or removing what is opened, even a directory.
    #[cfg(windows)]
    fn shared_without_deletion(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
        use std::os::windows::fs::OpenOptionsExt;
        const FILE_SHARE_READ: u32 = 1;
        const FILE_SHARE_WRITE: u32 = 2;
        const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
        options.share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE).custom_flags(FILE_FLAG_BACKUP_SEMANTICS)
    }
}

/// Returns what tells a file from all others on its system; `None` if that is unknown.
pub(super) fn id(file: &File) -> io::Result<Option<u128>> {
    #[cfg(unix)]
    {
        let found = file.metadata()?;
        let of = |device: u64, inode: u64| u128::from(device) << 64 | u128::from(inode);
        Ok(Some(of(std::os::unix::fs::MetadataExt::dev(&found), std::os::unix::fs::MetadataExt::ino(&found))))
    }
    #[cfg(not(unix))]
    file.metadata().map(|_| None)
}

/// Returns how much room a file takes; its length if that is unknown.
pub(super) fn disk_bytes(file: &File) -> io::Result<u64> {
    let found = file.metadata()?;
    #[cfg(unix)]
    return Ok(std::os::unix::fs::MetadataExt::blocks(&found).saturating_mul(512));
    #[cfg(not(unix))]
    Ok(found.len())
}

/// Returns true if a file has other names as well, by hard links; false if that is unknown.
pub(super) fn has_other_names(file: &File) -> io::Result<bool> {
    #[cfg(unix)]
    return Ok(std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) > 1);
    #[cfg(not(unix))]
    file.metadata().map(|_| false)
}
