//! Errors that tests plant into what is made durable when, to show that they would be noticed.

/// What is to be done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Nothing: what everything but those tests uses.
    None,
    /// A checkpoint counts before the log that it needs is durable.
    CheckpointBeforeLog,
    /// The log is cut off where the newest checkpoint begins, so that there is none for the one before.
    LogTruncatedTooEarly,
    /// A checkpoint takes where the log ended when it was written for where it began.
    StartNotedLate,
    /// The tables that the log has changed are forgotten when the database is opened.
    TouchedForgotten,
    /// Recovery leaves the last record of the log out.
    LastRecordDropped,
    /// Recovery applies the first record of the log again at its end.
    FirstRecordAgain,
    /// Timestamps begin anew after recovery.
    ClockNotResumed,
}
