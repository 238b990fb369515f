//! The beginning of a segment's file.

use super::format::{self, Decoded, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::{DatabaseId, Error, Result};
use crate::storage::File;

/// What a segment's file begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Head {
    /// The segment's header, and the length of the file.
    Begun(SegmentHeader, u64),
    /// A header that says that the segment has not begun.
    Prepared,
    /// Nothing that was written there. Every state that a crash can leave is one of the other two.
    Bad,
}

impl Head {
    /// Returns the header and the file's length, if the segment has begun.
    pub(super) fn begun(&self) -> Option<(SegmentHeader, u64)> {
        if let Head::Begun(header, bytes) = self { Some((*header, *bytes)) } else { None }
    }
}

/// Reads the beginning of this segment's file. The header of another database is an error.
pub(super) fn read_header(file: &dyn File, database: DatabaseId, number: u64) -> Result<Head> {
    let len_bytes = file.len_bytes()?;
    if len_bytes < SEGMENT_HEADER_BYTES as u64 {
        return Ok(Head::Bad);
    }
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    file.read_exact_at(0, &mut bytes)?;
    match SegmentHeader::decode(&bytes, database, number) {
        Decoded::Begun(header) => Ok(Head::Begun(header, len_bytes)),
        Decoded::Prepared => Ok(Head::Prepared),
        Decoded::Unsupported(version) => {
            Err(Error::UnsupportedVersion { file: format::name(number), version })
        }
        Decoded::Foreign(other) => Err(Error::Foreign { file: format::name(number), other, database }),
        Decoded::Invalid => Ok(Head::Bad),
    }
}
