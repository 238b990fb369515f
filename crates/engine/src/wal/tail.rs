//! Where a log ends.

use super::format::{SegmentHeader, name};
use super::{Error, Lsn, Mark, Result};
use std::fmt;

/// The end of a log, as a reader has found it. A writer continues from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    pub(super) lsn: u64,
    /// The checksum of the last record.
    pub(super) chain: u32,
    /// Everything before this position is known to be durable. From here to the end, the log was only seen.
    pub(super) run_start: u64,
    /// The existing segments with their lengths, ascending. All of them have begun.
    pub(super) segments: Vec<(SegmentHeader, u64)>,
    pub(super) dropped_bytes: u64,
    /// The last mark of the time that was read.
    pub(super) mark: Option<Mark>,
    /// Everything before this position has a mark behind it.
    pub(super) marked_lsn: u64,
}

/// Where a log ended when it was closed in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The position behind the last record.
    pub lsn: Lsn,
    /// The last record's checksum, and through it that of all records; 0 if there is none.
    pub chain: u32,
    /// The number of the segment that began last; 0 if none had begun.
    pub segment: u64,
}

/// What is known of the end of a log besides its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing: the log was not closed in order.
    Open,
    /// The log was closed in order, but where is unknown. Its unused end may have been given back.
    Unknown,
    /// The log was closed in order, here.
    At(End),
}

impl Ending {
    /// Returns the ending of a log that was closed at `closed`, if it was closed.
    pub fn of(closed: Option<End>) -> Ending {
        closed.map_or(Ending::Open, Ending::At)
    }
}

/// What was left out at the end of a log that was not closed in order: part of a run that was never completed.
/// Nothing of a run is acknowledged before all of it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file.
    pub file: String,
    /// Where in the file the log ends.
    pub offset: u64,
    /// Where in the log that is.
    pub lsn: u64,
    /// How many bytes behind that are recognizably parts of records.
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
    /// Returns where the oldest segment begins after which none is missing; the end if there is no segment.
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

    /// Returns the tail of a log that has nothing yet and is written from `lsn` on.
    pub fn at(lsn: Lsn) -> Tail {
        Tail { lsn: lsn.0, run_start: lsn.0, marked_lsn: lsn.0, ..Tail::default() }
    }

    /// Returns the position behind the last record.
    pub fn lsn(&self) -> Lsn {
        Lsn(self.lsn)
    }

    /// Returns the position before which everything is known to be durable. What lies behind was only seen.
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(self.run_start.min(self.lsn))
    }

    /// Returns what was left out, if anything was.
    pub fn cut(&self) -> Option<Cut> {
        let (last, _) = self.segments.last().filter(|_| self.dropped_bytes > 0)?;
        let (file, offset) = (name(last.number), last.used_bytes(self.lsn));
        Some(Cut { file, offset, lsn: self.lsn, bytes: self.dropped_bytes })
    }

    /// Returns the end in short form.
    pub fn end(&self) -> End {
        let segment = self.segments.last().map_or(0, |(last, _)| last.number);
        End { lsn: self.lsn(), chain: self.chain, segment }
    }

    /// Fails if the log ends earlier than it did when it was closed. Otherwise returns true if it ends at the same
    /// place, with the same record.
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

    /// Returns the error of a log that ends before a position that is needed.
    pub fn missing(&self, lsn: Lsn) -> Error {
        Error::Missing { lsn, file: self.place().0, reason: "the log ends in it before that" }
    }

    fn place(&self) -> (String, u64) {
        self.segments
            .last()
            .map_or_else(|| (name(1), 0), |(last, _)| (name(last.number), last.used_bytes(self.lsn)))
    }
}
