//! The state that appenders, waiters and the flusher share: how far the log has come, and where the next record goes.
//!
//! An appender reserves a place in the log by moving `next` forward.
//!
//! - Up to `limit` nothing stands in the way, and the appender needs no lock.
//! - Beyond `limit`, the appender takes the lock, decides there whether it may go on, and moves the limit.
//!
//! The record itself goes into a [lane](super::lane).

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

/// How many bytes are appended between two checks of how long the oldest record has waited. A check costs a lock,
/// some hundred nanoseconds, which does not show at this interval.
const LOOK_BYTES: u64 = 16 << 10;

/// How many records are refused in favor of a record that is too long for the present room.
const TURNS_MAX: u32 = 1000;

/// The flag in `next` that says that no more places are given. It is above all positions.
const CLOSED: u64 = 1 << 63;

/// The state under one lock. `durable_lsn <= taken_lsn <= next`.
pub(super) struct State {
    /// The end of the room in the segment that the next record goes to, if it fits. When the log is opened, no
    /// segment has begun.
    segment_end: u64,
    /// The beginnings of segments that the flusher has not heard of.
    pub(super) cuts: Vec<u64>,
    /// True if the segment after the present one can begin.
    pub(super) has_spare: bool,
    pub(super) durable_lsn: u64,
    /// The position up to which the flusher has taken records.
    taken_lsn: u64,
    /// Why there is no next segment.
    pub(super) no_spare: Option<Arc<Shortage>>,
    /// Since when a record has waited for the next segment to be made.
    pub(super) wants_spare_since_ns: Option<u64>,
    /// Why what was appended does not become durable. Either a write for which there should be room was refused and
    /// is tried again, or a write has not returned for so long that nothing waits for it any more.
    pub(super) stalled: Option<Arc<Shortage>>,
    /// True if the flusher has something to do although nothing was appended.
    pub(super) has_request: bool,
    /// True if somebody has begun to wait for what was appended since the last flush began.
    is_hurried: bool,
    /// True while the flusher gives others time to append.
    pub(super) is_paced: bool,
    /// The database needs nothing before this position.
    pub(super) truncate_before: u64,
    pub(super) holds: Holds,
    /// The number of segments that are still needed.
    pub(super) segments: usize,
    /// No record that was taken and is not durable was appended before this time.
    taken_since_ns: u64,
    /// No later record was appended before this time.
    since_ns: u64,
    /// Up to this position records are appended without a look at the clock.
    granted_lsn: u64,
    /// The length of the longest record that found no room, while shorter records are refused in its favor; else 0.
    longest_refused: u64,
    /// How many records have been refused in its favor.
    turns_given: u32,
    pub(super) stopped: Option<Arc<StorageError>>,
    pub(super) is_closed: bool,
    /// True if no flush will follow any more.
    pub(super) is_abandoned: bool,
    pub(super) wakers: Vec<(u64, Waker)>,
    /// Tasks that wait for whatever becomes durable next, one for each hold, with the holds' numbers.
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

    /// Fails if nothing can be appended at present, or if a record of this length never can.
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

    /// Fails unless a record may be put at this position, which is the next.
    fn admit(&mut self, options: &Options, kind: Kind, at: u64, bytes: u64, now_ns: u64) -> Result<()> {
        let buffered_bytes = at - self.durable_lsn;
        // What the flusher itself appends is short, and must not wait for the flusher.
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

    /// Notes that the admitted record has its place.
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

    /// Returns the limit: nothing stands in the way of a record that ends there or earlier.
    fn limit(&self, options: &Options) -> u64 {
        let is_shut = self.is_closed || self.stopped.is_some() || self.stalled.is_some();
        if is_shut || self.longest_refused > 0 {
            return 0;
        }
        let of_buffer = self.durable_lsn.saturating_add(options.buffer_bytes_max as u64);
        self.granted_lsn.min(self.segment_end).min(of_buffer)
    }

    /// Notes that a record has been refused for its length. Shorter records are refused until there is room for it.
    /// If it never comes again, they are accepted after a number of refusals.
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

    /// Notes that the flusher takes what has been appended so far.
    pub(super) fn take(&mut self, lsn: u64, now_ns: u64) {
        if self.taken_lsn == self.durable_lsn {
            self.taken_since_ns = self.since_ns;
        }
        (self.taken_lsn, self.since_ns) = (lsn, now_ns);
        self.is_hurried = false;
    }

    /// Returns true if a task or a thread waits for what was appended.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_hurried || !self.wakers.is_empty()
    }

