//! What one write of the flusher consists of.

use super::format::SegmentHeader;

/// Records that one write puts behind the durable part of the log.
#[derive(Debug)]
pub(super) struct WriteGroup {
    /// The segment that the run begins. None if the run continues a segment.
    pub(super) begins: Option<SegmentHeader>,
    pub(super) first_lsn: u64,
    /// The position in the segment's file.
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) records: u64,
}
