//! The room on the device. Some of it is reserved for the next checkpoint, so that the database can recover from a
//! full disk.
//!
//! When a log has filled the device, only a checkpoint can make room by giving up the log, and the checkpoint itself
//! needs room. So while room is scarce, a file named `reserve` holds as many blocks as the next checkpoint may write.
//! Other users of the device cannot take these blocks, as they could take free ones. A checkpoint that finds no other
//! room has them given back. When there is [`PLENTY`] of room, nothing is held.
//!
//! Invariants:
//!
//! - A segment is prepared only if the reserve holds what a checkpoint may need for everything that the log has by
//!   the end of the segment, or if there is plenty of room.
//! - While a checkpoint uses the reserve, a segment is prepared only if there is room for both.
//! - When only the second of the next two checkpoints gives up any log, there has to be room for both checkpoints.

use super::Lsn;
use crate::metrics::RoomStatistics;
use crate::storage::{File, OpenMode, Operation, Result, Storage, StorageError};
use crate::sync::{Arc, Mutex, MutexGuard, lock, try_lock};
use std::fmt;
use std::io::ErrorKind;

/// The name of the reserve's file.
const RESERVE: &str = "reserve";

/// How many times the need of a checkpoint has to be free for nothing to be held. Others would have to take the rest
/// between two checks.
const PLENTY: u64 = 4;

/// A checkpoint's small files, and what its files of rows contain besides the rows.
const SMALL_FILES_BYTES: u64 = 64 << 10;

/// When fewer segments than this are free, it is time for a checkpoint.
const SEGMENTS_AHEAD: u64 = 4;

/// What checkpoints are expected to write until one of them gives up what the log has now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// How many checkpoints that takes; at least one.
    pub checkpoints: u64,
    /// Rows of the last checkpoint that are written again.
    pub rows_bytes: u64,
    /// Where the log begins that the next checkpoint replaces. As many bytes of rows may have come as the log has had
    /// from there on.
    pub start_lsn: Lsn,
    /// An upper bound: the memory that the rows take, and what came behind `memory_lsn`.
    pub memory_bytes: u64,
    /// Where the log was when the memory was measured.
    pub memory_lsn: Lsn,
}

impl Expected {
    /// Returns how many bytes may be written when the log has reached `end`.
    fn bytes_at(&self, end: u64) -> u64 {
        let logged = self.rows_bytes.saturating_add(end.saturating_sub(self.start_lsn.0));
        let held = self.memory_bytes.saturating_add(end.saturating_sub(self.memory_lsn.0));
        logged.min(held).saturating_add(SMALL_FILES_BYTES).saturating_mul(self.checkpoints.max(1))
    }
}

/// The room of one database. Only one thread may prepare segments at a time.
pub struct Room {
    storage: Arc<dyn Storage>,
    segment_bytes: u64,
    /// Locked while the reserve is changed. A slow device can make that last long.
    held: Mutex<Held>,
    /// The statistics of the last check, and whether it is time for a checkpoint.
    seen: Mutex<(RoomStatistics, bool)>,
}

