//! The write-ahead log: a sequence of records in segment files. Records are written in groups and read back after a
//! crash.
//!
//! 1. [`Reader`] reads a directory's log to its end and returns a [`Tail`].
//! 2. [`open`] continues behind the tail with a [`Writer`] and a [`Flusher`].
//! 3. Any thread appends to the [`Writer`]. One thread, or a simulation, drives the [`Flusher`].
//!
//! `docs/design/log-format.md` defines the format, and the rule that tells a torn tail from damage.
//!
//! Invariants, over positions in the whole log:
//!
//! - `truncate_before <= durable_lsn <= next_lsn`.
//! - A record lies in one segment.
//! - A run is what one write puts behind the durable part of the log. Everything before a run is durable before the
//!   first byte of the run is written.

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

/// A position in the whole log, in bytes of records since the log was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl std::fmt::Display for Lsn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The database that a log belongs to. The number is chosen at random when the database is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseId(pub u128);

/// Returns true if a file of this name is a segment of a log.
pub(crate) fn is_segment(file: &str) -> bool {
    format::number(file).is_some()
}

/// The smallest segment: a header and one sector of records.
const SEGMENT_BYTES_MIN: u64 = 2 * SECTOR_BYTES as u64;

/// The largest segment. A reader holds a whole segment in memory, and accepts no longer file.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// How a log is written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The database that the log belongs to.
    pub database: DatabaseId,
    /// The length of a segment file: whole sectors, from 1 KiB to 1 GiB. Default 64 MiB: a new segment costs two
    /// syncs, which are rare enough not to show, and space is given back in time. No record is longer than this less
    /// one sector.
    pub segment_bytes: u64,
    /// How many bytes may wait in memory to become durable. Default 16 MiB, tens of milliseconds of a fast disk.
    /// Beyond the limit, appending waits.
    pub buffer_bytes_max: usize,
    /// How long the oldest record may wait to become durable, in nanoseconds. Default 1 s, several times what a slow
    /// disk takes. Beyond the limit, appending waits; up to 16 KiB of records, or one record, may come in before the
    /// log notices.
    pub lag_ns_max: u64,
    /// The least time between the beginnings of two flushes while nothing waits for what was appended, in
    /// nanoseconds. Default 0.3 ms: two or three syncs of a fast disk. Each flush takes some 40 microseconds of
    /// processor time from the appending threads. A longer pause gains no more, and delays what is held back until it
    /// is durable.
    pub pace_ns: u64,
    /// A flush of fewer records than this is not followed by that pause. Default 8. With only a few clients that wait
    /// for each of their commits, the pause would wake the flusher twice, because it would sleep again before the
    /// clients say that they wait.
    pub paced_records_min: u64,
    /// The least time between two records of the time. Default 1 s: exact enough to find a moment before a mistake. A
    /// record takes 40 bytes, and no sync of its own except for the last one in a busy time.
    pub mark_interval_ns: u64,
    /// How much of the log readers of changes may keep beyond what the database needs. Default 1 GiB, about what the
    /// log grows by between two checkpoints.
    pub held_bytes_max: u64,
    /// The number by which events name the database. Default 0: none.
    pub number: u64,
}

impl Options {
    /// Returns the defaults for this database.
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

    /// Returns how many bytes of records fit into a segment.
    fn room_bytes(&self) -> u64 {
        self.segment_bytes - format::SEGMENT_HEADER_BYTES as u64
    }
}

/// The version of the format that is written, and the only version that is read.
const VERSION: u32 = 1;
