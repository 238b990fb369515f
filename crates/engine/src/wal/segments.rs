//! The segment files of a log that is being written: the current segment, a spare, and old segments to be used again.

use super::format::{SegmentHeader, name};
use super::head::{Head, read_header};
use super::presence::Presence;
use super::{End, Error, Lsn, Options, Room};
use crate::events::event;
use crate::storage::{File, OpenMode, Operation, Result, Storage, StorageError};
use crate::sync::Arc;
use std::collections::VecDeque;
use std::io::ErrorKind;

/// The size of the pieces in which zeros are written ahead of the records: see [`Segments::write_ahead`]. A piece
/// lengthens a sync by about the time that writing it takes, and is due once in some twenty groups of a busy log.
const AHEAD_BYTES: u64 = 256 << 10;

/// The zeros that are written ahead.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// How many unneeded segments are kept to be used again. Their blocks are already allocated.
const KEPT_MAX: usize = 2;

/// The name of the next spare until it has a header and its length.
const NEW: &str = "log.new";

/// The segments of a log, in three roles:
///
/// - `segments` have begun. They are in ascending order. Once a segment has begun since the log was opened, the last
///   of them is `current`.
/// - `spare` has the number after them.
#[derive(Debug)]
pub(super) struct Segments {
    storage: Arc<dyn Storage>,
    options: Options,
    room: Arc<Room>,
    presence: Arc<Presence>,
    segments: VecDeque<(SegmentHeader, u64)>,
    /// The first segment that was made since the log was opened. The blocks of earlier segments may have been given
    /// back.
    first_own: u64,
    current: Option<Box<dyn File>>,
    /// How much of the current file, from its start, has been written to, now or in an earlier use.
    written: u64,
    spare: Option<Box<dyn File>>,
    /// The same for the spare.
    spare_written: u64,
}

