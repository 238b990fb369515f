//! Where the bytes of a database lie: one directory of files, behind a trait.
//!
//! Everything durable is built on [`Storage`] and [`File`], and relies only on what this page says. There is an
//! implementation for a file system (`FileStorage`) and one in memory (`MemoryStorage`). The simulator has one that
//! crashes and fails in every way that this contract allows. The calls are the cold edge of the engine: they are made
//! per group of transactions and never per operation, so they are `dyn`.
//!
//! # The contract
//!
//! - While the process lives, reads see the latest writes, through whichever handle.
//! - Each name leads to one file, and no file has two names.
//! - Every call concerns the directory that was opened, wherever it has been moved since.
//! - Calls may come from several threads at once. Writes to one sector must not overlap in time. Neither must a
//!   [`File::preallocate`] or [`File::truncate`] of a range overlap with writes to it.
//!
//! After a crash of the process alone, everything is still there. After a crash of the machine:
//!
//! - **Data** is durable once a [`File::sync_data`] that began after the write has returned without an error: the
//!   bytes and the file's length.
//! - **Names** are durable once a [`Storage::sync_directory`] that began after the operation has returned without an
//!   error. Neither implies the other: a file with synced data and an unsynced name is not found, and a synced name
//!   can lead to a file whose data is missing.
//! - **Sectors** of [`SECTOR_BYTES`], counted from the start of the file, are written whole or not at all. Any subset
//!   of the sectors written since the last sync survives. A sector that was written more than once holds any of its
//!   contents since the last sync. So a write over several sectors may be torn anywhere. The length is any that the
//!   file has had since the last sync.
//! - **Space without content** may hold anything, even what looks like data of other files or of deleted files. It
//!   consists of preallocated sectors that no synced write has reached, and of sectors that the length covers
//!   although their data was not synced. Without a crash they read as zeros.
//! - **Directory operations** that are not synced have each happened or not, whatever their order. But an operation
//!   that takes a name which another operation has set free happens only if the other did. A rename is atomic: its
//!   target always leads to the old file or to the new one.
//!
//! A failed sync says nothing about what is durable. Data that it should have written may be lost although it can
//! still be read and although a later sync succeeds (Linux marks the pages clean). So after a failed sync, this
//! process must **never trust again** the file, or for a directory its unsynced names: stop, and recover from what a
//! fresh start finds.
//!
//! A write that failed may have written any subset of its sectors. Disks also lie: bits flip, writes are lost or land
//! elsewhere, and all are reported as success. No implementation can notice that, so whatever is stored carries
//! checksums that include where it should be.
//!
//! # Names
//!
//! A name is one component of a path: 1 to [`NAME_BYTES_MAX`] of ASCII letters, digits, `-`, `_` and `.`. It does not
//! begin with a dot, and is not [`LOCK_NAME`], which is the lock's.

mod archive;
mod directory;
mod error;
mod file;
mod holder;
mod memory;
mod system;
#[cfg(all(test, not(braid_shuttle)))]
mod tests;
mod union;

pub use archive::{Archive, ArchiveError, DirectoryArchive};
pub use error::{Cause, Operation, StorageError};
#[doc(hidden)]
pub use file::FileStorage;
pub(crate) use holder::civil;
pub use holder::{Holder, LockGuard};
#[doc(hidden)]
pub use memory::MemoryStorage;
#[doc(hidden)]
pub use union::Union;

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// The result of every storage operation.
pub type Result<T, E = StorageError> = std::result::Result<T, E>;

/// The unit that a crash of the machine cannot tear.
pub const SECTOR_BYTES: usize = 512;

/// The greatest length of a file's name.
pub const NAME_BYTES_MAX: usize = 128;

/// The name that no file may have. Implementations over a real directory keep their lock under it.
pub const LOCK_NAME: &str = "lock";

/// How many times in a row an interrupted call is made again.
const INTERRUPTS_MAX: u32 = 100;

/// How [`Storage::open`] opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Creates an empty file, to read and write. Fails if the name is taken.
    CreateNew,
    /// Opens an existing file, to read only.
    Read,
    /// Opens an existing file, to read and write.
    ReadWrite,
}

/// Room on the device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The size of the device.
    pub total_bytes: u64,
    /// What can still be written.
    pub free_bytes: u64,
}

