//! Reads what is left of a log that may be damaged: every good record that can be reached, and what is missing
//! between them.
//!
//! [`Reader`] decides whether a log is whole, and returns nothing behind damage. This reader continues behind damage,
//! at the next segment whose header is good. Inside a segment nothing says where the next record begins.

use super::format::{self, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::head::{Head, read_header};
use super::reader::{Reader, Record, SHORT};
use super::{Cut, DatabaseId, Ending, Error, Lsn, Result};
use crate::storage::{OpenMode, Storage};

/// Part of a log that is missing, or is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The file in which the gap begins.
    pub file: String,
    /// The position in the file.
    pub offset: u64,
    /// The position in the log.
    pub lsn: Lsn,
    /// Where good records continue; none if they do not.
    pub resumes: Option<Lsn>,
    /// What is wrong.
    pub reason: String,
}

/// The next item in what is left of a log.
#[derive(Debug)]
pub enum Remnant<'r> {
    /// A record as it was written.
    Record(Record<'r>),
    /// Something is missing before the next record or the end.
    Gap(Gap),
}

/// What is wrong between two segments, and the number of the file in whose place it is wrong.
#[derive(Debug)]
struct Fault {
    number: u64,
    reason: String,
}

/// A segment that has begun, and what is wrong before it.
#[derive(Debug)]
struct Part {
    segment: (SegmentHeader, u64),
    fault: Option<Fault>,
}

impl Fault {
    fn new(number: u64, reason: impl Into<String>) -> Fault {
        Fault { number, reason: reason.into() }
    }
}

/// Reads what is left of a log from a position on.
#[derive(Debug)]
pub struct Remains<'a> {
    storage: &'a dyn Storage,
    database: DatabaseId,
    start: u64,
    /// The parts from the part on that holds `start`.
    parts: Vec<Part>,
    /// What is wrong behind the last part.
    fault: Option<Fault>,
    /// The number of the file behind the last part, if the file is as it should be.
    prepared: Option<u64>,
    /// The index of the next part to read.
    at: usize,
    reader: Option<Reader<'a>>,
    /// The position behind the last good record. `chain` is the checksum that the next segment has to continue; none
    /// behind a gap.
    lsn: u64,
    chain: Option<u32>,
    gap: Option<Gap>,
    cut: Option<Cut>,
    ending: Ending,
    /// True once what is wrong behind the last part has been reported.
    is_ended: bool,
}

