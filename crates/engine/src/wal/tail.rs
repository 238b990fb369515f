//! Where a log ends.

use super::format::SegmentHeader;
use super::{Lsn, Mark};

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
    pub(super) is_closed: bool,
    /// The last mark of the time that was read.
    pub(super) mark: Option<Mark>,
    /// Everything before has a mark behind it.
    pub(super) marked_lsn: u64,
}

impl Tail {
    /// The end of a log of which nothing is there: one that is written from here on.
    pub fn at(lsn: Lsn) -> Tail {
        Tail { lsn: lsn.0, run_start: lsn.0, marked_lsn: lsn.0, ..Tail::default() }
    }

    /// Behind the last record.
    pub fn lsn(&self) -> Lsn {
        Lsn(self.lsn)
    }

    /// How many bytes behind the end are recognizably of records whose write was never completed.
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    /// Whether the log was closed in order.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }
}
