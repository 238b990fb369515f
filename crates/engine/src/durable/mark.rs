//! The mark of an orderly close ([`Closed`]): when it is written, and how recovery checks it.
//!
//! Closing:
//!
//! 1. Everything that was appended becomes durable.
//! 2. The mark is published.
//! 3. Reserved room is given back.
//!
//! Opening:
//!
//! 1. Everything is read and compared with the mark.
//! 2. A segment is begun, which holds nothing yet. So the segment before it, whose unused end may have been given
//!    back, is not the last.
//! 3. The mark is removed durably.
//! 4. Only now is anything appended or a checkpoint made.

use super::damage;
use crate::checkpoint::{self, Closed, Manifest};
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::wal::{self, DatabaseId, End, Tail};
use std::sync::Arc;

/// What is stated about a database when it is closed.
pub(super) struct Mark {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) database: DatabaseId,
    /// Where the log ended when the database was opened. Without a log, it still ends there.
    pub(super) end: End,
}

impl Mark {
    /// States durably that the database is closed, with `newest` as its newest checkpoint, and with this log if it
    /// has one. The log's unused room is then given back. A full disk is no error: the database is then as after a
    /// crash.
    pub(super) fn publish(&self, newest: u64, mut log: Option<wal::Ended>) -> Result<()> {
        if let Some(log) = &mut log {
            // This precedes the mark, which may need the room. If this or what follows fails, only some room is lost.
            let _ = log.remove_spare();
        }
        let end = log.as_ref().map_or(self.end, wal::Ended::end);
        let is_published = self.publish_at(newest, end)?;
        if let Some(log) = log.filter(|_| is_published) {
            let _ = log.trim();
        }
        Ok(())
    }

    /// Publishes the mark for a log that ends at `end`. Returns false if the disk is full.
    pub(super) fn publish_at(&self, newest: u64, end: End) -> Result<bool> {
        let is_unlogged = !damage::has_fallback(&*self.storage)?;
        let closed = Closed { end, checkpoint: newest, is_unlogged };
        match closed.publish(&*self.storage, self.database) {
            Err(checkpoint::Error::Storage(error)) if error.is_full() => Ok(false),
            published => Ok(published.map(|()| true)?),
        }
    }

    /// Removes the mark, because from now on it may be untrue.
    pub(super) fn remove(&self) -> Result<()> {
        Ok(Closed::remove(&*self.storage)?)
    }
}

/// Fails if the log is not what the mark says.
pub(super) fn check_log(closed: &Closed, tail: &Tail) -> Result<()> {
    match tail.check(&closed.end).map_err(Error::Log)? {
        true => Ok(()),
        false => Err(untrue("the log goes on behind the end that it names, or has other records").into()),
    }
}

/// Returns the newest checkpoint, which the mark names, if it is missing, with the error to report. `numbers` are the
/// existing checkpoints in ascending order. Fails if there is a newer checkpoint than the mark names.
pub(super) fn missing_checkpoint(
    closed: Option<&Closed>,
    numbers: &[u64],
) -> Result<Option<(u64, checkpoint::Error)>, checkpoint::Error> {
    let Some(number) = closed.map(|closed| closed.checkpoint) else { return Ok(None) };
    let newest = numbers.last().copied().unwrap_or_default();
    if newest > number {
        return Err(untrue("there is a newer checkpoint than it names"));
    }
    let (file, reason) = (Manifest::file(number), "it is missing, and the database was closed with it");
    let missing = checkpoint::Error::Damaged { file, offset: 0, reason };
    Ok((newest < number).then_some((number, missing)))
}

fn untrue(reason: &'static str) -> checkpoint::Error {
    checkpoint::Error::Damaged { file: Closed::FILE.into(), offset: 0, reason }
}