impl<'a> Remains<'a> {
    /// Opens what is left of this database's log from `start` on. `ending` is what is known of the log's end.
    pub fn open(
        storage: &'a dyn Storage,
        database: DatabaseId,
        start: Lsn,
        ending: Ending,
    ) -> Result<Remains<'a>> {
        let mut remains = Remains {
            storage,
            database,
            start: start.0,
            parts: Vec::new(),
            fault: None,
            prepared: None,
            at: 0,
            reader: None,
            lsn: start.0,
            chain: None,
            gap: None,
            cut: None,
            ending,
            is_ended: false,
        };
        remains.find_parts()?;
        Ok(remains)
    }

    fn find_parts(&mut self) -> Result<()> {
        let numbers: Vec<u64> = self.storage.list()?.iter().filter_map(|file| format::number(file)).collect();
        for (at, &number) in numbers.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| numbers[before]);
            if let Some(missing) = before.map(|before| before + 1).filter(|missing| *missing != number) {
                self.fault.get_or_insert(Fault::new(missing, "the segment is missing"));
            }
            let is_last = at + 1 == numbers.len();
            match self.read_header(number) {
                Ok(Head::Begun(header, bytes)) => {
                    self.parts.push(Part { segment: (header, bytes), fault: self.fault.take() });
                }
                Ok(Head::Prepared) if is_last && self.fault.is_none() && (at > 0 || number == 1) => {
                    self.prepared = Some(number);
                }
                Ok(Head::Prepared) => {
                    self.fault
                        .get_or_insert(Fault::new(number, "the segment has not the header that it had"));
                }
                Ok(Head::Bad) => {
                    self.fault.get_or_insert(Fault::new(number, "the segment has no good header"));
                }
                Err(error) => {
                    self.fault.get_or_insert(Fault::new(number, error.to_string()));
                }
            }
        }
        let covering = self.parts.iter().rposition(|part| part.segment.0.first_lsn <= self.start);
        self.parts.drain(..covering.unwrap_or(0));
        let Some(first) = self.parts.first_mut() else {
            if self.start > 0 {
                self.fault.get_or_insert(Fault::new(1, "there is no log"));
            }
            return Ok(());
        };
        let number = first.segment.0.number;
        first.fault = match covering {
            Some(_) => None,
            None => Some(Fault::new(number, "the log does not go back so far")),
        };
        Ok(())
    }

    fn read_header(&self, number: u64) -> Result<Head> {
        let file = self.storage.open(&format::name(number), OpenMode::Read)?;
        read_header(&*file, self.database, number)
    }

    /// Returns the files of the segments that are read, with their lengths.
    pub fn files(&self) -> impl Iterator<Item = (String, u64)> {
        self.parts.iter().map(|part| (format::name(part.segment.0.number), part.segment.1))
    }

    /// Returns the next record or gap, or none at the end.
    pub fn next_remnant(&mut self) -> Option<Remnant<'_>> {
        loop {
            if let Some(gap) = self.gap.take() {
                return Some(Remnant::Gap(gap));
            }
            let next_lsn = self.follower().map(|(next, _)| next.first_lsn);
            let Some(reader) = &mut self.reader else {
                if !self.enter() {
                    return None;
                }
                continue;
            };
            if next_lsn == Some(reader.lsn()) {
                self.leave();
                continue;
            }
            match reader.advance() {
                Ok(Some(found)) if found.is_wanted(self.start) => {
                    return self.reader.as_ref().map(|reader| Remnant::Record(reader.record(found)));
                }
                Ok(Some(_)) => {}
                Ok(None) => self.leave(),
                Err(error) => self.stumble(&error),
            }
        }
    }

    /// Returns the position behind the last good record. It is valid at the end.
    pub fn end_lsn(&self) -> Lsn {
        Lsn(self.lsn)
    }

    /// Returns what was left out at the end, of a write that was never completed. It is valid at the end.
    pub fn cut(&self) -> Option<Cut> {
        self.cut.clone()
    }

    /// Returns the next part's segment, if nothing is wrong between it and the part before.
    fn follower(&self) -> Option<(SegmentHeader, u64)> {
        self.parts.get(self.at).filter(|part| part.fault.is_none()).map(|part| part.segment)
    }

    /// Enters the next part, or finds out what is wrong before it. Returns false if there is nothing more.
    fn enter(&mut self) -> bool {
        let Some(part) = self.parts.get_mut(self.at) else { return self.end() };
        let (segment, fault) = (part.segment, part.fault.take());
        let goes_on = self.chain.is_none_or(|chain| chain == segment.0.chain);
        if let Some(fault) = fault {
            self.report(fault, 0);
            return true;
        }
        if !goes_on {
            self.report(Fault::new(segment.0.number, "the segment follows on another record"), 0);
            return true;
        }
        self.at += 1;
        self.lsn = segment.0.first_lsn;
        let prepared = self.prepared.filter(|_| self.at == self.parts.len());
        match Reader::of_segment(self.storage, self.database, segment, self.follower(), prepared) {
            Ok(reader) => self.reader = Some(reader),
            Err(error) => self.report(Fault::new(segment.0.number, error.to_string()), 0),
        }
        true
    }

    /// Ends behind the last part. Returns false if there is nothing more to report.
    fn end(&mut self) -> bool {
        if std::mem::replace(&mut self.is_ended, true) {
            return false;
        }
        let Some(fault) = self.fault.take().or_else(|| self.fault_of_end()) else { return false };
        let segment = self.parts.last().map(|part| part.segment.0).filter(|last| last.number == fault.number);
        let offset = segment.map_or(0, |last| last.used_bytes(self.lsn.max(last.first_lsn)));
        self.report(fault, offset);
        self.lsn = self.lsn.max(self.start);
        true
    }

    /// Returns the fault of a log that ends too early.
    fn fault_of_end(&self) -> Option<Fault> {
        let last = self.parts.last().map(|part| part.segment);
        let number = last.map_or(1, |(last, _)| last.number);
        if self.lsn < self.start {
            return Some(Fault::new(number, "the log ends before the position that is needed"));
        }
        match (self.ending, last) {
            (Ending::At(closed), _) if self.lsn < closed.lsn.0 || number < closed.segment => {
                let reason = format!("the log was closed at lsn {}, and ends before", closed.lsn);
                Some(Fault::new(number.max(closed.segment), reason))
            }
            (Ending::Open, Some((last, bytes))) if bytes < last.bytes => Some(Fault::new(last.number, SHORT)),
            _ => None,
        }
    }

    /// Leaves the segment, which has ended as it should.
    fn leave(&mut self) {
        let Some(reader) = self.reader.take() else { return };
        let tail = reader.tail();
        (self.lsn, self.chain, self.cut) = (tail.lsn, Some(tail.chain), tail.cut());
    }

    /// Leaves the segment, which continues with something else than it should.
    fn stumble(&mut self, error: &Error) {
        let Some(reader) = self.reader.take() else { return };
        self.lsn = reader.lsn();
        let number = reader.tail().segments[0].0.number;
        let (number, offset, reason) = match error {
            Error::Damaged { file, offset, reason, .. } => {
                (format::number(file).unwrap_or(number), *offset, (*reason).to_string())
            }
            error => (number, reader.file_offset(), error.to_string()),
        };
        self.report(Fault { number, reason }, offset);
    }

    /// Notes that something is missing behind the last good record and before the next part.
    fn report(&mut self, fault: Fault, offset: u64) {
        let resumes = self.parts.get(self.at).map(|part| Lsn(part.segment.0.first_lsn));
        let Fault { number, reason } = fault;
        self.chain = None;
        self.gap = Some(Gap { file: format::name(number), offset, lsn: Lsn(self.lsn), resumes, reason });
    }
}

/// Returns the database that the segments name as the owner of this log.
pub fn claimed_database(storage: &dyn Storage) -> Option<DatabaseId> {
    let numbers = storage.list().ok()?;
    numbers.iter().rev().find_map(|name| {
        format::number(name)?;
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        storage.open(name, OpenMode::Read).ok()?.read_exact_at(0, &mut bytes).ok()?;
        SegmentHeader::claimed(&bytes)
    })
}
