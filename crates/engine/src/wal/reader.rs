//! Reads a log back after a crash or a close.

use super::checks::{Checks, Proven};
use super::codec::u64_at;
use super::format::{self, Kind, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader, TIME_BYTES};
use super::head::Head;
use super::record::ChangeIter;
use super::{DatabaseId, Ending, Error, Lsn, Mark, Result, Tail};
use crate::storage::{OpenMode, Storage};
use std::ops::Range;

/// A record that was read.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Where the record begins.
    pub lsn: Lsn,
    /// Where the record ends.
    pub end_lsn: Lsn,
    /// The commit timestamp that the record was appended with; 0 if it is no commit.
    pub commit_timestamp: u64,
    kind: Kind,
    body: &'a [u8],
}

impl<'a> Record<'a> {
    /// Makes a record with this body, which has been checked.
    pub(super) fn new(lsn: Lsn, end_lsn: Lsn, header: &RecordHeader, body: &'a [u8]) -> Record<'a> {
        let RecordHeader { commit_timestamp, kind, .. } = *header;
        Record { lsn, end_lsn, commit_timestamp, kind, body }
    }

    /// Returns the changes of a commit, in the order in which they were made. There are none if the record is no
    /// commit.
    pub fn changes(&self) -> ChangeIter<'a> {
        let changes = if self.kind == Kind::Commit { self.body } else { &[] };
        ChangeIter::new(changes).expect("the body was looked at when it was read")
    }

    /// Returns the entry with which a change of the catalog was appended.
    pub fn catalog(&self) -> Option<&'a [u8]> {
        (self.kind == Kind::Catalog).then_some(self.body)
    }
}

/// Reads a log from a position to its end, one record after the other, and trusts nothing unchecked.
#[derive(Debug)]
pub struct Reader<'a> {
    storage: &'a dyn Storage,
    database: DatabaseId,
    checks: &'static dyn Checks,
    start: u64,
    /// What is known of the end beforehand. Unless it is `Open`, the unused end of the last file may have been given
    /// back.
    ending: Ending,
    /// What is known of the end so far. Its segments are all that have begun.
    tail: Tail,
    /// The index of the segment that is being read.
    at: usize,
    /// The number of a segment behind the last one that has begun, if there is a file.
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
    /// Returns true if a reader from `start` on returns the record to its caller.
    pub(super) fn is_wanted(&self, start: u64) -> bool {
        matches!(self.header.kind, Kind::Commit | Kind::Catalog) && self.lsn >= start
    }
}

impl<'a> Reader<'a> {
    /// Opens a reader of this database's log from `start` on, where a record must begin or the log end. A log that
    /// was never written is empty.
    pub fn open(storage: &'a dyn Storage, database: DatabaseId, start: Lsn) -> Result<Reader<'a>> {
        Reader::with_ending(storage, database, start, Ending::Open)
    }

    /// Opens a reader like [`Reader::open`], for a log whose end is known. It is an error if the log ends earlier.
    /// The caller checks whether the log goes on behind the known end ([`Tail::check`]).
    pub fn with_ending(
        storage: &'a dyn Storage,
        database: DatabaseId,
        start: Lsn,
        ending: Ending,
    ) -> Result<Reader<'a>> {
        Reader::with_checks(storage, database, start, ending, &Proven)
    }

