//! Archives the segments of the log before they are given up.

use crate::events::{event, text};
use crate::metrics::ArchiveStatistics;
use crate::storage::{Archive, ArchiveError, OpenMode, Storage};
use crate::wal::{self, DatabaseId, Finished, Lsn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Offers finished segments to an archive, one after the other.
#[derive(Debug)]
pub(super) struct Archiver {
    archive: Arc<dyn Archive>,
    storage: Arc<dyn Storage>,
    database: DatabaseId,
    /// The number after the last archived segment.
    next: u64,
    /// Everything before this position was archived.
    kept_lsn: Lsn,
    /// How far the log was durable when everything finished had been archived.
    seen_lsn: Option<Lsn>,
    statistics: Arc<Mutex<ArchiveStatistics>>,
    /// The number by which events name the database.
    number: u64,
    /// True if the last step failed.
    has_failed: bool,
}

impl Archiver {
    /// Begins with the oldest existing segment: what was archived earlier is offered again.
    pub(super) fn new(
        archive: Arc<dyn Archive>,
        storage: Arc<dyn Storage>,
        database: DatabaseId,
        statistics: Arc<Mutex<ArchiveStatistics>>,
        number: u64,
    ) -> Archiver {
        let (next, kept_lsn, seen_lsn, has_failed) = (0, Lsn(0), None, false);
        Archiver { archive, storage, database, next, kept_lsn, seen_lsn, statistics, number, has_failed }
    }

    /// Returns the position before which everything may be given up.
    pub(super) fn kept_lsn(&self) -> Lsn {
        self.kept_lsn
    }

    /// Archives finished segments until the archive refuses one. The log is durable up to `durable_lsn`.
    pub(super) fn step(&mut self, durable_lsn: Lsn) {
        if self.seen_lsn == Some(durable_lsn) {
            return; // nothing can have been finished since
        }
        let kept = self.keep_finished();
        let had_failed = std::mem::replace(&mut self.has_failed, kept.is_err());
        match kept {
            Ok(()) => self.seen_lsn = Some(durable_lsn),
            Err(error) => {
                // The failure is reported once. The archiver tries again twice a second.
                if !had_failed {
                    event!(
                        WARN,
                        BACKGROUND,
                        "a segment of the log was not archived, and is kept",
                        database = self.number,
                        segment = self.next,
                        error = text(&error)
                    );
                }
                let mut statistics = self.statistics();
                statistics.failures += 1;
                statistics.last_error = Some(error.to_string());
            }
        }
        self.statistics().waiting_bytes = durable_lsn.0.saturating_sub(self.kept_lsn.0);
    }

    fn statistics(&self) -> MutexGuard<'_, ArchiveStatistics> {
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_finished(&mut self) -> Result<(), ArchiveError> {
        for Finished { file, number, end_lsn } in wal::finished(&*self.storage, self.database, self.next)? {
            let segment = self.storage.open(&file, OpenMode::Read)?;
            self.archive.keep(&*segment, &file)?;
            debug_assert!(end_lsn >= self.kept_lsn, "segments follow on one another");
            (self.next, self.kept_lsn) = (number + 1, end_lsn);
            let mut statistics = self.statistics();
            statistics.segments += 1;
            statistics.last_error = None;
            drop(statistics);
            event!(DEBUG, BACKGROUND, "log segment archived", database = self.number, segment = number);
        }
        Ok(())
    }
}
