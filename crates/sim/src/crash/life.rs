//! One life of a durable database. It is opened, used by transactions on a few workers, flushed and checkpointed until
//! it ends. All of this happens in one thread, in an order that a seed decides.

use super::Mistake;
use super::oracle::{Found, judge};
use super::others::{give_room, take_room};
use super::plan::{Attempt, Plan};
use super::scratch::Scratch;
use super::tables::{Act, Row, TABLES_FIRST, TABLES_MAX, Table};
use super::trace::{Shared, Trace};
use crate::Random;
use crate::kind::Kind;
use crate::random::front_of;
use crate::scheduler::Ticks;
use crate::storage::SimulatedStorage;
use braiddb::metrics::LogCondition;
use braiddb::storage::{OpenMode, Storage};
use braiddb::suspend::Seeded;
use braiddb::testing::Stepped;
use braiddb::worker::{Step, Worker, WorkerOptions};
use braiddb::{ConcurrencyControl, Database, Durability, Error, Options, Result, Txn};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Steps after which transactions count as stuck.
const STEPS_MAX: u64 = 100_000;

/// How far the clock advances at each reading.
const CLOCK_STEP_NS: u64 = 1_000_000;

/// Free room that is scarce compared with what a checkpoint may need, but is enough for it.
const SCARCE_BYTES: u64 = 200 << 10;

/// Transactions that are enough to fill all segments of a log.
const FILLING_MAX: u64 = 200;

/// A database during a life. Fields drop in this order: transactions, then the log, then the rest.
struct Life<C: ConcurrencyControl> {
    workers: Vec<Worker<C, Seeded>>,
    stepped: Stepped<C>,
    database: Database<C>,
    tables: Vec<Table>,
    trace: Shared,
    storage: SimulatedStorage,
    mistake: Mistake,
    random: Random,
    pace: Pace,
    /// True if a sync has failed: nothing becomes durable any more.
    is_stopped: bool,
}

/// How often each act happens, per thousand steps.
struct Pace {
    begin: u64,
    flush: u64,
    checkpoint: u64,
}

impl Pace {
    fn random(random: &mut Random) -> Pace {
        Pace {
            begin: *random.one_of(&[40, 120]),
            flush: *random.one_of(&[5, 20, 60]),
            checkpoint: *random.one_of(&[20, 100, 250]),
        }
    }
}

/// The plan of a life.
#[derive(Clone, Copy)]
pub(super) struct Course {
    pub(super) seed: u64,
    pub(super) transactions: u64,
    pub(super) mistake: Mistake,
    /// The disk may fail during the life.
    pub(super) may_fail: bool,
    /// From time to time, other users of the device take all its room.
    pub(super) others: bool,
    /// After a failure the database is opened again on the same machine.
    pub(super) reopens: bool,
    /// The database is closed at the end.
    pub(super) closes: bool,
    /// The kind of database, which says the kind of index of new tables.
    pub(super) kind: Kind,
}

/// Opens a database, with options that the seed chooses.
pub(super) fn open<C: ConcurrencyControl>(
    storage: &SimulatedStorage,
    mistake: Mistake,
    seed: u64,
    kind: Kind,
) -> Result<(Database<C>, Stepped<C>)> {
    let mut random = Random::new(seed);
    let options = Options {
        workers: 0,
        front: front_of(seed),
        log_segment_bytes: *random.one_of(&[4096, 4096, 8192, 16384]),
        log_buffer_bytes: *random.one_of(&[2048, 8192]),
        log_lag_ms: u64::MAX,
        // The wait never ends, or it ends after some readings of the clock, so that waiting for a stalled log is given
        // up.
        log_wait_ms: *random.one_of(&[0, 20]),
        // A file of rows gets a row or two, some rows, or all.
        checkpoint_range_bytes: *random.one_of(&[80, 300, 1000, u64::MAX]),
        ..kind.options()
    };
    let storage: Arc<dyn Storage> = match mistake {
        Mistake::Storage(careless) => Arc::new(careless.over(storage)),
        _ => Arc::new(storage.clone()),
    };
    Database::open_stepped(storage, options, Arc::new(Ticks::of(CLOCK_STEP_NS)), mistake.of_engine())
}

