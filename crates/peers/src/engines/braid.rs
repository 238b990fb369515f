//! Braid through its public interface, with serializable isolation, in three forms:
//!
//! - a thread that becomes a worker and keeps a batch of transactions open,
//! - a worker with one transaction at a time,
//! - a thread that drives one transaction by calls.

use crate::peer::{self, Attempt, Class, Facts, Fault, Peer, Session, Setting, Tried, perform, retry};
use crate::work::{Operation, Outcome, Shape, Table, Task, Work};
use braid_bench::Result;
use braiddb::suspend::{OnMiss, PrefetchOnly, Suspend};
use braiddb::worker::{Hint, Worker, WorkerOptions};
use braiddb::{Database, Durability, Error, Options, Serializable, Transaction, Txn};

/// A table from number to number.
type Numbers = braiddb::Table<u64, u64>;

/// Workers, each with a batch of transactions open.
pub const BATCH: u8 = 0;
/// Workers, each with one transaction at a time, which is never suspended at a miss.
pub const SEQUENTIAL: u8 = 1;
/// Transactions driven by calls.
pub const INTERACTIVE: u8 = 2;

/// A database and its tables, used in one of the forms above.
pub struct Braid<const FORM: u8> {
    db: Database,
    tables: [Numbers; 5],
    is_durable: bool,
}

/// Makes a failure of the engine for the user.
fn failed(error: Error) -> braid_bench::Failure {
    peer::failed("braid", error)
}

impl<const FORM: u8> Braid<FORM> {
    fn open_database(setting: &Setting) -> Result<Self> {
        let options = Options { workers: 0, durability: Durability::Sync, ..Options::default() };
        let db = match setting.class {
            Class::Memory => Database::in_memory(options),
            Class::Sync => Database::open(&setting.directory, options),
        };
        let db = db.map_err(failed)?;
        let mut tables = Vec::new();
        for table in Table::ALL {
            tables.push(db.table(table.name()).map_err(failed)?);
        }
        let is_durable = setting.class == Class::Sync;
        Ok(Braid { db, tables: tables.try_into().expect("a table for each"), is_durable })
    }

    fn load_rows(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        let (mut worker, mut result) = (self.db.worker(), Ok(()));
        let table = self.tables[table.index()];
        worker.run_each(
            rows,
            async |tx, &(key, value): &(u64, u64)| tx.insert(table, key, value).await,
            |stored| result = std::mem::replace(&mut result, Ok(())).and(stored),
        );
        result.map_err(failed)
    }
}

/// Runs the operations of a task as a coroutine.
async fn transact(
    tx: &Txn<Serializable>,
    tables: &[Numbers; 5],
    work: &Work,
    task: &Task,
) -> braiddb::Result<Outcome> {
    if work.only_reads(task) {
        tx.declare_read_only();
    }
    let mut outcome = Outcome::default();
    for operation in work.operations(task) {
        match operation {
            Operation::Get(table, key) => outcome.saw(tx.get(tables[table.index()], key).await?),
            Operation::Update(table, key, value) => {
                outcome.missing += u64::from(!tx.update(tables[table.index()], key, value).await?);
            }
            Operation::Add(table, key, delta) => {
                let table = tables[table.index()];
                let new = tx.get(table, key).await?.map(|old| old.wrapping_add(delta));
                if let Some(new) = new {
                    tx.put(table, key, new).await?;
                }
                outcome.saw(new);
            }
            Operation::Insert(table, key, value) => tx.insert(tables[table.index()], key, value).await?,
            Operation::Scan(table, from, rows) => {
                let mut rows = tx.scan(tables[table.index()], from..).limit(rows);
                rows.for_each(|_, value| outcome.saw(Some(value))).await?;
            }
        }
    }
    Ok(outcome)
}

const fn facts(name: &'static str, multiplexes: bool) -> Facts {
    Facts {
        name,
        isolation: "serializable",
        transactional: true,
        ordered: true,
        classes: &[Class::Memory, Class::Sync],
        multiplexes,
        server: false,
    }
}

impl Peer for Braid<BATCH> {
    const FACTS: Facts = facts("braid", true);

    type Session<'a> = Working<'a, OnMiss>;

    fn open(setting: &Setting) -> Result<Self> {
        Self::open_database(setting)
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        self.load_rows(table, rows)
    }

    fn session(&self, in_flight: Option<usize>) -> Result<Working<'_, OnMiss>> {
        let worker = match in_flight {
            // Open transactions and transactions that wait for the disk are both in flight.
            Some(in_flight) => {
                let batch = in_flight.div_ceil(2);
                let held_max = (in_flight - batch).max(1);
                let options = WorkerOptions {
                    batch: batch.into(),
                    batch_max: batch,
                    held_max,
                    ..WorkerOptions::default()
                };
                self.db.worker_with(OnMiss, options)
            }
            None => self.db.worker(),
        };
        Ok(Working { tables: &self.tables, worker, is_alone: in_flight == Some(1) })
    }

    fn conflicts(&self) -> u64 {
        self.db.statistics().aborts_conflict
    }
}

