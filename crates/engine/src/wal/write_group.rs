//! What one write of the flusher consists of.

use super::format::SegmentHeader;

/// Records that one write puts behind what is durable.
#[derive(Debug)]
pub(super) struct WriteGroup {
    /// The segment that the run begins, unless it goes on in one.
    pub(super) begins: Option<SegmentHeader>,
    pub(super) first_lsn: u64,
    /// Where in the segment's file.
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) records: u64,
}
