//! Where a log ends.

use super::format::{SegmentHeader, name};
use super::{Error, Lsn, Mark, Result};
use std::fmt;

/// The end of a log, as a reader has found it: what a writer goes on from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    pub(super) lsn: u64,
    /// The checksum of the last record.
    pub(super) chain: u32,
    /// Everything before is known to be durable; from here to the end, it was only seen.
    pub(super) run_start: u64,
    /// The segments that there are, with their lengths, ascending; all of them have begun.
    pub(super) segments: Vec<(SegmentHeader, u64)>,
    pub(super) dropped_bytes: u64,
    /// The last mark of the time that was read.
    pub(super) mark: Option<Mark>,
    /// Everything before has a mark behind it.
    pub(super) marked_lsn: u64,
}

/// Where a log ended when it was closed in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Behind its last record.
    pub lsn: Lsn,
    /// That record's checksum, and by way of it all records; 0 if there is none.
    pub chain: u32,
    /// The number of the segment that had begun last; 0: none had.
    pub segment: u64,
}

/// What is known of the end of a log beside what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing: it was not closed in order.
    Open,
    /// It was closed in order, and nobody knows where: its unused end may have been given back.
    Unknown,
    /// It was closed in order, here.
    At(End),
}

impl Ending {
    /// Of a log that was closed there if it was.
    pub fn of(closed: Option<End>) -> Ending {
        closed.map_or(Ending::Open, Ending::At)
    }
}

/// What was left out at the end of a log that was not closed in order: part of a run that was never completed. Nothing of
/// a run is acknowledged before all of it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file.
    pub file: String,
    /// Where in the file the log ends.
    pub offset: u64,
    /// Where that is in the log.
    pub lsn: u64,
    /// How many bytes behind that are recognizably of records.
    pub bytes: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut { file, offset, lsn, bytes } = self;
        write!(
            f,
            "{bytes} bytes were cut from {file:?} at offset {offset} (lsn {lsn}): the write that they are of was never \
             completed, so nothing of it had been acknowledged"
        )
    }
}

impl Tail {
    /// Where the oldest segment begins from which on none is missing; the end, where there is none.
    pub(super) fn first_lsn(&self) -> Lsn {
        let mut first: Option<SegmentHeader> = None;
        for (header, _) in self.segments.iter().rev() {
            if first.is_some_and(|first| first.number != header.number + 1) {
                break;
            }
            first = Some(*header);
        }
        Lsn(first.map_or(self.lsn, |first| first.first_lsn))
    }

    /// The end of a log of which nothing is there: one that is written from here on.
    pub fn at(lsn: Lsn) -> Tail {
        Tail { lsn: lsn.0, run_start: lsn.0, marked_lsn: lsn.0, ..Tail::default() }
    }

    /// Behind the last record.
    pub fn lsn(&self) -> Lsn {
        Lsn(self.lsn)
    }

    /// Everything before is known to be durable; what lies behind was only seen.
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(self.run_start.min(self.lsn))
    }

    /// What was left out, if anything was.
    pub fn cut(&self) -> Option<Cut> {
        let (last, _) = self.segments.last().filter(|_| self.dropped_bytes > 0)?;
        let (file, offset) = (name(last.number), last.used_bytes(self.lsn));
        Some(Cut { file, offset, lsn: self.lsn, bytes: self.dropped_bytes })
    }

    /// The same in few words.
    pub fn end(&self) -> End {
        let segment = self.segments.last().map_or(0, |(last, _)| last.number);
        End { lsn: self.lsn(), chain: self.chain, segment }
    }

    /// An error if the log ends before it did when it was closed; else whether it ends there, with the same record.
    pub fn check(&self, closed: &End) -> Result<bool> {
        let found = self.end();
        if found.segment < closed.segment {
            let (file, lsn) = (name(closed.segment), found.lsn);
            return Err(Error::Damaged {
                file,
                offset: 0,
                lsn,
                reason: "the log was closed in it, and it is gone",
            });
        }
        if found.lsn < closed.lsn {
            let (file, offset) = self.place();
            let reason = "no good record, and the log was closed behind it";
            return Err(Error::Damaged { file, offset, lsn: found.lsn, reason });
        }
        Ok((found.lsn, found.chain) == (closed.lsn, closed.chain))
    }

    /// The error of a log that ends before a position that is needed.
    pub fn missing(&self, lsn: Lsn) -> Error {
        Error::Missing { lsn, file: self.place().0, reason: "the log ends in it before that" }
    }

    fn place(&self) -> (String, u64) {
        self.segments
            .last()
            .map_or_else(|| (name(1), 0), |(last, _)| (name(last.number), last.used_bytes(self.lsn)))
    }
}
