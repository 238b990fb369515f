//! How all workloads use the engine: databases, workers and counters.

use crate::Failure;
use crate::args::{DurabilityKind, RefillKind};
use braiddb::Durability;
use braiddb::storage::FileStorage;
use braiddb::suspend::Suspend;
use braiddb::worker::{Refill, WorkerOptions};
use std::path::Path;
use std::sync::Arc;

pub(crate) use crate::scheme::Scheme;
pub(crate) use crate::temporary::Directory;
pub use braid_tpcc::mix;
pub(crate) use braiddb::metrics::{Breakdown, LogStatistics, SystemClock};
pub(crate) use braiddb::suspend::{Never, OnMiss, PrefetchOnly, Teams};
pub(crate) use braiddb::worker::{BatchSize, Worker};
pub(crate) use braiddb::{Database, Front, IndexKind, Options, Result, Serializable, TableOptions, Txn};

/// Opens an empty database that starts no workers. If the database is durable, its directory is made in `parent` and
/// returned.
pub(crate) fn open<C: Scheme>(
    tables: TableOptions,
    durability: DurabilityKind,
    parent: &Path,
) -> crate::Result<(Database<C>, Option<Directory>)> {
    if durability == DurabilityKind::Memory {
        let TableOptions { index, front } = tables;
        let options = Options { workers: 0, index, front, ..Options::default() };
        let db = Database::in_memory_with(options, Arc::new(SystemClock::default())).map_err(failure)?;
        return Ok((db, None));
    }
    let directory = Directory::new(parent)?;
    Ok((open_again(&directory, tables, durability)?, Some(directory)))
}

/// Opens a database again after it was closed. Tables that exist keep their options.
pub(crate) fn open_again<C: Scheme>(
    directory: &Directory,
    tables: TableOptions,
    durability: DurabilityKind,
) -> crate::Result<Database<C>> {
    let durability = match durability {
        DurabilityKind::Memory | DurabilityKind::None => Durability::None,
        DurabilityKind::Async => Durability::Async,
        DurabilityKind::Sync => Durability::Sync,
    };
    // Only the plan makes checkpoints.
    let options = Options {
        workers: 0,
        index: tables.index,
        front: tables.front,
        durability,
        checkpoint_log_bytes: 0,
        checkpoint_interval_s: 0,
        ..Options::default()
    };
    open_in(directory, options)
}

/// Opens the database in a directory.
pub(crate) fn open_in<C: Scheme>(directory: &Directory, options: Options) -> crate::Result<Database<C>> {
    let storage = FileStorage::open(directory.path()).map_err(|error| failure(error.into()))?;
    let clock = Arc::new(SystemClock::default());
    Database::open_with(Arc::new(storage), options, clock, &mut |_| {}).map_err(failure)
}

/// The largest number of transactions that `BatchSize::Auto` keeps open at once.
pub(crate) const AUTO_BATCH_MAX: usize = 64;

/// Makes the calling thread a worker with `batch` slots.
pub(crate) fn worker<C: Scheme, S: Suspend>(
    db: &Database<C>,
    policy: S,
    batch: BatchSize,
    refill: RefillKind,
) -> Worker<C, S> {
    let batch_max = match batch {
        BatchSize::Auto => AUTO_BATCH_MAX,
        BatchSize::Fixed(batch) => batch,
    };
    let refill = match refill {
        RefillKind::Immediate => Refill::Immediate,
        RefillKind::Strict => Refill::Strict,
    };
    db.worker_with(policy, WorkerOptions { batch, batch_max, refill, ..WorkerOptions::default() })
}

/// A snapshot of the database's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) memory_bytes: u64,
    pub(crate) log: LogStatistics,
    pub(crate) breakdown: Breakdown,
}

pub(crate) fn counters<C: Scheme>(db: &Database<C>) -> Counters {
    let s = db.statistics();
    Counters { memory_bytes: s.memory.total_bytes(), log: s.log, breakdown: s.breakdown }
}

/// Turns an error of the engine into a message for the user.
pub(crate) fn failure(error: braiddb::Error) -> Failure {
    Failure::new(format!("the engine failed: {error}"))
}