/// Lives through a course on this storage and returns the trace. The life before it ended at `boundary`. An error is
/// something that must not happen.
pub(super) fn live<C: ConcurrencyControl>(
    storage: &SimulatedStorage,
    before: &Trace,
    boundary: u64,
    course: &Course,
) -> Result<Trace, String> {
    let mut opened = open::<C>(storage, course.mistake, course.seed, course.kind);
    if opened.is_err() && course.may_fail {
        if !course.reopens {
            return Ok(before.clone());
        }
        storage.heal();
        opened = open::<C>(storage, course.mistake, course.seed, course.kind);
    }
    let (database, stepped) = opened.map_err(|error| format!("the database cannot be opened: {error}"))?;
    let found = judge(before, boundary, &database)?;
    let mut trace = before.afterwards(boundary, &found.present, storage.boundary());
    trace.tables.truncate(found.tables.len());
    trace.renames.clone_from(&found.renames);
    trace.scratch = vec![(found.scratch, Some(0))];
    let trace = Rc::new(RefCell::new(trace));
    let mut life = Life::new(storage, database, stepped, found, trace.clone(), course);
    life.play(course);
    if course.may_fail {
        life.outlive_faults();
    }
    if course.others {
        life.outlive_others();
    }
    let is_closed = life.end(course.closes);
    let mut trace = trace.take();
    trace.closed = is_closed.then(|| (storage.boundary(), u64::MAX));
    trace.violation.clone().map_or(Ok(trace), Err)
}

impl<C: ConcurrencyControl> Life<C> {
    fn new(
        storage: &SimulatedStorage,
        database: Database<C>,
        stepped: Stepped<C>,
        found: Found,
        trace: Shared,
        course: &Course,
    ) -> Life<C> {
        let mut random = Random::new(course.seed ^ 0x11fe);
        let batch = *random.one_of(&[1, 2, 4, 8]);
        let worker = |_| {
            let options = WorkerOptions { batch: batch.into(), batch_max: batch, ..WorkerOptions::default() };
            database.worker_with(Seeded::new(random.any()), options)
        };
        let workers = (0..1 + course.seed % 3).map(worker).collect();
        let pace = Pace::random(&mut random);
        let (storage, tables, mistake) = (storage.clone(), found.tables, course.mistake);
        let mut life = Life {
            workers,
            stepped,
            database,
            tables,
            trace,
            storage,
            mistake,
            random,
            pace,
            is_stopped: false,
        };
        if found.present.is_empty() {
            life.found();
        }
        life
    }

    /// Makes the first tables and the accounts.
    fn found(&mut self) {
        while self.tables.len() < TABLES_FIRST && self.make_table() {}
        if self.tables.len() >= TABLES_FIRST {
            self.spawn(0, Plan::Found, Durability::Sync);
            self.drain();
        }
    }

    /// Runs the transactions of the course, among flushes, checkpoints and other acts, until all have ended.
    fn play(&mut self, course: &Course) {
        let mut left = course.transactions;
        for _ in 0..STEPS_MAX {
            if left == 0 || self.tables.len() < TABLES_FIRST {
                break;
            }
            let at = self.random.below(self.workers.len() as u64) as usize;
            let Pace { begin, flush, checkpoint } = self.pace;
            let choice = self.random.below(1000);
            if choice < begin {
                if !self.workers[at].is_full() {
                    left -= 1;
                    let plan = Plan::random(&mut self.random, self.tables.len());
                    let is_async = self.random.chance(20);
                    self.spawn(at, plan, if is_async { Durability::Async } else { Durability::Sync });
                }
            } else if choice < begin + flush {
                self.flush();
            } else if choice < begin + flush + checkpoint {
                self.checkpoint();
            } else if choice > 995 && self.tables.len() < TABLES_MAX {
                self.make_table();
            } else if choice > 993 {
                self.rename_table();
            } else if choice > 990 {
                self.workers[at].maintain();
            } else if choice > 986 {
                self.change_scratch();
            } else if choice > 980 && course.others {
                match self.random.chance(50) {
                    true => take_room(&self.storage, *self.random.one_of(&[0, 0, SCARCE_BYTES])),
                    false => give_room(&self.storage),
                }
            } else {
                self.step(at);
            }
        }
        self.drain();
    }

    /// Begins a transaction, which is judged by the durability `noted`. Returns its number.
    fn spawn(&mut self, at: usize, plan: Plan, noted: Durability) -> u64 {
        let is_async = match self.mistake {
            Mistake::AsyncAsSync => true,
            Mistake::ReadersAsyncAsSync => plan.is_read_only(),
            _ => false,
        };
        let durability = if is_async { Durability::Async } else { noted };
        let number = self.trace.borrow_mut().number(noted);
        let (trace, tables) = (self.trace.clone(), self.tables.clone());
        let ending = Ending { trace: trace.clone(), number };
        let body = async move |tx: &Txn<C>| {
            let attempt = Attempt { tx, tables: &tables, trace: &ending.trace, number };
            ending.trace.borrow_mut().begins(number);
            let result = attempt.perform(&plan, durability).await;
            ending.trace.borrow_mut().returns(number, result.is_ok());
            result
        };
        let storage = self.storage.clone();
        let answer = move |result| trace.borrow_mut().is_answered(number, result, storage.boundary());
        self.workers[at].spawn(body, answer).expect("there was room");
        number
    }

