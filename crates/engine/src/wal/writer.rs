//! Appending to a log, and waiting until records are durable.

use super::buffer::Shared;
use super::flusher::Flusher;
use super::format::{self, Kind};
use super::hold::Hold;
use super::lane::Body;
use super::{Changes, DatabaseId, Error, Lsn, Options, Result, Room, Stall, Statistics, Tail};
use crate::metrics::{Clock, LogCondition};
use crate::storage::{OpenMode, Storage, StorageError};
use crate::sync::{Arc, wait, wait_timeout};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Appends records to a log. Clones append to the same log.
///
/// The order of records is the order of the appends: if one append begins after another has returned, its record
/// comes later in the log.
#[derive(Clone, Debug)]
pub struct Writer {
    shared: Arc<Shared>,
}

/// Continues a log behind its tail, in a new segment. A [`Reader`](super::Reader) of the same storage and database
/// has just found the tail. There need not be room for the segment yet; until there is, the log takes no records. The
/// caller holds the storage's lock.
pub fn open(
    storage: Arc<dyn Storage>,
    options: Options,
    clock: Arc<dyn Clock>,
    tail: Tail,
) -> Result<(Writer, Flusher)> {
    let (writer, mut flusher) = open_unbegun(storage, options, clock, tail)?;
    flusher.begin()?;
    Ok((writer, flusher))
}

/// Opens a log like [`open`], but leaves [`Flusher::begin`] to the caller. The caller first says how much room to
/// leave for a checkpoint ([`Room::expect`]), and appends nothing before it calls [`Flusher::begin`].
pub fn open_unbegun(
    storage: Arc<dyn Storage>,
    options: Options,
    clock: Arc<dyn Clock>,
    tail: Tail,
) -> Result<(Writer, Flusher)> {
    let flusher = Flusher::open(storage, options, clock, tail)?;
    Ok((Writer { shared: flusher.shared() }, flusher))
}

/// Fails if the last segment cannot be opened for writing, for example because it has a second name (a hard link).
/// This is called before the log is read: what the owner of the other name has written to the file would look like
/// damage.
pub fn check_writable(storage: &dyn Storage) -> Result<()> {
    let Some(last) = storage.list()?.iter().filter_map(|name| format::number(name)).max() else {
        return Ok(());
    };
    storage.open(&format::name(last), OpenMode::ReadWrite)?;
    Ok(())
}

/// Makes durable what a [`Reader`](super::Reader) has just found, for a caller that does not append to the log
/// afterwards.
pub fn secure(storage: Arc<dyn Storage>, database: DatabaseId, tail: Tail) -> Result<()> {
    Flusher::secure(storage, Options::new(database), tail)
}

impl Writer {
    /// Appends a record and returns where it ends. While the buffer is full or the next segment is being made, this
    /// waits for the flusher, which must be another thread. If it fails, nothing was appended.
    pub fn append(&self, commit_timestamp: u64, changes: &Changes) -> Result<Lsn> {
        let body = Body::new(changes.as_bytes(), commit_timestamp);
        self.shared.push(changes.lane(), Kind::Commit, body, true)
    }

    /// Appends a change of the catalog like [`Writer::append`]. The log does not look into the change.
    pub fn append_catalog(&self, entry: &[u8]) -> Result<Lsn> {
        self.shared.push(0, Kind::Catalog, Body::new(entry, 0), true)
    }

    /// Appends like [`Writer::append`], but fails with [`Error::WouldBlock`] instead of waiting.
    pub fn try_append(&self, commit_timestamp: u64, changes: &Changes) -> Result<Lsn> {
        let body = Body::new(changes.as_bytes(), commit_timestamp);
        self.shared.push(changes.lane(), Kind::Commit, body, false)
    }

    /// Returns the room that the log and checkpoints have.
    pub fn room(&self) -> &Room {
        &self.shared.room
    }

    /// Returns how many segments are less full than they could be, because the log was opened so often.
    pub fn short_segments(&self) -> u64 {
        let state = self.shared.state();
        let bytes = state.durable_lsn.saturating_sub(state.truncate_before);
        // The last segment is not full yet, and the first one begins earlier.
        (state.segments as u64).saturating_sub(bytes.div_ceil(self.shared.options.room_bytes()) + 2)
    }

    /// Makes the flusher check again for room.
    pub fn maintain(&self) {
        self.shared.state().has_request = true;
        self.shared.work.notify_one();
    }

    /// Returns the greatest length of a record.
    pub fn record_bytes_max(&self) -> u64 {
        self.shared.options.room_bytes()
    }

    /// Returns a position behind everything that was appended so far. An append counts as soon as anybody can know of
    /// it.
    #[inline(always)]
    pub fn appended_lsn(&self) -> Lsn {
        self.shared.appended()
    }

    /// Returns the position before which everything is durable.
    #[inline(always)]
    pub fn durable_lsn(&self) -> Lsn {
        self.shared.durable()
    }

    /// Returns true if nothing more will become durable.
    #[inline(always)]
    pub fn has_ended(&self) -> bool {
        self.shared.has_ended()
    }

    /// Ends the log because a sync of the directory failed outside of the log. After that, the names of the log's own
    /// files cannot be trusted either.
    pub fn stop(&self, error: Arc<StorageError>) {
        self.shared.stop(&error);
    }

    /// Checks whether anything has waited for the disk for longer than `wait_ns_max`. If so, this tells all waiters,
    /// and further records are refused until the log continues.
    pub fn look(&self, wait_ns_max: u64) {
        self.shared.look(wait_ns_max);
    }

