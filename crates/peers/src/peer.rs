//! The interface that an engine must offer to be compared, and what most engines share: operations inside a transaction
//! that is retried after a conflict.

use crate::work::{Operation, Operations, Outcome, Table, Task, Work, gets_in_a_row};
use braid_bench::{Failure, Result};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// The promise of a commit. Only peers with the same promise are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Nothing is certain to survive a crash of the machine: there is no log, or it is not synced.
    Memory,
    /// Each acknowledged commit is on the disk.
    Sync,
}

impl Class {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Class::Memory => "memory",
            Class::Sync => "sync",
        }
    }
}

/// The facts about a peer that are known before it is opened.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The name on the command line.
    pub name: &'static str,
    /// The isolation of its transactions, in a few words.
    pub isolation: &'static str,
    /// True if several operations make one atomic transaction. False for a structure without transactions, which shows
    /// the ceiling.
    pub transactional: bool,
    /// True if it scans in key order.
    pub ordered: bool,
    /// The classes that it supports.
    pub classes: &'static [Class],
    /// True if one thread keeps several transactions open, so that clients are not threads. False if a thread has one
    /// transaction at a time.
    pub multiplexes: bool,
    /// True if it is another process, reached over a connection.
    pub server: bool,
}

/// How to open a peer.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The promise of a commit.
    pub class: Class,
    /// An empty directory that belongs to the peer. The peer makes it if necessary.
    pub directory: PathBuf,
    /// Approximate number of records.
    pub records: u64,
    /// The most threads that use it at once.
    pub threads: usize,
    /// A PostgreSQL server, if one was named.
    pub postgres: Option<String>,
    /// A Redis server, if one was named.
    pub redis: Option<String>,
}

/// An engine to compare.
pub trait Peer: Sized + Sync {
    /// The facts about it.
    const FACTS: Facts;

    /// The interface through which one thread runs its transactions.
    type Session<'a>: Session
    where
        Self: 'a;

    /// Opens the engine, empty, with all tables.
    fn open(setting: &Setting) -> Result<Self>;

    /// Fills a table, in the engine's natural way for many records.
    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()>;

    /// Does what is useful once after loading.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Makes a session of the calling thread. `in_flight` is the number of transactions that a multiplexing peer keeps
    /// open; `None` leaves the number to the peer.
    fn session(&self, in_flight: Option<usize>) -> Result<Self::Session<'_>>;

    /// Returns the number of attempts with a conflict that sessions do not count themselves.
    fn conflicts(&self) -> u64 {
        0
    }

    /// Removes whatever lies outside of its directory.
    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// One thread's transactions.
pub trait Session {
    /// Runs one transaction to its commit.
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome>;

    /// Runs transactions until there are no more tasks, and calls `ended` after each.
    fn stream(
        &mut self,
        work: &Work,
        tasks: impl Iterator<Item = Task>,
        mut ended: impl FnMut(u64, Outcome),
    ) -> Result<()> {
        for task in tasks {
            let outcome = self.execute(work, &task)?;
            ended(task.started_ns, outcome);
        }
        Ok(())
    }
}

/// Why an attempt did not commit.
#[derive(Debug)]
pub enum Fault {
    /// A conflict with another transaction; the attempt is retried.
    Conflict,
    /// A failure that a retry does not cure.
    Failed(Failure),
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Fault::Failed(failure)
    }
}

/// The result of an operation inside an attempt.
pub type Tried<T> = std::result::Result<T, Fault>;

/// An open transaction, or the closest equivalent.
pub trait Attempt {
    /// True if reads in a row are passed to [`get_many`](Self::get_many).
    const READS_TOGETHER: bool = false;

    /// Returns the value of a key.
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>>;

    /// Passes the values of several keys to `seen`. The default reads one after the other.
    fn get_many(&mut self, table: Table, keys: &[u64], mut seen: impl FnMut(Option<u64>)) -> Tried<()> {
        keys.iter().try_for_each(|key| {
            seen(self.get(table, *key)?);
            Ok(())
        })
    }

    /// Replaces the value of an existing key.
    fn update(&mut self, table: Table, key: u64, value: u64) -> Tried<()>;