    fn step(&mut self, at: usize) {
        let worker = &mut self.workers[at];
        if worker.step() == Step::Ended {
            self.trace.borrow_mut().stamp(worker.last_commit_timestamp());
        }
    }

    /// Flushes the log. Once a sync has failed, nothing can be promised.
    fn flush(&mut self) -> bool {
        let flushed = self.stepped.flush();
        let condition = self.database.statistics().log_condition;
        let mut trace = self.trace.borrow_mut();
        trace.is_stalled = matches!(condition, LogCondition::Stalled { .. });
        match flushed {
            Ok(()) => {
                let boundary = self.storage.boundary();
                let renames = &mut trace.renames;
                renames.iter_mut().for_each(|(.., durable)| *durable = durable.or(Some(boundary)));
                trace.tables.iter_mut().for_each(|durable| *durable = durable.or(Some(boundary)));
                trace.scratch.iter_mut().for_each(|(_, durable)| *durable = durable.or(Some(boundary)));
                true
            }
            Err(error) => {
                let is_stopped = matches!(&error, Error::Log(braiddb::wal::Error::Stopped(_)));
                trace.check(is_stopped || !self.is_stopped, || format!("a stopped log says: {error}"));
                if is_stopped && !self.is_stopped {
                    self.is_stopped = true;
                    trace.is_stopped = true;
                }
                false
            }
        }
    }

    /// Continues a checkpoint, unless a commit is under way: the checkpoint would wait for it in place.
    fn checkpoint(&mut self) {
        if self.trace.borrow().has_committing() {
            return;
        }
        // Often several steps at once, because a checkpoint of many ranges takes many steps.
        let steps = *self.random.one_of(&[1, 1, 4, 16]);
        let mut stepped = (0..steps).map(|_| self.stepped.checkpoint_step());
        match stepped.find(|step| !matches!(step, Ok(false))).unwrap_or(Ok(false)) {
            Ok(false) => {}
            Ok(true) => {
                let names = self.storage.list().unwrap_or_default();
                let newest =
                    manifest_numbers(&names).next_back().map(|number| (number, self.storage.boundary()));
                self.trace.borrow_mut().checkpoints.extend(newest);
            }
            // The next step begins a new checkpoint. If the error has stopped the log, a flush says so.
            Err(_) => _ = self.flush(),
        }
    }

    /// Makes the next table, after a flush: while the call waits for room in the log, nothing else would flush.
    fn make_table(&mut self) -> bool {
        if !self.flush() {
            return false;
        }
        let Ok(table) = Table::open(&self.database, self.tables.len()) else { return false };
        self.tables.push(table);
        self.trace.borrow_mut().tables.push(None);
        true
    }

    /// Renames a table, also after a flush.
    fn rename_table(&mut self) {
        let number = self.random.below(self.tables.len() as u64) as usize;
        let renames = Table::renames(&self.database, number).expect("it is there");
        if self.flush() && Table::rename(&self.database, number, renames).is_ok() {
            self.trace.borrow_mut().renames.push((number, renames + 1, None));
        }
    }

    /// Makes, fills, clears or drops the scratch table, when no transaction is open.
    fn change_scratch(&mut self) {
        self.drain();
        let is_idle = self.workers.iter().all(|worker| worker.open() == 0);
        if !is_idle || !self.flush() {
            return;
        }
        let number = self.trace.borrow_mut().number(Durability::Async);
        let state = self.trace.borrow().scratch.last().map_or_else(Scratch::default, |(state, _)| *state);
        if let Ok(state) = state.change(&self.database, number, &mut self.random) {
            self.trace.borrow_mut().scratch.push((state, None));
        }
    }

    /// Continues until all transactions have ended and been answered, or the log makes no progress.
    fn drain(&mut self) {
        for round in 0..STEPS_MAX {
            let is_idle = self.workers.iter().all(|worker| worker.open() == 0);
            if is_idle && (self.workers.iter().all(|worker| worker.held() == 0)) {
                return;
            }
            for at in 0..self.workers.len() {
                self.step(at);
            }
            if round % 64 == 63 && !self.flush() && !self.is_stopped {
                // The disk refuses for now. The transactions that wait for it continue later, or give up waiting.
                if round > 2048 {
                    return;
                }
            }
        }
        self.trace.borrow_mut().check(false, || "transactions do not come to an end".into());
    }

