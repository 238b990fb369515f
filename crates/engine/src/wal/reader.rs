//! Reading a log back after a crash or a close.

use super::codec::u64_at;
use super::format::{self, Decoded, Kind, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader, TIME_BYTES};
use super::record::ChangeIter;
use super::{DatabaseId, Error, Lsn, Mark, Planted, Result, SEGMENT_BYTES_MAX, Tail};
use crate::storage::{File, OpenMode, Storage};
use std::ops::Range;

/// A record that was read.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Where it begins.
    pub lsn: Lsn,
    /// Where it ends.
    pub end_lsn: Lsn,
    /// The commit timestamp that it was appended with; 0 where it is no commit.
    pub commit_timestamp: u64,
    kind: Kind,
    body: &'a [u8],
}

impl<'a> Record<'a> {
    /// The changes of a commit, in the order in which they were made; none where it is no commit.
    pub fn changes(&self) -> ChangeIter<'a> {
        let changes = if self.kind == Kind::Commit { self.body } else { &[] };
        ChangeIter::new(changes).expect("the body was looked at when it was read")
    }

    /// What a change of the catalog was appended with.
    pub fn catalog(&self) -> Option<&'a [u8]> {
        (self.kind == Kind::Catalog).then_some(self.body)
    }
}

/// Reads a log from a position to its end, one record after the other, and believes nothing unchecked.
#[derive(Debug)]
pub struct Reader<'a> {
    storage: &'a dyn Storage,
    database: DatabaseId,
    planted: Planted,
    start: u64,
    /// What is known of the end so far; its segments are all that have begun.
    tail: Tail,
    /// Which segment is being read.
    at: usize,
    /// The number of a segment behind the last that has begun, if there is a file.
    prepared: Option<u64>,
    /// The file of the segment that is being read.
    bytes: Vec<u8>,
    is_done: bool,
}

/// A record in the segment that is being read.
pub(super) struct Found {
    lsn: u64,
    header: RecordHeader,
    checksum: u32,
    body: Range<usize>,
}

impl Found {
    /// Whether it is one to give out to who reads from `start` on.
    pub(super) fn is_wanted(&self, start: u64) -> bool {
        matches!(self.header.kind, Kind::Commit | Kind::Catalog) && self.lsn >= start
    }
}

impl<'a> Reader<'a> {
    /// A reader of this database's log from `start` on, which is where a record begins, or the end. A log that
    /// was never written is empty.
    pub fn open(storage: &'a dyn Storage, database: DatabaseId, start: Lsn) -> Result<Reader<'a>> {
        Reader::with_planted(storage, database, start, Planted::None)
    }

    /// As [`Reader::open`], with an error.
    pub fn with_planted(
        storage: &'a dyn Storage,
        database: DatabaseId,
        start: Lsn,
        planted: Planted,
    ) -> Result<Reader<'a>> {
        let mut reader = Reader {
            storage,
            database,
            planted,
            start: start.0,
            tail: Tail::default(),
            at: 0,
            prepared: None,
            bytes: Vec::new(),
            is_done: false,
        };
        reader.find_segments()?;
        if reader.tail.segments.is_empty() {
            reader.check_prepared()?;
            reader.is_done = true;
        } else {
            reader.enter(reader.at)?;
        }
        Ok(reader)
    }

