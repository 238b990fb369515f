//! The flusher: it takes what was appended, writes and syncs it, and publishes that it is durable.

use super::buffer::Shared;
use super::format::{Kind, POSITION_MAX, SegmentHeader, name};
use super::gather::Gatherer;
use super::lane::Body;
use super::segments::{Ended, Segments, is_curable};
use super::write_group::WriteGroup;
use super::{End, Error, Lsn, Options, Result, Room, Tail};
use crate::metrics::Clock;
use crate::storage::{Storage, StorageError};
use crate::sync::{Arc, wait, wait_timeout};
use std::collections::VecDeque;
use std::time::Duration;

/// The interval at which a refused write is tried again.
const STALL: Duration = Duration::from_millis(100);

/// Makes a log durable, in steps that its owner drives: a thread ([`FlusherThread`](super::FlusherThread)) or a
/// simulation.
///
/// If it is dropped without [`Flusher::close`], it leaves the log as a crash of the process would.
#[derive(Debug)]
pub struct Flusher {
    shared: Arc<Shared>,
    segments: Segments,
    gatherer: Gatherer,
    /// What was taken and is not yet durable, in order.
    pending: VecDeque<WriteGroup>,
    marking: Marking,
    /// Before this time, the next flush begins only if somebody waits for it.
    due_ns: u64,
}

