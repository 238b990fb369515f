//! The segment files of a log that is written: the current one, a spare, and old ones to be used again.

use super::format::{SegmentHeader, name};
use super::head::{Head, read_header};
use super::presence::Presence;
use super::{End, Error, Lsn, Options, Room};
use crate::events::event;
use crate::storage::{File, OpenMode, Operation, Result, Storage, StorageError};
use crate::sync::Arc;
use std::collections::VecDeque;
use std::io::ErrorKind;

/// Zeros are written ahead of the records in pieces of this size: see [`Segments::write_ahead`]. One piece adds to a sync
/// about as much as it takes itself, and is due once in some twenty groups of a busy log.
const AHEAD_BYTES: u64 = 256 << 10;

/// Zeros are written from this.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// So many segments that nobody needs are kept to be used again: their blocks are there already.
const KEPT_MAX: usize = 2;

/// What the next spare is called until it has a header and its length.
const NEW: &str = "log.new";

/// `segments` are those that have begun, ascending, the last of them `current` once one has begun since the log was
/// opened; `spare` has the number after.
#[derive(Debug)]
pub(super) struct Segments {
    storage: Arc<dyn Storage>,
    options: Options,
    room: Arc<Room>,
    presence: Arc<Presence>,
    segments: VecDeque<(SegmentHeader, u64)>,
    /// The first that was made since the log was opened. The blocks of those before may have been given back.
    first_own: u64,
    current: Option<Box<dyn File>>,
    /// How much of it, from the start, has been written to, now or in an earlier use.
    written: u64,
    spare: Option<Box<dyn File>>,
    /// The same of the spare.
    spare_written: u64,
}

impl Segments {
    /// None current, after those that there are.
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

