//! The scheduler: one loop that draws what happens next.
//!
//! Invariant: every choice comes from the seed. Nothing that differs between two runs (addresses, time, the order of
//! hash tables) decides anything.

use crate::isolation::Isolation;
use crate::judge::judge;
use crate::kind::Kind;
use crate::ledger::{Ledger, Report};
use crate::observer::Observer;
use crate::random::{Random, front_of};
use crate::submitter::{IDLE_ROWS, Sessions, SimulatedWorker, Submitter};
use crate::workload::{Entry, Workload};
use braiddb::metrics::Clock;
use braiddb::suspend::Seeded;
use braiddb::testing::SpinningWaits;
use braiddb::worker::{Refill, Step, Worker, WorkerOptions};
use braiddb::{ConcurrencyControl, Database, Options, Table};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The settings of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The seed, which decides everything.
    pub seed: u64,
    /// The number of workers. 0 means 1 to 3, as the seed says.
    pub workers: usize,
    /// The number of transactions to begin, not counting interactive ones.
    pub transactions: u64,
    /// The kind of database.
    pub kind: Kind,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { seed: 0, workers: 0, transactions: 300, kind: Kind::default() }
    }
}

/// Something that must not happen.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The workload's name.
    pub workload: &'static str,
    /// The seed that shows it.
    pub seed: u64,
    /// The description of the violation.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: seed {}: {}", self.workload, self.seed, self.what)
    }
}

impl std::error::Error for Violation {}

/// Runs one workload from one seed, and judges it by the scheme's promise. A panic is a violation too.
pub fn run<C: ConcurrencyControl>(
    entry: &Entry<C>,
    settings: &Settings,
    isolation: Isolation,
) -> Result<Report, Violation> {
    let ledger = Ledger::new(isolation);
    ledger.count(|report| report.workload = entry.name);
    // Anything that a panic leaves half-done is dropped with the simulation. Of the ledger, only the violation is read.
    let simulated = catch_unwind(AssertUnwindSafe(|| simulate(entry, settings, &ledger)));
    if let Err(payload) = simulated {
        let message = payload.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        ledger.check(false, || format!("a panic: {message}"));
    }
    match ledger.violation() {
        None => Ok(ledger.report()),
        Some(what) => Err(Violation { workload: entry.name, seed: settings.seed, what }),
    }
}

fn simulate<C: ConcurrencyControl>(entry: &Entry<C>, settings: &Settings, ledger: &Ledger) {
    let _spinning = SpinningWaits::begin();
    let mut random = Random::new(settings.seed);
    let mut simulation = Simulation::new(entry, settings, &mut random, ledger);
    simulation.play(settings.transactions, &mut random);
    simulation.finish();
    let history = ledger.take_history();
    ledger.check(entry.is_recorded != history.is_empty(), || "the workload records, or does not".into());
    if ledger.violation().is_none() && entry.is_recorded {
        match judge(&history, ledger.isolation()) {
            Ok(anomalies) => ledger.count(|report| report.anomalies += anomalies),
            Err(what) => ledger.check(false, || format!("the history is wrong: {what}")),
        }
        ledger.count(|report| report.histories += 1);
    }
}

/// Steps per transaction after which the engine counts as stuck.
const STEPS_PER_TRANSACTION_MAX: u64 = 20_000;
/// The maximum number of interactive transactions open at once.
const OBSERVERS_MAX: usize = 4;
/// The base of the session numbers of interactive transactions, above those of all workers.
const OBSERVER_SESSIONS: u32 = 1 << 31;
/// Rounds of cleaning up after which nothing may be left.
const TENDS_MAX: usize = 10_000;

/// A clock that advances whenever it is read.
pub(crate) struct Ticks {
    now_ns: AtomicU64,
    step_ns: u64,
}

impl Ticks {
    /// Makes a clock that advances by `step_ns` at each reading.
    pub(crate) fn of(step_ns: u64) -> Ticks {
        Ticks { now_ns: AtomicU64::new(0), step_ns }
    }
}

impl Default for Ticks {
    fn default() -> Ticks {
        Ticks::of(1000)
    }
}

impl Clock for Ticks {
    fn now_ns(&self) -> u64 {
        self.now_ns.fetch_add(self.step_ns, Ordering::Relaxed) // one thread
    }

    fn unix_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }
}

// Fields drop in this order: the transactions on the workers, those from outside, the database.
struct Simulation<C: ConcurrencyControl> {
    workers: Vec<SimulatedWorker<C>>,
    /// One per worker.
    sessions: Vec<Sessions>,
    observers: Vec<Observer<C>>,
    workload: Box<dyn Workload<C>>,
    /// Rows that leaked operations read.
    idle: Table<u64, u64>,
    leak_seed: u64,
    database: Database<C>,
    ledger: Ledger,
    batch_max: usize,
    /// Interactive transactions begun. Each is a session of its own.
    observed: u32,
}

