//! The reason why a load stopped.

/// The fault that ended a load, and its line.
#[derive(Debug)]
pub struct Stopped {
    /// The line number, from 1. For a fault that belongs to no line, the last line that was read.
    pub line: u64,
    /// The reason in words.
    pub why: String,
}
