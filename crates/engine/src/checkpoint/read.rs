//! Reads the rows of a table, on several threads at once.

use super::block::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, FILE_HEADER_BYTES, FOOTER_ENTRY_BYTES, MAGIC, Owner, Placed, Rows,
    is_rows,
};
use super::checks::{Checks, Proven};
use super::error::damaged;
use super::format::unseal_of;
use super::{Error, Result, RowsFile, files};
use crate::storage::{File, Storage};
use crate::wal::DatabaseId;

/// A file of rows. Any thread reads any block of it.
#[derive(Debug)]
pub struct RowsReader {
    file: Box<dyn File>,
    owner: Owner,
    checks: &'static dyn Checks,
    header_checksum: u32,
    blocks: Vec<Placed>,
}

/// Memory for a block, to be used again for the next one. It has about 256 KiB, or the length of one long row.
#[derive(Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
    /// The number of rows; 0 unless a good block has been read.
    rows: u32,
    fixed8: bool,
}

impl Block {
    /// Returns a block without rows.
    pub fn new() -> Block {
        Block::default()
    }

    /// Returns the block's rows, in the order in which they were pushed. All have been checked.
    pub fn rows(&self) -> Rows<'_> {
        Rows::new(self.bytes.get(BLOCK_HEADER_BYTES..).unwrap_or_default(), self.rows, self.fixed8)
    }

    /// Makes room for `bytes` bytes, without rows, and gives back what a long row took.
    fn reset(&mut self, bytes: usize) -> &mut [u8] {
        self.rows = 0;
        self.bytes.truncate(bytes);
        self.bytes.shrink_to(bytes.max(2 * BLOCK_BYTES));
        self.bytes.resize(bytes, 0);
        &mut self.bytes
    }
}

impl RowsReader {
    /// Opens the file that a manifest names. `fixed8` says whether all keys of its table are eight bytes long. This
    /// reads the header and the footer, and checks that the file is the intended one, with its length.
    pub fn open(
        storage: &dyn Storage,
        database: DatabaseId,
        rows: &RowsFile,
        fixed8: bool,
    ) -> Result<RowsReader> {
        RowsReader::with_checks(storage, database, rows, fixed8, &Proven)
    }

    /// Opens the file like [`RowsReader::open`], with these checks.
    pub(super) fn with_checks(
        storage: &dyn Storage,
        database: DatabaseId,
        rows: &RowsFile,
        fixed8: bool,
        checks: &'static dyn Checks,
    ) -> Result<RowsReader> {
        let RowsFile { checkpoint, table, part, .. } = *rows;
        let owner = Owner { database, checkpoint, table, part, fixed8 };
        let Some(file) = files::open(storage, rows.name())? else {
            return Err(damaged(rows.name().to_string(), 0, "the file is missing"));
        };
        let mut reader = RowsReader { file, owner, checks, header_checksum: 0, blocks: Vec::new() };
        let len_bytes = reader.file.len_bytes()?;
        if len_bytes != rows.bytes {
            return Err(reader.damaged(len_bytes.min(rows.bytes), "the file has another length"));
        }
        reader.read_header(len_bytes)?;
        reader.read_footer(rows)?;
        Ok(reader)
    }

    fn read_header(&mut self, len_bytes: u64) -> Result<()> {
        if len_bytes < FILE_HEADER_BYTES as u64 {
            return Err(self.damaged(len_bytes, "the file ends before its header does"));
        }
        let mut bytes = [0; FILE_HEADER_BYTES];
        self.file.read_exact_at(0, &mut bytes)?;
        unseal_of(self.owner.name(), &bytes, MAGIC, self.owner.database)?;
        let (expected, checksum) = self.owner.header();
        if bytes != expected {
            return Err(self.damaged(0, "the file has the rows of another checkpoint, table or part"));
        }
        self.header_checksum = checksum;
        Ok(())
    }

    /// Reads where the blocks are. The file has the length that `rows` names.
    fn read_footer(&mut self, rows: &RowsFile) -> Result<()> {
        let room = (rows.bytes - FILE_HEADER_BYTES as u64) / (BLOCK_HEADER_BYTES + FOOTER_ENTRY_BYTES) as u64;
        if rows.blocks > room {
            return Err(self.damaged(rows.bytes, "there is no room for so many blocks"));
        }
        let mut footer = vec![0; rows.blocks as usize * FOOTER_ENTRY_BYTES];
        let footer_offset = rows.bytes - footer.len() as u64;
        self.file.read_exact_at(footer_offset, &mut footer)?;
        if !self.checks.is_named(rows, self.owner.checksum(footer_offset, &footer)) {
            return Err(self.damaged(footer_offset, "the footer is not that of which the manifest knows"));
        }
        self.blocks.reserve_exact(rows.blocks as usize);
        let (mut offset, mut row_count) = (FILE_HEADER_BYTES as u64, 0);
        for entry in footer.chunks_exact(FOOTER_ENTRY_BYTES) {
            let block = Placed::decode(entry, offset);
            (offset, row_count) = (block.end(), row_count + u64::from(block.rows));
            self.blocks.push(block);
        }
        if offset != footer_offset || row_count != rows.rows {
            return Err(self.damaged(footer_offset, "the footer does not fit the file"));
        }
        Ok(())
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Returns how many rows the block of this number has, according to the footer.
    pub fn rows_of(&self, number: u64) -> u64 {
        u64::from(self.blocks[number as usize].rows)
    }

    /// Reads the block of this number, which is counted from 0 and below [`RowsReader::blocks`]. Checks its bytes,
    /// its place, and that it is rows. After an error `block` has no rows.
    pub fn read_block(&self, number: u64, block: &mut Block) -> Result<()> {
        let placed = self.blocks[number as usize];
        let previous = match number.checked_sub(1) {
            Some(before) => self.blocks[before as usize].checksum,
            None => self.header_checksum,
        };
        let bytes = block.reset((placed.end() - placed.offset) as usize);
        self.file.read_exact_at(placed.offset, bytes)?;
        let (head, rows) = bytes.split_at(BLOCK_HEADER_BYTES);
        let placed_well = self.checks.place(&self.owner, &placed, previous, head);
        let checked = placed_well.and_then(|()| self.checks.rows(head, rows));
        checked.map_err(|reason| self.damaged(placed.offset, reason))?;
        if !is_rows(rows, placed.rows, self.owner.fixed8) {
            return Err(self.damaged(placed.offset, "the block is not rows"));
        }
        (block.rows, block.fixed8) = (placed.rows, self.owner.fixed8);
        Ok(())
    }

    fn damaged(&self, offset: u64, reason: &'static str) -> Error {
        damaged(self.file.name(), offset, reason)
    }
}
