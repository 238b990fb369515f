//! Writes the rows of a range of a table's keys.

use super::block::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, BYTES_MAX, BlockHeader, FILE_HEADER_BYTES, Owner, Placed, push_row,
};
use super::{Error, Result, RowsFile, files};
use crate::storage::{File, OpenMode, Storage};
use crate::wal::DatabaseId;

/// The size of the pieces that the system is told to write. What piles up in its memory would delay the last sync,
/// and other files' syncs with it.
const WRITE_BACK_BYTES: u64 = 256 << 10;

/// What a file of rows is written for. No other file has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsOf {
    /// The checkpoint. Its number came from [`number_next`](super::number_next), and it has no file yet.
    pub checkpoint: u64,
    /// The table's number.
    pub table: u32,
    /// The number of the file among those that the checkpoint writes for this table.
    pub part: u32,
}

/// Writes a file of rows, block by block. Rows keep the order in which they are pushed, which is best the order of
/// their keys. Nothing here depends on that, but rows that are loaded in order are loaded fast.
///
/// Memory holds the block that is being filled, and 12 bytes for each earlier block. After an error nothing more is
/// written and there is no [`RowsFile`], because nothing in a file can be trusted after its sync has failed.
#[derive(Debug)]
pub struct RowsWriter {
    file: Box<dyn File>,
    owner: Owner,
    /// The block that is being filled, with room for its header.
    block: Vec<u8>,
    block_rows: u32,
    /// Where that block will begin.
    offset: u64,
    /// The position up to which the system has been told to write.
    written_back: u64,
    /// The checksum of what lies before that block.
    previous: u32,
    footer: Vec<u8>,
    rows: u64,
    blocks: u64,
    failed: Option<Error>,
}

impl RowsWriter {
    /// Creates a file for rows of a table. With `fixed8` all keys are eight bytes long.
    pub fn create(
        storage: &dyn Storage,
        database: DatabaseId,
        of: RowsOf,
        fixed8: bool,
    ) -> Result<RowsWriter> {
        let RowsOf { checkpoint, table, part } = of;
        let owner = Owner { database, checkpoint, table, part, fixed8 };
        let file = storage.open(&owner.name().to_string(), OpenMode::CreateNew)?;
        let (header, previous) = owner.header();
        file.write_all_at(0, &header)?;
        Ok(RowsWriter {
            file,
            owner,
            block: vec![0; BLOCK_HEADER_BYTES],
            block_rows: 0,
            offset: FILE_HEADER_BYTES as u64,
            written_back: 0,
            previous,
            footer: Vec::new(),
            rows: 0,
            blocks: 0,
            failed: None,
        })
    }

    /// Adds a row. Returns how many bytes were written for it: none while a block fills. The caller can use this to
    /// slow down.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<u64> {
        if self.owner.fixed8 {
            assert_eq!(key.len(), 8, "keys of this table are eight bytes long");
        }
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let bytes = key.len().max(value.len());
        files::check_bytes(self.file.name(), bytes as u64, BYTES_MAX as u64)?;
        let before = self.offset;
        // A row that does not fit begins a block. A row that is longer than a block gets its own.
        if self.block_rows > 0 && self.block.len() + key.len() + value.len() > BLOCK_BYTES {
            self.write_block()?;
        }
        push_row(&mut self.block, self.owner.fixed8, key, value);
        self.block_rows += 1;
        if self.block.len() >= BLOCK_BYTES {
            self.write_block()?;
        }
        Ok(self.offset - before)
    }

    /// Returns how many bytes the file has so far, including the block that is being filled.
    pub fn bytes(&self) -> u64 {
        self.offset + (self.block.len() - BLOCK_HEADER_BYTES) as u64
    }

    /// Ends the file. Its data is durable when this returns. Its name becomes durable with the next sync of the
    /// directory, which [`publish`](super::publish) makes before a manifest gets its name.
    pub fn finish(mut self) -> Result<RowsFile> {
        if self.block_rows > 0 {
            self.write_block()?;
        }
        let footer = std::mem::take(&mut self.footer);
        self.attempt(|writer| Ok(writer.file.write_all_at(writer.offset, &footer)?))?;
        self.attempt(|writer| Ok(writer.file.sync_data()?))?;
        Ok(RowsFile {
            checkpoint: self.owner.checkpoint,
            table: self.owner.table,
            part: self.owner.part,
            rows: self.rows,
            blocks: self.blocks,
            bytes: self.offset + footer.len() as u64,
            checksum: self.owner.checksum(self.offset, &footer),
        })
    }

    /// Makes the system write what has piled up. Nothing is synced until the file is whole: the syncs of other files,
    /// those of the log, would queue behind that sync.
    fn write_back(&mut self) {
        let bytes = self.offset - self.written_back;
        if bytes >= WRITE_BACK_BYTES {
            self.file.write_back(self.written_back, bytes);
            self.written_back = self.offset;
        }
    }

    fn write_block(&mut self) -> Result<()> {
        assert!(self.block_rows > 0, "blocks have rows");
        let body = &self.block[BLOCK_HEADER_BYTES..];
        let header = BlockHeader {
            body_bytes: u32::try_from(body.len()).expect("a block is one row or short"),
            rows: self.block_rows,
            body_checksum: crc32c::crc32c(body),
            previous: self.previous,
        };
        let (bytes, checksum) = header.encode(&self.owner, self.offset);
        self.block[..BLOCK_HEADER_BYTES].copy_from_slice(&bytes);
        self.attempt(|writer| Ok(writer.file.write_all_at(writer.offset, &writer.block)?))?;
        let (body_bytes, rows) = (header.body_bytes, header.rows);
        let placed = Placed { offset: self.offset, body_bytes, rows, checksum };
        self.footer.extend_from_slice(&placed.encode());
        (self.offset, self.previous) = (placed.end(), checksum);
        self.rows += u64::from(rows);
        self.blocks += 1;
        self.block.truncate(BLOCK_HEADER_BYTES);
        // This gives back what a long row took.
        self.block.shrink_to(2 * BLOCK_BYTES);
        self.block_rows = 0;
        self.write_back();
        Ok(())
    }

    /// Runs `act` on the file, unless something has failed earlier.
    fn attempt(&mut self, act: impl FnOnce(&RowsWriter) -> Result<()>) -> Result<()> {
        let done = self.failed.clone().map_or_else(|| act(self), Err);
        self.failed = done.as_ref().err().cloned();
        done
    }
}