    /// Opens a reader with these checks.
    pub(super) fn with_checks(
        storage: &'a dyn Storage,
        database: DatabaseId,
        start: Lsn,
        ending: Ending,
        checks: &'static dyn Checks,
    ) -> Result<Reader<'a>> {
        let mut reader = Reader {
            storage,
            database,
            checks,
            start: start.0,
            ending,
            tail: Tail::default(),
            at: 0,
            prepared: None,
            bytes: Vec::new(),
            is_done: false,
        };
        reader.find_segments()?;
        if reader.tail.segments.is_empty() {
            reader.check_prepared()?;
            reader.check_ending()?;
            reader.is_done = true;
        } else {
            reader.enter(reader.at)?;
        }
        Ok(reader)
    }

    /// Opens a reader of one segment that has begun, as if the log began there, whatever is missing or damaged
    /// elsewhere. The reader ends where the log does, unless `next` is the header of the following segment: then the
    /// caller ends when [`Reader::lsn`] is where `next` begins. `prepared` is the segment that may exist behind the
    /// last one.
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
            checks: &Proven,
            start: 0,
            ending: Ending::Unknown,
            tail: Tail { segments, ..Tail::default() },
            at: 0,
            prepared,
            bytes: Vec::new(),
            is_done: false,
        };
        reader.enter(0)?;
        Ok(reader)
    }

    /// Returns the position behind the last record that was read.
    pub(super) fn lsn(&self) -> u64 {
        self.tail.lsn
    }

    /// Returns the offset of that position in the file.
    pub(super) fn file_offset(&self) -> u64 {
        self.offset(self.tail.lsn) as u64
    }

    /// Returns true if any of the log exists.
    pub fn has_begun(&self) -> bool {
        !self.tail.segments.is_empty()
    }

    /// Returns what is known of the end so far.
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Returns how many bytes the reader holds of the segment that is being read.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Finds the segments that have begun, and the segment to start with. From there on no segment may be missing.
    fn find_segments(&mut self) -> Result<()> {
        let mut heads = Vec::new();
        for number in self.storage.list()?.iter().filter_map(|name| format::number(name)) {
            let file = self.storage.open(&format::name(number), OpenMode::Read)?;
            heads.push((number, self.checks.head(&*file, self.database, number)?));
        }
        let covers = |head: &Head| head.begun().is_some_and(|(header, _)| header.first_lsn <= self.start);
        let Some(first) = heads.iter().rposition(|(_, head)| covers(head)) else {
            return self.without_segments(&heads);
        };
        let mut before: Option<SegmentHeader> = None;
        for (at, (number, head)) in heads.iter().enumerate().skip(first) {
            let lsn = before.map_or(self.start, |before| before.first_lsn);
            if let Some(missing) = before.map(|before| before.number + 1).filter(|next| next != number) {
                return Err(damaged(missing, 0, lsn, "the segment is missing"));
            }
            match head {
                Head::Begun(header, _) if header.first_lsn < lsn && before.is_some() => {
                    return Err(damaged(*number, 0, lsn, "the segment begins before the one before it"));
                }
                Head::Begun(header, _) => before = Some(*header),
                Head::Prepared if at + 1 == heads.len() => self.prepared = Some(*number),
                Head::Prepared => {
                    return Err(damaged(*number, 0, lsn, "the segment has not the header that it had"));
                }
                Head::Bad => return Err(damaged(*number, 0, lsn, BAD_HEADER)),
            }
        }
        let begun: Vec<_> = heads.iter().filter_map(|(_, head)| head.begun()).collect();
        self.at = begun.len() - heads[first..].iter().filter(|(_, head)| head.begun().is_some()).count();
        self.tail.segments = begun;
        Ok(())
    }

    /// Checks a log without segments to read: there may be no log yet. At most its first segment may have been
    /// prepared.
    fn without_segments(&mut self, heads: &[(u64, Head)]) -> Result<()> {
        let lsn = Lsn(self.start);
        let last = if let Ending::At(closed) = self.ending { closed.segment } else { 1 };
        match heads {
            [] if self.start == 0 => Ok(()),
            [] => Err(Error::Missing {
                lsn,
                file: format::name(last.max(1)),
                reason: "it is missing, and so is any other",
            }),
            [(1, Head::Prepared)] if self.start == 0 => {
                self.prepared = Some(1);
                Ok(())
            }
            [(number, Head::Begun(..)), ..] => {
                let before = format::name(number.saturating_sub(1).max(1));
                Err(Error::Missing { lsn, file: before, reason: "it is missing" })
            }
            [(number, Head::Prepared), ..] => {
                Err(damaged(*number, 0, self.start, "the segment has not the header that it had"))
            }
            [(number, Head::Bad), ..] => Err(damaged(*number, 0, self.start, BAD_HEADER)),
        }
    }

    /// Loads what there is to read of a segment that has begun: up to where the next segment begins, or up to the
    /// length that its header names.
    fn load(&self, at: usize) -> Result<Vec<u8>> {
        let (header, len_bytes) = self.tail.segments[at];
        let bytes = match self.tail.segments.get(at + 1) {
            Some((next, _)) => len_bytes.min(header.used_bytes(next.first_lsn.max(header.first_lsn))),
            None if len_bytes < header.bytes && self.ending == Ending::Open => {
                let lsn = header.first_lsn + len_bytes.saturating_sub(SEGMENT_HEADER_BYTES as u64);
                return Err(damaged(header.number, len_bytes, lsn, SHORT));
            }
            None => len_bytes.min(header.bytes),
        };
        let file = self.storage.open(&format::name(header.number), OpenMode::Read)?;
        let mut contents = vec![0; bytes as usize];
        file.read_exact_at(0, &mut contents)?;
        Ok(contents)
    }

    /// Enters this segment, which must continue where the one before it ended.
    fn enter(&mut self, at: usize) -> Result<()> {
        let (header, _) = self.tail.segments[at];
        let is_first = self.bytes.is_empty();
        if !is_first && !self.checks.follows(header.chain, self.tail.chain) {
            return Err(damaged(header.number, 0, header.first_lsn, "the segment follows on another record"));
        }
        self.bytes = self.load(at)?;
        self.at = at;
        (self.tail.lsn, self.tail.chain) = (header.first_lsn, header.chain);
        // A segment begins when everything before it is durable.
        self.tail.run_start = header.first_lsn;
        Ok(())
    }

    fn segment(&self) -> SegmentHeader {
        self.tail.segments[self.at].0
    }

    /// Returns the next record, or none at the end of the log.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>> {
        while let Some(found) = self.advance()? {
            if found.is_wanted(self.start) {
                return Ok(Some(self.record(found)));
            }
        }
        Ok(None)
    }

    /// Returns the record that `advance` has just passed.
    pub(super) fn record(&self, found: Found) -> Record<'_> {
        Record::new(Lsn(found.lsn), Lsn(self.tail.lsn), &found.header, &self.bytes[found.body])
    }

    /// Reads the rest and returns where the log ends.
    pub fn finish(mut self) -> Result<Tail> {
        while self.advance()?.is_some() {}
        Ok(self.tail)
    }

    /// Advances over the next record, of whatever kind.
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
                    self.note_time(&found);
                    return Ok(Some(found));
                }
                Ok(_) => return Err(self.damaged("the record reaches into the next segment")),
                // A torn record never has good checksums.
                Err(reason) if end_lsn.is_some() || reason == NOT_CHANGES => return Err(self.damaged(reason)),
                Err(_) => self.end()?,
            }
        }
        Ok(None)
    }

    /// Notes a record of the time, and the position up to which the time is known.
    fn note_time(&mut self, found: &Found) {
        if found.header.kind == Kind::Time {
            let (end_lsn, unix_ns) = (Lsn(self.tail.lsn), u64_at(&self.bytes, found.body.start));
            self.tail.mark = Some(Mark { lsn: Lsn(found.lsn), end_lsn, unix_ns });
            self.tail.marked_lsn = end_lsn.0;
        }
    }

    /// Advances over all other records and returns the next record of the time, or none at the end of the log.
    pub fn next_mark(&mut self) -> Result<Option<Mark>> {
        while let Some(found) = self.advance()? {
            if found.header.kind == Kind::Time {
                return Ok(self.tail.mark);
            }
        }
        Ok(None)
    }

    /// Returns the last record of the time that was passed.
    pub fn mark(&self) -> Option<Mark> {
        self.tail.mark
    }

    /// Returns the record at the current position, or what is wrong with it.
    fn find(&self) -> Result<Found, &'static str> {
        let lsn = self.tail.lsn;
        let offset = self.offset(lsn);
        let bytes = self.bytes.get(offset..).unwrap_or_default();
        let (header, checksum) = self.checks.header(bytes, self.database, lsn).ok_or("there is no record")?;
        if !self.checks.follows(header.previous, self.tail.chain) {
            return Err("the record follows on another record");
        }
        let start = offset + format::RECORD_HEADER_BYTES;
        let body = start..start + header.body_bytes as usize;
        if !self.checks.is_whole(&header, &self.bytes[body.clone()]) {
            return Err("the body's checksum is wrong");
        }
        if header.kind == Kind::Commit && ChangeIter::new(&self.bytes[body.clone()]).is_none() {
            return Err(NOT_CHANGES);
        }
        if header.kind == Kind::Time && body.len() < TIME_BYTES {
            return Err("the body is no time");
        }
        Ok(Found { lsn, header, checksum, body })
    }

    fn offset(&self, lsn: u64) -> usize {
        SEGMENT_HEADER_BYTES + (lsn - self.segment().first_lsn) as usize
    }

    /// Checks that the log ends here: nothing proves that the missing record was once durable.
    fn end(&mut self) -> Result<()> {
        let lsn = self.tail.lsn;
        let first = self.offset(lsn);
        for offset in first..self.bytes.len() {
            let other = lsn + (offset - first) as u64;
            let found = RecordHeader::decode(&self.bytes[offset..], self.database, other);
            let Some((header, _)) = found else { continue };
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
        self.check_ending()?;
        if lsn < self.start {
            return Err(self.tail.missing(Lsn(self.start)));
        }
        self.is_done = true;
        Ok(())
    }

    /// Checks that the log does not end earlier than when it was closed.
    fn check_ending(&self) -> Result<()> {
        match &self.ending {
            Ending::At(closed) => self.tail.check(closed).map(drop),
            Ending::Open | Ending::Unknown => Ok(()),
        }
    }

    /// Checks that a segment which has not begun does not continue the log: headers are durable before records are
    /// written.
    fn check_prepared(&self) -> Result<()> {
        let Some(number) = self.prepared else { return Ok(()) };
        let file = self.storage.open(&format::name(number), OpenMode::Read)?;
        let (mut head, first) = ([0; format::RECORD_HEADER_BYTES], SEGMENT_HEADER_BYTES as u64);
        let body = first + head.len() as u64;
        let Some(behind_bytes) = file.len_bytes()?.checked_sub(body) else { return Ok(()) };
        file.read_exact_at(first, &mut head)?;
        let found = RecordHeader::decode_head(&head, behind_bytes, self.database, self.tail.lsn);
        let Some((header, _)) = found.filter(|(header, _)| header.previous == self.tail.chain) else {
            return Ok(());
        };
        // A record with a bad body may have been cut off here, in a file that was used again.
        let mut bytes = vec![0; header.body_bytes as usize];
        file.read_exact_at(body, &mut bytes)?;
        if crc32c::crc32c(&bytes) != header.body_checksum {
            return Ok(());
        }
        Err(damaged(number, 0, self.tail.lsn, "the segment has records, and not the header that it had"))
    }

    fn damaged(&self, reason: &'static str) -> Error {
        damaged(self.segment().number, self.offset(self.tail.lsn) as u64, self.tail.lsn, reason)
    }
}

pub(super) const NOT_CHANGES: &str = "the body is not a list of changes";
pub(super) const SHORT: &str =
    "the file is shorter than its header says, and no file \"closed\" says that the rest was given back";
pub(super) const BAD_HEADER: &str = "the segment has no good header";

pub(super) fn damaged(number: u64, offset: u64, lsn: u64, reason: &'static str) -> Error {
    Error::Damaged { file: format::name(number), offset, lsn: Lsn(lsn), reason }
}
