//! What appenders, waiters and the flusher share: how far the log is, and where the next record goes.
//!
//! A place in the log is reserved by moving `next` forward, as a rule without a lock: up to `limit` nothing stands in
//! the way of that. What does beyond it is decided under the lock, which also moves the limit. The record itself goes
//! into a [lane](super::lane).

use super::format::{Kind, RECORD_HEADER_BYTES};
use super::holds::Holds;
use super::lane::{Body, LANES, Lane};
use super::presence::Presence;
use super::stall::{SLOW_NS, Stall};
use super::write_group::WriteGroup;
use super::{Error, Lsn, Options, Result, Room, Shortage, Tail};
use crate::events::{event, text};
use crate::metrics::{Clock, LogCondition, LogStatistics as Statistics};
use crate::storage::StorageError;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Arc, CachePadded, Condvar, Mutex, MutexGuard, lock, wait};
use std::fmt;
use std::task::Waker;

/// Bytes appended between two looks at the clock: how long the oldest record has waited. Long enough that what a look
/// costs (a lock, some hundred nanoseconds) does not show.
const LOOK_BYTES: u64 = 16 << 10;

/// Records that are refused in favour of one that is too long for the room that there is.
const TURNS_MAX: u32 = 1000;

/// In `next`: no place is given any more. Above all positions.
const CLOSED: u64 = 1 << 63;

/// Under one lock; `durable_lsn <= taken_lsn <= next`.
pub(super) struct State {
    /// Up to where the segment has room that the next record goes to, if it fits. None has begun when the log is opened.
    segment_end: u64,
    /// Where segments begin that the flusher has not heard of.
    pub(super) cuts: Vec<u64>,
    /// Whether the segment after the present one can be begun.
    pub(super) has_spare: bool,
    pub(super) durable_lsn: u64,
    /// Up to where the flusher has taken records.
    taken_lsn: u64,
    /// Why there is no next segment.
    pub(super) no_spare: Option<Arc<Shortage>>,
    /// Since when a record has waited for the next segment to be made.
    pub(super) wants_spare_since_ns: Option<u64>,
    /// Why what was appended does not become durable: a write that there should be room for was refused, and is tried
    /// again; or one has not returned for so long that nothing waits for it any more.
    pub(super) stalled: Option<Arc<Shortage>>,
    /// Whether the flusher has something to do although nothing was appended.
    pub(super) has_request: bool,
    /// Whether somebody waits for what was appended, since the last flush began.
    is_hurried: bool,
    /// Whether the flusher gives others time to append.
    pub(super) is_paced: bool,
    /// The database needs nothing before.
    pub(super) truncate_before: u64,
    pub(super) holds: Holds,
    /// How many segments there are that somebody needs.
    pub(super) segments: usize,
    /// No record that was taken and is not durable was appended before.
    taken_since_ns: u64,
    /// No record behind those was appended before.
    since_ns: u64,
    /// Up to here records are appended without a look at the clock.
    granted_lsn: u64,
    /// The longest record that there was no room for, while others give way to it; else 0.
    longest_refused: u64,
    /// How many have.
    turns_given: u32,
    pub(super) stopped: Option<Arc<StorageError>>,
    pub(super) is_closed: bool,
    /// Whether nobody will flush any more.
    pub(super) is_abandoned: bool,
    pub(super) wakers: Vec<(u64, Waker)>,
    /// Of tasks that wait for whatever becomes durable next, by the numbers of their holds: one each.
    pub(super) watchers: Vec<(u64, Waker)>,
    pub(super) statistics: Statistics,
}

