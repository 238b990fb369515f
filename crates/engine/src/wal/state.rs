//! What appenders, waiters and the flusher share: the records that wait to be written, and how far the log is.

use super::format::{Kind, RECORD_HEADER_BYTES, RecordHeader, SegmentHeader};
use super::{Error, Lsn, Options, Result, Room, Shortage, Tail};
use crate::metrics::{Clock, LogCondition, LogStatistics as Statistics};
use crate::storage::StorageError;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Arc, CachePadded, Condvar, Mutex, MutexGuard, lock};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::task::Waker;

/// Records that one write puts behind what is durable.
#[derive(Debug)]
pub(super) struct Run {
    /// The segment that the run begins, unless it goes on in one.
    pub(super) begins: Option<SegmentHeader>,
    pub(super) first_lsn: u64,
    /// Where in the segment's file.
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) records: u64,
    /// When its first record was appended.
    since_ns: u64,
}

/// Records between two looks at the clock: how long the oldest one has waited.
const RECORDS_PER_LOOK: u64 = 32;

/// The disk is slow from here on: several times what a sync takes that has to wait for others.
pub(super) const SLOW_NS: u64 = 1_000_000_000;

/// Records that are refused in favour of one that is too long for the room that there is.
const TURNS_MAX: u32 = 1000;

/// Under one lock; `durable_lsn <= next_lsn`, and what lies between is in `queue` or with the flusher:
/// `buffered_bytes == next_lsn - durable_lsn`.
pub(super) struct State {
    pub(super) queue: Vec<Run>,
    /// A buffer that has been written: while one is on its way to the disk, the other is filled.
    spare_buffer: Vec<u8>,
    pub(super) next_lsn: u64,
    chain: u32,
    /// The segment that records go to now; or, until the first has been appended since the log was opened, where
    /// the one that it begins comes behind.
    segment: SegmentHeader,
    has_begun: bool,
    /// Whether the segment after it can be begun.
    pub(super) has_spare: bool,
    pub(super) durable_lsn: u64,
    /// Why there is no next segment.
    pub(super) no_spare: Option<Arc<Shortage>>,
    /// Why a write that there should be room for was refused. It is tried again.
    pub(super) stalled: Option<Arc<Shortage>>,
    /// Whether the flusher's thread sleeps until it is told of work.
    pub(super) is_flusher_idle: bool,
    /// Whether the flusher has something to do although the queue is empty.
    pub(super) has_request: bool,
    pub(super) truncate_before: u64,
    /// When the oldest record that is not durable was appended; of no meaning if all are.
    waits_since_ns: u64,
    /// Since when records have waited for the next segment to be made.
    wants_segment_since_ns: Option<u64>,
    /// Of each run that is not durable, where it ends and the earliest commit in it.
    unsettled: VecDeque<(u64, u64)>,
    /// The longest record that there was no room for, while others give way to it; else 0.
    longest_refused: u64,
    /// How many have.
    turns_given: u32,
    /// Tables changed since they were last asked for.
    touched: BTreeSet<u32>,
    pub(super) stopped: Option<Arc<StorageError>>,
    pub(super) is_closed: bool,
    /// Whether nobody will flush any more.
    pub(super) is_abandoned: bool,
    pub(super) wakers: Vec<(u64, Waker)>,
    pub(super) statistics: Statistics,
}