    /// These, with none left.
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
            self.written = self.spare_written;
            self.segments.push_back((*header, self.options.segment_bytes));
        }
        // A last look at the one before, which nobody looks at again.
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

    /// Where records reach into blocks that were reserved and never written, writes zeros to those behind them. For to
    /// sync such blocks, a file system notes in its journal that they are written now, which takes as long again as the
    /// write and waits for whatever else is in the journal, as files of a checkpoint are. So that is done for many
    /// groups at once.
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

    /// Makes a spare, durably in the directory, unless there is one.
    pub(super) fn prepare(&mut self, truncate_before: Lsn) -> Result<()> {
        if self.spare.is_some() {
            return Ok(());
        }
        // Up to where the log may come in the segment that has begun last.
        let end = self.segments.back().map_or(0, |(last, _)| last.first_lsn + last.bytes);
        while let Err(error) = self.room.prepare(end) {
            // What is kept to be used again is room, too.
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

    /// An error if the name is a file's that holds something: one that was prepared before the database was opened does
    /// not, and is replaced.
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

    /// Gives an old segment that nobody needs the new name, and says how much of it has been written to. Its header tells
    /// it from a segment that has begun. One that cannot be written to, because somebody else has a link to it, or that
    /// cannot have its blocks back, is removed.
    fn take_old(&mut self, truncate_before: Lsn, name: &str) -> Result<Option<(Box<dyn File>, u64)>> {
        let Some(old) = self.unneeded(truncate_before) else { return Ok(None) };
        let old_name = super::format::name(old.number);
        let whole = match self.storage.open(&old_name, OpenMode::ReadWrite) {
            // As a rule it was written to its end. (What a crash left unwritten costs time, no more.)
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

    /// Makes the file of a segment from before as long as new ones are, durably: its header may be on the disk before the
    /// next sync of it.
    fn make_whole(&self, file: &dyn File) -> Result<()> {
        file.preallocate(0, self.options.segment_bytes)?;
        file.truncate(self.options.segment_bytes)?;
        file.sync_data()
    }

    /// A new file, which gets its name when its header and length are durable: so whatever has a segment's name and no
    /// good header is damaged.
    fn create(&self, name: &str) -> Result<Box<dyn File>> {
        let header = SegmentHeader::prepared(self.options.segment_bytes).encode(self.options.database);
        let file = match self.storage.open(NEW, OpenMode::CreateNew) {
            // Of an attempt that failed, or before a crash.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.storage.remove(NEW)?;
                self.storage.open(NEW, OpenMode::CreateNew)?
            }
            file => file?,
        };
        let reserved = file.preallocate(0, self.options.segment_bytes);
        reserved.and_then(|()| file.write_all_at(0, &header)).inspect_err(|_| {
            // Gives back what it took. If that fails too, the next attempt does it.
            let _ = self.storage.remove(NEW);
        })?;
        file.sync_data()?;
        // In place of one that was prepared before the database was opened: a reader has seen that it has not begun.
        self.storage.rename(NEW, name)?;
        Ok(file)
    }

    /// Removes old segments that nobody needs, but for a few that are used again.
    pub(super) fn truncate(&mut self, before: Lsn) -> Result<()> {
        self.remove_old(before, KEPT_MAX)
    }

    /// Removes old segments that nobody needs, but for so many.
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

    /// The oldest segment, if all of it lies before.
    fn unneeded(&self, before: Lsn) -> Option<SegmentHeader> {
        let (next, _) = self.segments.get(1)?;
        (next.first_lsn <= before.0).then(|| self.segments[0].0)
    }

    /// Removes the spare, if there is one. Without a sync: a crash that undoes it costs room alone.
    fn remove_spare(&mut self) -> Result<()> {
        if self.spare.take().is_some() { self.storage.remove(&name(self.number_next())) } else { Ok(()) }
    }

    /// The number of the last segment that has something of a log that ends there: the one before the last where nothing was
    /// appended since that was begun.
    pub(super) fn last_used(&self, end: Lsn) -> u64 {
        let used = self.segments.iter().rev().find(|(segment, _)| segment.first_lsn < end.0);
        used.or(self.segments.front()).map_or(0, |(segment, _)| segment.number)
    }

    /// Cuts the last segment off behind the end of the log, or removes it where it is not `end`'s, when something else
    /// vouches for the end. Without a sync, too.
    fn trim(&self, end: End) -> Result<()> {
        let Some((current, (last, _))) = self.current.as_ref().zip(self.segments.back()) else {
            return Ok(());
        };
        if last.number > end.segment {
            return self.storage.remove(&name(last.number));
        }
        current.truncate(last.used_bytes(end.lsn.0))
    }

    /// Gives back what the segment before the current one was to take and never took, as it is not the last any more. If it
    /// is not given back, it is some room lost, and no more. Durably, for an archive takes it as it is now, and is not to be
    /// offered another one.
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

    /// How many there are that do not lie before.
    pub(super) fn count_from(&self, before: Lsn) -> usize {
        let ended = self.segments.iter().skip(1).take_while(|(next, _)| next.first_lsn <= before.0);
        self.segments.len() - ended.count()
    }

    /// Makes the last segment as long as its header says, if its unused end was given back: when nothing else vouches
    /// for the end of the log, a shorter file is taken for damaged. Reserves nothing.
    pub(super) fn restore_length(&self) -> Result<()> {
        let Some((last, bytes)) = self.segments.back().filter(|(last, bytes)| *bytes < last.bytes) else {
            return Ok(());
        };
        debug_assert!(*bytes >= super::format::SEGMENT_HEADER_BYTES as u64, "its header was read");
        let file = self.storage.open(&name(last.number), OpenMode::ReadWrite)?;
        file.truncate(last.bytes)?;
        file.sync_data()
    }

    /// Writes again what a reader saw of the last segment behind what is durable for sure, and syncs it: after a
    /// crash of the process alone, or a sync that failed, it may be in memory only.
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

/// A log that was closed in order: all of it is durable.
#[derive(Debug)]
pub struct Ended {
    pub(super) segments: Segments,
    pub(super) end: End,
}

impl Ended {
    /// Where it ends.
    pub fn end(&self) -> End {
        self.end
    }

    /// Gives back the room of the segment that was prepared, which nobody needs any more. If it is not given back, it is
    /// some room lost, and no more.
    pub fn remove_spare(&mut self) -> Result<()> {
        self.segments.remove_spare()
    }

    /// Gives back the rest of the last segment, when something else durable says where the log ends: until then, a file
    /// that is shorter than it was made is taken for damaged.
    pub fn trim(&self) -> Result<()> {
        self.segments.trim(self.end)
    }
}

/// Whether the operation that failed can be tried again: anything but a sync, after which nothing is certain.
pub(super) fn is_curable(error: &StorageError) -> bool {
    !matches!(error.operation(), Operation::SyncData | Operation::SyncDirectory)
}
