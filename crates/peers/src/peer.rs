//! What an engine has to offer to be compared, and what most of them share: operations inside a transaction that is
//! begun again after a conflict.

use crate::work::{Operation, Operations, Outcome, Table, Task, Work, gets_in_a_row};
use braid_bench::{Failure, Result};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// What a commit promises; only equals are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Nothing survives a crash of the machine for sure: no log, or one that is not synced.
    Memory,
    /// Each acknowledged commit is on the disk.
    Sync,
}

impl Class {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Class::Memory => "memory",
            Class::Sync => "sync",
        }
    }
}

/// What is known of a peer before it is opened.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Its name on the command line.
    pub name: &'static str,
    /// What its transactions promise each other, in a few words.
    pub isolation: &'static str,
    /// True: several operations are one transaction, with all or nothing. False: a structure without
    /// transactions, there to show the ceiling.
    pub transactional: bool,
    /// True: it scans in the order of keys.
    pub ordered: bool,
    /// The promises that it can make.
    pub classes: &'static [Class],
    /// True: one thread keeps several transactions open, so that clients are not threads. False: it has one at a time.
    pub multiplexes: bool,
    /// True: it is another process, reached over a connection.
    pub server: bool,
}

/// How to open a peer.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What commits promise.
    pub class: Class,
    /// An empty directory of its own, made if it is needed.
    pub directory: PathBuf,
    /// About how many records there will be.
    pub records: u64,
    /// How many threads will use it at once, at most.
    pub threads: usize,
    /// A PostgreSQL server, if one was named.
    pub postgres: Option<String>,
    /// A Redis server, if one was named.
    pub redis: Option<String>,
}

/// An engine that is compared.
pub trait Peer: Sized + Sync {
    /// What is known of it.
    const FACTS: Facts;

    /// What one thread does its transactions through.
    type Session<'a>: Session
    where
        Self: 'a;

    /// Opens it, empty, with all tables.
    fn open(setting: &Setting) -> Result<Self>;

    /// Fills a table, in whatever way is natural for many records.
    fn load(&self, table: Table, rows: &mut dyn Iterator<Item = (u64, u64)>) -> Result<()>;

    /// What is worth doing once after loading.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// A session of the calling thread. `in_flight`: how many transactions one that multiplexes keeps open; none:
    /// as many as it does by itself.
    fn session(&self, in_flight: Option<usize>) -> Result<Self::Session<'_>>;

    /// Attempts that met a conflict, as far as sessions do not count them themselves.
    fn conflicts(&self) -> u64 {
        0
    }

    /// Leaves nothing behind outside of its directory.
    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// One thread's transactions.
pub trait Session {
    /// Runs one transaction to its commit.
    fn execute(&mut self, work: &Work, task: &Task) -> Result<Outcome>;

    /// Runs transactions until there are no more tasks. `ended` is told of each.
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
    /// Another transaction was in the way: it is begun again.
    Conflict,
    /// It will not get better.
    Failed(Failure),
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Fault::Failed(failure)
    }
}

/// The result of an operation inside an attempt.
pub type Tried<T> = std::result::Result<T, Fault>;

/// An open transaction, or what comes nearest.
pub trait Attempt {
    /// True: reads in a row are given to [`get_many`](Self::get_many).
    const READS_TOGETHER: bool = false;

    /// The value under a key.
    fn get(&mut self, table: Table, key: u64) -> Tried<Option<u64>>;

    /// The values under several keys. The default gets one after the other.
    fn get_many(&mut self, table: Table, keys: &[u64], mut seen: impl FnMut(Option<u64>)) -> Tried<()> {
        keys.iter().try_for_each(|key| {
            seen(self.get(table, *key)?);
            Ok(())
        })
    }

    /// Replaces the value under a key that has one.
    fn update(&mut self, table: Table, key: u64, value: u64) -> Tried<()>;

    /// Adds to the value under a key and answers the new one. The default reads and updates.
    fn add(&mut self, table: Table, key: u64, delta: u64) -> Tried<Option<u64>> {
        let Some(old) = self.get(table, key)? else { return Ok(None) };
        let new = old.wrapping_add(delta);
        self.update(table, key, new)?;
        Ok(Some(new))
    }

    /// Adds a record under a key that has none. The default is that of engines whose update is a put.
    fn insert(&mut self, table: Table, key: u64, value: u64) -> Tried<()> {
        self.update(table, key, value)
    }

    /// Shows up to `rows` values in the order of keys, from a key on.
    fn scan(&mut self, table: Table, from: u64, rows: usize, seen: impl FnMut(u64)) -> Tried<()>;
}

/// Does what a task says in an attempt.
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

/// After so many attempts a transaction is given up.
const ATTEMPTS_MAX: u64 = 1_000_000;
/// So many retries come at once; the next ones leave the processor to others, later ones sleep.
const RETRIES_AT_ONCE: u64 = 4;
/// From so many retries on, each waits for a moment.
const RETRIES_AWAKE: u64 = 64;

/// Attempts until one commits. Retries are counted in its outcome.
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

/// A failure of an engine, for the user.
pub fn failed(engine: &str, error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{engine} failed: {error}"))
}

/// What a transaction that only reads answers to a write.
pub fn read_only() -> Fault {
    Fault::Failed(Failure::new("a transaction that was said only to read has a write"))
}

/// Records that are loaded in one transaction, where loading is by transactions.
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
