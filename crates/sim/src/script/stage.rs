//! The stage: one run of a script on the real engine, in a database of its own, on one thread.
//!
//! Each transaction of the script is a closure in a worker's slot that waits at a gate before each of its steps. A
//! schedule opens the gates one by one:
//!
//! 1. A move opens a transaction's gate.
//! 2. The workers are stepped until all transactions are at their gates or have ended.
//! 3. A transaction that does not arrive in time waits for another transaction: for a lock, or for a commit that is
//!    under way. It is left waiting while the schedule continues, and passes the gates that were opened meanwhile as
//!    soon as it can.
//!
//! A schedule may also ask for a single round of the workers. The next transaction then meets this transaction within
//! an operation.

use super::actor::{Actor, SPREAD, Values, act, engine_key};
use super::history::{Described, History};
use super::policy::{EveryMiss, Phases, Still};
use super::program::{Place, Script, State};
use crate::kind::Kind;
use crate::leak::Leaks;
use crate::random::{Random, front_of};
use braiddb::testing::SpinningWaits;
use braiddb::worker::{Step, Worker, WorkerOptions};
use braiddb::{ConcurrencyControl, Database, Error, Index, Options, ProjectionOptions, Result, Table, Txn};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// One move of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// This transaction takes a step, as far as it can.
    Step(u8),
    /// This transaction begins a step, and others move before it has finished the step: their operations meet half-way.
    Start(u8),
    /// This transaction's commit, which its last step has begun, continues by a phase, or looks again at what it waits
    /// for. The last of these moves takes it to its end. Each transaction then has a worker of its own.
    Phase(u8),
    /// Rows that no script sees are inserted between the keys, so that index nodes split.
    Fill,
    /// These rows are deleted, so that index nodes go away.
    Clear,
    /// Each worker cleans up.
    Tend,
}

impl Move {
    /// Returns the transaction whose step it is, if it is one.
    pub fn transaction(self) -> Option<u8> {
        match self {
            Move::Step(at) | Move::Start(at) | Move::Phase(at) => Some(at),
            Move::Fill | Move::Clear | Move::Tend => None,
        }
    }
}

/// The order of a run's moves, and where its transactions run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The moves in order. Each transaction has as many steps here as in its script.
    pub moves: Vec<Move>,
    /// The number of workers that the transactions are spread over.
    pub workers: usize,
    /// The seed, which decides how long commits stay between their phases.
    pub seed: u64,
    /// The differences from other runs.
    pub variant: Variant,
}

/// The differences of some runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// Transactions declare partitions, whether or not they need these. The seed chooses.
    pub declares: bool,
    /// Tables have an index by value, which is compared with them at the end.
    pub has_indexes: bool,
    /// Operations run where they are polled.
    pub in_place: bool,
    /// Scans read projections of the tables, if the scheme has snapshots to read them by.
    pub by_columns: bool,
    /// Beside their operations, transactions leak reads of the same rows.
    pub leaks: bool,
}

impl Variant {
    /// Returns the variant of a seed.
    pub(super) fn seeded(seed: u64) -> Variant {
        const ONE_OF_FOUR: u64 = 25;
        let mut random = Random::new(seed ^ 0x1d_97ac);
        let (has_indexes, in_place) = (random.chance(ONE_OF_FOUR), random.chance(ONE_OF_FOUR));
        let (by_columns, leaks) = (random.chance(ONE_OF_FOUR), random.chance(ONE_OF_FOUR));
        Variant { declares: seed.is_multiple_of(2), has_indexes, in_place, by_columns, leaks }
    }
}

impl std::fmt::Display for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "on {} workers, pauses of {}", self.workers, self.seed)?;
        let Variant { declares, has_indexes, in_place, by_columns, leaks } = self.variant;
        for (is_so, what) in [
            (declares, "declaring partitions"),
            (has_indexes, "with indexes"),
            (in_place, "in place"),
            (by_columns, "by columns"),
            (leaks, "leaking reads"),
        ] {
            if is_so {
                write!(f, ", {what}")?;
            }
        }
        write!(f, ":")?;
        for each in &self.moves {
            match each {
                Move::Step(transaction) => write!(f, " {transaction}")?,
                Move::Start(transaction) => write!(f, " {transaction}~")?,
                Move::Phase(transaction) => write!(f, " {transaction}'")?,
                other => write!(f, " {other:?}")?,
            }
        }
        Ok(())
    }
}

