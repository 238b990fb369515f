//! Reads a log while it is written, only up to what is durable.
//!
//! Invariants:
//!
//! - Only bytes before a durable position are read. They do not change as long as their segment exists.
//! - The end of a segment is looked up after that position was read. The header of a segment is durable before its
//!   first record is written. So a record before the position is in this segment if it is not in the next one.
//! - Every record that is returned has passed all checks of [`Reader`](super::Reader), so it was written where it was
//!   found.

use super::checks::{Checks, Proven};
use super::format::{self, Kind, RECORD_HEADER_BYTES, SegmentHeader};
use super::head::{Head, read_header};
use super::reader::{BAD_HEADER, NOT_CHANGES, Record, damaged};
use super::record::ChangeIter;
use super::{DatabaseId, Error, Lsn, Result};
use crate::storage::{File, OpenMode, Storage};
use crate::sync::Arc;
use std::io::ErrorKind;

/// How many bytes are read at once; more if a record is longer.
const CHUNK_BYTES: usize = if cfg!(test) { 256 } else { 256 << 10 };

/// Reads a log from a position on.
#[derive(Debug)]
pub struct Follower {
    storage: Arc<dyn Storage>,
    database: DatabaseId,
    lsn: u64,
    /// The checksum of the record before, if it is known.
    chain: Option<u32>,
    segment: Option<Segment>,
    /// `bytes[taken..]` is the log from `lsn` on, as far as it was read.
    bytes: Vec<u8>,
    taken: usize,
}

/// The segment that is being read.
#[derive(Debug)]
struct Segment {
    header: SegmentHeader,
    file: Box<dyn File>,
    /// The records before this position are in the segment.
    reach: u64,
}

/// What a follower finds next.
#[derive(Debug)]
pub enum Next<'r> {
    /// A commit or a change of the catalog, and the record's checksum.
    Record(Record<'r>, u32),
    /// Everything up to the given durable position has been read.
    End,
    /// The follower needs a buffer of this many bytes to continue: [`Follower::make_room`].
    Room(usize),
}

impl Follower {
    /// Creates a reader from `lsn` on, where a record must begin or the log end. `chain` is the checksum of the
    /// record before. Nothing is read yet.
    pub fn new(storage: Arc<dyn Storage>, database: DatabaseId, lsn: Lsn, chain: Option<u32>) -> Follower {
        Follower { storage, database, lsn: lsn.0, chain, segment: None, bytes: Vec::new(), taken: 0 }
    }

    /// Returns the position behind the last record that was read, and that record's checksum.
    pub fn place(&self) -> (Lsn, Option<u32>) {
        (Lsn(self.lsn), self.chain)
    }

    /// Returns the capacity of the buffer.
    pub fn room_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Grows the buffer to this many bytes.
    pub fn make_room(&mut self, bytes: usize) {
        let held = self.bytes.len();
        self.bytes.reserve_exact(bytes.saturating_sub(held));
    }

