//! The files of rows of a checkpoint, read block by block by several threads. A file is open only while its blocks are
//! read: a large table has more files than a process may have open.

use crate::checkpoint::{Block, Result, RowsFile, RowsReader};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, lock};
use std::sync::Arc;

/// All blocks of some files, numbered through. Each is to be read once; ascending numbers open few files at a time.
pub(super) struct Blocks<T> {
    files: Vec<OfFile<T>>,
    count: usize,
}

struct OfFile<T> {
    /// What the caller knows the file by.
    of: T,
    file: RowsFile,
    /// The number of its first block.
    first: usize,
    /// Blocks that have not been read.
    left: AtomicU64,
    /// There from the first block that is read to the last.
    reader: Mutex<Option<Arc<RowsReader>>>,
}

impl<T> Blocks<T> {
    /// Those of these files. A file without blocks counts as one that has one, so that it is looked at, too.
    pub(super) fn of(files: impl Iterator<Item = (T, RowsFile)>) -> Blocks<T> {
        let mut blocks = Blocks { files: Vec::new(), count: 0 };
        for (of, file) in files {
            let (first, left) = (blocks.count, file.blocks.max(1));
            // (The count is a promise of the manifest; opening the file shows whether there is room for so many.)
            blocks.count = first.saturating_add(usize::try_from(left).unwrap_or(usize::MAX));
            let (left, reader) = (AtomicU64::new(left), Mutex::new(None));
            blocks.files.push(OfFile { of, file, first, left, reader });
        }
        blocks
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Reads the block of this number, below [`Blocks::count`], with a reader that `open` makes of its file; says what
    /// the file is known by.
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
