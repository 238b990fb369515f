//! The bytes of files of rows: their heads, blocks, footers and rows.

use super::format::{HEAD_BYTES, Name, head, seal};
use crate::wal::DatabaseId;
use crate::wal::codec::{push_varint, take, take_varint, u32_at};

pub(super) const MAGIC: [u8; 8] = *b"BRAIDROW";

/// The beginning of a file: the common head, the file's owner, and zeros for future fields.
pub(super) const FILE_HEADER_BYTES: usize = 64;

/// The length of a block's header, which precedes its rows.
pub(super) const BLOCK_HEADER_BYTES: usize = 20;

/// The length of a block's entry in the footer.
pub(super) const FOOTER_ENTRY_BYTES: usize = 12;

/// The approximate length of a block. It is long enough that a read costs little more than its bytes, and short
/// enough that a block stays in a core's cache while its rows are taken out.
pub(super) const BLOCK_BYTES: usize = if cfg!(test) { 256 } else { 256 << 10 };

/// The greatest length of a key and of a value. A row with both, and with its lengths, fits into a block.
pub(super) const BYTES_MAX: usize = if cfg!(test) { 1 << 12 } else { 1 << 30 };

const _: () = assert!(BLOCK_HEADER_BYTES as u64 + 2 * (BYTES_MAX as u64 + 10) < u32::MAX as u64);

/// The part of a table's rows that a file has, and the checkpoint that it was written for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) database: DatabaseId,
    pub(super) checkpoint: u64,
    pub(super) table: u32,
    pub(super) part: u32,
    /// True if keys are eight bytes without a length.
    pub(super) fixed8: bool,
}

impl Owner {
    pub(super) fn name(&self) -> Name {
        Name::Rows(self.checkpoint, self.table, self.part)
    }

    /// Returns the file's first bytes and their checksum.
    pub(super) fn header(&self) -> ([u8; FILE_HEADER_BYTES], u32) {
        let mut bytes = [0; FILE_HEADER_BYTES];
        bytes[..HEAD_BYTES].copy_from_slice(&head(MAGIC, self.database));
        bytes[32..40].copy_from_slice(&self.checkpoint.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.table.to_le_bytes());
        bytes[44] = u8::from(self.fixed8);
        bytes[48..52].copy_from_slice(&self.part.to_le_bytes());
        let checksum = seal(&mut bytes);
        (bytes, checksum)
    }

    /// Returns the checksum of bytes that belong at this offset of the file.
    pub(super) fn checksum(&self, offset: u64, bytes: &[u8]) -> u32 {
        let mut place = [0; 40];
        place[..16].copy_from_slice(&self.database.0.to_le_bytes());
        place[16..24].copy_from_slice(&self.checkpoint.to_le_bytes());
        place[24..28].copy_from_slice(&self.table.to_le_bytes());
        place[28..32].copy_from_slice(&self.part.to_le_bytes());
        place[32..].copy_from_slice(&offset.to_le_bytes());
        crc32c::crc32c_append(crc32c::crc32c(&place), bytes)
    }
}

/// The head of a block. Its checksum covers the block's place and this header, and through the header the rows and
/// all earlier blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub(super) body_bytes: u32,
    pub(super) rows: u32,
    pub(super) body_checksum: u32,
    /// The checksum of the block before, or of the file's header.
    pub(super) previous: u32,
}

impl BlockHeader {
    /// Returns the header's bytes, and the checksum that the next block repeats.
    pub(super) fn encode(&self, owner: &Owner, offset: u64) -> ([u8; BLOCK_HEADER_BYTES], u32) {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[4..8].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.rows.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.body_checksum.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.previous.to_le_bytes());
        let checksum = owner.checksum(offset, &bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        (bytes, checksum)
    }

    /// Reads the header and its checksum from these bytes, without checking them.
    pub(super) fn decode(bytes: &[u8]) -> (BlockHeader, u32) {
        let header = BlockHeader {
            body_bytes: u32_at(bytes, 4),
            rows: u32_at(bytes, 8),
            body_checksum: u32_at(bytes, 12),
            previous: u32_at(bytes, 16),
        };
        (header, u32_at(bytes, 0))
    }
}

/// A block's entry in the footer, and where the block begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) offset: u64,
    pub(super) body_bytes: u32,
    pub(super) rows: u32,
    pub(super) checksum: u32,
}

impl Placed {
    pub(super) fn encode(&self) -> [u8; FOOTER_ENTRY_BYTES] {
        let mut bytes = [0; FOOTER_ENTRY_BYTES];
        bytes[..4].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.rows.to_le_bytes());
        bytes[8..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8], offset: u64) -> Placed {
        let (body_bytes, rows, checksum) = (u32_at(bytes, 0), u32_at(bytes, 4), u32_at(bytes, 8));
        Placed { offset, body_bytes, rows, checksum }
    }

    /// Returns where the next block or the footer begins.
    pub(super) fn end(&self) -> u64 {
        self.offset + BLOCK_HEADER_BYTES as u64 + u64::from(self.body_bytes)
    }
}

/// Adds a row to a block's body.
pub(super) fn push_row(bytes: &mut Vec<u8>, fixed8: bool, key: &[u8], value: &[u8]) {
    if !fixed8 {
        push_varint(bytes, key.len() as u64);
    }
    bytes.extend_from_slice(key);
    push_varint(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
}

#[inline]
fn take_row<'a>(bytes: &mut &'a [u8], fixed8: bool) -> Option<(&'a [u8], &'a [u8])> {
    let key_bytes = if fixed8 { 8 } else { take_varint(bytes)? };
    let key = take(bytes, key_bytes)?;
    let value_bytes = take_varint(bytes)?;
    Some((key, take(bytes, value_bytes)?))
}

/// The rows of a block, as keys and values, in the order in which they were pushed.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    rest: &'a [u8],
    left: u32,
    fixed8: bool,
}

impl<'a> Rows<'a> {
    /// Returns the rows in these bytes. Either [`is_rows`] holds for the bytes, or `rows` is 0.
    pub(super) fn new(bytes: &'a [u8], rows: u32, fixed8: bool) -> Rows<'a> {
        Rows { rest: bytes, left: rows, fixed8 }
    }
}

/// Returns true if the bytes are exactly this many rows.
pub(super) fn is_rows(mut bytes: &[u8], rows: u32, fixed8: bool) -> bool {
    (0..rows).all(|_| take_row(&mut bytes, fixed8).is_some()) && bytes.is_empty()
}

impl<'a> Iterator for Rows<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        self.left = self.left.checked_sub(1)?;
        let row = take_row(&mut self.rest, self.fixed8);
        debug_assert!(row.is_some(), "the bytes were checked before rows were given out");
        row
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Rows<'_> {}