/// When the time is recorded in the log.
#[derive(Debug)]
struct Marking {
    /// Everything before this position has a mark behind it.
    marked_lsn: u64,
    /// The time of the last mark, in nanoseconds since 1970.
    unix_ns: u64,
    /// When the last mark was made, or the log was opened, by the clock that never goes back.
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
        let first_lsn = tail.first_lsn().0;
        let segments = Segments::new(storage, options, room, std::mem::take(&mut tail.segments));
        let number = segments.number_next();
        // This is half of what can be read. No process writes the other half.
        if number.max(tail.lsn) > POSITION_MAX / 2 {
            let (file, lsn, reason) = (name(number), Lsn(tail.lsn), "no log is so long");
            return Err(Error::Damaged { file, offset: 0, lsn, reason });
        }
        segments.secure(tail.run_start, tail.lsn)?;
        let bytes = options.segment_bytes;
        let before = SegmentHeader { number: number - 1, first_lsn: tail.lsn, chain: tail.chain, bytes };
        let marking = Marking {
            marked_lsn: tail.marked_lsn,
            unix_ns: tail.mark.map_or(0, |mark| mark.unix_ns),
            since_ns: clock.now_ns(),
        };
        let shared =
            Arc::new(Shared::new(options, clock, (segments.room(), segments.presence()), &tail, first_lsn));
        let gatherer = Gatherer::new(options.database, &tail, before);
        Ok(Flusher { shared, segments, gatherer, pending: VecDeque::new(), marking, due_ns: 0 })
    }

    pub(super) fn secure(storage: Arc<dyn Storage>, options: Options, mut tail: Tail) -> Result<()> {
        let room = Arc::new(Room::open(storage.clone(), options.segment_bytes)?);
        room.give_back()?; // no log is written that could take the room
        let segments = Segments::new(storage, options, room, std::mem::take(&mut tail.segments));
        segments.restore_length()?;
        Ok(segments.secure(tail.run_start, tail.lsn)?)
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Begins a segment behind the existing log. This is the first step. The segment before, whose unused end may
    /// have been given back, is then no longer the last.
    ///
    /// If there is no room for a segment, the first record begins one once there is room. The last segment gets its
    /// length back meanwhile, which takes no room.
    pub fn begin(&mut self) -> Result<()> {
        let unneeded = Lsn(self.shared.state().truncate_before);
        match self.segments.prepare(unneeded) {
            Ok(()) => {
                let header = self.gatherer.header_next();
                self.segments.begin(&header)?;
                self.segments.trim_former()?;
                self.gatherer.begin(header);
                self.shared.begin();
            }
            Err(error) if is_curable(&error) && error.is_full() => self.segments.restore_length()?,
            Err(error) => return Err(error.into()),
        }
        self.flush_once().map(drop)
    }

    /// Makes durable everything that has been appended so far, then tends the segments, and returns what is durable.
    ///
    /// An [`Error::Full`] says that a write was refused; the next step tries it again. An [`Error::Stopped`] is
    /// final.
    pub fn flush_once(&mut self) -> Result<Lsn> {
        {
            let mut state = self.shared.state();
            if let Some(error) = &state.stopped {
                return Err(Error::Stopped(Arc::clone(error)));
            }
            state.has_request = false;
        }
        let truncate_before = self.held_from();
        let now_ns = self.shared.clock.now_ns();
        self.marking.note(&self.shared, false);
        self.gatherer.gather(&self.shared, &mut self.pending);
        self.shared.state().take(self.gatherer.at(), now_ns);
        let records: u64 = self.pending.iter().map(|run| run.records).sum();
        let options = &self.shared.options;
        let is_paced = records >= options.paced_records_min;
        self.due_ns = now_ns.saturating_add(if is_paced { options.pace_ns } else { 0 });
        if let Err(error) = self.write_pending() {
            let refused = self.refused(error);
            if matches!(refused, Error::Full(_)) {
                // What is given back may be the room that the write needs. If this fails, it is tried again with the
                // write.
                let unheld = self.give_up_held();
                let _ = self.segments.truncate(unheld);
            }
            return Err(refused);
        }
        self.shared.state().segments = self.segments.count_from(truncate_before);
        // Truncation may make the room that the spare needs. A failure of one does not keep the other from being
        // tried.
        let truncated = self.segments.truncate(truncate_before);
        let mut tended = self.segments.prepare(truncate_before).and(truncated);
        if tended.as_ref().is_err_and(StorageError::is_full) {
            let unheld = self.give_up_held();
            if unheld > truncate_before {
                let truncated = self.segments.truncate(unheld);
                tended = self.segments.prepare(unheld).and(truncated);
            }
        }
        self.tended(tended)
    }

    /// Returns the position before which neither the database nor, within their limit, readers of changes need the
    /// log.
    fn held_from(&self) -> Lsn {
        let mut state = self.shared.state();
        let needed = state.truncate_before;
        state.holds.give_up(needed, self.shared.options.held_bytes_max)
    }

    /// Gives up what is kept only for readers of changes, because there is no room for it.
    fn give_up_held(&self) -> Lsn {
        let mut state = self.shared.state();
        let needed = state.truncate_before;
        state.holds.give_up(needed, 0)
    }

    fn write_pending(&mut self) -> Result<(), StorageError> {
        while let Some(run) = self.pending.front_mut() {
            let begin_ns = self.shared.clock.now_ns();
            if let Some(header) = &run.begins {
                self.segments.begin(header)?;
                run.begins = None;
            }
            self.segments.current().write_all_at(run.offset, &run.bytes)?;
            self.segments.write_ahead(run.offset + run.bytes.len() as u64)?;
            self.segments.current().sync_data()?;
            let flush_ns = self.shared.clock.now_ns().saturating_sub(begin_ns);
            let run = self.pending.pop_front().expect("it was there");
            self.shared.publish(&run, flush_ns);
            self.gatherer.reuse(run.bytes);
        }
        Ok(())
    }

    /// Handles a failed write. A write that was refused for want of room is tried again. Any other failure ends the
    /// log.
    fn refused(&mut self, error: StorageError) -> Error {
        if !(is_curable(&error) && error.is_full()) {
            return self.stop(error);
        }
        let shortage = Arc::new(self.shared.room.shortage(error));
        self.shared.refuse(Arc::clone(&shortage));
        Error::Full(shortage)
    }

    fn tended(&mut self, tended: Result<(), StorageError>) -> Result<Lsn> {
        let no_spare = match tended {
            Err(error) if !is_curable(&error) => return Err(self.stop(error)),
            Err(error) if !self.segments.has_spare() => Some(Arc::new(self.shared.room.shortage(error))),
            // Removing an old segment is tried again.
            Err(_) | Ok(()) => None,
        };
        let mut state = self.shared.state();
        // An appender may already have taken the spare. A spare is announced only once.
        let is_taken = self.gatherer.has_cut() || !state.cuts.is_empty();
        let has_spare = self.segments.has_spare() && !is_taken;
        self.shared.prepared(&mut state, has_spare, no_spare);
        let durable = Lsn(state.durable_lsn);
        drop(state);
        self.shared.progress.notify_all();
        Ok(durable)
    }

    /// Ends the log and tells everybody why. Nothing more is written.
    fn stop(&mut self, error: StorageError) -> Error {
        let error = Arc::new(error);
        self.shared.stop(&error);
        Error::Stopped(error)
    }

    /// Returns where the log ends, including what was appended and is not yet durable.
    pub(crate) fn end(&mut self) -> End {
        self.gatherer.gather(&self.shared, &mut self.pending);
        self.gatherer.end()
    }

    /// Ends the log: makes durable what was appended, and returns where it ends.
    pub fn close(mut self) -> Result<Ended> {
        self.shared.close();
        self.marking.note(&self.shared, true);
        self.flush_once()?;
        let (mut end, mut segments) = (self.gatherer.end(), self.segments.take());
        assert_eq!(end.lsn, self.shared.durable(), "nothing is appended to a log that is closed");
        // Segments that were kept to be used again are removed. If that fails, only some room is lost.
        let _ = segments.remove_old(self.held_from(), 0);
        end.segment = segments.last_used(end.lsn);
        Ok(Ended { segments, end })
    }

    /// Waits until a step has something to do. Returns false once the log is closing.
    pub(super) fn wait_for_work(&self) -> bool {
        let mut state = self.shared.state();
        let mut is_idle = false;
        while !state.is_closed {
            let has_records = self.shared.appended().0 > self.gatherer.at();
            if state.has_request || (state.stalled.is_none() && has_records && state.is_awaited()) {
                break;
            }
            if state.stalled.is_none() && has_records {
                let left_ns = self.due_ns.saturating_sub(self.shared.clock.now_ns());
                if left_ns == 0 {
                    break;
                }
                self.shared.set_flusher_busy(&mut state);
                state.is_paced = true;
                (state, _) = wait_timeout(&self.shared.work, state, Duration::from_nanos(left_ns));
                (state.is_paced, is_idle) = (false, false);
                continue;
            }
            if state.stalled.is_some() {
                (state, _) = wait_timeout(&self.shared.work, state, STALL);
                break;
            }
            // The loop runs once more after the flusher is marked idle, so that it sees a record of an appender that
            // has not seen the mark.
            if is_idle && self.marking.marked_lsn == self.shared.appended().0 {
                state = wait(&self.shared.work, state);
            } else if is_idle {
                // The last records get their mark, even if nothing follows them.
                let interval = Duration::from_nanos(self.shared.options.mark_interval_ns);
                let is_late;
                (state, is_late) = wait_timeout(&self.shared.work, state, interval);
                if is_late {
                    break;
                }
            }
            self.shared.set_flusher_idle();
            is_idle = true;
        }
        self.shared.set_flusher_busy(&mut state);
        !state.is_closed
    }
}

impl Marking {
    /// Appends a record of the time, if something is behind the last one and either the interval has passed or this
    /// is the last record.
    fn note(&mut self, shared: &Shared, is_last: bool) {
        let now_ns = shared.clock.now_ns();
        let is_due = now_ns.saturating_sub(self.since_ns) >= shared.options.mark_interval_ns;
        let has_new = self.marked_lsn < shared.appended().0;
        if !has_new || !(is_due || is_last) || shared.state().refusal().is_some() {
            return;
        }
        // The time never decreases, even if the clock was set back.
        let mut unix_ns = self.unix_ns;
        let mut make = || {
            unix_ns = shared.clock.unix_ns().max(unix_ns);
            unix_ns.to_le_bytes()
        };
        let noted = match is_last {
            true => shared.push_last(Kind::Time, Body::new(&make(), 0)),
            false => shared.push_made(Kind::Time, make),
        };
        // If there is no room, the next mark suffices.
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
