//! The log of a durable database's commits.

use crate::error::{Error, Result};
use crate::wal::{Lsn, Writer};

/// The log's writer, and whether it flushes by itself.
pub(crate) struct Log {
    pub(crate) writer: Writer,
    /// Only the caller that steps the database flushes the log. Therefore no thread may wait for a flush.
    pub(crate) is_stepped: bool,
}

impl Log {
    /// Waits until the log is durable up to `lsn`. If the log will not be durable for a while, this fails, and the
    /// outcome is unknown.
    pub(crate) fn wait(&self, lsn: Lsn) -> Result<()> {
        let waited = match self.is_stepped {
            true if self.writer.durable_lsn() >= lsn => Ok(()),
            true => Err(self.writer.stall()),
            false => self.writer.wait_bounded(lsn),
        };
        waited.map_err(|stall| stall.map_or(Error::OutcomeUnknown, Error::stalled))
    }
}
