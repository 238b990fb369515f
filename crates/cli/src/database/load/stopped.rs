//! Why a load has stopped.

/// What is wrong, and in which line.
#[derive(Debug)]
pub struct Stopped {
    /// From 1. Of what is not a line's own, the last that was read.
    pub line: u64,
    /// In words.
    pub why: String,
}