impl Segments {
    /// Starts behind the existing segments, without a current one.
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        options: Options,
        room: Arc<Room>,
        old: Vec<(SegmentHeader, u64)>,
    ) -> Segments {
        let first_own = old.last().map_or(1, |(last, _)| last.number + 1);
        let segments = old.into();
        let (current, spare, written, spare_written) = (None, None, 0, 0);
        let presence = Arc::new(Presence::new(Arc::clone(&storage)));
        Segments {
            storage,
            options,
            room,
            presence,
            segments,
            first_own,
            current,
            written,
            spare,
            spare_written,
        }
    }

    /// Takes these segments out, and leaves none.
    pub(super) fn take(&mut self) -> Segments {
        let empty =
            Segments::new(Arc::clone(&self.storage), self.options, Arc::clone(&self.room), Vec::new());
        std::mem::replace(self, empty)
    }

    pub(super) fn room(&self) -> Arc<Room> {
        Arc::clone(&self.room)
    }

    pub(super) fn presence(&self) -> Arc<Presence> {
        Arc::clone(&self.presence)
    }

    pub(super) fn has_spare(&self) -> bool {
        self.spare.is_some()
    }

    /// Returns the number of the next segment to begin.
    pub(super) fn number_next(&self) -> u64 {
        self.segments.back().map_or(1, |(last, _)| last.number + 1)
    }

    /// Returns the file of the segment that began last.
    pub(super) fn current(&self) -> &dyn File {
        &**self.current.as_ref().expect("a segment has begun")
    }

    /// Makes the spare current and its header durable. A call after an error continues where the failed call stopped.
    pub(super) fn begin(&mut self, header: &SegmentHeader) -> Result<()> {
        if header.number == self.number_next() {
            self.current = Some(self.spare.take().expect("a segment begins when there is a spare"));
            self.written = self.spare_written;
            self.segments.push_back((*header, self.options.segment_bytes));
        }
        // This is the last check of the previous segment's name.
        self.presence.check()?;
        self.current().write_all_at(0, &header.encode(self.options.database))?;
        self.current().sync_data()?;
        self.presence.begun(header.number, self.current());
        event!(
            DEBUG,
            LOG,
            "log segment begun",
            database = self.options.number,
            segment = header.number,
            lsn = header.first_lsn
        );
        Ok(())
    }

    /// Writes zeros behind the records once they reach blocks that were reserved but never written. When such blocks
    /// are synced, a file system notes in its journal that they are now written. That takes as long again as the
    /// write, and waits for whatever else is in the journal, such as the files of a checkpoint. Zeros written ahead
    /// pay this cost once for many groups.
    pub(super) fn write_ahead(&mut self, end: u64) -> Result<()> {
        if end <= self.written {
            return Ok(());
        }
        let ahead = end.next_multiple_of(AHEAD_BYTES).min(self.options.segment_bytes);
        let mut at = end;
        while at < ahead {
            let bytes = (ahead - at).min(ZEROS.len() as u64);
            self.current().write_all_at(at, &ZEROS[..bytes as usize])?;
            at += bytes;
        }
        self.written = ahead;
        Ok(())
    }

    /// Makes a spare, durable in the directory, unless there is one.
    pub(super) fn prepare(&mut self, truncate_before: Lsn) -> Result<()> {
        if self.spare.is_some() {
            return Ok(());
        }
        // The log may reach this position in the segment that began last.
        let end = self.segments.back().map_or(0, |(last, _)| last.first_lsn + last.bytes);
        while let Err(error) = self.room.prepare(end) {
            // Old segments that are kept to be used again are room, too.
            let Some(old) = self.unneeded(truncate_before).filter(|_| error.is_full()) else {
                return Err(error);
            };
            self.storage.remove(&name(old.number))?;
            self.segments.pop_front();
        }
        let name = name(self.number_next());
        self.check_unused(&name)?;
        let (file, written) = match self.take_old(truncate_before, &name)? {
            Some(taken) => taken,
            None => (self.create(&name)?, 0),
        };
        self.storage.sync_directory()?;
        (self.spare, self.spare_written) = (Some(file), written);
        Ok(())
    }

    /// Fails if a file of this name exists and contains something. A file that was prepared before the database was
    /// opened contains nothing and is replaced.
    fn check_unused(&self, name: &str) -> Result<()> {
        let file = match self.storage.open(name, OpenMode::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        let number = super::format::number(name).expect("it is a segment's name");
        match read_header(&*file, self.options.database, number) {
            Ok(Head::Prepared) => Ok(()),
            Err(Error::Storage(error)) => Err(StorageError::io(Operation::Open, name, error.kind().into())),
            _ => Err(StorageError::io(Operation::Create, name, ErrorKind::AlreadyExists.into())),
        }
    }

    /// Renames an old segment that is no longer needed to `name`, and returns how much of it has been written to. Its
    /// header tells it from a segment that has begun. The segment is removed instead if it cannot be written to,
    /// because somebody else has a link to it, or if its blocks cannot be allocated again.
    fn take_old(&mut self, truncate_before: Lsn, name: &str) -> Result<Option<(Box<dyn File>, u64)>> {
        let Some(old) = self.unneeded(truncate_before) else { return Ok(None) };
        let old_name = super::format::name(old.number);
        let whole = match self.storage.open(&old_name, OpenMode::ReadWrite) {
            // Such a file has usually been written to its end. If a crash left some of it unwritten, that costs time
            // and nothing else.
            Ok(file) if old.number >= self.first_own => Ok((file, self.options.segment_bytes)),
            Ok(file) => self.make_whole(&*file).map(|()| (file, 0)),
            Err(error) => Err(error),
        };
        let taken = match whole {
            Ok(taken) => taken,
            Err(error) if !is_curable(&error) => return Err(error),
            Err(_) => {
                self.storage.remove(&old_name)?;
                self.segments.pop_front();
                return Ok(None);
            }
        };
        self.storage.rename(&old_name, name)?;
        self.segments.pop_front();
        Ok(Some(taken))
    }

    /// Gives the file of a segment from an earlier opening the length of a new segment, durably: its header may be on
    /// the disk before the next sync of the file.
    fn make_whole(&self, file: &dyn File) -> Result<()> {
        file.preallocate(0, self.options.segment_bytes)?;
        file.truncate(self.options.segment_bytes)?;
        file.sync_data()
    }

    /// Creates a file, which gets its name when its header and length are durable. So a file that has a segment's
    /// name but no good header is damaged.
    fn create(&self, name: &str) -> Result<Box<dyn File>> {
        let header = SegmentHeader::prepared(self.options.segment_bytes).encode(self.options.database);
        let file = match self.storage.open(NEW, OpenMode::CreateNew) {
            // The file is left from an attempt that failed, or from before a crash.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.storage.remove(NEW)?;
                self.storage.open(NEW, OpenMode::CreateNew)?
            }
            file => file?,
        };
        let reserved = file.preallocate(0, self.options.segment_bytes);
        reserved.and_then(|()| file.write_all_at(0, &header)).inspect_err(|_| {
            // This gives back what the file took. If that fails too, the next attempt does it.
            let _ = self.storage.remove(NEW);
        })?;
        file.sync_data()?;
        // This may replace a file that was prepared before the database was opened. A reader has seen that that
        // segment has not begun.
        self.storage.rename(NEW, name)?;
        Ok(file)
    }

    /// Removes old segments that are no longer needed, except for a few that are used again.
    pub(super) fn truncate(&mut self, before: Lsn) -> Result<()> {
        self.remove_old(before, KEPT_MAX)
    }

    /// Removes old segments that are no longer needed, except for `kept` of them.
    pub(super) fn remove_old(&mut self, before: Lsn, kept: usize) -> Result<()> {
        let ends = self.segments.iter().skip(1).take_while(|(next, _)| next.first_lsn <= before.0);
        let mut removed = 0u64;
        for left in (1..=ends.count()).rev() {
            let (old, _) = self.segments[0];
            if left <= kept {
                break;
            }
            self.storage.remove(&name(old.number))?;
            self.segments.pop_front();
            removed += 1;
        }
        if removed > 0 {
            event!(
                DEBUG,
                LOG,
                "log segments removed",
                database = self.options.number,
                segments = removed,
                oldest = self.segments[0].0.number
            );
        }
        Ok(())
    }

    /// Returns the oldest segment, if all of it lies before `before`.
    fn unneeded(&self, before: Lsn) -> Option<SegmentHeader> {
        let (next, _) = self.segments.get(1)?;
        (next.first_lsn <= before.0).then(|| self.segments[0].0)
    }

    /// Removes the spare, if there is one. It does not sync: a crash that undoes the removal costs only room.
    fn remove_spare(&mut self) -> Result<()> {
        if self.spare.take().is_some() { self.storage.remove(&name(self.number_next())) } else { Ok(()) }
    }

    /// Returns the number of the last segment that holds part of a log that ends at `end`. That is the segment before
    /// the last one if nothing was appended since the last one began.
    pub(super) fn last_used(&self, end: Lsn) -> u64 {
        let used = self.segments.iter().rev().find(|(segment, _)| segment.first_lsn < end.0);
        used.or(self.segments.front()).map_or(0, |(segment, _)| segment.number)
    }

    /// Cuts off the last segment behind the end of the log, or removes the segment if `end` is not in it. The caller
    /// has made the end durable elsewhere. This does not sync either.
    fn trim(&self, end: End) -> Result<()> {
        let Some((current, (last, _))) = self.current.as_ref().zip(self.segments.back()) else {
            return Ok(());
        };
        if last.number > end.segment {
            return self.storage.remove(&name(last.number));
        }
        current.truncate(last.used_bytes(end.lsn.0))
    }

    /// Gives back the reserved room that the segment before the current one did not use, because it is no longer the
    /// last. If this fails, only some room is lost. The new length is synced, because an archive copies the file in
    /// this state and must not be offered another one.
    pub(super) fn trim_former(&self) -> Result<()> {
        let mut latest = self.segments.iter().rev();
        let (Some((current, _)), Some((former, bytes))) = (latest.next(), latest.next()) else {
            return Ok(());
        };
        let used = former.used_bytes(current.first_lsn);
        if *bytes <= used {
            return Ok(());
        }
        let file = self.storage.open(&name(former.number), OpenMode::ReadWrite);
        match file.and_then(|file| file.truncate(used).map(|()| file)) {
            Ok(file) => file.sync_data(),
            Err(_) => Ok(()),
        }
    }

    /// Returns how many segments do not lie before `before`.
    pub(super) fn count_from(&self, before: Lsn) -> usize {
        let ended = self.segments.iter().skip(1).take_while(|(next, _)| next.first_lsn <= before.0);
        self.segments.len() - ended.count()
    }

    /// Restores the length in the last segment's header, if the unused end of its file was given back. When nothing
    /// else vouches for the end of the log, a shorter file counts as damaged. This reserves no blocks.
    pub(super) fn restore_length(&self) -> Result<()> {
        let Some((last, bytes)) = self.segments.back().filter(|(last, bytes)| *bytes < last.bytes) else {
            return Ok(());
        };
        debug_assert!(*bytes >= super::format::SEGMENT_HEADER_BYTES as u64, "its header was read");
        let file = self.storage.open(&name(last.number), OpenMode::ReadWrite)?;
        file.truncate(last.bytes)?;
        file.sync_data()
    }

    /// Writes and syncs again what a reader saw in the last segment behind the part that is certainly durable. After
    /// a crash of the process alone, or after a sync that failed, that part may be only in memory.
    pub(super) fn secure(&self, run_start: u64, lsn: u64) -> Result<()> {
        let Some((last, _)) = self.segments.back() else { return Ok(()) };
        let file = self.storage.open(&name(last.number), OpenMode::ReadWrite)?;
        let head = super::format::SEGMENT_HEADER_BYTES as u64;
        let offset = head + run_start.max(last.first_lsn) - last.first_lsn;
        let mut bytes = vec![0; (last.used_bytes(lsn) - offset) as usize];
        file.read_exact_at(offset, &mut bytes)?;
        file.write_all_at(0, &last.encode(self.options.database))?;
        file.write_all_at(offset, &bytes)?;
        file.sync_data()
    }
}

/// A log that was closed in order. All of it is durable.
#[derive(Debug)]
pub struct Ended {
    pub(super) segments: Segments,
    pub(super) end: End,
}

impl Ended {
    /// Returns where the log ends.
    pub fn end(&self) -> End {
        self.end
    }

    /// Gives back the room of the prepared segment, which is no longer needed. If this fails, only some room is lost.
    pub fn remove_spare(&mut self) -> Result<()> {
        self.segments.remove_spare()
    }

    /// Gives back the rest of the last segment. The caller has made durable elsewhere where the log ends: until then,
    /// a file that is shorter than it was made counts as damaged.
    pub fn trim(&self) -> Result<()> {
        self.segments.trim(self.end)
    }
}

/// Returns true if the failed operation can be tried again. Only a sync cannot, because nothing is certain after it.
pub(super) fn is_curable(error: &StorageError) -> bool {
    !matches!(error.operation(), Operation::SyncData | Operation::SyncDirectory)
}