/// One directory of files. The module's head has the contract.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Opens or creates the file `name`. The name of a created file is durable only after
    /// [`Storage::sync_directory`]. The handle stays good when the file is renamed or removed.
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>>;

    /// Returns the names of all files, sorted, without names that no file may have. If something other than a regular
    /// file, such as a link or a pipe, has a name that a file may have, the list includes it: it may be in the place
    /// of a file, and opening it is an error.
    fn list(&self) -> Result<Vec<String>>;

    /// Returns the names that [`Storage::list`] omits, sorted, except for the lock's file. They belong to what others
    /// keep in the directory.
    fn strangers(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Removes a file. Its space is free when its last handle is gone.
    fn remove(&self, name: &str) -> Result<()>;

    /// Renames the file `from` to `to` atomically, and replaces the file that may have that name.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Makes durable what [`Storage::open`], [`Storage::remove`] and [`Storage::rename`] did to names.
    fn sync_directory(&self) -> Result<()>;

    /// Locks the directory until the guard is dropped or the process ends, in whatever way. This never waits: if the
    /// directory is locked, the error is [`Cause::Locked`] and names the holder. If something other than the lock's
    /// file has its name, this leaves it unchanged and fails.
    fn lock(&self, holder: &Holder) -> Result<LockGuard>;

    /// Returns the room on the device, if it is known.
    fn space(&self) -> Result<Option<Space>>;

    /// Returns where the directory is, to be shown to people. `None` unless implemented.
    fn path(&self) -> Option<&Path> {
        None
    }
}

/// One open file. The module's head has the contract.
pub trait File: Send + Sync + fmt::Debug {
    /// Returns the name of the file in errors.
    fn name(&self) -> &str;

    /// Reads from `offset` on and returns how many bytes were read. There may be fewer than asked for. There are 0 at
    /// the end of the file, beyond it, or if nothing was asked for.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Writes from `offset` on and returns how many bytes were written. There may be fewer than were given, and 0
    /// only if none were given. A gap between the old end and `offset` reads as zeros.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize>;

    /// Reserves blocks for the range, so that writes to it do not fail for want of room, and extends the file to its
    /// end. What was written stays; the rest reads as zeros. A copy-on-write file system may need more room even so.
    fn preallocate(&self, offset: u64, bytes: u64) -> Result<()>;

    /// Sets the file's length. What is added reads as zeros and reserves nothing.
    fn truncate(&self, len_bytes: u64) -> Result<()>;

    /// Makes durable what was written, and the length. If this fails, the file must never be trusted again.
    fn sync_data(&self) -> Result<()>;

    /// Suggests that what was written to the range goes to the device soon, because it will not be read for a while.
    /// This hint waits for nothing, and changes nothing about what is durable. It does nothing unless implemented.
    fn write_back(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// Returns the file's length.
    fn len_bytes(&self) -> Result<u64>;

    /// Returns how much room the file takes. That is less than its length if blocks were never written, and more if
    /// more blocks were reserved. Unless implemented, this is the length.
    fn disk_bytes(&self) -> Result<u64> {
        self.len_bytes()
    }

    /// Returns a number that no other file has while this file is open, whatever its name is now. `None`, which says
    /// nothing, unless implemented.
    fn id(&self) -> Result<Option<u128>> {
        Ok(None)
    }

    /// Fills the buffer, and completes short reads. Fails with [`Cause::EndOfFile`] if the file ends before.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let read = uninterrupted(|| self.read_at(at, &mut buffer[done..]))?;
            if read == 0 {
                let cause = Cause::EndOfFile { len_bytes: at };
                return Err(StorageError::new(Operation::Read, self.name(), cause).at(offset));
            }
            done += read;
            assert!(done <= buffer.len(), "no more is read than there is room for");
        }
        Ok(())
    }

    /// Writes all of `data`, and completes short writes. If this fails, any part may have been written.
    fn write_all_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let written = uninterrupted(|| self.write_at(at, &data[done..]))?;
            if written == 0 {
                let error = ErrorKind::WriteZero.into();
                return Err(StorageError::io(Operation::Write, self.name(), error).at(at));
            }
            done += written;
            assert!(done <= data.len(), "no more is written than there is");
        }
        Ok(())
    }
}

/// Repeats a call that a signal interrupted before it had done anything.
fn uninterrupted<E: Interrupted>(mut call: impl FnMut() -> Result<usize, E>) -> Result<usize, E> {
    for _ in 0..INTERRUPTS_MAX {
        match call() {
            Err(error) if error.is_interrupted() => {}
            done => return done,
        }
    }
    call()
}

/// An error that can say that the call was only interrupted by a signal.
trait Interrupted {
    fn is_interrupted(&self) -> bool;
}

impl Interrupted for StorageError {
    fn is_interrupted(&self) -> bool {
        self.kind() == ErrorKind::Interrupted
    }
}

impl Interrupted for std::io::Error {
    fn is_interrupted(&self) -> bool {
        self.kind() == ErrorKind::Interrupted
    }
}

/// Fails unless a file may have this name. Every implementation checks this first.
pub fn check_name(operation: Operation, name: &str) -> Result<()> {
    if is_name(name) { Ok(()) } else { Err(StorageError::new(operation, name, Cause::Name)) }
}

/// Returns true if a file may have this name.
pub fn is_name(name: &str) -> bool {
    let good = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    fits && name.bytes().all(good) && !name.starts_with('.') && name != LOCK_NAME
}