    /// Heals the disk. Unless a sync has failed, everything continues. After a failed sync reads continue, and nothing
    /// commits.
    fn outlive_faults(&mut self) {
        self.storage.heal();
        let is_flushed = self.flush();
        self.trace.borrow_mut().check(is_flushed || self.is_stopped, || "a healed disk is refused".into());
        self.drain();
        if self.tables.len() < TABLES_FIRST {
            return;
        }
        let row = Row { table: TABLES_FIRST - 1, key: 99 };
        for (plan, durability, goes_on) in [
            (Plan::Write(vec![(Act::Put, row, 20)]), Durability::Sync, !self.is_stopped),
            (Plan::Read(vec![row]), Durability::Async, true),
        ] {
            let number = self.spawn(0, plan, durability);
            self.drain();
            let mut trace = self.trace.borrow_mut();
            let answer = trace.of(number).answer.clone();
            let is_kept = answer.as_ref().is_some_and(Result::is_ok) == goes_on;
            let stopped = self.is_stopped;
            trace.check(is_kept, || {
                format!("transaction {number}, stopped: {stopped}, is answered {answer:?}")
            });
        }
    }

    /// Lets other users take all room except the reserve. Once the log is full, checkpoints must still continue, and
    /// must give up enough of the log for transactions to continue.
    fn outlive_others(&mut self) {
        give_room(&self.storage);
        if self.tables.len() >= TABLES_FIRST && self.checkpoint_whole().is_ok() && self.has_reserve() {
            let is_alike = self.has_segments_alike();
            take_room(&self.storage, 0);
            let refused = (0..FILLING_MAX).any(|_| self.put().is_err());
            self.trace.borrow_mut().check(refused, || "a log needs no room".into());
            // Two checkpoints: an older one may have been kept, or none.
            let made = (0..2).try_for_each(|_| self.checkpoint_whole());
            let room = self.database.statistics().room;
            self.trace.borrow_mut().check(made.is_ok(), || format!("with {room:?}: {made:?}"));
            let answer = self.put();
            let goes_on = answer.is_ok() || !is_alike;
            self.trace.borrow_mut().check(goes_on, || format!("with a shorter log: {answer:?}"));
        }
        give_room(&self.storage);
        self.flush();
    }

    /// Returns true if each segment that is given up makes room for another segment: no segment is from a life with
    /// shorter segments.
    fn has_segments_alike(&self) -> bool {
        let names = self.storage.list().expect("the disk does not fail");
        let len_bytes = |name: &String| {
            let file = self.storage.open(name, OpenMode::Read).expect("it is there");
            file.len_bytes().expect("the disk does not fail")
        };
        let mut segments = names.iter().filter(|name| name.starts_with("log-")).map(len_bytes);
        let first = segments.next();
        segments.all(|bytes| Some(bytes) == first)
    }

    /// Lets other users leave little room. Returns true if as much is kept back as the next checkpoint may need.
    fn has_reserve(&mut self) -> bool {
        take_room(&self.storage, SCARCE_BYTES);
        let is_flushed = self.flush();
        // Also false if nothing is kept back, which is a planted error.
        is_flushed && !self.database.statistics().room.is_short
    }

    /// Commits a row and returns the answer.
    fn put(&mut self) -> Result<(), String> {
        let row = Row { table: TABLES_FIRST - 1, key: 98 };
        let number = self.spawn(0, Plan::Write(vec![(Act::Put, row, 1500)]), Durability::Sync);
        self.drain();
        let answer = self.trace.borrow_mut().of(number).answer.clone();
        answer.unwrap_or_else(|| Err("there is no answer".into()))
    }

    /// Makes a checkpoint that begins now, after any checkpoint that is under way.
    fn checkpoint_whole(&mut self) -> Result<(), String> {
        for _ in 0..2 {
            while !self.stepped.checkpoint_step().map_err(|error| error.to_string())? {
                self.flush();
            }
            self.flush();
        }
        Ok(())
    }

    /// Ends the life as a killed process would, or by an orderly close. Returns true if the close succeeded. After a
    /// failed sync, the end is like a crash.
    fn end(self, closes: bool) -> bool {
        let Life { workers, stepped, database, mistake, .. } = self;
        drop(workers);
        let is_closed = if closes {
            mistake.of_engine().close(stepped).is_ok()
        } else {
            drop(stepped);
            false
        };
        drop(database);
        is_closed
    }
}

/// Travels with a transaction and is dropped when the transaction has ended.
struct Ending {
    trace: Shared,
    number: u64,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.trace.borrow_mut().ends(self.number);
    }
}

/// Returns the numbers of the checkpoints whose manifests have these names. They ascend if the names do.
pub(super) fn manifest_numbers(names: &[String]) -> impl DoubleEndedIterator<Item = u64> {
    names.iter().filter_map(|name| name.strip_prefix("checkpoint-")?.parse().ok())
}