impl State {
    pub(super) fn new(tail: &Tail, segment: SegmentHeader) -> State {
        State {
            queue: Vec::new(),
            spare_buffer: Vec::new(),
            next_lsn: tail.lsn,
            chain: tail.chain,
            segment,
            has_begun: false,
            has_spare: false,
            durable_lsn: tail.lsn,
            no_spare: None,
            stalled: None,
            is_flusher_idle: false,
            has_request: false,
            truncate_before: 0,
            waits_since_ns: 0,
            wants_segment_since_ns: None,
            unsettled: VecDeque::new(),
            longest_refused: 0,
            turns_given: 0,
            touched: BTreeSet::new(),
            stopped: None,
            is_closed: false,
            is_abandoned: false,
            wakers: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    /// Puts a record behind all others and says where it ends.
    fn push(&mut self, options: &Options, clock: &dyn Clock, kind: Kind, body: Body<'_>) -> Result<Lsn> {
        if let Some(error) = &self.stopped {
            return Err(Error::Stopped(Arc::clone(error)));
        }
        let (bytes, bytes_max) = ((RECORD_HEADER_BYTES + body.bytes.len()) as u64, options.room_bytes());
        if bytes > bytes_max {
            return Err(Error::RecordTooLarge { bytes, bytes_max });
        }
        if let Some(error) = &self.stalled {
            self.has_request = true;
            return Err(Error::Full(Arc::clone(error)));
        }
        let buffered_bytes = self.next_lsn - self.durable_lsn;
        // What the flusher appends itself is little, and does not wait for it.
        let waits = buffered_bytes > 0 && kind != Kind::Time;
        if waits && buffered_bytes + bytes > options.buffer_bytes_max as u64 {
            self.queue_up(bytes);
            return Err(Error::WouldBlock);
        }
        if kind == Kind::Commit && self.gives_way(bytes) {
            return Err(Error::WouldBlock);
        }
        if waits && self.lags(options, clock) {
            return Err(Error::WouldBlock);
        }
        let used_bytes = self.next_lsn - self.segment.first_lsn;
        let is_full = !self.has_begun || used_bytes + bytes > bytes_max;
        let begins = is_full.then(|| self.begin_segment(clock)).transpose()?;
        if begins.is_some() || self.queue.is_empty() {
            self.begin_run(begins, clock.now_ns());
        }
        let run = self.queue.last_mut().expect("a run is open");
        let header = RecordHeader {
            body_bytes: body.bytes.len() as u32,
            body_checksum: body.checksum,
            previous: self.chain,
            run_bytes: (self.next_lsn - run.first_lsn) as u32,
            commit_timestamp: body.commit_timestamp,
            kind,
        };
        let (header, checksum) = header.encode(options.database, self.next_lsn);
        run.bytes.extend_from_slice(&header);
        run.bytes.extend_from_slice(body.bytes);
        run.records += 1;
        let (end, earliest) = self.unsettled.back_mut().expect("a run is open");
        *end = self.next_lsn + bytes;
        if kind == Kind::Commit {
            *earliest = (*earliest).min(body.commit_timestamp);
        }
        (self.chain, self.next_lsn) = (checksum, self.next_lsn + bytes);
        debug_assert_eq!(run.first_lsn + run.bytes.len() as u64, self.next_lsn);
        Ok(Lsn(self.next_lsn))
    }

    /// A record has been refused for its length: shorter ones give way to it until there is room. (It may never come
    /// again: then they go on after so many refusals.)
    fn queue_up(&mut self, bytes: u64) {
        if bytes >= self.longest_refused {
            (self.longest_refused, self.turns_given) = (bytes, 0);
        }
    }

    fn gives_way(&mut self, bytes: u64) -> bool {
        if bytes >= self.longest_refused || self.turns_given == TURNS_MAX {
            self.longest_refused = 0;
            return false;
        }
        self.turns_given += 1;
        true
    }

    /// The oldest record has waited for too long. Looks at the clock only now and then.
    fn lags(&self, options: &Options, clock: &dyn Clock) -> bool {
        let looks = self.queue.last().is_none_or(|run| run.records.is_multiple_of(RECORDS_PER_LOOK));
        looks && clock.now_ns().saturating_sub(self.waits_since_ns) > options.lag_ns_max
    }

    /// Where the next record begins, and the tables of all changes appended since this was asked last.
    pub(super) fn take_touched(&mut self) -> (Lsn, BTreeSet<u32>) {
        (Lsn(self.next_lsn), std::mem::take(&mut self.touched))
    }

    pub(super) fn touched(&self) -> BTreeSet<u32> {
        self.touched.clone()
    }

    pub(super) fn touch(&mut self, tables: impl IntoIterator<Item = u32>) {
        self.touched.extend(tables);
    }

    /// Every commit before this time is durable, of those that have been appended.
    pub(super) fn settled_before(&self) -> u64 {
        self.unsettled.iter().map(|(_, earliest)| *earliest).min().unwrap_or(u64::MAX)
    }

    /// A segment was made, or could not be, because of this.
    pub(super) fn prepared(&mut self, has_spare: bool, no_spare: Option<Arc<Shortage>>) {
        (self.has_spare, self.no_spare, self.wants_segment_since_ns) = (has_spare, no_spare, None);
    }

    /// For how long something has waited for the disk.
    fn waits_ns(&self, now_ns: u64) -> u64 {
        let oldest = (self.durable_lsn < self.next_lsn).then_some(self.waits_since_ns);
        let since = oldest.into_iter().chain(self.wants_segment_since_ns).min();
        since.map_or(0, |since| now_ns.saturating_sub(since))
    }

    /// How the log is.
    pub(super) fn condition(&self, now_ns: u64) -> LogCondition {
        let (for_ns, slow) = (self.waits_ns(now_ns), "a write or a sync of the log does not return");
        let stalled = self.stalled.as_ref().filter(|_| for_ns > 0).map(ToString::to_string);
        match (&self.stopped, stalled, &self.no_spare) {
            (Some(error), _, _) => LogCondition::Stopped { cause: error.to_string() },
            (_, Some(cause), _) => LogCondition::Stalled { for_ns, cause },
            (_, _, Some(shortage)) => LogCondition::Refusing { cause: shortage.to_string() },
            _ if for_ns >= SLOW_NS => LogCondition::Stalled { for_ns, cause: slow.to_string() },
            _ => LogCondition::Good,
        }
    }

    /// Why nothing becomes durable just now, if that is so.
    pub(super) fn stall(&self) -> Option<Error> {
        self.stalled.as_ref().map(|error| Error::Full(Arc::clone(error)))
    }

    /// Why appending is refused now, if it is.
    pub(super) fn refusal(&self) -> Option<Error> {
        let full = self.stalled.as_ref().or(self.no_spare.as_ref());
        let stopped = self.stopped.as_ref().map(|error| Error::Stopped(Arc::clone(error)));
        stopped.or(full.map(|error| Error::Full(Arc::clone(error))))
    }

    fn begin_segment(&mut self, clock: &dyn Clock) -> Result<SegmentHeader> {
        if !self.has_spare {
            self.has_request = true;
            self.wants_segment_since_ns.get_or_insert_with(|| clock.now_ns());
            return Err(self.no_spare.clone().map_or(Error::WouldBlock, Error::Full));
        }
        (self.has_spare, self.has_begun) = (false, true);
        self.segment =
            SegmentHeader { number: self.segment.number + 1, first_lsn: self.next_lsn, chain: self.chain };
        Ok(self.segment)
    }

    fn begin_run(&mut self, begins: Option<SegmentHeader>, since_ns: u64) {
        if self.next_lsn == self.durable_lsn {
            self.waits_since_ns = since_ns;
        }
        let offset = super::format::SEGMENT_HEADER_BYTES as u64 + self.next_lsn - self.segment.first_lsn;
        let bytes = std::mem::take(&mut self.spare_buffer);
        self.unsettled.push_back((self.next_lsn, u64::MAX));
        self.queue.push(Run { begins, first_lsn: self.next_lsn, offset, bytes, records: 0, since_ns });
    }

    /// Notes that a run is durable, and which one is written next. Who has waited is to be woken without the lock.
    fn publish(&mut self, mut run: Run, next: Option<&Run>, flush_ns: u64) -> Vec<Waker> {
        assert_eq!(run.first_lsn, self.durable_lsn, "runs become durable in order");
        self.durable_lsn += run.bytes.len() as u64;
        assert!(self.durable_lsn <= self.next_lsn, "what is durable was appended");
        self.statistics.add(run.records, run.bytes.len() as u64, flush_ns);
        self.waits_since_ns = next.or(self.queue.first()).map_or(0, |run| run.since_ns);
        run.bytes.clear();
        self.spare_buffer = run.bytes;
        let durable_lsn = self.durable_lsn;
        while self.unsettled.pop_front_if(|(end, _)| *end <= durable_lsn).is_some() {}
        let woken = self.wakers.extract_if(.., |(lsn, _)| *lsn <= durable_lsn);
        woken.map(|(_, waker)| waker).collect()
    }

    /// Whether a position is durable; an error if it never will be, as far as this process knows.
    pub(super) fn is_durable(&self, lsn: Lsn) -> Result<bool> {
        match (&self.stopped, lsn.0 <= self.durable_lsn) {
            (_, true) => Ok(true),
            (Some(error), _) => Err(Error::Stopped(Arc::clone(error))),
            (None, _) if self.is_abandoned => Err(Error::Closed),
            (None, _) => Ok(false),
        }
    }
}

/// What a record is to hold.
#[derive(Clone, Copy)]
pub(super) struct Body<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) checksum: u32,
    pub(super) commit_timestamp: u64,
}

