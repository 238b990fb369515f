//! Errors that tests plant into the reader, to show that they would be noticed.

/// What the reader is to do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Nothing: what everything but those tests uses.
    None,
    /// Checksums of records are not looked at.
    NoChecksum,
    /// A record whose header is good counts although its body is torn.
    TornTail,
    /// A segment counts whatever number and position its header names, and wherever its records belong.
    AnySegment,
}