impl State {
    pub(super) fn new(tail: &Tail, first_lsn: u64) -> State {
        State {
            segment_end: tail.lsn,
            cuts: Vec::new(),
            has_spare: false,
            durable_lsn: tail.lsn,
            taken_lsn: tail.lsn,
            no_spare: None,
            wants_spare_since_ns: None,
            stalled: None,
            has_request: false,
            is_hurried: false,
            is_paced: false,
            truncate_before: 0,
            holds: Holds::new(first_lsn),
            segments: 0,
            taken_since_ns: 0,
            since_ns: 0,
            granted_lsn: tail.lsn,
            longest_refused: 0,
            turns_given: 0,
            stopped: None,
            is_closed: false,
            is_abandoned: false,
            wakers: Vec::new(),
            watchers: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    /// An error if nothing is appended now, or nothing so long ever.
    fn check(&mut self, bytes: u64, bytes_max: u64) -> Result<()> {
        if let Some(error) = &self.stopped {
            return Err(Error::Stopped(Arc::clone(error)));
        }
        if bytes > bytes_max {
            return Err(Error::RecordTooLarge { bytes, bytes_max });
        }
        if let Some(error) = &self.stalled {
            self.has_request = true;
            return Err(Error::Full(Arc::clone(error)));
        }
        Ok(())
    }

    /// An error unless a record may be put at this position, which is the next.
    fn admit(&mut self, options: &Options, kind: Kind, at: u64, bytes: u64, now_ns: u64) -> Result<()> {
        let buffered_bytes = at - self.durable_lsn;
        // What the flusher appends itself is little, and does not wait for it.
        let waits = buffered_bytes > 0 && kind != Kind::Time;
        if waits && buffered_bytes + bytes > options.buffer_bytes_max as u64 {
            self.queue_up(bytes);
            return Err(Error::WouldBlock);
        }
        if kind == Kind::Commit && self.gives_way(bytes) {
            return Err(Error::WouldBlock);
        }
        let is_taken = self.taken_lsn > self.durable_lsn;
        let since_ns = if is_taken { self.taken_since_ns } else { self.since_ns };
        if waits && now_ns.saturating_sub(since_ns) > options.lag_ns_max {
            return Err(Error::WouldBlock);
        }
        if at + bytes > self.segment_end && !self.has_spare {
            self.has_request = true;
            self.wants_spare_since_ns.get_or_insert(now_ns);
            return Err(self.no_spare.clone().map_or(Error::WouldBlock, Error::Full));
        }
        Ok(())
    }

    /// Notes that the record that was admitted has its place.
    fn placed(&mut self, options: &Options, at: u64, bytes: u64) {
        assert!(at <= self.segment_end, "a segment is not longer than it is");
        if at + bytes > self.segment_end {
            assert!(self.has_spare, "a segment begins when there is a spare");
            self.has_spare = false;
            self.segment_end = at + options.room_bytes();
            self.cuts.push(at);
        }
        self.granted_lsn = at + bytes + LOOK_BYTES;
    }

    /// Up to where nothing stands in the way of a record that ends there.
    fn limit(&self, options: &Options) -> u64 {
        let is_shut = self.is_closed || self.stopped.is_some() || self.stalled.is_some();
        if is_shut || self.longest_refused > 0 {
            return 0;
        }
        let of_buffer = self.durable_lsn.saturating_add(options.buffer_bytes_max as u64);
        self.granted_lsn.min(self.segment_end).min(of_buffer)
    }

    /// A record has been refused for its length: shorter ones give way to it until there is room. (It may never come
    /// again: then they go on after a number of refusals.)
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

    /// The flusher takes what has been appended so far.
    pub(super) fn take(&mut self, lsn: u64, now_ns: u64) {
        if self.taken_lsn == self.durable_lsn {
            self.taken_since_ns = self.since_ns;
        }
        (self.taken_lsn, self.since_ns) = (lsn, now_ns);
        self.is_hurried = false;
    }

    /// Whether a task or a thread waits for what was appended.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_hurried || !self.wakers.is_empty()
    }

    /// For how long something has waited for the disk, with so much appended.
    fn waits_ns(&self, appended: u64, now_ns: u64) -> u64 {
        let is_taken = self.taken_lsn > self.durable_lsn;
        let since_ns = if is_taken { self.taken_since_ns } else { self.since_ns };
        let oldest = (self.durable_lsn < appended).then_some(since_ns);
        let since = oldest.into_iter().chain(self.wants_spare_since_ns).min();
        since.map_or(0, |since| now_ns.saturating_sub(since))
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

    /// Notes that a run is durable. Those that have waited for it are to be woken without the lock.
    fn publish(&mut self, records: u64, bytes: u64, flush_ns: u64) -> Vec<Waker> {
        self.durable_lsn += bytes;
        assert!(self.durable_lsn <= self.taken_lsn, "what is durable was taken");
        self.statistics.add(records, bytes, flush_ns);
        let durable_lsn = self.durable_lsn;
        let woken = self.wakers.extract_if(.., |(lsn, _)| *lsn <= durable_lsn);
        woken.chain(self.watchers.drain(..)).map(|(_, waker)| waker).collect()
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

/// What is looked at with each append or each round of a worker, and changed with each flush or so.
struct Gate {
    /// A record that ends before or there may be given its place without the lock.
    limit: AtomicU64,
    /// `durable_lsn`, late by moments at most.
    durable: AtomicU64,
    /// Whether the flusher's thread sleeps until it is told of work.
    is_flusher_idle: AtomicBool,
    /// Nothing will become durable any more.
    has_ended: AtomicBool,
    /// Something has waited for long: `stalls` has it counted.
    is_slow: AtomicBool,
    /// Why nothing waits for the log any longer: a [`Stall`]'s code. Changed under the state's lock, as `is_slow` is.
    stall: AtomicU32,
}

/// The state with its lock and what is signalled about it. A lane's lock is taken before the state's, and lanes' in
/// their order.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) room: Arc<Room>,
    pub(super) presence: Arc<Presence>,
    state: Mutex<State>,
    gate: CachePadded<Gate>,
    /// Where the next record begins; and [`CLOSED`]. Whatever has come to know of an append finds it counted.
    next: CachePadded<AtomicU64>,
    lanes: [CachePadded<Mutex<Lane>>; LANES],
    /// Something became durable, or failed, or there is room again.
    pub(super) progress: Condvar,
    /// There is something for the flusher.
    pub(super) work: Condvar,
}

impl Shared {
    pub(super) fn new(
        options: Options,
        clock: Arc<dyn Clock>,
        (room, presence): (Arc<Room>, Arc<Presence>),
        tail: &Tail,
        first_lsn: u64,
    ) -> Shared {
        let gate = Gate {
            limit: AtomicU64::new(0),
            durable: AtomicU64::new(tail.lsn),
            is_flusher_idle: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            stall: AtomicU32::new(Stall::code(None)),
        };
        Shared {
            options,
            clock,
            room,
            presence,
            state: Mutex::new(State::new(tail, first_lsn)),
            gate: CachePadded::new(gate),
            next: CachePadded::new(AtomicU64::new(tail.lsn)),
            lanes: std::array::from_fn(|_| CachePadded::new(Mutex::default())),
            progress: Condvar::new(),
            work: Condvar::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The lanes, each locked as it is reached.
    pub(super) fn lanes(&self) -> impl Iterator<Item = MutexGuard<'_, Lane>> {
        self.lanes.iter().map(|lane| lock(lane))
    }

    /// Puts a record behind all others and says where it ends. Where it would have to wait for the flusher, it does,
    /// or the error is [`Error::WouldBlock`].
    pub(super) fn push(&self, lane: usize, kind: Kind, body: Body<'_>, waits: bool) -> Result<Lsn> {
        let bytes = (RECORD_HEADER_BYTES + body.bytes.len()) as u64;
        let mutex = &self.lanes[lane % LANES];
        let mut lane = lock(mutex);
        let at = loop {
            if let Some(at) = self.reserve(lane.end, bytes) {
                break at;
            }
            let mut state = self.state();
            match self.reserve_locked(&mut state, kind, bytes) {
                Err(Error::WouldBlock) if waits => {
                    drop(lane); // the flusher takes it, too
                    drop(self.wait_for_progress(state));
                    lane = lock(mutex);
                }
                reserved => break reserved?,
            }
        };
        lane.push(at, kind, body);
        drop(lane);
        if self.gate.is_flusher_idle.load(Ordering::SeqCst) {
            self.wake_flusher(&mut self.state());
        }
        Ok(Lsn(at + bytes))
    }

    /// As [`Shared::push`] without waiting, of eight bytes that `make` gives when the record has its place: so they can tell
    /// something that holds for all records before.
    pub(super) fn push_made(&self, kind: Kind, make: impl FnOnce() -> [u8; 8]) -> Result<Lsn> {
        let bytes = (RECORD_HEADER_BYTES + size_of::<[u8; 8]>()) as u64;
        let mut lane = lock(&self.lanes[0]);
        let at = match self.reserve(lane.end, bytes) {
            Some(at) => at,
            None => self.reserve_locked(&mut self.state(), kind, bytes)?,
        };
        lane.push(at, kind, Body::new(&make(), 0));
        Ok(Lsn(at + bytes))
    }

    /// Gives the next place to a record of `bytes` bytes, if it ends within the limit. The caller holds a lane, in
    /// which the last record ended at `guess`.
    #[inline]
    fn reserve(&self, guess: u64, bytes: u64) -> Option<u64> {
        // Not loaded first: a failed exchange says what is there, and has fetched the line for writing.
        let mut at = guess;
        // Each further turn is another appender's success; the limit bounds them.
        loop {
            // Acquire: pairs with the Release in `set_limit`, so that a segment's begin is noted before its second
            // record is in a lane.
            if at + bytes > self.gate.limit.load(Ordering::Acquire) {
                return None;
            }
            // SeqCst: either this is seen by the flusher, which looks after it has said that it is idle, or
            // `push` sees that it is.
            match self.next.compare_exchange(at, at + bytes, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Some(at),
                Err(next) => at = next,
            }
        }
    }

    /// As [`Shared::reserve`], of a record that does not end within the limit.
    #[cold]
    fn reserve_locked(&self, state: &mut State, kind: Kind, bytes: u64) -> Result<u64> {
        if state.is_closed {
            // (A flusher that has stopped is dropped, which closes the log.)
            return Err(state.stopped.clone().map_or(Error::Closed, Error::Stopped));
        }
        let now_ns = self.clock.now_ns();
        let reserved = state.check(bytes, self.options.room_bytes()).and_then(|()| {
            loop {
                // Others may still append within the limit.
                let at = self.appended().0;
                state.admit(&self.options, kind, at, bytes, now_ns)?;
                let exchanged =
                    self.next.compare_exchange(at, at + bytes, Ordering::SeqCst, Ordering::Relaxed);
                if exchanged.is_ok() {
                    state.placed(&self.options, at, bytes);
                    return Ok(at);
                }
            }
        });
        self.set_limit(state);
        if state.has_request {
            self.wake_flusher(state);
        }
        reserved
    }

    /// Puts the last record behind all others, when the log is closed: where it ends.
    pub(super) fn push_last(&self, kind: Kind, body: Body<'_>) -> Result<Lsn> {
        let bytes = (RECORD_HEADER_BYTES + body.bytes.len()) as u64;
        let (mut lane, mut state) = (lock(&self.lanes[0]), self.state());
        assert!(state.is_closed, "nothing else is appended");
        let at = self.appended().0;
        state.check(bytes, self.options.room_bytes())?;
        state.admit(&self.options, kind, at, bytes, self.clock.now_ns())?;
        self.next.store((at + bytes) | CLOSED, Ordering::SeqCst);
        state.placed(&self.options, at, bytes);
        lane.push(at, kind, body);
        Ok(Lsn(at + bytes))
    }

    /// A segment has begun, before anything is appended.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        state.segment_end = state.durable_lsn + self.options.room_bytes();
    }

    fn set_limit(&self, state: &State) {
        // Release: pairs with the Acquire in `reserve`.
        self.gate.limit.store(state.limit(&self.options), Ordering::Release);
    }

    /// Has the flusher's thread look for work, if it sleeps.
    #[cold]
    pub(super) fn wake_flusher(&self, state: &mut State) {
        if self.gate.is_flusher_idle.swap(false, Ordering::SeqCst) {
            state.since_ns = self.clock.now_ns();
            self.work.notify_one(); // (a call of the system, whether or not anybody waits)
        }
    }

    /// A thread or task is going to wait until something is durable: the next flush is not put off.
    pub(super) fn hurry(&self, state: &mut State) {
        state.is_hurried = true;
        if std::mem::take(&mut state.is_paced) {
            self.work.notify_one();
        }
    }

    /// Waits for `progress`.
    pub(super) fn wait_for_progress<'s>(&self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.hurry(&mut state);
        wait(&self.progress, state)
    }

    /// The flusher's thread is about to sleep. It holds the state's lock from here until it sleeps, and looks for work in
    /// between.
    pub(super) fn set_flusher_idle(&self) {
        self.gate.is_flusher_idle.store(true, Ordering::SeqCst);
    }

    /// The flusher's thread goes on.
    pub(super) fn set_flusher_busy(&self, state: &mut State) {
        if self.gate.is_flusher_idle.swap(false, Ordering::SeqCst) {
            state.since_ns = self.clock.now_ns();
        }
    }

    /// Notes that a run is durable.
    pub(super) fn publish(&self, run: &WriteGroup, flush_ns: u64) {
        let mut state = self.state();
        if state.stopped.is_some() {
            return; // it was ended meanwhile, and all have been told so
        }
        assert_eq!(run.first_lsn, state.durable_lsn, "runs become durable in order");
        self.go_on(&mut state);
        let woken = state.publish(run.records, run.bytes.len() as u64, flush_ns);
        // Release: pairs with the Acquire in `durable`.
        self.gate.durable.store(state.durable_lsn, Ordering::Release);
        self.set_limit(&state);
        drop(state);
        self.progress.notify_all();
        woken.into_iter().for_each(Waker::wake);
    }

    /// A write was refused for want of room, and will be made again.
    pub(super) fn refuse(&self, shortage: Arc<Shortage>) {
        let mut state = self.state();
        state.stalled = Some(shortage);
        self.set_limit(&state);
        drop(state);
        self.progress.notify_all();
    }

    /// A spare was made, or was not, because of this.
    pub(super) fn prepared(&self, state: &mut State, has_spare: bool, no_spare: Option<Arc<Shortage>>) {
        (state.has_spare, state.no_spare, state.wants_spare_since_ns) = (has_spare, no_spare, None);
        if state.durable_lsn == self.appended().0 {
            self.go_on(state);
        }
    }

    /// Nothing keeps the log waiting any more.
    fn go_on(&self, state: &mut State) {
        state.stalled = None;
        // Relaxed: hints, like the loads.
        self.gate.is_slow.store(false, Ordering::Relaxed);
        self.gate.stall.store(Stall::code(None), Ordering::Relaxed);
    }

    /// Looks whether something has waited for the disk for too long. If so, all that wait are told, and more is refused
    /// until the log goes on.
    pub(super) fn look(&self, wait_ns_max: u64) {
        let mut state = self.state();
        let (waits_ns, appended) = self.waits_ns(&state);
        if state.stopped.is_some() || waits_ns == 0 {
            return;
        }
        // (Where nothing but a spare segment is waited for, all that was appended is durable, and readers wait for nothing.)
        let is_behind = state.durable_lsn < appended;
        let is_slow = is_behind && (waits_ns >= SLOW_NS || state.stalled.is_some());
        if is_slow && !self.gate.is_slow.swap(true, Ordering::Relaxed) {
            state.statistics.stalls += 1;
        }
        if waits_ns < wait_ns_max {
            return;
        }
        let slow = || Arc::new(Shortage::slow(waits_ns));
        if is_behind {
            let stall = match state.stalled.get_or_insert_with(slow).error.is_full() {
                true => Stall::NoRoom,
                false => Stall::Slow,
            };
            self.gate.stall.store(Stall::code(Some(stall)), Ordering::Relaxed);
            self.set_limit(&state);
        } else {
            state.no_spare.get_or_insert_with(slow);
        }
        let (woken, watchers) = (std::mem::take(&mut state.wakers), std::mem::take(&mut state.watchers));
        drop(state);
        self.progress.notify_all();
        woken.into_iter().chain(watchers).for_each(|(_, waker)| waker.wake());
    }

    /// For how long something has waited for the disk, and how much has been appended.
    fn waits_ns(&self, state: &State) -> (u64, u64) {
        // Before the clock: so `since_ns` is not of a later wake-up.
        let is_idle = self.gate.is_flusher_idle.load(Ordering::SeqCst);
        let appended = self.appended().0;
        // What was just appended wakes it. (That it sleeps with a request is for moments, too.)
        if is_idle { (0, appended) } else { (state.waits_ns(appended, self.clock.now_ns()), appended) }
    }

    /// How the log is.
    pub(super) fn condition(&self) -> LogCondition {
        let state = self.state();
        let (for_ns, _) = self.waits_ns(&state);
        let stalled = state.stalled.as_ref().filter(|_| for_ns > 0).map(ToString::to_string);
        match (&state.stopped, stalled, &state.no_spare) {
            (Some(error), _, _) => LogCondition::Stopped { cause: error.to_string() },
            (_, Some(cause), _) => LogCondition::Stalled { for_ns, cause },
            (_, _, Some(shortage)) => LogCondition::Refusing { cause: shortage.to_string() },
            _ if for_ns >= SLOW_NS => {
                LogCondition::Stalled { for_ns, cause: Shortage::slow(for_ns).to_string() }
            }
            _ => LogCondition::Good,
        }
    }

    /// Every commit before this time that has been appended is durable; also of those whose place was reserved before
    /// this was called.
    #[cold]
    pub(super) fn settled_before(&self) -> u64 {
        // Before the lanes: what is durable when a lane is looked at was so, or is taken for not being so.
        let durable = self.durable().0;
        self.lanes().map(|lane| lane.unsettled(durable)).min().unwrap_or(u64::MAX)
    }

    pub(super) fn is_slow(&self) -> bool {
        self.gate.is_slow.load(Ordering::Relaxed)
    }

    /// Why nothing waits for the log any longer, if that is so.
    #[inline(always)]
    pub(super) fn stall(&self) -> Option<Stall> {
        Stall::of_code(self.gate.stall.load(Ordering::Relaxed))
    }

    /// Gives no places any more: what has been appended so far is all.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        self.set_limit(&state);
        // An appender that has seen the limit as it was fails with its exchange.
        self.next.fetch_or(CLOSED, Ordering::SeqCst);
        drop(state);
        self.progress.notify_all();
        self.work.notify_all();
    }

    /// Whether `close` was called.
    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Changes the state as `how` says, so that nothing will become durable any more, and tells all that wait.
    pub(super) fn end(&self, how: impl FnOnce(&mut State)) {
        let mut state = self.state();
        how(&mut state);
        self.set_limit(&state);
        let woken = std::mem::take(&mut state.wakers);
        // What is answered from now on does not depend on whether the disk was slow before. (Relaxed: a hint.)
        self.gate.is_slow.store(false, Ordering::Relaxed);
        // Release: pairs with the Acquire in `has_ended`; what is durable is not going to change.
        self.gate.has_ended.store(true, Ordering::Release);
        drop(state);
        self.progress.notify_all();
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// As [`Shared::end`], because storage has failed: nothing more is written.
    pub(super) fn stop(&self, error: &Arc<StorageError>) {
        let mut is_first = false;
        self.end(|state| {
            is_first = state.stopped.is_none();
            state.stopped.get_or_insert_with(|| Arc::clone(error));
        });
        if is_first {
            event!(
                ERROR,
                LOG,
                "the log has failed: writes are refused until the database is opened again",
                database = self.options.number,
                lsn = self.durable().0,
                error = text(error)
            );
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.gate.has_ended.load(Ordering::Acquire)
    }

    pub(super) fn appended(&self) -> Lsn {
        Lsn(self.next.load(Ordering::SeqCst) & !CLOSED)
    }

    pub(super) fn durable(&self) -> Lsn {
        Lsn(self.gate.durable.load(Ordering::Acquire))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lsns = (self.durable(), self.appended());
        f.debug_struct("Shared").field("options", &self.options).field("durable_next", &lsns).finish()
    }
}