    /// Checks whether the segment that is being written still has its name, and ends the log if not. This waits for
    /// the device.
    pub fn look_for_segment(&self) {
        if let Err(error) = self.shared.presence.check() {
            self.stop(Arc::new(error));
        }
    }

    /// Ends the log because `file`, without which the database cannot be opened, is gone.
    pub fn stop_without(&self, file: &str) {
        self.stop(Arc::new(self.shared.presence.lost(file)));
    }

    /// Returns true if something has waited for the disk for so long that it pays to find out which waiters need not
    /// wait.
    pub fn is_slow(&self) -> bool {
        self.shared.is_slow()
    }

    /// Returns why nothing should wait for the log at present.
    #[inline(always)]
    pub fn stall(&self) -> Option<Stall> {
        self.shared.stall()
    }

    /// Returns a timestamp such that every appended commit with an earlier one is durable.
    pub fn settled_before(&self) -> u64 {
        self.shared.settled_before()
    }

    /// Returns the condition of the log.
    pub fn condition(&self) -> LogCondition {
        self.shared.condition()
    }

    /// Waits like [`Writer::wait_durable`], but returns an error while the disk refuses writes.
    pub fn wait_settled(&self, lsn: Lsn) -> Result<()> {
        let mut state = self.shared.state();
        while !state.is_durable(lsn)? {
            if let Some(refusal) = state.stall() {
                return Err(refusal);
            }
            state = self.shared.wait_for_progress(state);
        }
        Ok(())
    }

    /// Waits until everything before `lsn` is durable, or until nothing should wait for it any longer. In the latter
    /// case the error says why; an error of `None` says that the outcome is unknown.
    pub fn wait_bounded(&self, lsn: Lsn) -> Result<(), Option<Stall>> {
        let mut state = self.shared.state();
        while !state.is_durable(lsn).map_err(|_| None)? {
            if let Some(stall) = self.stall() {
                return Err(Some(stall));
            }
            state = self.shared.wait_for_progress(state);
        }
        Ok(())
    }

    /// Returns why appending is refused at present, if it is.
    pub fn refusal(&self) -> Option<Error> {
        self.shared.state().refusal()
    }

    /// Waits until everything before `lsn` is durable. An error says that the outcome is unknown. While the disk is
    /// full, this goes on waiting.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        let mut state = self.shared.state();
        while !state.is_durable(lsn)? {
            state = self.shared.wait_for_progress(state);
        }
        Ok(())
    }

    /// Waits like [`Writer::wait_durable`], but as a task: wakes the task when it should ask again.
    pub fn poll_durable(&self, lsn: Lsn, waker: &Waker) -> Poll<Result<()>> {
        let mut state = self.shared.state();
        match state.is_durable(lsn) {
            Ok(true) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error)),
            Ok(false) if self.stall().is_some() => Poll::Ready(state.stall().map_or(Ok(()), Err)),
            Ok(false) => {
                // A task that asks again is still one waiter.
                let is_there = |(of, other): &(u64, Waker)| *of == lsn.0 && other.will_wake(waker);
                if !state.wakers.iter().any(is_there) {
                    state.wakers.push((lsn.0, waker.clone()));
                }
                self.shared.hurry(&mut state);
                Poll::Pending
            }
        }
    }

    /// Declares that nothing before `lsn` is needed any more. The flusher's next step gives up segments that hold
    /// nothing else, or keeps a few of them to be used again.
    pub fn truncate_before(&self, lsn: Lsn) {
        let mut state = self.shared.state();
        state.truncate_before = state.truncate_before.max(lsn.0.min(state.durable_lsn));
        state.has_request = true;
        self.shared.work.notify_one();
    }

    /// Holds the log from `lsn` on, for a reader of changes. An error says where the log now begins.
    pub fn hold(&self, lsn: Lsn) -> Result<Hold, Lsn> {
        Hold::take(&self.shared, lsn)
    }

    /// Returns where the log begins for readers of changes that start now.
    pub fn oldest_lsn(&self) -> Lsn {
        let state = self.shared.state();
        Lsn(state.holds.oldest(state.truncate_before))
    }

    /// Fails once the log has ended, and says why. The log's files may then already belong to others.
    pub fn check_open(&self) -> Result<()> {
        if !self.has_ended() {
            return Ok(());
        }
        self.shared.state().is_durable(Lsn(u64::MAX)).map(drop)
    }

    /// Returns the time on the log's clock that is `at_most` from now.
    pub fn deadline_ns(&self, at_most: Duration) -> u64 {
        let at_most_ns = u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX);
        self.shared.clock.now_ns().saturating_add(at_most_ns)
    }

    /// Waits until more is durable than what lies before `lsn`, or until `deadline_ns`. Returns true if there is
    /// more. This does not hurry the flusher, because it keeps no transaction waiting.
    pub fn wait_beyond(&self, lsn: Lsn, deadline_ns: Option<u64>) -> Result<bool> {
        let mut state = self.shared.state();
        while !state.is_durable(Lsn(lsn.0 + 1))? {
            let Some(deadline_ns) = deadline_ns else {
                state = wait(&self.shared.progress, state);
                continue;
            };
            let left_ns = deadline_ns.saturating_sub(self.shared.clock.now_ns());
            if left_ns == 0 {
                return Ok(false);
            }
            (state, _) = wait_timeout(&self.shared.progress, state, Duration::from_nanos(left_ns));
        }
        Ok(true)
    }

    /// Returns what the log has done so far, and what it keeps for readers of changes.
    pub fn statistics(&self) -> Statistics {
        let state = self.shared.state();
        Statistics { held_bytes: state.holds.bytes(state.truncate_before), ..state.statistics }
    }
}