    /// Continues up to `until`, which must be durable, and where a record must begin or the log end.
    pub fn next_record(&mut self, until: Lsn) -> Result<Next<'_>> {
        while self.lsn < until.0 {
            self.find_segment(until.0)?;
            if let Some(bytes) = self.fill(RECORD_HEADER_BYTES)? {
                return Ok(Next::Room(bytes));
            }
            let lsn = self.lsn;
            let head = self.bytes[self.taken..].first_chunk().expect("read just now");
            let behind_bytes = self.segment().reach - lsn - RECORD_HEADER_BYTES as u64;
            let found = format::RecordHeader::decode_head(head, behind_bytes, self.database, lsn);
            let (header, checksum) = found.ok_or_else(|| self.damaged("there is no record"))?;
            if !self.chain.is_none_or(|chain| Proven.follows(header.previous, chain)) {
                return Err(self.damaged("the record follows on another record"));
            }
            if let Some(bytes) = self.fill(header.bytes() as usize)? {
                return Ok(Next::Room(bytes));
            }
            let body = self.taken + RECORD_HEADER_BYTES..self.taken + header.bytes() as usize;
            self.check(header, &self.bytes[body.clone()])?;
            (self.lsn, self.chain, self.taken) = (lsn + header.bytes(), Some(checksum), body.end);
            if matches!(header.kind, Kind::Commit | Kind::Catalog) {
                let (lsn, end_lsn) = (Lsn(lsn), Lsn(self.lsn));
                return Ok(Next::Record(Record::new(lsn, end_lsn, &header, &self.bytes[body]), checksum));
            }
        }
        Ok(Next::End)
    }

    /// Fails unless `body` is the body that the header describes.
    fn check(&self, header: format::RecordHeader, body: &[u8]) -> Result<()> {
        if let Some(kind) = header.kind.unknown() {
            let file = format::name(self.segment().header.number);
            return Err(Error::UnknownRecord { file, lsn: Lsn(self.lsn), kind });
        }
        if !Proven.is_whole(&header, body) {
            return Err(self.damaged("the body's checksum is wrong"));
        }
        if header.kind == Kind::Commit && ChangeIter::new(body).is_none() {
            return Err(self.damaged(NOT_CHANGES));
        }
        Ok(())
    }

    fn segment(&self) -> &Segment {
        self.segment.as_ref().expect("it was found before")
    }

    /// Finds the segment that holds the next record. The record is durable, because it lies before `until`.
    fn find_segment(&mut self, until: u64) -> Result<()> {
        debug_assert!(self.lsn < until, "there is a next record");
        if self.segment.is_none() {
            self.segment = Some(self.covering()?);
        }
        // This skips segments that follow one another without a record. There are no more of them than files.
        while self.segment().reach <= self.lsn {
            let next = self.following()?;
            let lsn = self.lsn;
            match next {
                Some(next) if next.header.first_lsn < lsn => {
                    let number = next.header.number;
                    return Err(damaged(number, 0, lsn, "the segment begins before the one before it ends"));
                }
                Some(next) if next.header.first_lsn == lsn => self.enter(next)?,
                next => {
                    let end = next.map_or(until, |next| next.header.first_lsn);
                    self.segment.as_mut().expect("it was found before").reach = end.min(until);
                }
            }
        }
        Ok(())
    }

    /// Opens the last segment that begins at or before the position.
    fn covering(&self) -> Result<Segment> {
        let names = self.storage.list()?;
        for number in names.iter().rev().filter_map(|name| format::number(name)) {
            let Some(segment) = self.open(number)? else { continue };
            if segment.header.first_lsn > self.lsn {
                continue;
            }
            let is_first = segment.header.first_lsn == self.lsn;
            if is_first && self.chain.is_some_and(|chain| !Proven.follows(segment.header.chain, chain)) {
                return Err(damaged(number, 0, self.lsn, FOLLOWS_ANOTHER));
            }
            return Ok(segment);
        }
        Err(Error::Missing {
            lsn: Lsn(self.lsn),
            file: format::name(1),
            reason: "no segment goes back so far",
        })
    }

    /// Opens the segment behind the present one, if it has begun.
    fn following(&self) -> Result<Option<Segment>> {
        self.open(self.segment().header.number + 1)
    }

    /// Opens the segment of this number, if it has begun.
    fn open(&self, number: u64) -> Result<Option<Segment>> {
        let file = match self.storage.open(&format::name(number), OpenMode::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        match read_header(&*file, self.database, number)? {
            Head::Begun(header, _) => Ok(Some(Segment { header, file, reach: header.first_lsn })),
            Head::Prepared => Ok(None),
            Head::Bad => Err(damaged(number, 0, self.lsn, BAD_HEADER)),
        }
    }

    /// Enters the next segment, which begins at the current position.
    fn enter(&mut self, next: Segment) -> Result<()> {
        if self.chain.is_some_and(|chain| !Proven.follows(next.header.chain, chain)) {
            return Err(damaged(next.header.number, 0, self.lsn, FOLLOWS_ANOTHER));
        }
        debug_assert_eq!(self.taken, self.bytes.len(), "nothing was read beyond the segment's end");
        self.bytes.clear();
        self.taken = 0;
        self.segment = Some(next);
        Ok(())
    }

    /// Reads until `wanted` bytes from the position on are in the buffer. If the buffer is too short, returns the
    /// length that it needs.
    fn fill(&mut self, wanted: usize) -> Result<Option<usize>> {
        let unread = self.bytes.len() - self.taken;
        if unread >= wanted {
            return Ok(None);
        }
        let left = self.segment().reach - self.lsn;
        if wanted as u64 > left {
            return Err(self.damaged("the record reaches beyond the end"));
        }
        self.bytes.drain(..self.taken);
        self.taken = 0;
        if self.bytes.capacity() > CHUNK_BYTES && wanted <= CHUNK_BYTES {
            self.bytes.shrink_to(CHUNK_BYTES); // a long record has gone by
        }
        let needed = wanted.max(CHUNK_BYTES);
        if self.bytes.capacity() < needed {
            return Ok(Some(needed));
        }
        let total = left.min(needed as u64) as usize;
        self.bytes.resize(total, 0);
        let Segment { header, file, .. } = self.segment.as_ref().expect("it was found before");
        let offset = header.used_bytes(self.lsn) + unread as u64;
        let read = file.read_exact_at(offset, &mut self.bytes[unread..]);
        if read.is_err() {
            self.bytes.truncate(unread);
        }
        read?;
        Ok(None)
    }

    fn damaged(&self, reason: &'static str) -> Error {
        let SegmentHeader { number, .. } = self.segment().header;
        damaged(number, self.segment().header.used_bytes(self.lsn), self.lsn, reason)
    }
}

const FOLLOWS_ANOTHER: &str = "the segment follows on another record";

/// Returns where the log of this database begins: the beginning of the oldest segment after which none is missing.
/// Returns none if there is no log.
pub fn oldest_lsn(storage: &dyn Storage, database: DatabaseId) -> Result<Option<Lsn>> {
    let mut oldest: Option<SegmentHeader> = None;
    for number in storage.list()?.iter().rev().filter_map(|name| format::number(name)) {
        let file = storage.open(&format::name(number), OpenMode::Read)?;
        let Some((header, _)) = read_header(&*file, database, number)?.begun() else { continue };
        if oldest.is_some_and(|oldest| oldest.number != number + 1) {
            break;
        }
        oldest = Some(header);
    }
    Ok(oldest.map(|oldest| Lsn(oldest.first_lsn)))
}
