//! What operating systems do differently with files. `directory.rs` has the differences for directories.

use super::directory::Directory;
use super::uninterrupted;
use std::fs::File;
use std::io;
use std::path::Path;

/// The size of the pieces in which zeros are written, and holes rewritten.
const PIECE_BYTES: usize = 64 << 10;

/// Makes the names of the directory at this path durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    Directory::open(directory)?.sync()
}

/// A file that is read and written at offsets. On Windows that moves its single position, which nothing else uses.
#[derive(Debug)]
pub(super) struct Positioned {
    file: File,
}

#[cfg(unix)]
impl Positioned {
    pub(super) fn new(file: File) -> Positioned {
        Positioned { file }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.file, buffer, offset)
    }

    pub(super) fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::write_at(&self.file, data, offset)
    }
}

#[cfg(windows)]
impl Positioned {
    pub(super) fn new(file: File) -> Positioned {
        Positioned { file }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.file, buffer, offset)
    }

    pub(super) fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_write(&self.file, data, offset)
    }
}

impl Positioned {
    /// Makes the system begin to write the part of the range that is in its memory. Linux does that when it is told
    /// that pages are no longer needed which are not on the device yet.
    pub(super) fn write_back(&self, offset: u64, bytes: u64) {
        #[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
        {
            use rustix::fs::{Advice, fadvise};
            let bytes = std::num::NonZeroU64::new(bytes);
            // Whatever fails here fails in the sync as well.
            let _hint = fadvise(&self.file, offset, bytes, Advice::DontNeed);
        }
        #[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
        let _ = (offset, bytes);
    }

    /// Reserves blocks for `bytes > 0` from `offset` on, and extends the file to the end of that range.
    pub(super) fn preallocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        assert!(bytes > 0, "there is something to reserve");
        #[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            use rustix::io::Errno;
            let reserved =
                rustix::io::retry_on_intr(|| fallocate(&self.file, FallocateFlags::empty(), offset, bytes));
            match reserved {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                reserved => return Ok(reserved?),
            }
        }
        self.preallocate_by_writing(offset, bytes)
    }

    /// Reserves blocks in the way of `posix_fallocate` on file systems without a call for it. It rewrites what is
    /// there, which gives holes their blocks, and writes zeros beyond the end.
    pub(super) fn preallocate_by_writing(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let end = offset.checked_add(bytes).ok_or(io::ErrorKind::FileTooLarge)?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = offset;
        while at < end {
            let len = PIECE_BYTES.min(usize::try_from(end - at).unwrap_or(PIECE_BYTES));
            let piece = &mut piece[..len];
            piece.fill(0);
            // A short read would turn data into zeros, so only the bytes that were read are written again.
            let read = uninterrupted(|| self.read_at(at, piece))?;
            let again = if read == 0 { &*piece } else { &piece[..read] };
            let written = uninterrupted(|| self.write_at(at, again))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            at += written as u64;
        }
        Ok(())
    }
}