    /// Returns for how long something has waited for the disk, if the log is appended up to `appended`.
    fn waits_ns(&self, appended: u64, now_ns: u64) -> u64 {
        let is_taken = self.taken_lsn > self.durable_lsn;
        let since_ns = if is_taken { self.taken_since_ns } else { self.since_ns };
        let oldest = (self.durable_lsn < appended).then_some(since_ns);
        let since = oldest.into_iter().chain(self.wants_spare_since_ns).min();
        since.map_or(0, |since| now_ns.saturating_sub(since))
    }

    /// Returns why nothing becomes durable at present, if the log is stalled.
    pub(super) fn stall(&self) -> Option<Error> {
        self.stalled.as_ref().map(|error| Error::Full(Arc::clone(error)))
    }

    /// Returns why appending is refused at present, if it is.
    pub(super) fn refusal(&self) -> Option<Error> {
        let full = self.stalled.as_ref().or(self.no_spare.as_ref());
        let stopped = self.stopped.as_ref().map(|error| Error::Stopped(Arc::clone(error)));
        stopped.or(full.map(|error| Error::Full(Arc::clone(error))))
    }

    /// Notes that a run is durable. Returns the wakers of the tasks that have waited for it; they are called without
    /// the lock.
    fn publish(&mut self, records: u64, bytes: u64, flush_ns: u64) -> Vec<Waker> {
        self.durable_lsn += bytes;
        assert!(self.durable_lsn <= self.taken_lsn, "what is durable was taken");
        self.statistics.add(records, bytes, flush_ns);
        let durable_lsn = self.durable_lsn;
        let woken = self.wakers.extract_if(.., |(lsn, _)| *lsn <= durable_lsn);
        woken.chain(self.watchers.drain(..)).map(|(_, waker)| waker).collect()
    }

    /// Returns true if a position is durable. Fails if this process knows that it never will be.
    pub(super) fn is_durable(&self, lsn: Lsn) -> Result<bool> {
        match (&self.stopped, lsn.0 <= self.durable_lsn) {
            (_, true) => Ok(true),
            (Some(error), _) => Err(Error::Stopped(Arc::clone(error))),
            (None, _) if self.is_abandoned => Err(Error::Closed),
            (None, _) => Ok(false),
        }
    }
}

/// What is read with each append or each round of a worker, and changed about once per flush.
struct Gate {
    /// A record that ends at or before this position may get its place without the lock.
    limit: AtomicU64,
    /// A copy of `durable_lsn`, at most moments late.
    durable: AtomicU64,
    /// True while the flusher's thread sleeps until it is told of work.
    is_flusher_idle: AtomicBool,
    /// True once nothing more will become durable.
    has_ended: AtomicBool,
    /// True if something has waited for long. `stalls` has counted it.
    is_slow: AtomicBool,
    /// The code of the [`Stall`] because of which nothing waits for the log any longer. Like `is_slow`, it changes
    /// under the state's lock.
    stall: AtomicU32,
}

