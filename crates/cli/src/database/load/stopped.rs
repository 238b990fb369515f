//! Why a load has stopped.

/// The fault that ended a load, and its line.
#[derive(Debug)]
pub struct Stopped {
    /// From 1. Of what is not a line's own, the last that was read.
    pub line: u64,
    /// In words.
    pub why: String,
}