#[derive(Default)]
struct Held {
    reserve: Option<Box<dyn File>>,
    /// The reserve's length.
    bytes: u64,
    /// Unknown before the first call of `expect`. Until then the reserve stays as it was found.
    expected: Option<Expected>,
    /// What a running checkpoint needs, if it uses the reserve.
    lent_bytes: Option<u64>,
    /// The results of the last check: what is free, and what should have been held.
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
    /// Opens the room of the database in this storage. A reserve may exist from an earlier opening.
    pub(super) fn open(storage: Arc<dyn Storage>, segment_bytes: u64) -> Result<Room> {
        let mut held = Held::default();
        match storage.open(RESERVE, OpenMode::ReadWrite) {
            Ok(file) => {
                // The file was not synced, so a crash may have left only its length.
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

    /// Ensures that there is room for a checkpoint when the log has reached `end`, beside another segment.
    pub(super) fn prepare(&self, end: u64) -> Result<()> {
        self.hold(&mut self.held(), end, true)
    }

    /// Notes what the next checkpoint is expected to write, with the log at `end`, and checks what is free. This does
    /// not wait for a slow device.
    pub fn expect(&self, expected: Expected, end: Lsn) {
        let Some(mut held) = try_lock(&self.held) else { return };
        held.expected = Some(expected);
        // A failure is in the statistics, and the next segment reports it.
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
        // The segment after this one may be filled, too, before the next check.
        held.wanted_bytes = expected.bytes_at(end.saturating_add(self.segment_bytes));
        let held_bytes = held.bytes;
        let is_plenty = |times: u64| {
            let plenty = held.wanted_bytes.saturating_mul(times);
            held.free_bytes.is_some_and(|free| free.saturating_add(held_bytes) >= plenty)
        };
        let done = match () {
            // The factor 2 keeps the reserve from being given back and taken again in turn.
            () if is_plenty(2 * PLENTY) && held_bytes > 0 => self.set(held, 0),
            () if is_plenty(PLENTY) && held_bytes == 0 => Ok(()),
            () if held_bytes < held.wanted_bytes => self.set(held, held.wanted_bytes),
            () if held_bytes / 2 > held.wanted_bytes => self.set(held, held.wanted_bytes),
            () => Ok(()),
        };
        held.is_short = done.is_err();
        done
    }

    /// Sets the reserve's length.
    fn set(&self, held: &mut Held, bytes: u64) -> Result<()> {
        let file = match &held.reserve {
            Some(file) => file,
            None => held.reserve.insert(self.storage.open(RESERVE, OpenMode::CreateNew)?),
        };
        if bytes < held.bytes {
            file.truncate(bytes)?;
        } else if let Err(error) = file.preallocate(held.bytes, bytes - held.bytes) {
            let _ = file.truncate(held.bytes); // what it got of it
            return Err(error);
        }
        held.bytes = bytes;
        Ok(())
    }

    /// Gives the reserve back for good.
    pub(super) fn give_back(&self) -> Result<()> {
        let mut held = self.held();
        let Some(file) = held.reserve.take() else { return Ok(()) };
        held.bytes = 0;
        drop(file);
        self.storage.remove(RESERVE)
    }

    /// Returns the error that a segment cannot be prepared because a checkpoint needs the room.
    fn full(&self) -> StorageError {
        StorageError::io(Operation::Preallocate, "the next segment of the log", ErrorKind::StorageFull.into())
    }

    /// Notes that a checkpoint begins, with the log at `end`. If there is no other room for it, it gets the reserve.
    pub fn begin_checkpoint(&self, end: Lsn) {
        let held = &mut *self.held();
        let needed = held.needed_at(end);
        self.look(held);
        if held.free_bytes.is_some_and(|free| free < needed.saturating_add(self.segment_bytes)) {
            self.lend_held(held, needed);
        }
    }

    /// Lends the reserve to a checkpoint that has found no room. Returns true if the checkpoint gets the reserve and
    /// did not have it before; it can then be tried again.
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

    /// Notes that the checkpoint has ended. The next check holds the reserve again.
    pub fn end_checkpoint(&self) {
        self.held().lent_bytes = None;
    }

    /// Returns true if little more than the reserve is left. It is then time for a checkpoint, so that the log can be
    /// given up.
    pub fn is_scarce(&self) -> bool {
        lock(&self.seen).1
    }

    /// Describes a shortage for an error: what is free, what another segment needs, and how much of that is for a
    /// checkpoint.
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

    /// Returns the statistics of the last check. Checks happen when a segment is prepared, and about twice a second.
    pub fn statistics(&self) -> RoomStatistics {
        lock(&self.seen).0
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("reserve_bytes", &self.held().bytes).finish_non_exhaustive()
    }
}

/// Why the log takes no more records for now.
#[derive(Debug)]
pub struct Shortage {
    /// What has failed.
    pub error: StorageError,
    /// What is free on the device, if that is known.
    pub free_bytes: Option<u64>,
    /// What has to be free, for another segment of the log and for the missing part of the reserve.
    pub needed_bytes: u64,
    /// What is held for the next checkpoint.
    pub reserve_bytes: u64,
}

impl Shortage {
    /// Returns the shortage of a disk that has not answered for `waits_ns`.
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
