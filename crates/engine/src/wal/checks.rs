//! The checks that a record of a log passes before it counts. Tests replace a single check by another form
//! (`planted.rs`), to show that the check is needed: such a reader has other [`Checks`] than [`Proven`].

use super::format::RecordHeader;
use super::head::{Head, read_header};
use super::{DatabaseId, Result};
use crate::storage::File;
use std::fmt::Debug;

/// The checks of a log that is read from its segments.
pub(super) trait Checks: Debug + Sync {
    /// Reads the beginning of this segment's file. A header counts only for the segment of its own number, because
    /// files are used again under other names.
    fn head(&self, file: &dyn File, database: DatabaseId, number: u64) -> Result<Head> {
        read_header(file, database, number)
    }

    /// Returns the header of a record, and its checksum, if these bytes begin with a record that was written at
    /// `lsn`. The checksum covers the position.
    fn header(&self, bytes: &[u8], database: DatabaseId, lsn: u64) -> Option<(RecordHeader, u32)> {
        RecordHeader::decode(bytes, database, lsn)
    }

    /// Returns true if a record or a segment continues the log where it was read to. `previous` is the checksum of an
    /// earlier record that it repeats. If it follows another record, it belongs to a log that was once cut off here.
    fn follows(&self, previous: u32, chain: u32) -> bool {
        previous == chain
    }

    /// Returns true if the body of a record is whole. The write of it may have been cut short behind the header.
    fn is_whole(&self, header: &RecordHeader, body: &[u8]) -> bool {
        crc32c::crc32c(body) == header.body_checksum
    }
}

/// The checks for which the design argues.
#[derive(Debug)]
pub(super) struct Proven;

impl Checks for Proven {}
