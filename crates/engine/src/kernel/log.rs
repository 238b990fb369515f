//! Where the commits of a durable database are noted.

use crate::error::{Error, Result};
use crate::wal::{Lsn, Writer};

/// The log's writer, and whether it flushes by itself.
pub(crate) struct Log {
    pub(crate) writer: Writer,
    /// Only the caller that steps the database flushes it: so no thread may wait for that.
    pub(crate) is_stepped: bool,
}

impl Log {
    /// Waits until the log is durable up to `lsn`, or will not be for a while. Then the outcome is not known.
    pub(crate) fn wait(&self, lsn: Lsn) -> Result<()> {
        let waited = match self.is_stepped {
            true if self.writer.durable_lsn() >= lsn => Ok(()),
            true => Err(self.writer.stall()),
            false => self.writer.wait_bounded(lsn),
        };
        waited.map_err(|stall| stall.map_or(Error::OutcomeUnknown, Error::stalled))
    }
}