impl Body<'_> {
    pub(super) fn new(bytes: &[u8], commit_timestamp: u64) -> Body<'_> {
        Body { bytes, checksum: crc32c::crc32c(bytes), commit_timestamp }
    }
}

const NOT_STALLED: u32 = 0;
const STALLED_FULL: u32 = 1;
const STALLED_SLOW: u32 = 2;

/// Why nobody is to wait for the log any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// There is no room for what was appended.
    NoRoom,
    /// A write or a sync does not return.
    Slow,
}

/// The state with its lock and what is signalled about it.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) room: Arc<Room>,
    state: Mutex<State>,
    /// `next_lsn` and `durable_lsn`, for who only wants to look; each is late by moments at most. What was
    /// appended before somebody could know of it is counted in what he sees of the first.
    appended: CachePadded<AtomicU64>,
    durable: CachePadded<AtomicU64>,
    /// Nothing will become durable any more.
    has_ended: AtomicBool,
    /// Something has waited for long already.
    is_slow: AtomicBool,
    /// And nobody is to wait any longer: one of `NOT_STALLED` and the other two.
    stall: AtomicU32,
    /// Something became durable, or failed, or there is room again.
    pub(super) progress: Condvar,
    /// There is something for the flusher.
    pub(super) work: Condvar,
}

