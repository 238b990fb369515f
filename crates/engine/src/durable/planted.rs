//! Errors that tests plant into what is made durable when, to show that they would be noticed.

use crate::{checkpoint, wal};

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
    /// What has been changed is looked up before it is noted where a checkpoint starts.
    TouchedTakenEarly,
    /// What the log has changed is forgotten when the database is opened.
    TouchedForgotten,
    /// What a checkpoint would have covered is forgotten when it fails.
    TouchedForgottenByFailure,
    /// Checkpoints are written after the log has ended.
    CheckpointAfterLog,
    /// No room is kept back for checkpoints.
    NothingKeptBack,
    /// A restoration applies the first record that ends behind its point.
    PointOneLate,
    /// A restoration leaves out the record that ends at its point.
    PointOneEarly,
    /// Recovery leaves the last record of the log out.
    LastRecordDropped,
    /// Recovery applies the first record of the log again at its end.
    FirstRecordAgain,
    /// Timestamps begin anew after recovery.
    ClockNotResumed,
    /// The mark of an orderly close is not taken away when the database is opened.
    MarkKept,
    /// The mark of an orderly close is taken away when the log has been written to.
    MarkRemovedLate,
    /// The mark of an orderly close is published before the end of the log is durable.
    MarkBeforeLog,
    /// The mark of an orderly close is not looked at.
    MarkIgnored,
    /// An error in reading the rows of checkpoints.
    Checkpoint(checkpoint::Planted),
    /// An error in reading the log.
    Log(wal::Planted),
}