    /// A reader of one segment that has begun, as if the log began there, whatever is missing or damaged elsewhere.
    /// It ends where the log does, unless `next` is the header of the segment behind: then, by the caller's care, when
    /// [`Reader::lsn`] is where that begins. `prepared`: what may be there behind the last one.
    pub(super) fn of_segment(
        storage: &'a dyn Storage,
        database: DatabaseId,
        segment: (SegmentHeader, u64),
        next: Option<(SegmentHeader, u64)>,
        prepared: Option<u64>,
    ) -> Result<Reader<'a>> {
        debug_assert!(next.is_none() || prepared.is_none(), "what is prepared comes last");
        let segments = std::iter::once(segment).chain(next).collect();
        let mut reader = Reader {
            storage,
            database,
            planted: Planted::None,
            start: 0,
            tail: Tail { segments, ..Tail::default() },
            at: 0,
            prepared,
            bytes: Vec::new(),
            is_done: false,
        };
        reader.enter(0)?;
        Ok(reader)
    }

    /// Behind the last record that was read.
    pub(super) fn lsn(&self) -> u64 {
        self.tail.lsn
    }

    /// Where that is in the file, from its beginning.
    pub(super) fn file_offset(&self) -> u64 {
        self.offset(self.tail.lsn) as u64
    }

    /// Whether any of the log is there.
    pub fn has_begun(&self) -> bool {
        !self.tail.segments.is_empty()
    }

    /// What is known of the end so far.
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Finds the segments that have begun, and the one to start with. All from there on must be there.
    fn find_segments(&mut self) -> Result<()> {
        let mut numbers = Vec::new();
        for number in self.storage.list()?.iter().filter_map(|name| format::number(name)) {
            let file = self.storage.open(&format::name(number), OpenMode::Read)?;
            numbers.push((number, read_header(&*file, self.database, number, self.planted)?));
        }
        let covers =
            |header: &Option<(SegmentHeader, u64)>| header.is_some_and(|(h, _)| h.first_lsn <= self.start);
        let Some(first) = numbers.iter().rposition(|(_, header)| covers(header)) else {
            return self.without_segments(&numbers);
        };
        for (at, pair) in numbers.windows(2).enumerate().skip(first) {
            let [(number, Some((header, _))), (next, next_header)] = pair else { continue };
            let is_last = at + 2 == numbers.len();
            if *next != number + 1 || (next_header.is_none() && !is_last) {
                return Err(damaged(*next, 0, header.first_lsn, "a segment is missing"));
            }
            if next_header.is_some_and(|(next, _)| next.first_lsn < header.first_lsn) {
                return Err(damaged(*next, 0, header.first_lsn, "a segment begins before the one before it"));
            }
        }
        let begun: Vec<_> = numbers.iter().filter_map(|(_, header)| *header).collect();
        self.at = begun.len() - numbers[first..].iter().filter(|(_, header)| header.is_some()).count();
        self.prepared = numbers.last().filter(|(_, header)| header.is_none()).map(|(number, _)| *number);
        self.tail.segments = begun;
        Ok(())
    }

    /// There may be no log yet, and at most its first segment may have been prepared.
    fn without_segments(&mut self, numbers: &[(u64, Option<(SegmentHeader, u64)>)]) -> Result<()> {
        match numbers {
            _ if self.start > 0 => Err(Error::Missing { lsn: Lsn(self.start) }),
            [] => Ok(()),
            [(1, None)] => {
                self.prepared = Some(1);
                Ok(())
            }
            [(number, None), ..] => Err(damaged(*number, 0, 0, "the header of the first segment is bad")),
            _ => Err(Error::Missing { lsn: Lsn(0) }),
        }
    }

    fn load(&self, number: u64) -> Result<Vec<u8>> {
        let file = self.storage.open(&format::name(number), OpenMode::Read)?;
        let len_bytes = file.len_bytes()?;
        if len_bytes > SEGMENT_BYTES_MAX {
            return Err(damaged(number, 0, self.tail.lsn, "the file is longer than a segment can be"));
        }
        let mut bytes = vec![0; len_bytes as usize];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Goes on with this segment, which goes on where the one before ended.
    fn enter(&mut self, at: usize) -> Result<()> {
        let (header, _) = self.tail.segments[at];
        let is_first = self.bytes.is_empty();
        if !is_first && header.chain != self.tail.chain && self.planted != Planted::AnySegment {
            return Err(damaged(header.number, 0, header.first_lsn, "the segment follows on another record"));
        }
        self.bytes = self.load(header.number)?;
        self.at = at;
        (self.tail.lsn, self.tail.chain) = (header.first_lsn, header.chain);
        // A segment begins when all before it is durable.
        self.tail.run_start = header.first_lsn;
        Ok(())
    }

    fn segment(&self) -> SegmentHeader {
        self.tail.segments[self.at].0
    }

    /// The next record, or none at the end of the log.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>> {
        while let Some(found) = self.advance()? {
            if found.is_wanted(self.start) {
                return Ok(Some(self.record(found)));
            }
        }
        Ok(None)
    }

    /// The record that `advance` has gone over just now.
    pub(super) fn record(&self, found: Found) -> Record<'_> {
        Record {
            lsn: Lsn(found.lsn),
            end_lsn: Lsn(self.tail.lsn),
            commit_timestamp: found.header.commit_timestamp,
            kind: found.header.kind,
            body: &self.bytes[found.body],
        }
    }

    /// Reads the rest and says where the log ends.
    pub fn finish(mut self) -> Result<Tail> {
        while self.advance()?.is_some() {}
        Ok(self.tail)
    }

    /// Goes over the next record, of whatever kind.
    pub(super) fn advance(&mut self) -> Result<Option<Found>> {
        while !self.is_done {
            let end_lsn = self.tail.segments.get(self.at + 1).map(|(next, _)| next.first_lsn);
            if end_lsn == Some(self.tail.lsn) {
                self.enter(self.at + 1)?;
                continue;
            }
            match self.find() {
                Ok(Found { lsn, header: RecordHeader { kind, .. }, .. }) if kind.unknown().is_some() => {
                    let file = format::name(self.segment().number);
                    let kind = kind.unknown().expect("looked at just now");
                    return Err(Error::UnknownRecord { file, lsn: Lsn(lsn), kind });
                }
                Ok(found) if end_lsn.is_none_or(|end| found.lsn + found.header.bytes() <= end) => {
                    self.tail.lsn += found.header.bytes();
                    self.tail.chain = found.checksum;
                    self.tail.run_start = found.lsn - u64::from(found.header.run_bytes);
                    self.tail.is_closed = found.header.kind == Kind::Close;
                    self.note_time(&found);
                    return Ok(Some(found));
                }
                Ok(_) => return Err(self.damaged("the record reaches into the next segment")),
                Err(reason) if end_lsn.is_some() => return Err(self.damaged(reason)),
                Err(_) => self.end()?,
            }
        }
        Ok(None)
    }

    /// Notes up to where the time is told: by a mark, or by closing, which a mark precedes.
    fn note_time(&mut self, found: &Found) {
        let end_lsn = Lsn(self.tail.lsn);
        match found.header.kind {
            Kind::Time => {
                let unix_ns = u64_at(&self.bytes, found.body.start);
                self.tail.mark = Some(Mark { lsn: Lsn(found.lsn), end_lsn, unix_ns });
                self.tail.marked_lsn = end_lsn.0;
            }
            Kind::Close => self.tail.marked_lsn = end_lsn.0,
            _ => {}
        }
    }

    /// The next record of the time, past all others, or none at the end of the log.
    pub fn next_mark(&mut self) -> Result<Option<Mark>> {
        while let Some(found) = self.advance()? {
            if found.header.kind == Kind::Time {
                return Ok(self.tail.mark);
            }
        }
        Ok(None)
    }

    /// The last record of the time that was gone over.
    pub fn mark(&self) -> Option<Mark> {
        self.tail.mark
    }

    /// The record at the current position, or what is wrong with it.
    fn find(&self) -> Result<Found, &'static str> {
        let lsn = self.tail.lsn;
        let offset = self.offset(lsn);
        let (header, checksum) =
            self.header_at(offset, lsn, self.planted != Planted::NoChecksum).ok_or("there is no record")?;
        if !self.is_lax() && header.previous != self.tail.chain {
            return Err("the record follows on another record");
        }
        let start = offset + format::RECORD_HEADER_BYTES;
        let body = start..start + header.body_bytes as usize;
        let is_whole = crc32c::crc32c(&self.bytes[body.clone()]) == header.body_checksum;
        if !is_whole && !matches!(self.planted, Planted::NoChecksum | Planted::TornTail) {
            return Err("the body's checksum is wrong");
        }
        if header.kind == Kind::Commit && ChangeIter::new(&self.bytes[body.clone()]).is_none() {
            return Err("the body is not a list of changes");
        }
        if header.kind == Kind::Time && body.len() < TIME_BYTES {
            return Err("the body is no time");
        }
        Ok(Found { lsn, header, checksum, body })
    }

    fn is_lax(&self) -> bool {
        matches!(self.planted, Planted::NoChecksum | Planted::AnySegment)
    }

    fn header_at(&self, offset: usize, lsn: u64, is_checked: bool) -> Option<(RecordHeader, u32)> {
        RecordHeader::decode(self.bytes.get(offset..)?, self.database, lsn, is_checked)
    }

    fn offset(&self, lsn: u64) -> usize {
        SEGMENT_HEADER_BYTES + (lsn - self.segment().first_lsn) as usize
    }

    /// Makes sure that the log ends here: nothing shows that what should be here was durable once.
    fn end(&mut self) -> Result<()> {
        let lsn = self.tail.lsn;
        let first = self.offset(lsn);
        for offset in first..self.bytes.len() {
            let other = lsn + (offset - first) as u64;
            let Some((header, _)) = self.header_at(offset, other, true) else { continue };
            if other - u64::from(header.run_bytes) > lsn {
                return Err(
                    self.damaged("no good record, but later ones that were written when it was durable")
                );
            }
            if offset == first && header.previous != self.tail.chain {
                return Err(self.damaged("the record follows on another record"));
            }
            let dropped = other + header.bytes() - lsn;
            self.tail.dropped_bytes = self.tail.dropped_bytes.max(dropped);
        }
        self.check_prepared()?;
        if lsn < self.start {
            return Err(Error::Missing { lsn: Lsn(self.start) });
        }
        self.is_done = true;
        Ok(())
    }

    /// A segment without a header must hold no record: headers are durable before records are written.
    fn check_prepared(&self) -> Result<()> {
        let Some(number) = self.prepared else { return Ok(()) };
        let bytes = self.load(number)?;
        let lsn = self.tail.lsn;
        for offset in SEGMENT_HEADER_BYTES..bytes.len() {
            let other = lsn + (offset - SEGMENT_HEADER_BYTES) as u64;
            if RecordHeader::decode(&bytes[offset..], self.database, other, true).is_some() {
                return Err(damaged(number, 0, lsn, "the segment has records and no good header"));
            }
        }
        Ok(())
    }

    fn damaged(&self, reason: &'static str) -> Error {
        damaged(self.segment().number, self.offset(self.tail.lsn) as u64, self.tail.lsn, reason)
    }
}

/// The header of a segment that has begun, and the length of the file.
pub(super) fn read_header(
    file: &dyn File,
    database: DatabaseId,
    number: u64,
    planted: Planted,
) -> Result<Option<(SegmentHeader, u64)>> {
    let len_bytes = file.len_bytes()?;
    if !(SEGMENT_HEADER_BYTES as u64..=SEGMENT_BYTES_MAX).contains(&len_bytes) {
        return Ok(None);
    }
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    file.read_exact_at(0, &mut bytes)?;
    match SegmentHeader::decode(&bytes, database, number, planted) {
        Decoded::Valid(header) => Ok(Some((header, len_bytes))),
        Decoded::Unsupported(version) => {
            Err(Error::UnsupportedVersion { file: format::name(number), version })
        }
        Decoded::Invalid => Ok(None),
    }
}

fn damaged(number: u64, offset: u64, lsn: u64, reason: &'static str) -> Error {
    Error::Damaged { file: format::name(number), offset, lsn: Lsn(lsn), reason }
}
