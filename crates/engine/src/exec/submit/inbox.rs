//! The way in for other threads: a bounded inbox per worker. An inbox is a mutex around a deque. Its worker drains it
//! under one lock, and an atomic holds its length. This measured faster than lock-free queues for jobs that come in
//! groups.
//!
//! Invariant: `len` equals the number of queued jobs whenever the lock is free.

use crate::exec::blocking::{Condvar, Mutex, lock, wait};
use crate::exec::submit::handle::TaskError;
use crate::exec::submit::job::Job;
use crate::exec::submit::served_by::ServedBy;
use crate::exec::submit::waiting::Waiting;
use crate::exec::wake::notifier::Notifier;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::collections::VecDeque;
use std::sync::Arc;

/// A job in the queue.
pub(crate) type Queued<M> = Arc<dyn Job<M>>;

pub(crate) struct Inbox<M: 'static> {
    queue: Mutex<Queue<M>>,
    /// Lets a busy worker and submitters look without locking.
    len: AtomicUsize,
    room: Condvar,
    /// Futures that wait for room in this inbox or another.
    waiting: Arc<Waiting>,
    jobs_max: usize,
    pub(crate) notifier: Arc<Notifier>,
}

struct Queue<M: 'static> {
    jobs: VecDeque<Queued<M>>,
    blocked: usize, // submitters that wait for room
    is_closed: bool,
}

impl<M: 'static> Inbox<M> {
    fn new(jobs_max: usize, waiting: Arc<Waiting>) -> Self {
        Inbox {
            queue: Mutex::new(Queue { jobs: VecDeque::new(), blocked: 0, is_closed: false }),
            len: AtomicUsize::new(0),
            room: Condvar::new(),
            waiting,
            jobs_max,
            notifier: Notifier::new(),
        }
    }

    /// Takes jobs from the iterator while there is room. Returns true if it took a job. If `blocks`, waits for room for
    /// the first job.
    fn push(
        &self,
        jobs: &mut impl Iterator<Item = Queued<M>>,
        first: &mut Option<Queued<M>>,
        blocks: bool,
    ) -> bool {
        let mut queue = lock(&self.queue);
        while blocks && !queue.is_closed && queue.jobs.len() >= self.jobs_max {
            queue.blocked += 1;
            queue = wait(&self.room, queue);
            queue.blocked -= 1;
        }
        if queue.is_closed {
            return false;
        }
        let before = queue.jobs.len();
        while queue.jobs.len() < self.jobs_max {
            let Some(job) = first.take().or_else(|| jobs.next()) else { break };
            queue.jobs.push_back(job);
        }
        self.len.store(queue.jobs.len(), Relaxed); // a hint: a thread that acts on it takes the lock
        queue.jobs.len() > before
    }

    /// Moves up to `n` jobs from the head to `into`.
    pub(crate) fn pop(&self, n: usize, into: &mut Vec<Queued<M>>) {
        if n == 0 || self.is_empty() {
            return;
        }
        let mut queue = lock(&self.queue);
        let n = n.min(queue.jobs.len());
        into.extend(queue.jobs.drain(..n));
        self.len.store(queue.jobs.len(), Relaxed);
        if queue.blocked > 0 && n > 0 {
            self.room.notify_all();
        }
        let is_awaited = n > 0 && self.waiting.is_any();
        drop(queue);
        if is_awaited {
            self.waiting.wake(n);
        }
    }

    /// Puts jobs that were taken back to the head, even beyond the limit. A worker that cannot run them leaves them to
    /// others. Returns false if the inbox is closed; the jobs then stay where they were.
    pub(crate) fn put_back(&self, jobs: &mut VecDeque<Queued<M>>) -> bool {
        let mut queue = lock(&self.queue);
        if queue.is_closed {
            return false;
        }
        while let Some(job) = jobs.pop_back() {
            queue.jobs.push_front(job);
        }
        self.len.store(queue.jobs.len(), Relaxed);
        true
    }

    /// Moves the older half of the jobs, at most `n`, to `into`. An idle worker of another inbox calls this.
    pub(crate) fn steal(&self, n: usize, into: &mut Vec<Queued<M>>) {
        let half = self.len.load(Relaxed).div_ceil(2);
        self.pop(half.min(n), into);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }

    /// Like `is_empty`, but exact: ordered with every push.
    fn is_surely_empty(&self) -> bool {
        lock(&self.queue).jobs.is_empty()
    }

    fn close(&self) -> VecDeque<Queued<M>> {
        let mut queue = lock(&self.queue);
        queue.is_closed = true;
        self.len.store(0, Relaxed);
        self.room.notify_all();
        let jobs = std::mem::take(&mut queue.jobs);
        let is_awaited = self.waiting.is_any();
        drop(queue);
        if is_awaited {
            self.waiting.wake(usize::MAX); // the waiting futures try another inbox, or are answered
        }
        jobs
    }
}

