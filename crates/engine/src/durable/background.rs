//! Runs checkpoints at the right time, on a thread of its own or step by step in a simulation.

use super::checkpointer::Checkpointer;
use super::mark::Mark;
use super::status::Step;
use super::watch::Listeners;
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::metrics::{Clock, Event};
use crate::options::Options;
use crate::storage::{Operation, StorageError};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Background, Condvar, Mutex, lock};
use crate::wal::{Flusher, Writer};
use std::io::ErrorKind;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How often the thread asks whether a checkpoint is due.
const LOOK: Duration = Duration::from_millis(500);

/// About the duration of a flush of the log.
const FLUSH: Duration = Duration::from_millis(2);

/// After successive failures, the next checkpoint is tried after 2, 4, ... seconds, at most two to the power of this
/// number.
const REST_MAX_LOG: u32 = 6;

const NS_PER_S: u64 = 1_000_000_000;

/// What the checkpoint thread and its callers tell each other.
#[derive(Default)]
struct Requests {
    /// How many checkpoints were asked for, and how many of these are over.
    asked: u64,
    answered: u64,
    /// Why the last one failed, for callers that have asked for one.
    failure: Option<Arc<Error>>,
    /// Set when the database is being closed and the last checkpoint was asked for.
    last: Option<Last>,
    is_closed: bool,
}

/// When the last checkpoint is made. Nothing else waits for the disk then, so the checkpoint uses all of its speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// In any case.
    Always,
    /// If it saves the next opening more time than it takes.
    IfItPays,
}

struct Shared {
    requests: Mutex<Requests>,
    signal: Condvar,
    /// When the present step of a checkpoint, or check of the device, began; else [`NO_STEP`].
    step_began_ns: AtomicU64,
}

const NO_STEP: u64 = u64::MAX;

impl Shared {
    /// Returns how long the present step of a checkpoint has taken.
    fn step_ns(&self, clock: &dyn Clock) -> u64 {
        clock.now_ns().saturating_sub(self.step_began_ns.load(Ordering::Relaxed))
    }
}

/// The thread that writes checkpoints.
pub(super) struct CheckpointThread {
    shared: Arc<Shared>,
    thread: Background<Option<u64>>,
    log: Option<Writer>,
    clock: Arc<dyn Clock>,
    wait_ns_max: u64,
}

impl CheckpointThread {
    pub(super) fn spawn<C: ConcurrencyControl>(
        checkpointer: Checkpointer<C>,
        options: &Options,
        listeners: Arc<Listeners>,
        kept: impl Send + 'static,
    ) -> std::io::Result<CheckpointThread> {
        let (clock, log) = (checkpointer.clock(), checkpointer.log().cloned());
        let shared = Arc::new(Shared {
            requests: Mutex::default(),
            signal: Condvar::new(),
            step_began_ns: AtomicU64::new(NO_STEP),
        });
        let began_ns = clock.now_ns();
        let (of_caller, wait_ns_max) = (clock.clone(), options.log_wait_ns_max());
        let (options, of_thread) = (options.clone(), shared.clone());
        let mut keeper = CheckpointSchedule {
            checkpointer,
            options,
            clock,
            shared: of_thread,
            began_ns,
            failures: 0,
            listeners,
            tended_ns: began_ns,
            pays: None,
        };
        let thread = Background::spawn("braid-checkpoint", move || {
            let _closing = Closing(keeper.shared.clone());
            keeper.run();
            let newest = keeper.checkpointer.newest();
            drop(keeper);
            drop(kept); // no other process may have this while something may be written
            newest
        })?;
        Ok(CheckpointThread { shared, thread, log, clock: of_caller, wait_ns_max })
    }

    /// Ends the thread. The first call returns the newest checkpoint ([`Checkpointer::newest`]). Returns none also if
    /// the disk does not answer the thread for as long as anything waits. Whatever the thread has begun is then as
    /// after a crash.
    pub(super) fn close(&self) -> Option<u64> {
        lock(&self.shared.requests).is_closed = true;
        self.shared.signal.notify_all();
        let begin_ns = self.clock.now_ns();
        // A listener on the thread itself may drop the last handle of the database.
        self.thread.join(|| self.clock.now_ns().saturating_sub(begin_ns) >= self.wait_ns_max).flatten()
    }

    /// Returns true if the calling thread is this one.
    pub(super) fn is_here(&self) -> bool {
        self.thread.is_here()
    }

    /// Makes a checkpoint that begins after this call, and waits for it.
    pub(super) fn checkpoint(&self) -> Result<()> {
        self.ask(None)
    }

    /// Makes the last checkpoint, after the last commit, and waits for it. Fails with [`Error::Closed`] if none is to
    /// be made.
    pub(super) fn last_checkpoint(&self, last: Last) -> Result<()> {
        self.ask(Some(last))
    }

