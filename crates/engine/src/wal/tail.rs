//! Where a log ends.

use super::Lsn;
use super::format::SegmentHeader;

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
}

impl Tail {
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