/// Runs the script under a scheme. An error says what the engine did that no transaction may do.
pub fn play<C: ConcurrencyControl>(
    script: &Script,
    schedule: &Schedule,
    kind: Kind,
) -> Result<History, String> {
    // Panics are caught so that a failure comes with its script. Nothing of the run is used afterwards.
    catch_unwind(AssertUnwindSafe(|| run::<C>(script, schedule, kind))).unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(format!("a panic: {message}"))
    })
}

fn run<C: ConcurrencyControl>(script: &Script, schedule: &Schedule, kind: Kind) -> Result<History, String> {
    let _spinning = SpinningWaits::begin();
    let Schedule { workers, seed, variant, .. } = *schedule;
    let mut stage = Stage::<C>::new(script, workers, seed, variant, kind)?;
    if schedule.moves.iter().any(|each| matches!(each, Move::Phase(_))) {
        stage.part_commits(&schedule.moves);
    }
    for each in &schedule.moves {
        stage.take(*each)?;
        stage.settle(match each {
            Move::Start(_) => 1,
            Move::Fill | Move::Clear => LOOKS_OF_FILL_MAX,
            Move::Step(_) | Move::Phase(_) | Move::Tend => LOOKS_MAX,
        });
    }
    stage.finish()
}

/// Rounds over the workers after which a transaction that has not reached its gate is left waiting. If it would have
/// arrived later, the only loss is that the run follows another schedule than the intended one.
const LOOKS_MAX: usize = 512;
/// The same limit for the rows that no script sees, which are many.
const LOOKS_OF_FILL_MAX: usize = 8192;
/// Rounds until everything has ended.
const LOOKS_AT_THE_END_MAX: usize = 100_000;
/// The maximum number of transactions open on a worker at once: those of a script, and the stage's own.
const OPEN_MAX: usize = super::text::TRANSACTIONS_MAX + 1;
/// The number of a script's keys in one partition, and the number of leading bits of the engine's keys that gives it.
const PARTITION_KEYS: u32 = 2;
const PARTITION_BITS: u32 = u64::BITS - (SPREAD * PARTITION_KEYS as u64).ilog2();
/// The maximum number of partitions that a transaction declares.
const DECLARED_MAX: u32 = 4;
/// Rows that a `Fill` inserts behind each key: enough to separate the keys' index nodes.
const FILL_ROWS: u64 = 24;

// Fields drop in this order: the transactions on the workers, then the database.
struct Stage<'s, C: ConcurrencyControl> {
    script: &'s Script,
    seed: u64,
    variant: Variant,
    workers: Vec<Worker<C, EveryMiss>>,
    /// One per worker.
    phases: Vec<Rc<Phases>>,
    /// The number of moves of this kind that are still to come, by transaction.
    phases_left: Vec<usize>,
    actors: Vec<Actor>,
    tables: Tables,
    /// Indexes by value, one per table, in some runs.
    indexes: Vec<ByValue>,
    /// Projections that scans read in some runs, one per table.
    columns: Rc<Vec<Values<C>>>,
    /// A frozen table without rows. In some runs it is read so that operations run where they are polled.
    idle: Option<Table<u64, i64>>,
    database: Database<C>,
    fault: Rc<RefCell<Option<String>>>,
    /// True while a transaction of the stage's own is open.
    is_filling: Rc<Cell<bool>>,
}

type Tables = Rc<Vec<Table<u64, i64>>>;
type ByValue = Index<i64, u64, i64>;