    fn ask(&self, last: Option<Last>) -> Result<()> {
        if self.is_here() {
            return Err(Error::WouldDeadlock); // called from an event's listener
        }
        let mut requests = lock(&self.shared.requests);
        requests.last = requests.last.or(last);
        requests.asked += 1;
        let mine = requests.asked;
        self.shared.signal.notify_all();
        while requests.answered < mine {
            if requests.is_closed {
                return Err(Error::Closed);
            }
            let waited = self.shared.signal.wait_timeout(requests, LOOK);
            requests = waited.unwrap_or_else(PoisonError::into_inner).0;
            if let Some(refusal) = self.stalled() {
                return Err(Error::CheckpointFailed(Arc::new(refusal)));
            }
        }
        match &requests.failure {
            None => Ok(()),
            Some(failure) => Err(Error::CheckpointFailed(failure.clone())),
        }
    }

    /// Returns why nothing should wait for the disk any longer: it does not answer the log, or it does not answer the
    /// checkpoint, which usually uses the same disk.
    fn stalled(&self) -> Option<Error> {
        let step_ns = self.shared.step_ns(&*self.clock);
        if step_ns >= self.wait_ns_max {
            let text = format!("a step of it has not ended for {} ms", step_ns / 1_000_000);
            let error = std::io::Error::new(ErrorKind::TimedOut, text);
            return Some(Error::Storage(StorageError::io(Operation::Write, "the checkpoint", error)));
        }
        let log = self.log.as_ref()?;
        log.look(self.wait_ns_max);
        log.stall().and_then(|_| log.refusal()).map(Error::Log)
    }
}

impl Drop for CheckpointThread {
    fn drop(&mut self) {
        let was_asked = lock(&self.shared.requests).is_closed;
        if !was_asked {
            self.close();
        }
    }
}

/// Releases the callers that wait for the thread when it ends, even by a panic.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        lock(&self.0.requests).is_closed = true;
        self.0.signal.notify_all();
    }
}

/// The state that runs on the thread.
struct CheckpointSchedule<C: ConcurrencyControl> {
    checkpointer: Checkpointer<C>,
    options: Options,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    /// When the last checkpoint began.
    began_ns: u64,
    /// When the thread last checked the archive and the presence of the files.
    tended_ns: u64,
    /// True if the last checkpoint pays; none before that was asked.
    pays: Option<bool>,
    /// How many checkpoints have failed since the last success.
    failures: u32,
    listeners: Arc<Listeners>,
}

impl<C: ConcurrencyControl> CheckpointSchedule<C> {
    fn run(&mut self) {
        while let Some(asked) = self.await_turn() {
            self.began_ns = self.clock.now_ns();
            let result = if self.is_needless() { Err(Error::Closed) } else { self.make_checkpoint() };
            let mut requests = lock(&self.shared.requests);
            requests.answered = requests.answered.max(asked);
            requests.failure = result.err().map(Arc::new);
            drop(requests);
            self.shared.signal.notify_all();
        }
    }

    fn make_checkpoint(&mut self) -> Result<()> {
        let result = self.checkpoint();
        self.tell_end(&result);
        self.failures = if result.is_ok() { 0 } else { self.failures.saturating_add(1) };
        result
    }

    /// Returns true if the database is being closed and no checkpoint should be made for that. Other checkpoints are
    /// not made then, either.
    fn is_needless(&mut self) -> bool {
        let last = lock(&self.shared.requests).last;
        last == Some(Last::IfItPays) && !*self.pays.get_or_insert_with(|| self.checkpointer.pays())
    }

    /// Waits until a checkpoint is due. Returns how many had been asked for by then, or none at the end.
    fn await_turn(&mut self) -> Option<u64> {
        self.timed(|checkpointer| checkpointer.watch());
        let mut requests = lock(&self.shared.requests);
        loop {
            if requests.is_closed {
                return None;
            }
            if requests.asked > requests.answered || self.is_due() {
                return Some(requests.asked);
            }
            drop(requests);
            self.tend();
            requests = lock(&self.shared.requests);
            if requests.is_closed || requests.asked > requests.answered {
                continue;
            }
            let waited = self.shared.signal.wait_timeout(requests, self.until_look());
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            self.timed(|checkpointer| checkpointer.watch()); // outside the lock, because the device may be slow
            requests = lock(&self.shared.requests);
        }
    }

    /// Checks that the files exist, and archives what there is to archive, at the same interval as the check whether
    /// a checkpoint is due.
    fn tend(&mut self) {
        let now_ns = self.clock.now_ns();
        if u128::from(now_ns.saturating_sub(self.tended_ns)) >= LOOK.as_nanos() {
            self.tended_ns = now_ns;
            self.timed(|checkpointer| checkpointer.look_for_files());
            self.checkpointer.archive_step();
        }
    }

    /// Returns the time until the next check of the files. A thread that was woken shortly before the check does not
    /// wait for a whole interval again.
    fn until_look(&self) -> Duration {
        let passed = Duration::from_nanos(self.clock.now_ns().saturating_sub(self.tended_ns));
        LOOK.saturating_sub(passed).max(LOOK / 50)
    }

