//! The segment files of a log that is written: the current one, a spare, and old ones to be used again.

use super::format::{SegmentHeader, name};
use super::{Lsn, Options, Room};
use crate::storage::{File, OpenMode, Operation, Result, Storage, StorageError};
use crate::sync::Arc;
use std::collections::VecDeque;
use std::io::ErrorKind;

/// So many segments that nobody needs are kept to be used again: their blocks are there already.
const KEPT_MAX: usize = 2;

/// `segments` are those that have begun, ascending, the last of them `current`; `spare` has the number after.
#[derive(Debug)]
pub(super) struct Segments {
    storage: Arc<dyn Storage>,
    options: Options,
    room: Arc<Room>,
    segments: VecDeque<(SegmentHeader, u64)>,
    current: Option<Box<dyn File>>,
    spare: Option<Box<dyn File>>,
}

impl Segments {
    /// None current, after those that there are.
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        options: Options,
        room: Arc<Room>,
        old: Vec<(SegmentHeader, u64)>,
    ) -> Segments {
        Segments { storage, options, room, segments: old.into(), current: None, spare: None }
    }

    pub(super) fn room(&self) -> Arc<Room> {
        Arc::clone(&self.room)
    }

    pub(super) fn has_spare(&self) -> bool {
        self.spare.is_some()
    }

    /// The number that the next segment to begin has.
    pub(super) fn number_next(&self) -> u64 {
        self.segments.back().map_or(1, |(last, _)| last.number + 1)
    }

    /// The file of the segment that has begun last.
    pub(super) fn current(&self) -> &dyn File {
        &**self.current.as_ref().expect("a segment has begun")
    }

    /// Makes the spare current and its header durable. Called again after an error, it goes on.
    pub(super) fn begin(&mut self, header: &SegmentHeader) -> Result<()> {
        if header.number == self.number_next() {
            self.current = Some(self.spare.take().expect("a segment begins when there is a spare"));
            self.segments.push_back((*header, self.options.segment_bytes));
        }
        self.current().write_all_at(0, &header.encode(self.options.database))?;
        self.current().sync_data()
    }

    /// Makes a spare, durably in the directory, unless there is one.
    pub(super) fn prepare(&mut self, truncate_before: Lsn) -> Result<()> {
        if self.spare.is_some() {
            return Ok(());
        }
        // Up to where the log may come in the segment that has begun last.
        let end = self.segments.back().map_or(0, |(last, _)| last.first_lsn + self.options.segment_bytes);
        self.room.prepare(end)?;
        let name = name(self.number_next());
        let file = match self.take_old(truncate_before, &name)? {
            Some(file) => file,
            None => self.create(&name)?,
        };
        file.sync_data()?;
        self.storage.sync_directory()?;
        self.spare = Some(file);
        Ok(())
    }

    /// Gives an old segment that nobody needs the new name. Its header tells it from a segment that has begun.
    fn take_old(&mut self, truncate_before: Lsn, name: &str) -> Result<Option<Box<dyn File>>> {
        let is_same = |bytes: u64| bytes == self.options.segment_bytes;
        let Some((old, _)) = self.unneeded(truncate_before).filter(|(_, bytes)| is_same(*bytes)) else {
            return Ok(None);
        };
        self.storage.rename(&super::format::name(old.number), name)?;
        self.segments.pop_front();
        self.storage.open(name, OpenMode::ReadWrite).map(Some)
    }

    fn create(&self, name: &str) -> Result<Box<dyn File>> {
        let file = match self.storage.open(name, OpenMode::CreateNew) {
            // Prepared before a crash, or by an attempt that failed. What it holds is not known.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.storage.remove(name)?;
                self.storage.open(name, OpenMode::CreateNew)?
            }
            file => file?,
        };
        file.preallocate(0, self.options.segment_bytes).inspect_err(|_| {
            // Gives back what it took. If that fails too, the next attempt does it.
            let _ = self.storage.remove(name);
        })?;
        Ok(file)
    }

    /// Removes old segments that nobody needs, but for a few.
    pub(super) fn truncate(&mut self, before: Lsn) -> Result<()> {
        let ends = self.segments.iter().skip(1).take_while(|(next, _)| next.first_lsn <= before.0);
        for left in (1..=ends.count()).rev() {
            let (old, bytes) = self.segments[0];
            if left <= KEPT_MAX && bytes == self.options.segment_bytes {
                break;
            }
            self.storage.remove(&name(old.number))?;
            self.segments.pop_front();
        }
        Ok(())
    }

    /// The oldest segment, if all of it lies before.
    fn unneeded(&self, before: Lsn) -> Option<(SegmentHeader, u64)> {
        let (next, _) = self.segments.get(1)?;
        (next.first_lsn <= before.0).then(|| self.segments[0])
    }

    /// Gives back what was reserved behind the end of the log: the rest of the last segment, and the spare.
    pub(super) fn finish(&mut self, end: Lsn) -> Result<()> {
        let (Some((last, _)), Some(_)) = (self.segments.back(), &self.current) else { return Ok(()) };
        let used = super::format::SEGMENT_HEADER_BYTES as u64 + end.0 - last.first_lsn;
        self.current().truncate(used)?;
        self.current().sync_data()?;
        if self.spare.take().is_some() {
            self.storage.remove(&name(self.number_next()))?;
        }
        self.storage.sync_directory()
    }

    /// Writes again what a reader saw of the last segment behind what is durable for sure, and syncs it: after a
    /// crash of the process alone, or a sync that failed, it may be in memory only.
    pub(super) fn secure(&self, run_start: u64, lsn: u64) -> Result<()> {
        let Some((last, _)) = self.segments.back() else { return Ok(()) };
        let file = self.storage.open(&name(last.number), OpenMode::ReadWrite)?;
        let head = super::format::SEGMENT_HEADER_BYTES as u64;
        let offset = head + run_start.max(last.first_lsn) - last.first_lsn;
        let mut bytes = vec![0; (head + lsn - last.first_lsn - offset) as usize];
        file.read_exact_at(offset, &mut bytes)?;
        file.write_all_at(0, &last.encode(self.options.database))?;
        file.write_all_at(offset, &bytes)?;
        file.sync_data()
    }
}

/// Whether the operation that failed can be tried again: anything but a sync, after which nothing is certain.
pub(super) fn is_curable(error: &StorageError) -> bool {
    !matches!(error.operation(), Operation::SyncData | Operation::SyncDirectory)
}