impl Peer for Braid<SEQUENTIAL> {
    const FACTS: Facts = facts("braid-sequential", false);

    type Session<'a> = Working<'a, PrefetchOnly>;

    fn open(setting: &Setting) -> Result<Self> {
        Self::open_database(setting)
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        self.load_rows(table, rows)
    }

    fn session(&self, _: Option<usize>) -> Result<Working<'_, PrefetchOnly>> {
        let options = WorkerOptions { batch: 1.into(), batch_max: 1, ..WorkerOptions::default() };
        // Durable commits are awaited before the next transaction begins. Without a log, no commit waits.
        let is_alone = self.is_durable;
        Ok(Working { tables: &self.tables, worker: self.db.worker_with(PrefetchOnly, options), is_alone })
    }

    fn conflicts(&self) -> u64 {
        self.db.statistics().aborts_conflict
    }
}

/// A thread that is a worker.
pub struct Working<'a, S: Suspend> {
    tables: &'a [Numbers; 5],
    worker: Worker<Serializable, S>,
    /// True if only one transaction may be in flight: the next begins when the result has arrived.
    is_alone: bool,
}

impl<S: Suspend> Session for Working<'_, S> {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        let tables = self.tables;
        self.worker.run(async |tx| transact(tx, tables, work, task).await).map_err(failed)
    }

    fn stream(
        &mut self,
        work: &Work,
        tasks: impl Iterator<Item = Task>,
        mut ended: impl FnMut(u64, Outcome),
    ) -> Result<()> {
        let mut result = Ok(());
        if self.is_alone {
            for task in tasks {
                let outcome = self.execute(work, &task)?;
                ended(task.started_ns, outcome);
            }
            return result;
        }
        let tables = self.tables;
        let closure =
            async |tx: &Txn, task: &Task| Ok((task.started_ns, transact(tx, tables, work, task).await?));
        let sink = |answer| match answer {
            Ok((started_ns, outcome)) => ended(started_ns, outcome),
            Err(error) => result = Err(failed(error)),
        };
        match work.shape() {
            Shape::TpcB(_) => {
                self.worker.run_each_hinted(tasks, |task| rows_added_to(work, task), closure, sink)
            }
            _ => self.worker.run_each(tasks, closure, sink),
        }
        result
    }
}

/// Hints for TPC-B, whose programmer knows on which rows transactions conflict.
fn rows_added_to(work: &Work, task: &Task) -> Hint {
    work.operations(task).fold(Hint::default(), |hint, operation| match operation {
        Operation::Add(table, key, _) if table != Table::Accounts => {
            hint.touches((table.index() as u64) << 56 | key)
        }
        _ => hint,
    })
}

impl Peer for Braid<INTERACTIVE> {
    const FACTS: Facts = facts("braid-interactive", false);

    type Session<'a> = Interactive<'a>;

    fn open(setting: &Setting) -> Result<Self> {
        Self::open_database(setting)
    }

    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()> {
        self.load_rows(table, rows)
    }

    fn session(&self, _: Option<usize>) -> Result<Interactive<'_>> {
        Ok(Interactive(self))
    }
}

/// A thread that drives its transactions by calls.
pub struct Interactive<'a>(&'a Braid<INTERACTIVE>);

impl Session for Interactive<'_> {
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome> {
        retry(|| {
            let tx = self.0.db.begin().map_err(fault)?;
            if work.only_reads(task) {
                tx.declare_read_only();
            }
            let mut open = Open { tables: &self.0.tables, tx };
            let outcome = perform(&mut open, work.operations(task))?;
            open.tx.commit().map_err(fault)?;
            Ok(outcome)
        })
    }
}

struct Open<'a> {
    tables: &'a [Numbers; 5],
    tx: Transaction,
}

fn fault(error: Error) -> Fault {
    match error {
        Error::Conflict => Fault::Conflict,
        error => Fault::Failed(failed(error)),
    }
}

/// The most keys that one call reads.
const KEYS_MAX: usize = 64;

impl Attempt for Open<'_> {
    const READS_TOGETHER: bool = true;

    fn get_many(&mut self, table: Table, keys: &[u64], mut seen: impl FnMut(Option<u64>)) -> Tried<()> {
        let mut found = [None; KEYS_MAX];
        for keys in keys.chunks(KEYS_MAX) {
            self.tx.get_into(self.tables[table.index()], keys, &mut found).map_err(fault)?;
            found[..keys.len()].iter().for_each(|value| seen(*value));
        }
        Ok(())
    }

    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>> {
        self.tx.get(self.tables[table.index()], key).map_err(fault)
    }

    fn update(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        self.tx.update(self.tables[table.index()], key, value).map(drop).map_err(fault)
    }

    fn insert(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        self.tx.insert(self.tables[table.index()], key, value).map_err(fault)
    }

    fn scan(&mut self, table: Table, from: u64, rows: usize, mut seen: impl FnMut(u64)) -> Tried<()> {
        let mut rows = self.tx.scan(self.tables[table.index()], from..).limit(rows);
        rows.for_each(|_, value| seen(value)).map_err(fault)
    }
}
