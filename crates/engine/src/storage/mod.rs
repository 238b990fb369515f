//! Where the bytes of a database lie: one directory of files, behind a trait.
//!
//! Everything durable is built on [`Storage`] and [`File`], and relies on what is said here and on
//! nothing else. There is a file system's (`FileStorage`), one in memory (`MemoryStorage`), and, in the
//! simulator, one that crashes and fails in every way that this contract allows. These calls are the cold
//! edge of the engine, made per group of transactions and never per operation, so they are `dyn`.
//!
//! # The contract
//!
//! While the process lives, reads see the latest writes, through whichever handle; each name leads to one
//! file, and no file has two names. Every call is about the directory that was opened, wherever it has been moved since.
//! Calls may come from several threads at once. Writes to one sector, or a
//! [`File::preallocate`] or [`File::truncate`] of a range that is being written, must not overlap in time.
//!
//! After a crash of the process alone, all of it is still there. After a crash of the machine:
//!
//! - **Data** is durable once a [`File::sync_data`] that began after the write has returned without an error:
//!   the bytes and the file's length.
//! - **Names** are durable once a [`Storage::sync_directory`] that began after the operation has returned
//!   without an error. Neither implies the other: a file with synced data and an unsynced name is not found,
//!   and a synced name can lead to a file whose data is not there.
//! - **Sectors** of [`SECTOR_BYTES`], counted from the start of the file, are written whole or not at all.
//!   Of those written since the last sync any subset survives: one that was written more than once holds any
//!   of its contents since the last sync. So a write over several sectors may be torn anywhere. The length is
//!   any that the file has had since the last sync.
//! - **Space without content** may hold anything, also what looks like data of other or of deleted files:
//!   preallocated sectors that no synced write has reached, and sectors that the length covers although their
//!   data was not synced. (Without a crash they read as zeros.)
//! - **Directory operations** that are not synced have each happened or not, whatever their order; but one
//!   that takes a name which another has set free happens only if that one did. A rename is atomic: its
//!   target leads to the old file or to the new one, and to one of them always.
//!
//! A sync that failed says nothing about what is durable. Data that it should have written may be lost
//! although it can still be read and although a later sync succeeds (Linux marks the pages clean). So
//! after a failed sync the file, or for a directory its unsynced names, is **never to be trusted again**
//! by this process: stop, and recover from what a fresh start finds.
//!
//! A write that failed may have written any subset of its sectors. Disks also lie: bits flip, writes are
//! lost or land elsewhere, all reported as success. No implementation can notice that, so whatever is stored
//! carries checksums that include where it should be.
//!
//! # Names
//!
//! A name is one component of a path: 1 to [`NAME_BYTES_MAX`] of ASCII letters, digits, `-`, `_` and `.`, not
//! beginning with a dot, and not [`LOCK_NAME`], which is the lock's.

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

/// The result of everything that storage does.
pub type Result<T, E = StorageError> = std::result::Result<T, E>;

/// The unit that a crash of the machine cannot tear.
pub const SECTOR_BYTES: usize = 512;

/// The longest name of a file.
pub const NAME_BYTES_MAX: usize = 128;

/// What no file may be called: implementations over a real directory keep their lock under it.
pub const LOCK_NAME: &str = "lock";

/// So often in a row an interrupted call is made again.
const INTERRUPTS_MAX: u32 = 100;

/// How [`Storage::open`] opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// A new, empty file, to read and write. Fails where the name is taken.
    CreateNew,
    /// An existing file, to read only.
    Read,
    /// An existing file, to read and write.
    ReadWrite,
}

/// Room on the device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All that there is.
    pub total_bytes: u64,
    /// What can still be written.
    pub free_bytes: u64,
}

