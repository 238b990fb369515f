//! The mark of an orderly close ([`Closed`]): when it is written, and what recovery holds against it.
//!
//! Closing: all that was appended is durable; then the mark is published; then room that was reserved is given back.
//! Opening: everything is read and held against the mark; then a segment is begun, which holds nothing yet, so that the
//! one before it, whose unused end may have been given back, is not the last; then the mark is taken away, durably; and
//! only then is anything appended or a checkpoint made.

use super::damage;
use crate::checkpoint::{self, Closed, Manifest};
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::wal::{self, DatabaseId, End, Tail};
use std::sync::Arc;

/// What is to be said of a database when it is closed.
pub(super) struct Mark {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) database: DatabaseId,
    /// Where the log ended when the database was opened: without a log, it still does.
    pub(super) end: End,
}

impl Mark {
    /// Says durably that the database is closed: with this checkpoint as its newest, and this log if it has one, whose
    /// unused room is given back then. A full disk is no error: the database is as after a crash then.
    pub(super) fn publish(&self, newest: u64, mut log: Option<wal::Ended>) -> Result<()> {
        if let Some(log) = &mut log {
            // Before the mark, which may need the room. If this fails, or what follows, it is some room lost, and no more.
            let _ = log.remove_spare();
        }
        let end = log.as_ref().map_or(self.end, wal::Ended::end);
        let is_published = self.publish_at(newest, end)?;
        if let Some(log) = log.filter(|_| is_published) {
            let _ = log.trim();
        }
        Ok(())
    }

    /// The same of a log that ends there; returns false if the disk is full.
    pub(super) fn publish_at(&self, newest: u64, end: End) -> Result<bool> {
        let is_unlogged = !damage::has_fallback(&*self.storage)?;
        let closed = Closed { end, checkpoint: newest, is_unlogged };
        match closed.publish(&*self.storage, self.database) {
            Err(checkpoint::Error::Storage(error)) if error.is_full() => Ok(false),
            published => Ok(published.map(|()| true)?),
        }
    }

    /// Takes it away: from now on it may be untrue.
    pub(super) fn remove(&self) -> Result<()> {
        Ok(Closed::remove(&*self.storage)?)
    }
}

/// An error if the log is not what the mark says.
pub(super) fn check_log(closed: &Closed, tail: &Tail) -> Result<()> {
    match tail.check(&closed.end).map_err(Error::Log)? {
        true => Ok(()),
        false => Err(untrue("the log goes on behind the end that it names, or has other records").into()),
    }
}

/// The checkpoint that is missing of those of these numbers, which ascend, and what to say of that: the newest, which
/// the mark names. An error if there is a newer one than that.
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