impl<C: ConcurrencyControl> Simulation<C> {
    fn new(entry: &Entry<C>, settings: &Settings, random: &mut Random, ledger: &Ledger) -> Self {
        let front = front_of(settings.seed);
        let options = Options { workers: 0, front, ..settings.kind.options() };
        let database = Database::in_memory_with(options, Arc::new(Ticks::default()));
        let database: Database<C> = database.expect("memory for an empty database");
        // Comes before the workload, which may leave a transaction open.
        let idle = database.table("idle").expect("there is room for a table");
        let filled = database.transact(|tx| (0..IDLE_ROWS).try_for_each(|key| tx.insert(idle, key, key)));
        filled.expect("nothing else is open");
        let workload =
            (entry.make)(&database, random, ledger).expect("an empty database takes the first rows");
        let count = if settings.workers > 0 { settings.workers } else { random.between(1, 3) as usize };
        let batch_max = *random.one_of(&[1, 2, 4, 16]);
        let workers: Vec<_> = (0..count)
            .map(|_| {
                let refill = if random.chance(80) { Refill::Immediate } else { Refill::Strict };
                let options =
                    WorkerOptions { batch: batch_max.into(), batch_max, refill, ..WorkerOptions::default() };
                database.worker_with(Seeded::new(random.any()), options)
            })
            .collect();
        let sessions = workers.iter().map(|_| Sessions::default()).collect();
        Simulation {
            workers,
            sessions,
            observers: Vec::new(),
            workload,
            idle,
            leak_seed: settings.seed << 32,
            database,
            ledger: ledger.clone(),
            batch_max,
            observed: 0,
        }
    }

    fn play(&mut self, transactions: u64, random: &mut Random) {
        let begun = |me: &Self| me.ledger.report().transactions;
        for _ in 0..transactions * STEPS_PER_TRANSACTION_MAX {
            let open = self.workers.iter().any(|worker| worker.open() > 0);
            if begun(self) >= transactions && !open || self.ledger.violation().is_some() {
                return;
            }
            let at = random.below(self.workers.len() as u64) as usize;
            match random.below(1000) {
                0..150 if begun(self) < transactions => self.begin(at, random),
                150..152 => self.cancel(at, random),
                152..160 => {
                    let more = self.workers[at].maintain();
                    self.ledger.note(u64::from(more));
                }
                // An interactive transaction waits in place. It would wait forever for a commit that only this thread
                // can advance.
                160..172 if self.ledger.committing().get() == 0 => self.observe(random),
                // A transaction whose commit has failed may wait for an interactive transaction to end before it is run
                // again.
                160 => self.drop_observer(random),
                _ => self.step(at),
            }
        }
        self.ledger.check(false, || "transactions do not come to an end".into());
    }

    fn step(&mut self, at: usize) {
        let what = match self.workers[at].step() {
            Step::Idle => 0,
            Step::Stepped => 1,
            Step::Ended => {
                self.ledger.stamp_last(self.workers[at].last_commit_timestamp());
                2
            }
        };
        self.ledger.note((at as u64) << 8 | what);
    }

    fn begin(&mut self, at: usize, random: &mut Random) {
        if !self.workers[at].is_full() {
            let (worker, sessions, ledger) = (&mut self.workers[at], &mut self.sessions[at], &self.ledger);
            let (idle, leak_seed) = (self.idle, self.leak_seed);
            let mut submitter = Submitter { worker, at, sessions, ledger, idle, leak_seed };
            self.workload.begin(&mut submitter, random);
        }
    }

    fn cancel(&mut self, at: usize, random: &mut Random) {
        let session = random.below(self.batch_max as u64) as usize;
        let spawned = self.sessions[at].spawned(session);
        if spawned.is_some_and(|spawned| self.workers[at].cancel(spawned)) {
            self.ledger.count(|report| report.cancelled += 1);
            self.ledger.note(3);
        }
    }

    /// Opens an interactive transaction, or makes an open one look again and perhaps closes it.
    fn observe(&mut self, random: &mut Random) {
        if self.observers.len() < OBSERVERS_MAX && random.chance(50) {
            let opened = self.open_observer();
            return self.observers.extend(opened);
        }
        if self.observers.is_empty() {
            return;
        }
        let at = random.below(self.observers.len() as u64) as usize;
        self.look_again(at, random.chance(50));
    }

    fn drop_observer(&mut self, random: &mut Random) {
        if !self.observers.is_empty() {
            let at = random.below(self.observers.len() as u64) as usize;
            self.observers.swap_remove(at).abort();
        }
    }

    fn open_observer(&mut self) -> Option<Observer<C>> {
        self.observed += 1;
        let session = OBSERVER_SESSIONS + self.observed;
        Observer::open(&self.database, &*self.workload, session, &self.ledger)
    }

    fn look_again(&mut self, at: usize, then_closes: bool) {
        let observer = self.observers.swap_remove(at);
        let Some(observer) = observer.look_again(&*self.workload) else { return };
        if then_closes {
            observer.close();
        } else {
            self.observers.push(observer);
            let last = self.observers.len() - 1;
            self.observers.swap(at, last);
        }
    }

    /// Finishes when all transactions have ended: the open interactive transactions look once more, garbage is cleaned
    /// up, and the workload looks at what is left.
    fn finish(&mut self) {
        if self.ledger.violation().is_some() {
            return;
        }
        while !self.observers.is_empty() {
            self.look_again(0, true);
        }
        let garbage: usize = self.workers.iter().map(Worker::garbage).sum();
        let before = self.workload.before_cleaning(&self.database, garbage, self.workers.len());
        self.ledger.check(before.is_ok(), || format!("the look before cleaning failed: {before:?}"));
        for _ in 0..TENDS_MAX {
            for worker in &mut self.workers {
                worker.maintain();
            }
            if self.workers.iter().all(|worker| worker.garbage() == 0) {
                break;
            }
        }
        let garbage: usize = self.workers.iter().map(Worker::garbage).sum();
        self.ledger.check(garbage == 0, || format!("{garbage} changes are never cleaned up"));
        if let Some(last) = self.open_observer() {
            last.close();
        }
        let end = self.workload.end(&self.database);
        self.ledger.check(end.is_ok(), || format!("the look at the end failed: {end:?}"));
    }
}
