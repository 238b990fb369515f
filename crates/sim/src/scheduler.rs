//! The scheduler: one loop that draws what happens next.
//!
//! Invariant: every choice comes from the seed; nothing that differs between two runs (addresses, time, hash
//! tables' order) decides anything.

use crate::ledger::{Ledger, Report};
use crate::random::Random;
use crate::workload::{MakeWorkload, Workload};
use braiddb::suspend::Seeded;
use braiddb::{
    Clock, Database, Options, Refill, Result, Snapshot, Step, Transaction, Txn, Worker, WorkerOptions,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Decides everything.
    pub seed: u64,
    /// Workers; 0: from 1 to 3, as the seed says.
    pub workers: usize,
    /// Transactions to begin, interactive ones not counted.
    pub transactions: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { seed: 0, workers: 0, transactions: 300 }
    }
}

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The workload.
    pub workload: &'static str,
    /// The seed that shows it.
    pub seed: u64,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: seed {}: {}", self.workload, self.seed, self.what)
    }
}

impl std::error::Error for Violation {}

/// Runs one workload from one seed.
pub fn run(make: MakeWorkload, settings: &Settings) -> Result<Report, Violation> {
    let mut random = Random::new(settings.seed);
    let ledger = Ledger::default();
    let mut simulation = Simulation::new(make, settings, &mut random, &ledger);
    let name = simulation.workload.name();
    ledger.count(|report| report.workload = name);
    simulation.play(settings.transactions, &mut random);
    simulation.finish();
    match ledger.violation() {
        None => Ok(ledger.report()),
        Some(what) => Err(Violation { workload: name, seed: settings.seed, what }),
    }
}

/// Steps per transaction after which the engine is taken to be stuck.
const STEPS_PER_TRANSACTION_MAX: u64 = 20_000;
/// Interactive transactions open at once.
const OBSERVERS_MAX: usize = 4;
/// Housekeeping calls until nothing is left to do.
const TENDS_MAX: usize = 10_000;

type SimulatedWorker = Worker<Snapshot, Seeded>;

/// Time that goes on when it is looked at.
#[derive(Default)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1000, Ordering::Relaxed) // one thread
    }
}

/// Where a workload's next transaction goes.
pub struct Stage<'s> {
    worker: &'s mut SimulatedWorker,
    ledger: &'s Ledger,
}

impl fmt::Debug for Stage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.worker.fmt(f)
    }
}

impl Stage<'_> {
    /// Begins a transaction. `committed` is called when it has committed, before any other one moves.
    pub fn spawn<R: 'static>(
        &mut self,
        body: impl AsyncFnMut(&Txn) -> Result<R> + 'static,
        committed: impl FnOnce(R) + 'static,
    ) {
        let ledger = self.ledger.clone();
        let slot = self.worker.spawn(body, move |result| {
            if let Some(value) = ledger.ended(result) {
                committed(value);
            }
        });
        assert!(slot.is_some(), "the scheduler has looked for room");
        self.ledger.count(|report| report.transactions += 1);
    }
}

/// An interactive transaction, and what it saw when it began.
struct Observer {
    transaction: Transaction,
    first: u64,
}

// Fields drop in this order: the transactions on the workers, those from outside, the database.
struct Simulation {
    workers: Vec<SimulatedWorker>,
    observers: Vec<Observer>,
    workload: Box<dyn Workload>,
    database: Database,
    ledger: Ledger,
    batch_max: usize,
}

impl Simulation {
    fn new(make: MakeWorkload, settings: &Settings, random: &mut Random, ledger: &Ledger) -> Simulation {
        let options = Options { workers: 0, ..Options::default() };
        let database = Database::in_memory_with(options, Arc::new(Ticks::default()));
        let database: Database = database.expect("memory for an empty database");
        let workload = make(&database, random, ledger).expect("an empty database takes the first rows");
        let count = if settings.workers > 0 { settings.workers } else { random.between(1, 3) as usize };
        let batch_max = *random.one_of(&[1, 2, 4, 16]);
        let workers = (0..count)
            .map(|_| {
                let refill = if random.chance(80) { Refill::Immediate } else { Refill::Strict };
                let options =
                    WorkerOptions { batch: batch_max, batch_max, refill, ..WorkerOptions::default() };
                database.worker_with(Seeded::new(random.any()), options)
            })
            .collect();
        Simulation { workers, observers: Vec::new(), workload, database, ledger: ledger.clone(), batch_max }
    }