impl Shared {
    pub(super) fn new(options: Options, clock: Arc<dyn Clock>, room: Arc<Room>, state: State) -> Shared {
        let lsn = |lsn| CachePadded::new(AtomicU64::new(lsn));
        Shared {
            options,
            clock,
            room,
            appended: lsn(state.next_lsn),
            durable: lsn(state.durable_lsn),
            has_ended: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            stall: AtomicU32::new(NOT_STALLED),
            state: Mutex::new(state),
            progress: Condvar::new(),
            work: Condvar::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Puts a record behind all others and says where it ends.
    pub(super) fn push(&self, state: &mut State, kind: Kind, body: Body<'_>) -> Result<Lsn> {
        let pushed = state.push(&self.options, &*self.clock, kind, body);
        // Release: pairs with the Acquire in `appended`.
        self.appended.store(state.next_lsn, Ordering::Release);
        pushed
    }

    /// Notes that a run is durable, and which one is written next.
    pub(super) fn publish(&self, run: Run, next: Option<&Run>, flush_ns: u64) {
        let mut state = self.state();
        if state.stopped.is_some() {
            return; // it was ended meanwhile, and all have been told so
        }
        state.stalled = None;
        let woken = state.publish(run, next, flush_ns);
        // Relaxed: hints, like the loads.
        self.is_slow.store(false, Ordering::Relaxed);
        self.stall.store(NOT_STALLED, Ordering::Relaxed);
        // Release: pairs with the Acquire in `durable`.
        self.durable.store(state.durable_lsn, Ordering::Release);
        drop(state);
        self.progress.notify_all();
        woken.into_iter().for_each(Waker::wake);
    }

    /// Changes the state as `how` says, so that nothing will become durable any more, and tells all who wait.
    pub(super) fn end(&self, how: impl FnOnce(&mut State)) {
        let mut state = self.state();
        how(&mut state);
        let woken = std::mem::take(&mut state.wakers);
        // Release: pairs with the Acquire in `has_ended`; what is durable is not going to change.
        self.has_ended.store(true, Ordering::Release);
        drop(state);
        self.progress.notify_all();
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Looks whether something has waited for too long; then it is told, and more is refused until the log goes on.
    pub(super) fn look(&self, wait_ns_max: u64) {
        let now_ns = self.clock.now_ns();
        let mut state = self.state();
        let waits_ns = state.waits_ns(now_ns);
        if state.stopped.is_some() || waits_ns == 0 {
            return;
        }
        let is_slow = waits_ns >= SLOW_NS || state.stalled.is_some();
        if is_slow && !self.is_slow.swap(is_slow, Ordering::Relaxed) {
            state.statistics.stalls += 1;
        }
        if waits_ns < wait_ns_max {
            return;
        }
        let is_full = state.stalled.as_ref().is_some_and(|shortage| shortage.error.is_full());
        let slow = || Arc::new(Shortage::slow(waits_ns));
        if state.durable_lsn < state.next_lsn {
            state.stalled.get_or_insert_with(slow);
            self.stall.store(if is_full { STALLED_FULL } else { STALLED_SLOW }, Ordering::Relaxed);
        } else {
            state.no_spare.get_or_insert_with(slow);
        }
        let woken = std::mem::take(&mut state.wakers);
        drop(state);
        self.progress.notify_all();
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub(super) fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    pub(super) fn stall(&self) -> Option<Stall> {
        match self.stall.load(Ordering::Relaxed) {
            NOT_STALLED => None,
            STALLED_FULL => Some(Stall::NoRoom),
            _ => Some(Stall::Slow),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    pub(super) fn appended(&self) -> Lsn {
        Lsn(self.appended.load(Ordering::Acquire))
    }

    pub(super) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let lsns = (state.durable_lsn, state.next_lsn);
        f.debug_struct("Shared").field("options", &self.options).field("durable_next", &lsns).finish()
    }
}
