//! The one who writes: takes what was appended, writes and syncs it, and says that it is durable.

use super::format::{Kind, POSITION_MAX, SegmentHeader, name};
use super::segments::{Segments, is_curable};
use super::state::{Body, Run, Shared, State};
use super::{Error, Lsn, Options, Result, Room, Tail};
use crate::metrics::Clock;
use crate::storage::{Storage, StorageError};
use crate::sync::{Arc, wait};
use std::collections::VecDeque;
use std::time::Duration;

/// While the disk refuses to write, it is tried again so often.
const STALL: Duration = Duration::from_millis(100);

/// Makes a log durable, in steps that its owner drives: a thread
/// ([`FlusherThread`](super::FlusherThread)), or a simulation.
///
/// Dropped without [`Flusher::close`], it leaves the log as a crash of the process would.
#[derive(Debug)]
pub struct Flusher {
    shared: Arc<Shared>,
    segments: Segments,
    /// What was taken and is not durable yet, in order.
    pending: VecDeque<Run>,
    marking: Marking,
}

/// When the time is noted in the log.
#[derive(Debug)]
struct Marking {
    /// Everything before has a mark behind it.
    marked_lsn: u64,
    /// The time of the last mark, in nanoseconds since 1970.
    unix_ns: u64,
    /// When that was, or the log was opened, by the clock that never goes back.
    since_ns: u64,
}

impl Flusher {
    pub(super) fn open(
        storage: Arc<dyn Storage>,
        options: Options,
        clock: Arc<dyn Clock>,
        mut tail: Tail,
    ) -> Result<Flusher> {
        options.check()?;
        let room = Arc::new(Room::open(storage.clone(), options.segment_bytes)?);
        let segments = Segments::new(storage, options, room, std::mem::take(&mut tail.segments));
        let number = segments.number_next();
        // Half of what can be read: no process writes the rest.
        if number.max(tail.lsn) > POSITION_MAX / 2 {
            let (file, lsn, reason) = (name(number), Lsn(tail.lsn), "no log is so long");
            return Err(Error::Damaged { file, offset: 0, lsn, reason });
        }
        segments.secure(tail.run_start, tail.lsn)?;
        // The first record begins a segment. If there is no room for one now, all but commits is possible.
        let before = SegmentHeader { number: number - 1, first_lsn: tail.lsn, chain: tail.chain };
        let marking = Marking {
            marked_lsn: tail.marked_lsn,
            unix_ns: tail.mark.map_or(0, |mark| mark.unix_ns),
            since_ns: clock.now_ns(),
        };
        let shared = Arc::new(Shared::new(options, clock, segments.room(), State::new(&tail, before)));
        let mut flusher = Flusher { shared, segments, pending: VecDeque::new(), marking };
        flusher.flush_once()?;
        Ok(flusher)
    }

