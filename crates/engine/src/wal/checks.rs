//! What is looked at before a record of a log counts. Where tests put another form of one check in its place, to show that
//! it is needed (`planted.rs`), a reader has other [`Checks`] than [`Proven`].

use super::format::RecordHeader;
use super::head::{Head, read_header};
use super::{DatabaseId, Result};
use crate::storage::File;
use std::fmt::Debug;

/// The checks of a log that is read from its segments.
pub(super) trait Checks: Debug + Sync {
    /// What the file of this segment begins with. A header counts for the segment of its own number alone: files are used
    /// again, under other names.
    fn head(&self, file: &dyn File, database: DatabaseId, number: u64) -> Result<Head> {
        read_header(file, database, number)
    }

    /// The header of a record, and its checksum, if these bytes begin with one that was written at this position: its
    /// checksum covers the position.
    fn header(&self, bytes: &[u8], database: DatabaseId, lsn: u64) -> Option<(RecordHeader, u32)> {
        RecordHeader::decode(bytes, database, lsn)
    }

    /// Whether a record or a segment, which repeats this checksum of a record before it, goes on where the log was read to:
    /// behind another record it is of a log that was cut off there once.
    fn follows(&self, previous: u32, chain: u32) -> bool {
        previous == chain
    }

    /// Whether the body of a record is whole: the write of it may have been cut short behind the header.
    fn is_whole(&self, header: &RecordHeader, body: &[u8]) -> bool {
        crc32c::crc32c(body) == header.body_checksum
    }
}

/// The checks as they are argued for.
#[derive(Debug)]
pub(super) struct Proven;

impl Checks for Proven {}
