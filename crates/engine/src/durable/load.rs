//! Reads the files of rows of a checkpoint, block by block, on several threads. A file is open only while its blocks
//! are read, because a large table has more files than a process may have open.

use crate::checkpoint::{Block, Result, RowsFile, RowsReader};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, lock};
use std::sync::Arc;

/// All blocks of several files, numbered consecutively. Each block is read once. Reading in ascending order keeps few
/// files open at a time.
pub(super) struct Blocks<T> {
    files: Vec<OfFile<T>>,
    count: usize,
}

struct OfFile<T> {
    /// What the caller knows the file by.
    of: T,
    file: RowsFile,
    /// The number of the file's first block.
    first: usize,
    /// How many blocks have not been read.
    left: AtomicU64,
    /// Present from the first block that is read to the last.
    reader: Mutex<Option<Arc<RowsReader>>>,
}

impl<T> Blocks<T> {
    /// Collects the blocks of these files. A file without blocks counts as having one, so that it is checked, too.
    pub(super) fn of(files: impl Iterator<Item = (T, RowsFile)>) -> Blocks<T> {
        let mut blocks = Blocks { files: Vec::new(), count: 0 };
        for (of, file) in files {
            let (first, left) = (blocks.count, file.blocks.max(1));
            // The count is the manifest's promise. Opening the file shows whether it has room for that many blocks.
            blocks.count = first.saturating_add(usize::try_from(left).unwrap_or(usize::MAX));
            let (left, reader) = (AtomicU64::new(left), Mutex::new(None));
            blocks.files.push(OfFile { of, file, first, left, reader });
        }
        blocks
    }

    /// Returns the number of blocks.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Reads the block of this number, which is below [`Blocks::count`]. `open` makes the reader of its file. Returns
    /// what the caller knows the file by.
    pub(super) fn read(
        &self,
        number: usize,
        block: &mut Block,
        open: impl FnOnce(&T, &RowsFile) -> Result<RowsReader>,
    ) -> Result<&T> {
        let at = self.files.partition_point(|file| file.first <= number) - 1;
        let file = &self.files[at];
        let reader = {
            let mut reader = lock(&file.reader);
            match &*reader {
                Some(reader) => Arc::clone(reader),
                None => Arc::clone(reader.insert(Arc::new(open(&file.of, &file.file)?))),
            }
        };
        if reader.blocks() > 0 {
            reader.read_block((number - file.first) as u64, block)?;
        }
        // Relaxed: only the count matters; the lock orders the rest.
        if file.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            *lock(&file.reader) = None;
        }
        Ok(&file.of)
    }
}