/// The state with its lock, and what is signalled about it. The lanes' locks are taken in the lanes' order, and
/// before the state's lock.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) room: Arc<Room>,
    pub(super) presence: Arc<Presence>,
    state: Mutex<State>,
    gate: CachePadded<Gate>,
    /// Where the next record begins, with the flag [`CLOSED`]. An append counts here as soon as anybody can know of
    /// it.
    next: CachePadded<AtomicU64>,
    lanes: [CachePadded<Mutex<Lane>>; LANES],
    /// Signals that something became durable, that something failed, or that there is room again.
    pub(super) progress: Condvar,
    /// Signals that there is something for the flusher to do.
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

    /// Iterates over the lanes, and locks each when it is reached.
    pub(super) fn lanes(&self) -> impl Iterator<Item = MutexGuard<'_, Lane>> {
        self.lanes.iter().map(|lane| lock(lane))
    }

    /// Puts a record behind all others and returns where it ends. If it would have to wait for the flusher, it waits
    /// if `waits` is true, and fails with [`Error::WouldBlock`] otherwise.
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
                    drop(lane); // the flusher takes this lock, too
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

    /// Pushes a record like [`Shared::push`], without waiting. Its eight bytes come from `make`, which is called when
    /// the record has its place. So they can state something that holds for all records before.
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

    /// Gives the next place to a record of `bytes` bytes, if it ends within the limit. The caller holds a lane whose
    /// last record ended at `guess`.
    #[inline]
    fn reserve(&self, guess: u64, bytes: u64) -> Option<u64> {
        // `next` is not loaded first: a failed exchange returns its value, and has fetched the cache line for
        // writing.
        let mut at = guess;
        // Each further turn is another appender's success. The limit bounds their number.
        loop {
            // Acquire: pairs with the Release in `set_limit`, so that a segment's begin is noted before its second
            // record is in a lane.
            if at + bytes > self.gate.limit.load(Ordering::Acquire) {
                return None;
            }
            // SeqCst: either the flusher, which looks for work after it has said that it is idle, sees this exchange,
            // or `push` sees that the flusher is idle.
            match self.next.compare_exchange(at, at + bytes, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Some(at),
                Err(next) => at = next,
            }
        }
    }

    /// Reserves a place like [`Shared::reserve`], for a record that does not end within the limit.
    #[cold]
    fn reserve_locked(&self, state: &mut State, kind: Kind, bytes: u64) -> Result<u64> {
        if state.is_closed {
            // A flusher that has stopped is dropped, which closes the log.
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

    /// Puts the last record behind all others after the log was closed, and returns where it ends.
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

    /// Notes that a segment has begun, before anything is appended.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        state.segment_end = state.durable_lsn + self.options.room_bytes();
    }

    fn set_limit(&self, state: &State) {
        // Release: pairs with the Acquire in `reserve`.
        self.gate.limit.store(state.limit(&self.options), Ordering::Release);
    }

    /// Wakes the flusher's thread if it sleeps.
    #[cold]
    pub(super) fn wake_flusher(&self, state: &mut State) {
        if self.gate.is_flusher_idle.swap(false, Ordering::SeqCst) {
            state.since_ns = self.clock.now_ns();
            self.work.notify_one(); // a system call, whether or not the thread waits
        }
    }

    /// Notes that a thread or task is about to wait until something is durable. The next flush is not delayed.
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

    /// Notes that the flusher's thread is about to sleep. The thread holds the state's lock from here until it
    /// sleeps, and looks for work in between.
    pub(super) fn set_flusher_idle(&self) {
        self.gate.is_flusher_idle.store(true, Ordering::SeqCst);
    }

    /// Notes that the flusher's thread goes on.
    pub(super) fn set_flusher_busy(&self, state: &mut State) {
        if self.gate.is_flusher_idle.swap(false, Ordering::SeqCst) {
            state.since_ns = self.clock.now_ns();
        }
    }

    /// Notes that a run is durable, and wakes its waiters.
    pub(super) fn publish(&self, run: &WriteGroup, flush_ns: u64) {
        let mut state = self.state();
        if state.stopped.is_some() {
            return; // the log ended meanwhile, and all waiters have been told
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

    /// Notes that a write was refused for want of room and will be tried again.
    pub(super) fn refuse(&self, shortage: Arc<Shortage>) {
        let mut state = self.state();
        state.stalled = Some(shortage);
        self.set_limit(&state);
        drop(state);
        self.progress.notify_all();
    }

    /// Notes that a spare was made, or why it was not.
    pub(super) fn prepared(&self, state: &mut State, has_spare: bool, no_spare: Option<Arc<Shortage>>) {
        (state.has_spare, state.no_spare, state.wants_spare_since_ns) = (has_spare, no_spare, None);
        if state.durable_lsn == self.appended().0 {
            self.go_on(state);
        }
    }

    /// Notes that nothing keeps the log waiting any more.
    fn go_on(&self, state: &mut State) {
        state.stalled = None;
        // Relaxed: hints, like the loads.
        self.gate.is_slow.store(false, Ordering::Relaxed);
        self.gate.stall.store(Stall::code(None), Ordering::Relaxed);
    }

    /// Checks whether something has waited for the disk for too long. If so, all waiters are told, and further
    /// records are refused until the log goes on.
    pub(super) fn look(&self, wait_ns_max: u64) {
        let mut state = self.state();
        let (waits_ns, appended) = self.waits_ns(&state);
        if state.stopped.is_some() || waits_ns == 0 {
            return;
        }
        // If only a spare segment is awaited, everything appended is durable, and readers wait for nothing.
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

    /// Returns for how long something has waited for the disk, and how much has been appended.
    fn waits_ns(&self, state: &State) -> (u64, u64) {
        // This is loaded before the clock is read, so that `since_ns` does not come from a later wake-up.
        let is_idle = self.gate.is_flusher_idle.load(Ordering::SeqCst);
        let appended = self.appended().0;
        // What was just appended wakes the flusher. It sleeps with a request for moments only, too.
        if is_idle { (0, appended) } else { (state.waits_ns(appended, self.clock.now_ns()), appended) }
    }

    /// Returns the condition of the log.
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

    /// Returns a time such that every appended commit with an earlier timestamp is durable. This includes commits
    /// whose place was reserved before the call.
    #[cold]
    pub(super) fn settled_before(&self) -> u64 {
        // This is read before the lanes. What is durable when a lane is read was durable already, or is taken for not
        // durable.
        let durable = self.durable().0;
        self.lanes().map(|lane| lane.unsettled(durable)).min().unwrap_or(u64::MAX)
    }

    pub(super) fn is_slow(&self) -> bool {
        self.gate.is_slow.load(Ordering::Relaxed)
    }

    /// Returns why nothing waits for the log any longer, if the log is stalled.
    #[inline(always)]
    pub(super) fn stall(&self) -> Option<Stall> {
        Stall::of_code(self.gate.stall.load(Ordering::Relaxed))
    }

    /// Closes the log: no more places are given, and what has been appended so far is all.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        self.set_limit(&state);
        // An appender that has seen the old limit fails with its exchange.
        self.next.fetch_or(CLOSED, Ordering::SeqCst);
        drop(state);
        self.progress.notify_all();
        self.work.notify_all();
    }

    /// Returns true if `close` was called.
    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Changes the state with `how`, after which nothing more becomes durable, and tells all waiters.
    pub(super) fn end(&self, how: impl FnOnce(&mut State)) {
        let mut state = self.state();
        how(&mut state);
        self.set_limit(&state);
        let woken = std::mem::take(&mut state.wakers);
        // From now on, answers do not depend on whether the disk was slow before. Relaxed: a hint.
        self.gate.is_slow.store(false, Ordering::Relaxed);
        // Release: pairs with the Acquire in `has_ended`; what is durable no longer changes.
        self.gate.has_ended.store(true, Ordering::Release);
        drop(state);
        self.progress.notify_all();
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Ends the log like [`Shared::end`], because storage has failed. Nothing more is written.
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
