//! The write-ahead log: a sequence of records in segment files, written in groups and read back after a crash.
//!
//! [`Reader`] reads a directory's log to its end and gives a [`Tail`]; [`open`] goes on behind it with a
//! [`Writer`], to which any thread appends, and a [`Flusher`], which one thread or a simulation drives. The
//! format, and the rule by which a torn tail is told from damage, are in `docs/design/log-format.md`.
//!
//! Invariants, over positions in the whole log:
//! `truncate_before <= durable_lsn <= next_lsn`; a record lies in one segment; and before the first byte of a
//! run (what one write puts behind what is durable) is written, everything before the run is durable.

mod buffer;
mod checks;
pub(crate) mod codec;
mod copy;
mod damaged_reader;
mod error;
mod finished;
mod flusher;
mod follower;
#[cfg(all(test, not(braid_shuttle)))]
mod follower_tests;
mod format;
mod gather;
mod head;
mod hold;
mod holds;
mod lane;
mod mark;
mod marks_around;
mod planted;
mod position;
mod presence;
mod reader;
mod record;
mod room;
mod segments;
#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
mod stall;
mod tail;
#[cfg(all(test, not(braid_shuttle)))]
mod tests;
mod thread;
mod write_group;
mod writer;

pub use crate::metrics::LogStatistics as Statistics;
pub use copy::{copy, trim};
pub use damaged_reader::{Gap, Remains, Remnant, claimed_database};
pub use error::{Error, Result};
pub use finished::{Finished, finished};
pub use flusher::Flusher;
pub use follower::{Follower, Next, oldest_lsn};
pub use hold::Hold;
pub use mark::{Mark, Point, Until, Utc};
pub use marks_around::{Around, marks_around};
pub use planted::Planted;
pub use position::{ChangePosition, InvalidPosition};
pub use reader::{Reader, Record};
pub use record::{Change, ChangeIter, Changes};
pub use room::{Expected, Room, Shortage};
pub use segments::Ended;
pub use stall::Stall;
pub use tail::{Cut, End, Ending, Tail};
pub use thread::FlusherThread;
pub use writer::{Writer, check_writable, open, open_unbegun, secure};

use crate::storage::SECTOR_BYTES;

/// A position in the whole log, in bytes of records since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl std::fmt::Display for Lsn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Which database a log belongs to: chosen at random when the database is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseId(pub u128);

/// Whether a file of this name is a segment of a log.
pub(crate) fn is_segment(file: &str) -> bool {
    format::number(file).is_some()
}

/// The smallest segment: its header and a sector of records.
const SEGMENT_BYTES_MIN: u64 = 2 * SECTOR_BYTES as u64;

/// The largest segment: a reader holds one in memory, and believes no file that is longer.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// How a log is written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whose log it is.
    pub database: DatabaseId,
    /// How long a segment file is: whole sectors, from 1 KiB to 1 GiB. Default 64 MiB: rare enough that what
    /// a new segment costs (two syncs) does not show, and small enough to give space back in time. No
    /// record is longer than this less a sector.
    pub segment_bytes: u64,
    /// How much may wait in memory to be durable. Default 16 MiB, tens of milliseconds of a fast
    /// disk. Beyond, appending waits.
    pub buffer_bytes_max: usize,
    /// How long the oldest record may wait to be durable, in nanoseconds. Default 1 s, several times what a slow
    /// disk takes. Beyond, appending waits (16 KiB of records, or one, may come in before that is noticed).
    pub lag_ns_max: u64,
    /// How long there is at least between the beginnings of two flushes, in nanoseconds, while nobody waits for what was
    /// appended. Default 0.3 ms: two or three syncs of a fast disk. Each takes some 40 microseconds of processor time from those
    /// that append; longer gains no more, and delays what is held back until it is durable.
    pub pace_ns: u64,
    /// A flush of fewer records than this is not followed by that pause. Default 8: the flusher of a few clients that wait for
    /// each of their commits would only be woken twice, as it would sleep again before they say that they wait.
    pub paced_records_min: u64,
    /// How long there is at least between two records of the time. Default 1 s: exact enough to find a moment before a
    /// mistake, at 40 bytes and no sync of its own but for the last in a busy time.
    pub mark_interval_ns: u64,
    /// How much of the log readers of changes may keep beyond what the database needs. Default 1 GiB, as much as it grows by between
    /// two checkpoints.
    pub held_bytes_max: u64,
    /// The number by which events name the database. Default 0: none.
    pub number: u64,
}

impl Options {
    /// The defaults, for this database.
    pub fn new(database: DatabaseId) -> Options {
        Options {
            database,
            segment_bytes: 64 << 20,
            buffer_bytes_max: 16 << 20,
            lag_ns_max: 1_000_000_000,
            pace_ns: 300_000,
            paced_records_min: 8,
            mark_interval_ns: 1_000_000_000,
            held_bytes_max: 1 << 30,
            number: 0,
        }
    }

    fn check(&self) -> Result<()> {
        let is_whole = self.segment_bytes.is_multiple_of(SECTOR_BYTES as u64);
        if is_whole && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes) {
            return Ok(());
        }
        Err(Error::SegmentBytes { bytes: self.segment_bytes })
    }

    /// How many bytes of records a segment has room for.
    fn room_bytes(&self) -> u64 {
        self.segment_bytes - format::SEGMENT_HEADER_BYTES as u64
    }
}

/// The version of the format that is written, and the only one that is read.
const VERSION: u32 = 1;
