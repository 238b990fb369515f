//! The room on the device: what is kept back of it for the next checkpoint, so that a full disk can be left again.
//!
//! A log that has filled the device is given up by a checkpoint alone, and that needs room itself. So as long as room
//! is scarce a file, `reserve`, holds as many blocks as the next checkpoint may write; other users of the device cannot
//! take these, as they could what is merely free. A checkpoint that finds no other room has them given back. Where there
//! is [`PLENTY`] of room nothing is held.
//!
//! Invariant: no segment is prepared unless the reserve holds what a checkpoint of all that the log has by its end may
//! need, or there is plenty of room; and none while a checkpoint uses the reserve, unless there is room for both. (Of the
//! first two checkpoints, only the second one gives up any log, so there is to be room for both.)

use super::Lsn;
use crate::metrics::RoomStatistics;
use crate::storage::{File, OpenMode, Operation, Result, Storage, StorageError};
use crate::sync::{Arc, Mutex, MutexGuard, lock, try_lock};
use std::fmt;
use std::io::ErrorKind;

/// What the file is called.
const RESERVE: &str = "reserve";

/// So many times what a checkpoint may need has to be free for nothing to be held: others would have to take the rest
/// from one look to the next.
const PLENTY: u64 = 4;

/// A checkpoint's small files, and what its files of rows have besides the rows.
const SMALL_FILES_BYTES: u64 = 64 << 10;

/// So many segments have to be free, or it is time for a checkpoint.
const SEGMENTS_AHEAD: u64 = 4;

/// What checkpoints are expected to write until one gives up what the log has now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// How many are needed for that; at least one.
    pub checkpoints: u64,
    /// Rows of the last one that are written again.
    pub rows_bytes: u64,
    /// Where the log begins that the next one takes the place of: as much as it has, rows may have come.
    pub start_lsn: Lsn,
    /// But no more than this, which the rows take in memory, and what came behind `memory_lsn`.
    pub memory_bytes: u64,
    /// Where the log was then.
    pub memory_lsn: Lsn,
}

impl Expected {
    /// What may be written when the log has come to `end`.
    fn bytes_at(&self, end: u64) -> u64 {
        let logged = self.rows_bytes.saturating_add(end.saturating_sub(self.start_lsn.0));
        let held = self.memory_bytes.saturating_add(end.saturating_sub(self.memory_lsn.0));
        logged.min(held).saturating_add(SMALL_FILES_BYTES).saturating_mul(self.checkpoints.max(1))
    }
}

/// The room of one database. Only one thread at a time is to prepare segments.
pub struct Room {
    storage: Arc<dyn Storage>,
    segment_bytes: u64,
    /// Held while the reserve is changed, which a device may make last.
    held: Mutex<Held>,
    /// How it was when it was looked at last; and whether it is time for a checkpoint.
    seen: Mutex<(RoomStatistics, bool)>,
}

#[derive(Default)]
struct Held {
    reserve: Option<Box<dyn File>>,
    /// How long it is.
    bytes: u64,
    /// Not known before somebody has looked; until then all stays as it was found.
    expected: Option<Expected>,
    /// What a checkpoint under way needs, which uses the reserve.
    lent_bytes: Option<u64>,
    /// The last time that it was looked: what is free, and what should have been held.
    free_bytes: Option<u64>,
    wanted_bytes: u64,
    is_short: bool,
}

impl Held {
    fn needed_at(&self, end: Lsn) -> u64 {
        self.expected.map_or(self.bytes, |expected| expected.bytes_at(end.0))
    }
}

