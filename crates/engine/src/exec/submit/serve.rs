//! The main loop of a worker thread: fill the batch from the inbox, do a round, clean up, sleep.

use crate::exec::contract::{Host, Operations};
use crate::exec::core::WorkerOptions;
use crate::exec::panics::quietly;
use crate::exec::submit::handle::TaskError;
use crate::exec::submit::inbox::{Executor, Queued};
use crate::exec::submit::job::Started;
use crate::exec::submit::served_by::ServedBy;
use crate::exec::worker::Worker;
use crate::suspend::Suspend;
use std::collections::VecDeque;

/// How many times an idle worker looks for work before it cleans up and sleeps.
const LOOKS_BEFORE_SLEEP: u32 = if cfg!(braid_shuttle) { 1 } else { 1000 };
/// How many times a worker fills its places from its own inbox before it looks for jobs that a worker without room has
/// left. The number is small enough that such jobs wait for microseconds, and large enough that the look costs nothing.
const FILLS_PER_LOOK: u32 = if cfg!(braid_shuttle) { 2 } else { 64 };
/// How many jobs of several futures a worker draws from in turn. While it has this many, it takes no more jobs.
const TICKETS_MAX: usize = 64;

impl<M: Operations + 'static> Executor<M> {
    /// Runs worker number `index` on the calling thread until the executor is closed. Futures that are still open then
    /// are dropped, and answered `Cancelled`. The thread waits until held outputs are released, and answers them. If
    /// the worker fails because of a panic of `host` or of its operations, its jobs are answered, so that no thread
    /// waits for them, and the panic is passed on.
    ///
    /// The executor must not move meanwhile; the borrow ensures this.
    pub fn serve<H, S>(&self, index: usize, host: H, policy: S, options: WorkerOptions)
    where
        H: Host<Operations = M>,
        S: Suspend,
    {
        assert!(index < self.workers(), "worker {index} of {}", self.workers());
        let notifier = self.inboxes[index].notifier.clone();
        let mut server = Server {
            worker: Worker::with_bell(host, policy, options, notifier),
            executor: self,
            index,
            tickets: VecDeque::with_capacity(TICKETS_MAX),
            taken: Vec::new(),
            is_jobs_turn: false,
            fills: 0,
            served_before: ServedBy::of(self).enter(),
        };
        server.run();
    }
}

struct Server<'e, H: Host, S: Suspend> {
    worker: Worker<H, S>, // dropped after `drop` below, which answers what was not started
    executor: &'e Executor<H::Operations>,
    index: usize,
    /// Jobs that have more futures. The worker draws from each in turn.
    tickets: VecDeque<Queued<H::Operations>>,
    /// Jobs just taken. Empty between rounds.
    taken: Vec<Queued<H::Operations>>,
    /// If there is one place, jobs and tickets take turns.
    is_jobs_turn: bool,
    /// How many fills there were since the last look for what others have left.
    fills: u32,
    served_before: ServedBy,
}

impl<H: Host, S: Suspend> Server<'_, H, S> {
    fn run(&mut self) {
        let mut looks = 0;
        while !self.executor.is_closed() {
            self.fill();
            if self.worker.round() {
                looks = 0;
                continue;
            }
            // Nothing runs: what is open is parked, and what has ended is held.
            if self.steal() {
                looks = 0;
            } else if looks < LOOKS_BEFORE_SLEEP && self.worker.held() == 0 {
                // Held outputs take longer than all these looks, and the thread that releases them may need this
                // processor.
                looks += 1;
                std::hint::spin_loop();
            } else if !self.worker.maintain() {
                self.sleep();
                looks = 0;
            }
        }
        self.worker.maintain(); // records the last counts
    }

    fn sleep(&mut self) {
        let (executor, has_room) = (self.executor, !self.worker.is_full());
        let inbox = &executor.inboxes[self.index];
        if !has_room && !self.tickets.is_empty() && !inbox.put_back(&mut self.tickets) {
            return; // closed
        }
        // A worker without room (too many futures are parked, or held) stays awake only for wakers, not for jobs.
        let is_idle = || if has_room { executor.is_idle() } else { executor.is_for_others() };
        let at_most = self.worker.sleep_max();
        inbox.notifier.sleep(has_room, at_most, || is_idle() && self.worker.awaits_release());
    }

    /// Fills the free places: half from the inbox and half from the tickets.
    fn fill(&mut self) {
        self.fills += 1;
        if self.fills >= FILLS_PER_LOOK {
            self.fills = 0;
            self.relieve();
        }
        let inbox = &self.executor.inboxes[self.index];
        if inbox.is_empty() && self.tickets.is_empty() {
            return;
        }
        let room = self.worker.room();
        if room == 0 {
            return;
        }
        let jobs = if self.tickets.is_empty() { room } else { (room + usize::from(self.is_jobs_turn)) / 2 };
        self.is_jobs_turn = !self.is_jobs_turn;
        if self.tickets.len() < TICKETS_MAX {
            inbox.pop(jobs.min(TICKETS_MAX - self.tickets.len()), &mut self.taken);
        }
        self.start_taken();
        while !self.tickets.is_empty() && !self.worker.is_full() {
            if let Some(job) = self.tickets.pop_front() {
                self.start(job);
            }
        }
    }

    /// Takes jobs from a worker that has no room for them. A worker that is never idle does this too. Otherwise those
    /// jobs would have to wait until it runs out of jobs.
    fn relieve(&mut self) {
        let room = self.worker.room().min(TICKETS_MAX.saturating_sub(self.tickets.len()));
        if room > 0
            && let Some(i) = self.executor.stranded(self.index)
        {
            self.executor.inboxes[i].steal(room, &mut self.taken);
            self.start_taken();
        }
    }

    /// Takes jobs from other workers' inboxes for an idle worker. Returns true if it got any.
    fn steal(&mut self) -> bool {
        let (n, room) = (self.executor.workers(), self.worker.room().min(TICKETS_MAX));
        if room == 0 || !self.tickets.is_empty() {
            return false;
        }
        for k in 1..n {
            self.executor.inboxes[(self.index + k) % n].steal(room, &mut self.taken);
            if !self.taken.is_empty() {
                self.start_taken();
                return true;
            }
        }
        false
    }

    fn start_taken(&mut self) {
        let mut taken = std::mem::take(&mut self.taken);
        // A single job has nothing to overlap with. Sequential execution has the least latency then.
        let is_alone = taken.len() == 1 && self.worker.open() == 0 && self.tickets.is_empty();
        if is_alone {
            self.worker.set_alone(true);
        }
        taken.drain(..).for_each(|job| self.start(job));
        if is_alone {
            self.worker.set_alone(false);
        }
        self.taken = taken; // keeps the memory
    }

    /// Starts a future of the job. There must be room.
    fn start(&mut self, job: Queued<H::Operations>) {
        let (again, mut started) = (job.clone(), None);
        self.worker.place(|vacancy| started = Some(job.start(vacancy)));
        if started != Some(Started::Last) {
            self.tickets.push_back(again); // the job has more futures, or there was no room after all
        } else {
            let _ = quietly(|| drop(again)); // perhaps the last copy: then a user's value is dropped
        }
    }
}

impl<H: Host, S: Suspend> Drop for Server<'_, H, S> {
    fn drop(&mut self) {
        // A worker that failed takes no more jobs. The other workers have their own inboxes.
        self.executor.close_inbox(self.index);
        let left = self.taken.drain(..).chain(self.tickets.drain(..));
        left.for_each(|job| job.reject(TaskError::Closed));
        self.worker.finish(); // while the thread still counts as a worker's
        self.served_before.enter();
    }
}