/// The inboxes of a set of workers. The workers' threads [serve](Executor::serve) them. The executor makes no threads.
pub struct Executor<M: 'static> {
    pub(crate) inboxes: Box<[Inbox<M>]>,
    turn: AtomicUsize,
    is_closed: AtomicBool,
    pub(crate) waiting: Arc<Waiting>,
}

impl<M: 'static> Executor<M> {
    /// Makes an executor for `workers` workers with inboxes of `jobs_max` jobs each. Without workers, every job is
    /// refused as if the executor were closed.
    pub fn new(workers: usize, jobs_max: usize) -> Self {
        let waiting = Arc::new(Waiting::new());
        Executor {
            inboxes: (0..workers).map(|_| Inbox::new(jobs_max.max(1), waiting.clone())).collect(),
            turn: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            waiting,
        }
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.inboxes.len()
    }

    /// Returns about how many jobs wait in the inboxes.
    #[cfg(all(test, not(braid_shuttle)))]
    pub fn queued(&self) -> usize {
        self.inboxes.iter().map(|inbox| inbox.len.load(Relaxed)).sum()
    }

    /// Queues a job. Blocks while every inbox is full. A thread of one of the executor's own workers must not wait for
    /// itself: there, the job is answered `Full` instead. After `close`, it is answered `Closed`.
    pub fn submit(&self, job: Arc<dyn Job<M>>) {
        self.submit_all([job]);
    }

    /// Queues several jobs with as few locks and wake-ups as possible. See [`submit`](Self::submit).
    pub fn submit_all(&self, jobs: impl IntoIterator<Item = Arc<dyn Job<M>>>) {
        let mut jobs = jobs.into_iter();
        let mut first = jobs.next();
        while first.is_some() {
            let blocks = !ServedBy::of(self).is_here();
            if let Err(why) = self.push_some(&mut jobs, &mut first, blocks, None) {
                first.take().into_iter().chain(jobs).for_each(|job| job.reject(why.clone()));
                return;
            }
            first = first.or_else(|| jobs.next());
        }
    }

    /// Queues a job unless every inbox is full. Never blocks. If the job is not taken (`Full` or `Closed`), its handle
    /// has no answer yet: keep a copy to submit again or to reject.
    pub fn try_submit(&self, job: Arc<dyn Job<M>>) -> Result<(), TaskError> {
        self.push_some(&mut std::iter::empty(), &mut Some(job), false, None)
    }

    /// Like [`submit`](Self::submit), but prefers the worker with this number, modulo the number of workers, if there
    /// is room. Jobs that conflict should meet at one worker. An idle worker may take the job all the same.
    pub fn submit_to(&self, job: Arc<dyn Job<M>>, worker: usize) {
        let (blocks, mut first) = (!ServedBy::of(self).is_here(), Some(job));
        if let Err(why) = self.push_some(&mut std::iter::empty(), &mut first, blocks, Some(worker)) {
            first.into_iter().for_each(|job| job.reject(why.clone()));
        }
    }

    /// Queues tickets of one job of `futures` futures, so that several workers can draw from it. The first ticket is
    /// refused or blocks as in [`submit`](Self::submit). The other tickets are left out if there is no room.
    pub fn submit_batch(&self, job: Arc<dyn Job<M>>, futures: usize) {
        const FUTURES_PER_TICKET: usize = 16;
        let more = futures.div_ceil(FUTURES_PER_TICKET).clamp(1, self.workers().max(1)) - 1;
        self.submit(job.clone());
        for _ in 0..more {
            if self.try_submit(job.clone()).is_err() {
                break; // the queued tickets suffice
            }
        }
    }

    /// Takes no more jobs, and answers the queued jobs with `Closed`. The workers drop their open futures, which are
    /// answered `Cancelled`, and end.
    pub fn close(&self) {
        self.is_closed.store(true, Release); // Release: pairs with the Acquire in `is_closed`
        for i in 0..self.inboxes.len() {
            self.close_inbox(i);
        }
    }

    /// Returns true after `close`.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Acquire) // Acquire: pairs with the Release in `close`
    }

    pub(crate) fn close_inbox(&self, i: usize) {
        let left = self.inboxes[i].close();
        self.inboxes[i].notifier.notify();
        left.iter().for_each(|job| job.reject(TaskError::Closed));
    }

    /// Returns true if a worker has nothing to do that has announced that it sleeps, with room for jobs.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_closed() && self.inboxes.iter().all(Inbox::is_surely_empty)
    }

    /// Like `is_idle`, for a worker without room. Queued jobs are for other workers. If all workers that could take
    /// them sleep, one is woken, because the thread that queued the job may have found this worker awake and woken
    /// none.
    pub(crate) fn is_for_others(&self) -> bool {
        if let Some(i) = self.inboxes.iter().position(|inbox| !inbox.is_surely_empty()) {
            self.wake_one(i);
        }
        !self.is_closed()
    }

    /// Returns the number of an inbox whose worker sleeps and cannot take its jobs, if there is such an inbox. Worker
    /// `index` asks, and its own inbox is left out.
    pub(crate) fn stranded(&self, index: usize) -> Option<usize> {
        let n = self.inboxes.len();
        let others = (1..n).map(|k| (index + k) % n);
        others.into_iter().find(|&i| !self.inboxes[i].is_empty() && self.inboxes[i].notifier.is_full())
    }

    /// Queues one or more jobs in one inbox.
    fn push_some(
        &self,
        jobs: &mut impl Iterator<Item = Queued<M>>,
        first: &mut Option<Queued<M>>,
        blocks: bool,
        worker: Option<usize>,
    ) -> Result<(), TaskError> {
        let n = self.inboxes.len();
        if n == 0 || self.is_closed() {
            return Err(TaskError::Closed);
        }
        // Tries the shorter of two inboxes, in turn, and then any that has room.
        let turn = self.turn.fetch_add(1, Relaxed);
        let (a, b) = (turn % n, (turn + 1) % n);
        // If the worker sleeps without room, another worker would have to fetch the job.
        let length = |i: usize| match &self.inboxes[i] {
            inbox if inbox.notifier.is_full() => usize::MAX,
            inbox => inbox.len.load(Relaxed),
        };
        let start = worker.map_or(if length(b) < length(a) { b } else { a }, |worker| worker % n);
        for k in 0..n {
            let i = (start + k) % n;
            if self.inboxes[i].push(jobs, first, false) {
                self.wake_one(i);
                return Ok(());
            }
        }
        if blocks {
            // The inbox of a worker that has ended is closed. Then this waits at another inbox.
            for k in 0..n {
                let i = (start + k) % n;
                if self.inboxes[i].push(jobs, first, true) {
                    self.wake_one(i);
                    return Ok(());
                }
            }
            return Err(TaskError::Closed);
        }
        Err(if self.is_closed() { TaskError::Closed } else { TaskError::Full })
    }

    /// Call when a job is in inbox `i`. Wakes the inbox's worker if it sleeps and has room. Otherwise wakes another
    /// such worker, which takes the job from there.
    fn wake_one(&self, i: usize) {
        let n = self.inboxes.len();
        let asleep =
            (0..n).map(|k| &self.inboxes[(i + k) % n].notifier).find(|notifier| notifier.is_asleep());
        if let Some(notifier) = asleep {
            notifier.notify();
        }
    }
}
