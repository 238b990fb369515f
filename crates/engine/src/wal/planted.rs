//! Planted errors: a reader without one of its checks, for tests which show that the missing check would be noticed.
//! Such readers are made only here.

use super::checks::{Checks, Proven};
use super::format::{RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::head::{Head, read_header};
use super::{DatabaseId, Ending, Lsn, Reader, Result};
use crate::storage::{File, Storage};

/// The check that a reader omits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Checksums of records.
    NoChecksum,
    /// The wholeness of the body of a record with a good header.
    TornTail,
    /// The number in a segment's header, and the record that the segment and its records follow.
    AnySegment,
}

impl Planted {
    /// Opens a reader like [`Reader::with_ending`], with this error.
    pub fn open(
        self,
        storage: &dyn Storage,
        database: DatabaseId,
        start: Lsn,
        ending: Ending,
    ) -> Result<Reader<'_>> {
        let checks = match self {
            Planted::NoChecksum => &Planted::NoChecksum,
            Planted::TornTail => &Planted::TornTail,
            Planted::AnySegment => &Planted::AnySegment,
        };
        Reader::with_checks(storage, database, start, ending, checks)
    }
}

impl Checks for Planted {
    fn head(&self, file: &dyn File, database: DatabaseId, number: u64) -> Result<Head> {
        let head = read_header(file, database, number)?;
        if !matches!((self, head), (Planted::AnySegment, Head::Prepared)) {
            return Ok(head);
        }
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        file.read_exact_at(0, &mut bytes)?;
        match read_header(file, database, SegmentHeader::fields(&bytes).number)? {
            Head::Begun(other, bytes) if other.number > 0 => {
                Ok(Head::Begun(SegmentHeader { number, ..other }, bytes))
            }
            _ => Ok(head),
        }
    }

    fn header(&self, bytes: &[u8], database: DatabaseId, lsn: u64) -> Option<(RecordHeader, u32)> {
        if *self != Planted::NoChecksum {
            return Proven.header(bytes, database, lsn);
        }
        let (head, behind) = bytes.split_first_chunk()?;
        RecordHeader::fields(head, behind.len() as u64, lsn)
    }

    fn follows(&self, previous: u32, chain: u32) -> bool {
        matches!(self, Planted::NoChecksum | Planted::AnySegment) || Proven.follows(previous, chain)
    }

    fn is_whole(&self, header: &RecordHeader, body: &[u8]) -> bool {
        matches!(self, Planted::NoChecksum | Planted::TornTail) || Proven.is_whole(header, body)
    }
}
