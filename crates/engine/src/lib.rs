//! Braid: a main-memory transactional database engine in which every transaction is a coroutine.
//!
//! A worker thread keeps a batch of transactions open. Wherever one is about to touch memory that is
//! probably not in cache, the engine asks for that memory and goes on with another, so that the
//! latency of main memory is spent on useful work. Closures read like sequential code:
//!
//! ```
//! use braiddb::{Database, Error, Options, Table};
//!
//! let db = Database::in_memory(Options::default())?;
//! let accounts: Table<u64, i64> = db.table("accounts")?;
//! db.run(async move |tx| {
//!     tx.insert(accounts, 1, 100).await?;
//!     tx.insert(accounts, 2, 0).await
//! })
//! .wait()?;
//!
//! let left = db.run(async move |tx| {
//!     let (from, to) = (tx.get(accounts, 1).await?, tx.get(accounts, 2).await?);
//!     let (Some(from), Some(to)) = (from, to) else { return Err(Error::user("no such account")) };
//!     tx.put(accounts, 1, from - 30).await?;
//!     tx.put(accounts, 2, to + 30).await?;
//!     Ok(from - 30)
//! });
//! assert_eq!(left.wait()?, 70);
//! # Ok::<(), Error>(())
//! ```
//!
//! In the order in which a transaction travels: [`Database`] submits it to a worker's inbox (`exec`), which
//! polls it and steps its operations (`txn`) through the index (`index`) and the version chain (`record`)
//! under the rules of a concurrency-control scheme (`cc`). Below lie `suspend` (prefetch and leave), `epoch`
//! (reclamation), `memory` and `sync`. [`storage`] is the directory of files that what is durable stands on.

mod cc;
#[doc(hidden)]
pub mod checkpoint;
mod db;
mod durable;
mod epoch;
mod error;
mod exec;
mod index;
mod memory;
mod metrics;
mod options;
mod profile;
#[doc(hidden)]
pub mod raw;
mod record;
pub mod storage;
pub mod suspend;
mod sync;
mod txn;
pub mod variants;
#[doc(hidden)]
pub mod wal;

pub use cc::{ConcurrencyControl, NoWait, Serializable, Silo, Snapshot};
#[doc(hidden)]
pub use cc::{Planted, planted};
#[doc(hidden)]
pub use db::restore_with_planted;
pub use db::{Batch, Database, Handle, Past, TableInfo, Worker, restore, salvage};
pub use durable::{
    Backup, Damage, FileReport, Outlook, Progress, Recovery, Restoration, Salvage, SalvageOptions,
    SalvagedTable, Stage, Verification, backup, verify,
};
#[doc(hidden)]
pub use durable::{Planted as PlantedDurability, Stepped};
pub use error::{Error, HolderKind, LockHolder, LockedRow, Result};
pub use exec::{BatchSize, Hint, Refill, Sleep, Spawned, Step, WakeFd, WorkerOptions, WorkerProgress};
pub use index::IndexKind;
pub use metrics::{
    ArchiveStatistics, CheckpointStatistics, Clock, Event, LatencyStatistics, LogCondition, LogStatistics,
    MemoryStatistics, RoomStatistics, Stall, Statistics, SystemClock,
};
pub use options::{Durability, Options};
pub use profile::{Activity, Breakdown};
pub use record::VALUE_BYTES_MAX;
#[cfg(feature = "serde")]
pub use txn::Serde;
pub use txn::{
    AsKey, Claim, Contains, Delete, Get, GetBy, GetForUpdate, GetInto, GetMany, Index, IndexRows, Insert,
    KEY_BYTES_MAX, Key, NextIndexRow, NextRow, OwnedIndexRows, OwnedRows, Plain, Put, RawRows, RawTable,
    Rows, SkipLocked, Table, TableOptions, Transaction, Txn, Update, Value,
};
pub use wal::Cut;

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