/// One directory of files. The module's head has the contract.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Opens or creates the file `name`. A created one is durable as a name only after
    /// [`Storage::sync_directory`]. Its handle stays good when the file is renamed or removed.
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>>;

    /// The names of all files, sorted. Passes over names that no file may have. What is no regular file, as a link or a
    /// pipe, and has a name that a file may have, is among them: it may be in the place of one, and to open it is an error.
    fn list(&self) -> Result<Vec<String>>;

    /// What [`Storage::list`] passes over, sorted, the lock's file excepted: what others keep in the directory.
    fn strangers(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Removes a file. Its space is free when its last handle is gone.
    fn remove(&self, name: &str) -> Result<()>;

    /// Gives the file `from` the name `to`, in place of the file that may have that name: atomically.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Makes durable all that [`Storage::open`], [`Storage::remove`] and [`Storage::rename`] did to names.
    fn sync_directory(&self) -> Result<()>;

    /// Takes the directory for oneself until the guard is dropped or the process ends, however it ends.
    /// Never waits: where it is taken, the error is [`Cause::Locked`] and names the holder. Where something else has
    /// the lock's name, that is left as it is, and an error.
    fn lock(&self, holder: &Holder) -> Result<LockGuard>;

    /// The room on the device, where that is known.
    fn space(&self) -> Result<Option<Space>>;

    /// Where the directory is, to be shown to people. `None` unless implemented.
    fn path(&self) -> Option<&Path> {
        None
    }
}

/// One open file. The module's head has the contract.
pub trait File: Send + Sync + fmt::Debug {
    /// What errors call the file.
    fn name(&self) -> &str;

    /// Reads from `offset` on and says how many bytes: perhaps fewer than asked for, and 0 at the end of
    /// the file, beyond it, or where nothing was asked for.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Writes from `offset` on and says how many bytes: perhaps fewer than were given, and 0 only where none
    /// were. A gap between the old end and `offset` reads as zeros.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize>;

    /// Reserves blocks for the range, so that writes to it do not fail for want of room, and makes the file
    /// that long. What was written stays; the rest reads as zeros. (A copy-on-write file system can want
    /// room even so.)
    fn preallocate(&self, offset: u64, bytes: u64) -> Result<()>;

    /// Makes the file this long. What is added reads as zeros and reserves nothing.
    fn truncate(&self, len_bytes: u64) -> Result<()>;

    /// Makes durable what was written, and the length. If it fails, never trust the file again.
    fn sync_data(&self) -> Result<()>;

    /// Says that what was written to the range had better go to the device soon, and will not be read for a while. A
    /// hint: it waits for nothing, and changes nothing about what is durable. Does nothing unless implemented.
    fn write_back(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// How long the file is.
    fn len_bytes(&self) -> Result<u64>;

    /// How much room the file takes: less than its length where blocks were never written, or more where more were
    /// reserved. The length unless implemented.
    fn disk_bytes(&self) -> Result<u64> {
        self.len_bytes()
    }

    /// A number that no other file has while this one is open, whatever its name is now. `None`, which says nothing,
    /// unless implemented.
    fn id(&self) -> Result<Option<u128>> {
        Ok(None)
    }

    /// Fills the buffer, completing short reads. An error with [`Cause::EndOfFile`] if the file ends before.
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

    /// Writes all, completing short writes. If it fails, any part may have been written.
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

/// Makes a call again that a signal interrupted before it had done anything.
fn uninterrupted<E: Interrupted>(mut call: impl FnMut() -> Result<usize, E>) -> Result<usize, E> {
    for _ in 0..INTERRUPTS_MAX {
        match call() {
            Err(error) if error.is_interrupted() => {}
            done => return done,
        }
    }
    call()
}

/// An error that can say that nothing but a signal was in the way.
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

/// An error unless `name` is one that a file may have: what every implementation checks first.
pub fn check_name(operation: Operation, name: &str) -> Result<()> {
    if is_name(name) { Ok(()) } else { Err(StorageError::new(operation, name, Cause::Name)) }
}

/// Whether a file may have this name.
pub fn is_name(name: &str) -> bool {
    let good = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    fits && name.bytes().all(good) && !name.starts_with('.') && name != LOCK_NAME
}