    fn play(&mut self, transactions: u64, random: &mut Random) {
        let begun = |me: &Simulation| me.ledger.report().transactions;
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
                    let more = self.workers[at].tend();
                    self.ledger.note(u64::from(more));
                }
                160..172 => self.observe(random),
                _ => self.step(at),
            }
        }
        self.ledger.check(false, || "transactions do not come to an end".into());
    }

    fn step(&mut self, at: usize) {
        let what = match self.workers[at].step() {
            Step::Idle => 0,
            Step::Stepped => 1,
            Step::Ended => 2,
        };
        self.ledger.note((at as u64) << 8 | what);
    }

    fn begin(&mut self, at: usize, random: &mut Random) {
        if !self.workers[at].is_full() {
            self.workload.begin(&mut Stage { worker: &mut self.workers[at], ledger: &self.ledger }, random);
        }
    }

    fn cancel(&mut self, at: usize, random: &mut Random) {
        let slot = random.below(self.batch_max as u64) as usize;
        if self.workers[at].cancel(slot) {
            self.ledger.count(|report| report.cancelled += 1);
            self.ledger.note(3);
        }
    }

    /// Opens an interactive transaction, or has an open one look again, and perhaps closes it.
    fn observe(&mut self, random: &mut Random) {
        if self.observers.len() < OBSERVERS_MAX && random.chance(50) {
            let transaction = self.database.begin().expect("few transactions are open");
            let first = self.look(&transaction);
            return self.observers.push(Observer { transaction, first });
        }
        if self.observers.is_empty() {
            return;
        }
        let at = random.below(self.observers.len() as u64) as usize;
        self.look_again(at);
        if random.chance(50) {
            self.close(at);
        }
    }

    fn look(&self, transaction: &Transaction) -> u64 {
        let seen = self.workload.look(transaction);
        self.ledger.check(seen.is_ok(), || format!("a look from outside failed: {seen:?}"));
        let seen = seen.unwrap_or(0);
        self.ledger.count(|report| report.looks += 1);
        self.ledger.note(seen);
        seen
    }

    fn look_again(&self, at: usize) {
        let Observer { transaction, first } = &self.observers[at];
        let seen = self.look(transaction);
        self.ledger.check(seen == *first, || "an interactive transaction's snapshot has changed".into());
    }

    fn close(&mut self, at: usize) {
        let Observer { transaction, .. } = self.observers.swap_remove(at);
        let ended = transaction.commit();
        self.ledger.check(ended.is_ok(), || format!("a reader could not commit: {ended:?}"));
    }

    /// When all have ended: what is open from outside looks once more, garbage goes, and the workload looks at
    /// what is left.
    fn finish(&mut self) {
        if self.ledger.violation().is_some() {
            return;
        }
        while !self.observers.is_empty() {
            self.look_again(0);
            self.close(0);
        }
        let garbage: usize = self.workers.iter().map(Worker::garbage).sum();
        let before = self.workload.before_cleaning(&self.database, garbage, self.workers.len());
        self.ledger.check(before.is_ok(), || format!("the look before cleaning failed: {before:?}"));
        for _ in 0..TENDS_MAX {
            for worker in &mut self.workers {
                worker.tend();
            }
            if self.workers.iter().all(|worker| worker.garbage() == 0) {
                break;
            }
        }
        let garbage: usize = self.workers.iter().map(Worker::garbage).sum();
        self.ledger.check(garbage == 0, || format!("{garbage} changes are never cleaned up"));
        let end = self.workload.end(&self.database);
        self.ledger.check(end.is_ok(), || format!("the look at the end failed: {end:?}"));
    }
}
