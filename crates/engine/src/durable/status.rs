//! What has become of checkpoints, for others to ask.

use crate::checkpoint::Manifest;
use crate::error::Result;
use crate::metrics::CheckpointStatistics;
use crate::sync::{Mutex, lock};
use crate::wal::Lsn;

/// The result of one step of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// This many bytes have been written; there is more to do.
    Wrote(u64),
    /// The flusher, or commits in progress, have to go on first.
    Await,
    /// The checkpoint counts.
    Done,
}

#[derive(Default)]
pub(super) struct Status(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    made: u64,
    failed: u64,
    is_under_way: bool,
    /// The newest checkpoint that counts: its number, and where replay of the log starts.
    last: Option<(u64, Lsn)>,
    made_at_ns: Option<u64>,
    error: Option<(String, u64)>,
}

impl Status {
    /// Sets the newest checkpoint that counts.
    pub(super) fn set_last(&self, last: Option<&Manifest>) {
        lock(&self.0).last = last.map(|last| (last.number, last.start_lsn));
    }

    /// Notes the result of a step, and the newest checkpoint that counts after it.
    pub(super) fn note(&self, stepped: &Result<Step>, last: Option<&Manifest>, now_ns: u64) {
        let mut noted = lock(&self.0);
        noted.is_under_way = matches!(stepped, Ok(Step::Wrote(_) | Step::Await));
        noted.last = last.map(|last| (last.number, last.start_lsn));
        match stepped {
            Ok(Step::Done) => (noted.made, noted.made_at_ns) = (noted.made + 1, Some(now_ns)),
            Ok(Step::Wrote(_) | Step::Await) => {}
            Err(error) => (noted.failed, noted.error) = (noted.failed + 1, Some((error.to_string(), now_ns))),
        }
    }

    /// Returns the present statistics, with the log at `end`.
    pub(super) fn statistics(&self, end: Option<Lsn>, now_ns: u64) -> CheckpointStatistics {
        let noted = lock(&self.0);
        let ago = |at_ns: u64| now_ns.saturating_sub(at_ns);
        let start_lsn = noted.last.map_or(Lsn(0), |(_, start_lsn)| start_lsn);
        CheckpointStatistics {
            made: noted.made,
            failed: noted.failed,
            is_under_way: noted.is_under_way,
            last_number: noted.last.map(|(number, _)| number),
            last_lsn: noted.last.map(|(_, start_lsn)| start_lsn.0),
            last_ago_ns: noted.made_at_ns.map(ago),
            lag_bytes: end.map_or(0, |end| end.0.saturating_sub(start_lsn.0)),
            last_error: noted.error.as_ref().map(|(text, _)| text.clone()),
            last_error_ago_ns: noted.error.as_ref().map(|(_, at_ns)| ago(*at_ns)),
        }
    }
}