impl Room {
    /// Of the database in this storage, whose reserve may be there from before.
    pub(super) fn open(storage: Arc<dyn Storage>, segment_bytes: u64) -> Result<Room> {
        let mut held = Held::default();
        match storage.open(RESERVE, OpenMode::ReadWrite) {
            Ok(file) => {
                // It was not synced: a crash may have left its length alone.
                let bytes = file.len_bytes()?;
                held.bytes = if file.preallocate(0, bytes).is_ok() { bytes } else { 0 };
                file.truncate(held.bytes)?;
                held.reserve = Some(file);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Room { storage, segment_bytes, held: Mutex::new(held), seen: Mutex::default() })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }

    /// Makes sure that there is room for a checkpoint when the log has come to `end`, beside another segment.
    pub(super) fn prepare(&self, end: u64) -> Result<()> {
        self.hold(&mut self.held(), end, true)
    }

    /// Takes note of what the next checkpoint is expected to write, with the log at `end`, and of what is free. Does
    /// not wait for a device that is slow.
    pub fn expect(&self, expected: Expected, end: Lsn) {
        let Some(mut held) = try_lock(&self.held) else { return };
        held.expected = Some(expected);
        // (That it failed is in the statistics, and the next segment says so.)
        let _ = self.hold(&mut held, end.0, false);
    }

    fn hold(&self, held: &mut Held, end: u64, is_for_segment: bool) -> Result<()> {
        self.look(held);
        let done = self.hold_seen(held, end, is_for_segment);
        self.look(held);
        done
    }

    fn look(&self, held: &mut Held) {
        let space = self.storage.space().ok().flatten();
        held.free_bytes = space.map(|space| space.free_bytes);
        let ahead = SEGMENTS_AHEAD.saturating_mul(self.segment_bytes);
        let missing = held.wanted_bytes.saturating_sub(held.bytes);
        let is_near = held.bytes > 0 && held.free_bytes.is_some_and(|free| free < ahead + missing);
        let seen = RoomStatistics {
            free_bytes: held.free_bytes,
            total_bytes: space.map(|space| space.total_bytes),
            reserve_bytes: held.bytes,
            checkpoint_bytes: held.wanted_bytes,
            is_short: held.is_short,
        };
        *lock(&self.seen) = (seen, is_near);
    }

    fn hold_seen(&self, held: &mut Held, end: u64, is_for_segment: bool) -> Result<()> {
        if let Some(lent_bytes) = held.lent_bytes {
            let needed = lent_bytes.saturating_add(self.segment_bytes);
            let is_missing = is_for_segment && held.free_bytes.is_none_or(|free| free < needed);
            return if is_missing { Err(self.full()) } else { Ok(()) };
        }
        let Some(expected) = held.expected else { return Ok(()) };
        // The segment after this one may be filled, too, before the next look.
        held.wanted_bytes = expected.bytes_at(end.saturating_add(self.segment_bytes));
        let held_bytes = held.bytes;
        let is_plenty = |times: u64| {
            let plenty = held.wanted_bytes.saturating_mul(times);
            held.free_bytes.is_some_and(|free| free.saturating_add(held_bytes) >= plenty)
        };
        let done = match () {
            // (With a distance, so that it is not given back and taken again in turn.)
            () if is_plenty(2 * PLENTY) && held_bytes > 0 => self.set(held, 0),
            () if is_plenty(PLENTY) && held_bytes == 0 => Ok(()),
            () if held_bytes < held.wanted_bytes => self.set(held, held.wanted_bytes),
            () if held_bytes / 2 > held.wanted_bytes => self.set(held, held.wanted_bytes),
            () => Ok(()),
        };
        held.is_short = done.is_err();
        done
    }

    /// Makes the reserve this long.
    fn set(&self, held: &mut Held, bytes: u64) -> Result<()> {
        let file = match &held.reserve {
            Some(file) => file,
            None => held.reserve.insert(self.storage.open(RESERVE, OpenMode::CreateNew)?),
        };
        if bytes < held.bytes {
            file.truncate(bytes)?;
        } else if let Err(error) = file.preallocate(held.bytes, bytes - held.bytes) {
            let _ = file.truncate(held.bytes); // what it has got of it
            return Err(error);
        }
        held.bytes = bytes;
        Ok(())
    }

    /// Keeps nothing back any more.
    pub(super) fn give_back(&self) -> Result<()> {
        let mut held = self.held();
        let Some(file) = held.reserve.take() else { return Ok(()) };
        held.bytes = 0;
        drop(file);
        self.storage.remove(RESERVE)
    }

    /// A segment cannot be prepared because a checkpoint needs the room.
    fn full(&self) -> StorageError {
        StorageError::io(Operation::Preallocate, "the next segment of the log", ErrorKind::StorageFull.into())
    }

    /// A checkpoint begins, with the log at `end`: if there is no other room for it, it gets the reserve.
    pub fn begin_checkpoint(&self, end: Lsn) {
        let held = &mut *self.held();
        let needed = held.needed_at(end);
        self.look(held);
        if held.free_bytes.is_some_and(|free| free < needed.saturating_add(self.segment_bytes)) {
            self.lend_held(held, needed);
        }
    }

    /// A checkpoint has found no room. Returns true if it gets the reserve, which it has not had; it can be tried again.
    pub fn lend(&self, end: Lsn) -> bool {
        let held = &mut *self.held();
        let needed = held.needed_at(end);
        self.lend_held(held, needed)
    }

    fn lend_held(&self, held: &mut Held, needed: u64) -> bool {
        if held.lent_bytes.is_some() || held.bytes == 0 {
            return false;
        }
        let is_lent = self.set(held, 0).is_ok();
        held.lent_bytes = is_lent.then_some(needed);
        is_lent
    }

    /// The checkpoint is over. What it had is held again when somebody looks.
    pub fn end_checkpoint(&self) {
        self.held().lent_bytes = None;
    }

    /// Little more than the reserve is left: it is time for a checkpoint, so that the log can be given up.
    pub fn is_scarce(&self) -> bool {
        lock(&self.seen).1
    }

    /// What an error says: what is free, what is needed for another segment, and how much of that for a checkpoint.
    pub(super) fn shortage(&self, error: StorageError) -> Shortage {
        let held = &mut *self.held();
        self.look(held);
        let reserve_bytes = match held.lent_bytes {
            Some(lent_bytes) => lent_bytes,
            None => held.wanted_bytes.saturating_sub(held.bytes),
        };
        let needed_bytes = self.segment_bytes.saturating_add(if held.is_short { reserve_bytes } else { 0 });
        Shortage { error, free_bytes: held.free_bytes, needed_bytes, reserve_bytes: held.bytes }
    }

    /// How it was when it was looked at last: when a segment was prepared, and about twice a second.
    pub fn statistics(&self) -> RoomStatistics {
        lock(&self.seen).0
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("reserve_bytes", &self.held().bytes).finish_non_exhaustive()
    }
}

/// Why the log cannot take more for now.
#[derive(Debug)]
pub struct Shortage {
    /// What has failed.
    pub error: StorageError,
    /// What is free on the device, where that is known.
    pub free_bytes: Option<u64>,
    /// What has to be, for another segment of the log, and what is missing of the reserve.
    pub needed_bytes: u64,
    /// What is held for the next checkpoint.
    pub reserve_bytes: u64,
}

impl Shortage {
    /// The disk has not answered for so long.
    pub(super) fn slow(waits_ns: u64) -> Shortage {
        let text = format!("a write or a sync of it has not returned for {} ms", waits_ns / 1_000_000);
        let error = StorageError::io(Operation::SyncData, "the log", std::io::Error::other(text));
        Shortage { error, free_bytes: None, needed_bytes: 0, reserve_bytes: 0 }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { error, free_bytes, needed_bytes, reserve_bytes } = self;
        if !error.is_full() {
            return write!(f, "{error}; commits go on when that has passed");
        }
        match free_bytes {
            Some(free_bytes) => write!(f, "{free_bytes} bytes are free and {needed_bytes} are needed")?,
            None => write!(f, "{needed_bytes} bytes are needed")?,
        }
        if *reserve_bytes > 0 {
            write!(f, ", beside {reserve_bytes} that are kept for the next checkpoint")?;
        }
        write!(
            f,
            " ({error}); make room on the device, and commits go on; reads and checkpoints do meanwhile"
        )
    }
}