    /// Adds to the value of a key, and returns the new value. The default reads and updates.
    fn add(&mut self, table: Table, key: u64, delta: u64) -> Tried<Option<u64>> {
        let Some(old) = self.get(table, key)? else { return Ok(None) };
        let new = old.wrapping_add(delta);
        self.update(table, key, new)?;
        Ok(Some(new))
    }

    /// Adds a record with a new key. The default suits engines whose update is a put.
    fn insert(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        self.update(table, key, value)
    }

    /// Passes up to `rows` values in key order, starting at a key, to `seen`.
    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()>;
}

/// Runs the operations of a task in an attempt.
#[inline(always)]
pub fn perform<A: Attempt>(attempt: &mut A, operations: Operations<'_>) -> Tried<Outcome> {
    let mut outcome = Outcome::default();
    if !A::READS_TOGETHER {
        for operation in operations {
            perform_one(attempt, operation, &mut outcome)?;
        }
        return Ok(outcome);
    }
    let (mut operations, mut keys) = (operations.peekable(), Vec::new());
    while let Some(operation) = operations.next() {
        match operation {
            Operation::Get(table, key) => {
                keys.clear();
                gets_in_a_row(&mut operations, (table, key), |key| keys.push(key));
                attempt.get_many(table, &keys, |value| outcome.saw(value))?;
            }
            other => perform_one(attempt, other, &mut outcome)?,
        }
    }
    Ok(outcome)
}

#[inline(always)]
fn perform_one<A: Attempt>(attempt: &mut A, operation: Operation, outcome: &mut Outcome) -> Tried<()> {
    match operation {
        Operation::Get(table, key) => outcome.saw(attempt.get(table, key)?),
        Operation::Update(table, key, value) => attempt.update(table, key, value)?,
        Operation::Add(table, key, delta) => outcome.saw(attempt.add(table, key, delta)?),
        Operation::Insert(table, key, value) => attempt.insert(table, key, value)?,
        Operation::Scan(table, from, rows) => {
            attempt.scan(table, from, rows, |value| outcome.saw(Some(value)))?;
        }
    }
    Ok(())
}

/// A transaction fails after this many attempts.
const ATTEMPTS_MAX: u64 = 1_000_000;
/// This many retries follow at once. The next ones yield the processor, and later ones sleep.
const RETRIES_AT_ONCE: u64 = 4;
/// After this many retries, each retry sleeps for a moment.
const RETRIES_AWAKE: u64 = 64;

/// Runs attempts until one commits. Its outcome counts the retries.
#[inline(always)]
pub fn retry(mut attempt: impl FnMut() -> Tried<Outcome>) -> Result<Outcome> {
    for retries in 0..ATTEMPTS_MAX {
        match attempt() {
            Ok(outcome) => return Ok(Outcome { retries, ..outcome }),
            Err(Fault::Failed(failure)) => return Err(failure),
            Err(Fault::Conflict) if retries < RETRIES_AT_ONCE => {}
            Err(Fault::Conflict) if retries < RETRIES_AWAKE => thread::yield_now(),
            Err(Fault::Conflict) => thread::sleep(Duration::from_micros(100)),
        }
    }
    Err(Failure::new(format!("a transaction met a conflict {ATTEMPTS_MAX} times in a row")))
}

/// Makes a failure of an engine for the user.
pub fn failed(engine: &str, error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{engine} failed: {error}"))
}

/// The fault of a write in a read-only transaction.
pub fn read_only() -> Fault {
    Fault::Failed(Failure::new("a transaction that was said only to read has a write"))
}

/// Records per transaction while loading, for peers that load by transactions.
pub const LOAD_ROWS: usize = 10_000;

/// Calls `store` with the rows in groups of [`LOAD_ROWS`].
pub fn in_groups(
    rows: &mut dyn Iterator<Item = (u64, u64)>,
    mut store: impl FnMut(&[(u64, u64)]) -> Result<()>,
) -> Result<()> {
    let mut group = Vec::with_capacity(LOAD_ROWS);
    loop {
        group.clear();
        group.extend(rows.take(LOAD_ROWS));
        if group.is_empty() {
            return Ok(());
        }
        store(&group)?;
    }
}
