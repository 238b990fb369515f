//! What is looked at before a block's rows are given out, beside that they are rows. Where tests put another form of one
//! check in its place, to show that it is needed (`planted.rs`), a reader has other [`Checks`] than [`Proven`].

use super::RowsFile;
use super::block::{BlockHeader, Owner, Placed};
use std::fmt::Debug;

/// The checks of a file of rows.
pub(super) trait Checks: Debug + Sync {
    /// Whether a file whose footer has this checksum is the one that the manifest means: under the same name an attempt
    /// before may have left another. The footer has the checksum of each block, so this holds for all of them.
    fn is_named(&self, rows: &RowsFile, footer_checksum: u32) -> bool {
        footer_checksum == rows.checksum
    }

    /// What is wrong with a block's header, unless it was written at this place: its checksum covers the place, is the one
    /// that the footer has, and the header repeats that of the block before.
    fn place(&self, owner: &Owner, placed: &Placed, previous: u32, head: &[u8]) -> Result<(), &'static str> {
        let (header, checksum) = BlockHeader::decode(head);
        if header.encode(owner, placed.offset).1 != checksum {
            return Err("the checksum of the block's header is wrong");
        }
        if checksum != placed.checksum {
            return Err("the block is not that of which the footer knows");
        }
        if header.previous != previous {
            return Err("the block follows on another block");
        }
        if (header.body_bytes, header.rows) != (placed.body_bytes, placed.rows) {
            return Err("the block has another length than the footer says");
        }
        Ok(())
    }

    /// What is wrong with a block's rows, unless they are those of which its header has the checksum.
    fn rows(&self, head: &[u8], rows: &[u8]) -> Result<(), &'static str> {
        if crc32c::crc32c(rows) != BlockHeader::decode(head).0.body_checksum {
            return Err("the checksum of the block's rows is wrong");
        }
        Ok(())
    }
}

/// The checks as they are argued for.
#[derive(Debug)]
pub(super) struct Proven;

impl Checks for Proven {}
