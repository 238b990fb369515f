//! The checks that a block passes before its rows are returned, besides the check that they are rows. Tests replace a
//! single check by another form (`planted.rs`), to show that the check is needed: such a reader has other [`Checks`]
//! than [`Proven`].

use super::RowsFile;
use super::block::{BlockHeader, Owner, Placed};
use std::fmt::Debug;

/// The checks of a file of rows.
pub(super) trait Checks: Debug + Sync {
    /// Returns true if a file whose footer has this checksum is the file that the manifest names. An earlier attempt
    /// may have left another file under the same name. The footer has the checksum of each block, so this check
    /// covers all of them.
    fn is_named(&self, rows: &RowsFile, footer_checksum: u32) -> bool {
        footer_checksum == rows.checksum
    }

    /// Returns what is wrong with a block's header, unless it was written at this place. Its checksum has to cover
    /// the place and to equal the checksum in the footer, and the header has to repeat the checksum of the block
    /// before.
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

    /// Returns what is wrong with a block's rows, unless they have the checksum that the header names.
    fn rows(&self, head: &[u8], rows: &[u8]) -> Result<(), &'static str> {
        if crc32c::crc32c(rows) != BlockHeader::decode(head).0.body_checksum {
            return Err("the checksum of the block's rows is wrong");
        }
        Ok(())
    }
}

/// The checks for which the design argues.
#[derive(Debug)]
pub(super) struct Proven;

impl Checks for Proven {}
