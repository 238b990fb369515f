//! Braid: a main-memory transactional database engine in which every transaction is a coroutine.
//!
//! A worker thread keeps a batch of transactions open. When a transaction is about to touch memory that is probably
//! not in cache, the engine prefetches that memory and runs another transaction in the meantime. The latency of main
//! memory is spent on useful work. Closures read like sequential code:
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
//! A transaction travels through these parts:
//!
//! 1. [`Database`] submits it to a worker's inbox.
//! 2. The worker (`exec`) polls it and steps its operations (`txn`).
//! 3. The operations go through the index (`index`) and the version chain (`record`), under the rules of a
//!    concurrency control scheme (`cc`).
//!
//! Below these parts lie `suspend` (prefetch and leave), `epoch` (reclamation), `memory` and `sync`. [`storage`] is
//! the directory of files that holds everything durable.
//!
//! # Features
//!
//! No feature is enabled by default.
//!
//! | feature | adds |
//! |---|---|
//! | `derive` | `#[derive(Key)]` and `#[derive(Value)]` |
//! | `serde` | `Serde`, for values of any type that serde supports; statistics that can be serialized |
//! | `uuid`, `jiff`, `chrono` | keys and values of these crates' types |
//! | `stream` | `Rows::stream`: a scan as a `Stream` of the crate `futures-core`, for combinators |
//! | `tracing` | events for subscribers of the crate `tracing`: openings, recovery, checkpoints, the log, tables, failures |
//!
//! The guide's page on operating lists the events of `tracing`, with their targets, levels and fields. Without a
//! subscriber, or without the feature, the events cost nothing.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod cc;
#[doc(hidden)]
pub mod checkpoint;
#[cfg(all(debug_assertions, not(any(braid_shuttle, braid_loom))))]
#[doc(hidden)]
pub mod compiled;
mod db;
mod durable;
mod epoch;
pub mod error;
mod events;
mod exec;
mod feed;
#[cfg(doctest)]
mod guide;
mod index;
mod kernel;
mod memory;
pub mod metrics;
mod ops;
mod options;
mod profile;
mod projection;
mod record;
mod replay;
pub mod research;
mod secondary;
pub mod storage;
pub mod suspend;
mod sync;
mod table;
mod txn;
#[doc(hidden)]
pub mod wal;

#[cfg(feature = "derive")]
pub use braiddb_derive::{Key, Value};
pub use cc::{
    Adaptive, AnyScheme, ConcurrencyControl, DlDetect, HStore, LabOptions, MultiVersion, NoWait, Occ,
    SchemeName, Serializable, Silo, Snapshot, TicToc, TimestampOrdering, WaitDie,
};
pub use db::{Batch, Database, Expiry, Handle, Publisher, Sequence, Sweeper, TableInfo};
pub use error::{Error, Result};
pub use index::{Front, IndexKind};
pub use ops::{Claim, Savepoint};
pub use options::{Durability, Options};
pub use projection::{
    Column, Columns, Projection, ProjectionOptions, Selection, Text, TextZone, Texts, Zone,
};
pub use record::VALUE_BYTES_MAX;
#[doc(hidden)]
pub use table::PrefixMatch;
#[cfg(feature = "serde")]
pub use table::Serde;
pub use table::{
    AsKey, Definitions, Field, Index, IndexColumn, IndexInfo, KEY_BYTES_MAX, Key, KeyAs, NewValue, Number,
    OwnedField, Partition, Plain, Table, TableOptions, Value,
};
pub use txn::{Transaction, Txn};

/// The futures of a transaction's operations, and the cursors of its scans.
pub mod futures {
    #[cfg(feature = "stream")]
    pub use crate::ops::RowStream;
    pub use crate::ops::{
        Contains, DeclarePartitions, Delete, Get, GetForUpdate, GetInto, GetMany, Insert, NextRow, Put, Rows,
        SkipLocked, Update,
    };
    pub use crate::projection::{AsyncProjectionScan, ColumnBatch, ProjectionScan};
    pub use crate::secondary::{GetBy, IndexRows, NextIndexRow, OwnedIndexRows};
    pub use crate::txn::{OwnedRows, RawRows};
}

/// Workers that the application's own threads drive, with their batch and queue.
pub mod worker {
    pub use crate::db::Worker;
    pub use crate::exec::{
        BatchSize, Hint, Refill, Sleep, Spawned, Step, WakeFd, WorkerOptions, WorkerProgress,
    };
}

/// The result of opening a database on disk, and databases restored to an earlier moment.
pub mod recovery {
    pub use crate::db::{Past, restore};
    pub use crate::durable::{Damage, Progress, Recovery, RecoveryStage, Restoration};
    pub use crate::wal::Cut;
}

/// The feed of committed changes: see [`Database::changes`].
pub mod changes {
    pub use crate::feed::{Change, ChangeIter, ChangeKind, ChangedTable, ChangedTransaction, Changes};
    pub use crate::wal::{ChangePosition, InvalidPosition};
}

/// Tools for the upkeep of databases: backups, checks, salvage, published statistics, and tables without their types.
pub mod tools {
    pub use crate::db::{Published, published, salvage};
    pub use crate::durable::{
        Backup, FileReport, OpenCheck, Salvage, SalvageOptions, SalvagedTable, Verification, backup, verify,
    };
    pub use crate::txn::RawTable;
}

/// Functions that derived code calls.
#[cfg(feature = "derive")]
#[doc(hidden)]
pub mod derived {
    pub use crate::table::{Decoder, Encoder, is_same};
}

/// Test support: planted errors, a database whose threads the caller steps, and settings that avoid waits.
#[doc(hidden)]
pub mod testing {
    pub use crate::cc::{
        AllHot, CHOSEN, HotByChance, Planted, PlantedMultiVersion, choose, planted, planted_multi_version,
    };
    pub use crate::db::restore_with_planted;
    pub use crate::durable::{Planted as PlantedDurability, Stepped};
    pub use crate::ops::SpinningWaits;
}

/// The examples of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeOfTheCrate;