impl<'s, C: ConcurrencyControl> Stage<'s, C> {
    fn new(
        script: &'s Script,
        workers: usize,
        seed: u64,
        variant: Variant,
        kind: Kind,
    ) -> Result<Stage<'s, C>, String> {
        let options = Options { workers: 0, front: front_of(seed), ..kind.options() };
        let database: Database<C> = Database::in_memory_with(options, Arc::new(Still)).map_err(words)?;
        let open = |name: &String| database.partitioned_table(name, PARTITION_BITS);
        let tables: Result<Vec<_>> = script.tables.iter().map(open).collect();
        let tables = Rc::new(tables.map_err(words)?);
        let indexes = match variant.has_indexes {
            true => indexes(&database, &tables).map_err(words)?,
            false => Vec::new(),
        };
        let idle = variant.in_place.then(|| idle(&database)).transpose().map_err(words)?;
        let (clock, fault) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(None)));
        let actors = script.transactions.iter().map(|_| Actor::new(&clock, &fault)).collect();
        let mut stage = Stage {
            script,
            seed,
            variant,
            workers: Vec::new(),
            phases: (0..workers).map(|_| Rc::default()).collect(),
            phases_left: vec![0; script.transactions.len()],
            actors,
            tables,
            indexes,
            columns: Rc::default(),
            idle,
            database,
            fault,
            is_filling: Rc::default(),
        };
        for worker in 0..workers {
            let options = WorkerOptions {
                batch: OPEN_MAX.into(),
                batch_max: OPEN_MAX,
                parked_max: OPEN_MAX,
                ..WorkerOptions::default()
            };
            let policy = EveryMiss::new(seed ^ (worker as u64) << 32, &stage.phases[worker]);
            let mut worker = stage.database.worker_with(policy, options);
            worker.set_retries_max(0);
            stage.workers.push(worker);
        }
        stage.load().map_err(words)?;
        if variant.by_columns {
            stage.columns = Rc::new(columns(&stage.database, &stage.tables).map_err(words)?);
        }
        Ok(stage)
    }

    fn load(&mut self) -> Result<()> {
        let (script, tables) = (self.script, &self.tables);
        self.workers[0].run(async |tx| {
            for ((table, key), value) in &script.rows {
                tx.insert(tables[*table as usize], engine_key(*key), *value).await?;
            }
            for place in places(script) {
                for row in 0..u64::from(script.filler) {
                    let key = engine_key(place.1) + SPREAD / 2 + row;
                    tx.insert(tables[place.0 as usize], key, 0).await?;
                }
            }
            Ok(())
        })
    }

    /// Makes commits continue by the moves of a schedule, after the phase with which they begin.
    fn part_commits(&mut self, moves: &[Move]) {
        assert!(self.workers.len() >= self.script.transactions.len(), "a worker has one commit at most");
        for each in moves {
            if let Move::Phase(at) = each {
                self.phases_left[*at as usize] += 1;
            }
        }
        for (at, phases) in self.phases.iter().enumerate() {
            let is_parted = self.phases_left.get(at).is_some_and(|left| *left > 0);
            if is_parted {
                phases.part();
            }
        }
    }

    fn take(&mut self, next: Move) -> Result<(), String> {
        match next {
            Move::Step(transaction) | Move::Start(transaction) => self.step(transaction as usize)?,
            Move::Phase(transaction) => {
                let at = transaction as usize;
                self.phases_left[at] -= 1;
                self.phases[at].permit(self.phases_left[at] == 0);
            }
            Move::Fill => self.fill(true)?,
            Move::Clear => self.fill(false)?,
            Move::Tend => self.workers.iter_mut().for_each(|worker| {
                worker.maintain();
            }),
        }
        Ok(())
    }

    /// Opens the gate of a transaction. The first step also begins it.
    fn step(&mut self, at: usize) -> Result<(), String> {
        let actor = &self.actors[at];
        actor.gate.open();
        if !actor.begins() {
            return Ok(());
        }
        let (transaction, tables) = (self.script.transactions[at].clone(), self.tables.clone());
        let (inside, outside) = (actor.clone(), actor.clone());
        let (declared, idle, columns) = (self.declared(at), self.idle, self.columns.clone());
        let leak_seed = self.seed.wrapping_add(at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let leaks = self.variant.leaks.then(|| Leaks::always(leak_seed));
        let body = async move |tx: &Txn<C>| {
            act(tx, &transaction, (&tables, &columns), &declared, (idle, leaks.as_ref()), &inside).await
        };
        self.spawn(at, body, move |result| outside.end(result))
    }

    /// Returns keys whose partitions a transaction declares: none, or some of the first keys, whatever it needs.
    fn declared(&self, at: usize) -> Vec<u32> {
        if !self.variant.declares {
            return Vec::new();
        }
        let mut random = Random::new(self.seed.wrapping_add(at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let chosen = if random.chance(25) { 0 } else { random.below(1 << DECLARED_MAX) };
        (0..DECLARED_MAX).filter(|part| chosen >> part & 1 == 1).map(|part| part * PARTITION_KEYS).collect()
    }

    /// Inserts rows between the keys, or deletes them, in a transaction of the stage's own. Only one such transaction
    /// is open at a time, so that there is room for those of the script.
    fn fill(&mut self, puts: bool) -> Result<(), String> {
        if self.is_filling.replace(true) {
            return Ok(());
        }
        let (places, tables) = (places(self.script), self.tables.clone());
        let body = async move |tx: &Txn<C>| {
            for (table, key) in &places {
                for row in 1..=FILL_ROWS {
                    let (table, key) = (tables[*table as usize], engine_key(*key) + row);
                    if puts {
                        tx.put(table, key, 0).await?;
                    } else {
                        tx.delete(table, key).await?;
                    }
                }
            }
            Ok(())
        };
        let (fault, is_filling) = (self.fault.clone(), self.is_filling.clone());
        let end = move |result: Result<()>| {
            is_filling.set(false);
            match result {
                Ok(()) | Err(Error::Conflict | Error::Deadlock(_)) => {}
                Err(error) => *fault.borrow_mut() = Some(error.to_string()),
            }
        };
        self.spawn(self.workers.len() - 1, body, end)
    }

    fn spawn(
        &mut self,
        at: usize,
        body: impl AsyncFnMut(&Txn<C>) -> Result<()> + 'static,
        end: impl FnOnce(Result<()>) + 'static,
    ) -> Result<(), String> {
        let worker = at % self.workers.len();
        let spawned = self.workers[worker].spawn(body, end);
        spawned.map(drop).map_err(|error| error.to_string())
    }

    /// Steps the workers in turn until nothing moves. Returns false if something still does.
    fn settle(&mut self, looks_max: usize) -> bool {
        for _ in 0..looks_max {
            let mut is_idle = true;
            for (worker, phases) in self.workers.iter_mut().zip(&self.phases) {
                is_idle &= worker.step() == Step::Idle || phases.is_refused();
            }
            if is_idle {
                return true;
            }
        }
        false
    }

    fn finish(mut self) -> Result<History, String> {
        self.settle(LOOKS_AT_THE_END_MAX);
        if let Some(fault) = self.fault.borrow_mut().take() {
            return Err(fault);
        }
        let waiting: Vec<&str> = self.waiting().collect();
        if !waiting.is_empty() || self.workers.iter().any(|worker| worker.open() > 0) {
            return Err(format!("these wait for ever: {}", waiting.join(", ")));
        }
        let last = self.last().map_err(words)?;
        let transactions = self.actors.iter().map(|actor| actor.observed.borrow().clone()).collect();
        let history = History { transactions, last };
        let checked = self.check_indexes();
        checked.map_err(|what| format!("{what}\n{}", Described(self.script, &history)))?;
        Ok(history)
    }

    fn waiting(&self) -> impl Iterator<Item = &str> {
        let all = self.script.transactions.iter().zip(&self.actors);
        all.filter(|(_, actor)| actor.is_open.get()).map(|(transaction, _)| transaction.name.as_str())
    }

    /// Checks that each index has exactly the rows of its table.
    fn check_indexes(&self) -> Result<(), String> {
        for (table, index) in self.tables.iter().zip(&self.indexes) {
            let transaction = self.database.begin().map_err(words)?;
            let found = transaction.with(async |tx| {
                let (mut rows, mut found) = (tx.scan(*table, 0..u64::MAX), (Vec::new(), Vec::new()));
                while let Some((key, value)) = rows.next().await? {
                    found.0.push((value, key, value));
                }
                let mut entries = tx.scan_by(*index, i64::MIN..=i64::MAX);
                while let Some((entry, key, value)) = entries.next().await? {
                    found.1.push((entry, key, value));
                }
                Ok(found)
            });
            let (mut rows, entries) = found.map_err(words)?;
            rows.sort_unstable();
            if rows != entries {
                return Err(format!("a table has {rows:?}, and its index {entries:?}"));
            }
        }
        Ok(())
    }

    fn last(&self) -> Result<State> {
        let (transaction, mut state) = (self.database.begin()?, State::new());
        for (at, table) in self.tables.iter().enumerate() {
            let mut rows = transaction.scan(*table, 0..u64::MAX);
            while let Some((key, value)) = rows.next()? {
                if key.is_multiple_of(SPREAD) {
                    state.insert((at as u8, (key / SPREAD) as u32), value);
                }
            }
        }
        transaction.commit()?;
        Ok(state)
    }
}

/// Makes an index by value for each table.
fn indexes<C: ConcurrencyControl>(database: &Database<C>, tables: &Tables) -> Result<Vec<ByValue>> {
    tables.iter().map(|table| database.index(*table, "by value", |_, value| Some(value))).collect()
}

/// Makes a projection of each table's rows, with few rows per block. There are none if the scheme has no snapshots.
fn columns<C: ConcurrencyControl>(database: &Database<C>, tables: &Tables) -> Result<Vec<Values<C>>> {
    let mut options = ProjectionOptions::default();
    options.block_rows = 3;
    let mut all = Vec::new();
    for table in tables.iter() {
        let columns =
            database.projection_with(*table, "by columns", options.clone(), |_, value| Some((value,)))?;
        match columns.refresh() {
            Err(Error::NoSnapshot { .. }) => return Ok(Vec::new()),
            refreshed => refreshed.map(|_| all.push(columns))?,
        }
    }
    Ok(all)
}

/// Makes a frozen table, which is read so that operations run in place.
fn idle<C: ConcurrencyControl>(database: &Database<C>) -> Result<Table<u64, i64>> {
    let idle = database.table("idle")?;
    database.freeze(idle)?;
    Ok(idle)
}

fn words(error: Error) -> String {
    error.to_string()
}

/// Returns where the rows are inserted that no script sees: behind each of the first rows, and at the head of each
/// table.
fn places(script: &Script) -> Vec<Place> {
    let heads = (0..script.tables.len()).map(|table| (table as u8, 0));
    let mut places: Vec<Place> = script.rows.keys().copied().chain(heads).collect();
    places.sort_unstable();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::super::program::Seen;
    use super::super::text::parse;
    use super::*;
    use braiddb::{IndexKind, Snapshot};

    const SCRIPT: &str = "row t[1] = 1\n\
        transaction a\n get t[1]\n commit\n\
        transaction b\n put t[1] = 2\n get t[1]\n commit";

    /// Proves that a transaction that takes long to arrive does not delay other transactions, and that it continues
    /// when it can.
    #[test]
    fn who_waits_is_left_waiting() {
        let script = parse("waits", SCRIPT).unwrap();
        for workers in [1, 2] {
            let mut stage =
                Stage::<Snapshot>::new(&script, workers, 0, Variant::default(), Kind::default()).unwrap();
            let (may_end, has_ended) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
            let (flag, tables) = (may_end.clone(), stage.tables.clone());
            // Stands for a transaction that waits for another: it takes steps without progress.
            let waits = async move |tx: &Txn<Snapshot>| {
                while !flag.get() {
                    tx.get(tables[0], 0).await?;
                }
                Ok(())
            };
            let end = has_ended.clone();
            stage.spawn(0, waits, move |result| end.set(result.is_ok())).unwrap();
            for each in [0, 1, 1, 0, 1] {
                stage.take(Move::Step(each)).unwrap();
                assert!(!stage.settle(LOOKS_MAX));
            }
            assert!(stage.actors.iter().all(|actor| actor.observed.borrow().is_committed()));
            assert!(!has_ended.get());
            may_end.set(true);
            assert!(stage.settle(LOOKS_MAX) && has_ended.get());
            let history = stage.finish().unwrap();
            assert_eq!(history.transactions[1].seen, [Seen::Done, Seen::Value(Some(2))]);
            assert_eq!(history.last, [((0, 1), 2)].into());
        }
    }

    /// Proves that a transaction that only begins a step is left within its operation.
    #[test]
    fn who_sets_out_is_left_half_way() {
        let script = parse("half-way", SCRIPT).unwrap();
        let mut stage =
            Stage::<Snapshot>::new(&script, 1, 0, Variant::default(), IndexKind::BTree.into()).unwrap();
        stage.take(Move::Start(0)).unwrap();
        while stage.actors[0].observed.borrow().begun == 0 {
            stage.settle(1);
        }
        let seen = |stage: &Stage<'_, Snapshot>| {
            let observed = stage.actors[0].observed.borrow();
            (observed.begun > 0, observed.seen.len())
        };
        assert_eq!(seen(&stage), (true, 0));
        assert!(stage.settle(LOOKS_MAX));
        assert_eq!(seen(&stage), (true, 1));
    }

    /// Proves that gates opened too early are passed later, and that a transaction that never ends is named.
    #[test]
    fn who_never_ends_is_named() {
        let script = parse("never", SCRIPT).unwrap();
        let mut stage =
            Stage::<Snapshot>::new(&script, 1, 0, Variant::default(), IndexKind::BTree.into()).unwrap();
        for each in [0, 0, 1, 1] {
            stage.take(Move::Step(each)).unwrap(); // nothing settles in between
        }
        assert_eq!(stage.finish().unwrap_err(), "these wait for ever: b");
    }

    /// Proves that a panic of the engine, here about too many workers, is a failure of the run.
    #[test]
    fn panics_are_reported() {
        let script = parse("panics", SCRIPT).unwrap();
        let fault = play::<Snapshot>(
            &script,
            &Schedule { moves: Vec::new(), workers: 0, seed: 0, variant: Variant::default() },
            Kind::default(),
        )
        .unwrap_err();
        assert!(fault.starts_with("a panic: "), "{fault}");
    }

    /// Proves that the stage's own transactions end at once, however many rows they touch, and that any number of them
    /// leaves room for the script's transactions.
    #[test]
    fn filling_leaves_room() {
        let rows: String = (1..=12).map(|key| format!("row t[{key}] = {key}\n")).collect();
        let script =
            parse("room", &format!("{rows}{}", &SCRIPT[SCRIPT.find("transaction").unwrap()..])).unwrap();
        let mut moves = vec![Move::Step(0)];
        moves.extend([Move::Fill, Move::Clear].repeat(8));
        moves.extend([0, 1, 1, 1].map(Move::Step));
        let mut stage =
            Stage::<Snapshot>::new(&script, 1, 0, Variant::default(), IndexKind::BTree.into()).unwrap();
        for each in &moves {
            stage.take(*each).unwrap();
            assert!(stage.settle(LOOKS_OF_FILL_MAX));
            assert!(!stage.is_filling.get());
        }
        assert!(stage.finish().is_ok());
        moves.retain(|each| *each != Move::Clear);
        assert!(
            play::<Snapshot>(
                &script,
                &Schedule { moves, workers: 1, seed: 0, variant: Variant::default() },
                IndexKind::BTree.into()
            )
            .is_ok()
        );
    }

    /// Proves that rows between the keys are neither observed nor left in the last state.
    #[test]
    fn filler_is_not_seen() {
        let text = "row t[1] = 1\nrow t[2] = 2\nfiller 30\ntransaction a\n n = count t[0..9]\n scan t[0..9]\n commit";
        let script = parse("filler", text).unwrap();
        let step = Move::Step(0);
        let moves = vec![step, Move::Fill, step, Move::Clear, Move::Tend, step];
        let history = play::<Snapshot>(
            &script,
            &Schedule { moves, workers: 2, seed: 0, variant: Variant::default() },
            IndexKind::BTree.into(),
        )
        .unwrap();
        let rows = Seen::Rows(vec![(1, 1), (2, 2)]);
        assert_eq!(history.transactions[0].seen, [rows.clone(), rows]);
        assert_eq!(history.last, script.rows);
    }
}