    /// Returns true if enough has been logged, or enough time has passed.
    fn is_due(&self) -> bool {
        let (bytes_max, seconds) = (self.options.checkpoint_log_bytes, self.options.checkpoint_interval_s);
        let passed_ns = self.clock.now_ns().saturating_sub(self.began_ns);
        // After failures, the next checkpoint is not tried at once.
        let rest_s = 1 << self.failures.min(REST_MAX_LOG);
        if self.failures > 0 && passed_ns < rest_s * NS_PER_S {
            return false;
        }
        let is_long = bytes_max > 0 && self.checkpointer.replay_bytes() >= bytes_max && passed_ns >= NS_PER_S;
        let is_old = seconds > 0 && passed_ns >= seconds.saturating_mul(NS_PER_S);
        is_long || (is_old && self.checkpointer.is_behind()) || self.checkpointer.is_urgent()
    }

    fn tell_end(&self, result: &Result<()>) {
        match (result, self.checkpointer.newest()) {
            (Ok(()), Some(number)) => self.listeners.tell(&Event::CheckpointMade { number }),
            (Err(Error::Closed), _) | (Ok(()), None) => {}
            (Err(error), _) => self.listeners.tell(&Event::CheckpointFailed { error: error.to_string() }),
        }
    }

    fn checkpoint(&mut self) -> Result<()> {
        let (start_ns, mut bytes) = (self.clock.now_ns(), 0);
        loop {
            self.tend();
            if lock(&self.shared.requests).is_closed || self.is_needless() {
                return Err(Error::Closed);
            }
            match self.timed(Checkpointer::step)? {
                Step::Done => return Ok(()),
                // The wait has a limit, because the log may never become durable. The next step knows if it will not.
                Step::Await => self.rest(FLUSH),
                Step::Wrote(more) => {
                    bytes += more;
                    self.pace(start_ns, bytes);
                }
            }
        }
    }

    /// Runs a step or a check. Callers that wait for a checkpoint see how long it has taken.
    fn timed<R>(&mut self, act: impl FnOnce(&mut Checkpointer<C>) -> R) -> R {
        self.shared.step_began_ns.store(self.clock.now_ns(), Ordering::Relaxed);
        let done = act(&mut self.checkpointer);
        self.shared.step_began_ns.store(NO_STEP, Ordering::Relaxed);
        done
    }

    /// Rests until the options allow the bytes that have been written. It does not rest when nothing else needs the
    /// disk any more.
    fn pace(&self, start_ns: u64, bytes: u64) {
        if lock(&self.shared.requests).last.is_some() {
            return;
        }
        let due_ns =
            u128::from(bytes) * u128::from(NS_PER_S) / u128::from(self.options.checkpoint_bytes_per_s);
        let passed_ns = u128::from(self.clock.now_ns().saturating_sub(start_ns));
        let rest_ns = u64::try_from(due_ns.saturating_sub(passed_ns)).unwrap_or(u64::MAX);
        if rest_ns > 0 {
            self.rest(Duration::from_nanos(rest_ns));
        }
    }

    /// Sleeps for `time`, or less if there is a request.
    fn rest(&self, time: Duration) {
        let requests = lock(&self.shared.requests);
        if !requests.is_closed {
            drop(self.shared.signal.wait_timeout(requests, time).unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// The work of a durable database's threads, for a simulation that does it instead.
pub struct Stepped<C: ConcurrencyControl> {
    pub(super) flusher: Option<Flusher>,
    pub(super) checkpointer: Checkpointer<C>,
    pub(super) mark: Mark,
}

impl<C: ConcurrencyControl> Stepped<C> {
    /// Makes durable what has been appended so far. An [`Error::Log`] which says that there is no room can be tried
    /// again.
    pub fn flush(&mut self) -> Result<()> {
        self.checkpointer.look_for_files();
        self.checkpointer.watch();
        let Some(flusher) = &mut self.flusher else { return Ok(()) };
        flusher.flush_once().map(drop).map_err(Error::Log)
    }

    /// Begins a checkpoint or continues it. Returns true if it counts now. It may have to wait for a flush.
    pub fn checkpoint_step(&mut self) -> Result<bool> {
        Ok(self.checkpointer.step()? == Step::Done)
    }

    /// Archives finished segments of the log, and releases them.
    pub fn archive_step(&mut self) {
        self.checkpointer.archive_step();
    }

    /// Closes the database in order.
    pub fn close(self) -> Result<()> {
        let Stepped { flusher, checkpointer, mark } = self;
        let log = flusher.map(Flusher::close).transpose().map_err(Error::Log)?;
        checkpointer.newest().map_or(Ok(()), |newest| mark.publish(newest, log))
    }
}

impl<C: ConcurrencyControl> std::fmt::Debug for Stepped<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepped").field("flusher", &self.flusher).finish_non_exhaustive()
    }
}