    pub(super) fn secure(storage: Arc<dyn Storage>, options: Options, mut tail: Tail) -> Result<()> {
        let room = Arc::new(Room::open(storage.clone(), options.segment_bytes)?);
        let segments = Segments::new(storage, options, room, std::mem::take(&mut tail.segments));
        Ok(segments.secure(tail.run_start, tail.lsn)?)
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Makes durable all that has been appended so far, then tends the segments, and says what is durable.
    ///
    /// An [`Error::Full`] says that a write was refused: it is made again by the next step. An
    /// [`Error::Stopped`] is the end.
    pub fn flush_once(&mut self) -> Result<Lsn> {
        let truncate_before = {
            let mut state = self.shared.state();
            if let Some(error) = &state.stopped {
                return Err(Error::Stopped(Arc::clone(error)));
            }
            state.has_request = false;
            self.marking.note(&self.shared, &mut state, false);
            self.pending.extend(state.queue.drain(..));
            Lsn(state.truncate_before)
        };
        if let Err(error) = self.write_pending() {
            let refused = self.refused(error);
            if matches!(refused, Error::Full(_)) {
                // What is given back may be the room that is needed. If it fails, it is tried again with the write.
                let _ = self.segments.truncate(truncate_before);
            }
            return Err(refused);
        }
        // What is given back may be the room that is needed; so the one is tried though the other failed.
        let truncated = self.segments.truncate(truncate_before);
        let tended = self.segments.prepare(truncate_before).and(truncated);
        self.tended(tended)
    }

    fn write_pending(&mut self) -> Result<(), StorageError> {
        while let Some(run) = self.pending.front_mut() {
            let begin_ns = self.shared.clock.now_ns();
            if let Some(header) = &run.begins {
                self.segments.begin(header)?;
                run.begins = None;
            }
            self.segments.current().write_all_at(run.offset, &run.bytes)?;
            self.segments.current().sync_data()?;
            let flush_ns = self.shared.clock.now_ns().saturating_sub(begin_ns);
            let run = self.pending.pop_front().expect("it was there");
            self.shared.publish(run, self.pending.front(), flush_ns);
        }
        Ok(())
    }

    /// A write was refused for want of room, and will be tried again; any other failure is the end.
    fn refused(&mut self, error: StorageError) -> Error {
        if !(is_curable(&error) && error.is_full()) {
            return self.stop(error);
        }
        let shortage = Arc::new(self.shared.room.shortage(error));
        self.shared.state().stalled = Some(Arc::clone(&shortage));
        self.shared.progress.notify_all();
        Error::Full(shortage)
    }

    fn tended(&mut self, tended: Result<(), StorageError>) -> Result<Lsn> {
        let no_spare = match tended {
            Err(error) if !is_curable(&error) => return Err(self.stop(error)),
            Err(error) if !self.segments.has_spare() => Some(Arc::new(self.shared.room.shortage(error))),
            // An old segment that could not be removed is tried again.
            Err(_) | Ok(()) => None,
        };
        let mut state = self.shared.state();
        // Who has appended since may have taken the spare that this would announce again: it only does once.
        let has_spare = self.segments.has_spare() && !state.queue.iter().any(|run| run.begins.is_some());
        state.prepared(has_spare, no_spare);
        let durable = Lsn(state.durable_lsn);
        drop(state);
        self.shared.progress.notify_all();
        Ok(durable)
    }

    /// Nothing more is written, and all learn why.
    fn stop(&mut self, error: StorageError) -> Error {
        let error = Arc::new(error);
        self.shared.end(|state| state.stopped = Some(Arc::clone(&error)));
        Error::Stopped(error)
    }

    /// Ends the log in order: makes durable what was appended, and notes that it was closed, which lets a reader
    /// tell damage anywhere in it from a write that was never completed.
    pub fn close(mut self) -> Result<()> {
        {
            let mut state = self.shared.state();
            state.is_closed = true;
            self.marking.note(&self.shared, &mut state, true);
        }
        self.flush_once()?;
        let closed = self.shared.push(&mut self.shared.state(), Kind::Close, Body::new(&[], 0));
        match closed {
            // Without room for the note, the log is as after a crash.
            Err(Error::Full(_) | Error::WouldBlock) => Ok(()),
            Err(error) => Err(error),
            Ok(end_lsn) => {
                self.flush_once()?;
                // Room that was reserved and not used. If it is not given back, it is some room lost, and no more.
                let _ = self.segments.finish(end_lsn);
                Ok(())
            }
        }
    }

    /// Waits until a step has something to do. False once the log is closing.
    pub(super) fn wait_for_work(&self) -> bool {
        let mut state = self.shared.state();
        while !state.is_closed {
            if state.has_request || (state.stalled.is_none() && !state.queue.is_empty()) {
                return true;
            }
            if state.stalled.is_some() {
                let waited = self.shared.work.wait_timeout(state, STALL);
                drop(waited.unwrap_or_else(std::sync::PoisonError::into_inner));
                return true;
            }
            state.is_flusher_idle = true;
            if self.marking.marked_lsn == state.next_lsn {
                state = wait(&self.shared.work, state);
                continue;
            }
            // What came last is to have its mark, also if nothing comes after it.
            let interval = Duration::from_nanos(self.shared.options.mark_interval_ns);
            let waited = self.shared.work.wait_timeout(state, interval);
            let (awake, timeout) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
            state = awake;
            if timeout.timed_out() {
                state.is_flusher_idle = false;
                return true;
            }
        }
        false
    }
}

impl Marking {
    /// Appends a record of the time, if something is behind the last and it is due, or the last that there will be.
    fn note(&mut self, shared: &Shared, state: &mut State, is_last: bool) {
        let now_ns = shared.clock.now_ns();
        let is_due = now_ns.saturating_sub(self.since_ns) >= shared.options.mark_interval_ns;
        if self.marked_lsn == state.next_lsn || !(is_due || is_last) || state.refusal().is_some() {
            return;
        }
        // A clock that was set back does not undo the order.
        let unix_ns = shared.clock.unix_ns().max(self.unix_ns);
        let noted = shared.push(state, Kind::Time, Body::new(&unix_ns.to_le_bytes(), 0));
        // Where there is no room, the next one will do.
        if let Ok(end_lsn) = noted {
            *self = Marking { marked_lsn: end_lsn.0, unix_ns, since_ns: now_ns };
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.shared.end(|state| (state.is_closed, state.is_abandoned) = (true, true));
    }
}
