//! The settings of a database.

use crate::cc::{LabOptions, PARTITIONS_MAX};
use crate::error::{Error, Result};
use crate::exec::BatchSize;
use crate::index::{Front, IndexKind};
use crate::storage::Archive;
use std::sync::{Arc, OnceLock};

/// When the caller learns that a transaction has committed.
///
/// Other transactions see its changes at once, at every level. What a transaction depends on becomes durable before
/// the transaction does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the transaction, and everything that it has seen, is on disk. An acknowledged transaction survives every
    /// crash.
    #[default]
    Sync,
    /// As soon as the transaction has committed in memory. A crash can lose the last acknowledged transactions:
    /// usually those of about two flushes. It never loses more than `log_buffer_bytes`, apart from a single longer
    /// transaction, nor more than `log_lag_ms` and a moment. The surviving state is one that existed: whole
    /// transactions, with everything that they depended on.
    Async,
    /// Like `Async`, but no log is written. A crash leaves the last checkpoint. Available only for a whole database,
    /// and not under the schemes without snapshots, which keep one value per record.
    None,
}

/// Settings of a database. Every field has a default that suits most programs:
///
/// ```
/// use braiddb::Options;
/// let options = Options { workers: 2, memory_limit_bytes: 1 << 30, ..Options::default() };
/// # assert_eq!(options.batch, Options::default().batch);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of worker threads, which run what other threads submit with `run`. Default: one per core. 0: none;
    /// transactions then run only on `Database::worker`s and through `begin`.
    pub workers: usize,
    /// Pins each worker thread to a processor. The processors are chosen from those that the thread which opens the
    /// database may run on, so `taskset` and containers keep control. Default: false, because a library shares the
    /// machine with other programs, and two databases would pin to the same processors. Pinning pays if the workers
    /// have the machine to themselves, as in benchmarks. A refusal by the system is ignored. On macOS and Windows
    /// nothing is pinned.
    pub pin_workers: bool,
    /// The number of transactions that a worker keeps open at once. Default: automatic, from 1 (for data in caches or
    /// under contention) to 64 (for point reads in large tables). Each worker measures which number pays, and adjusts
    /// it when the workload changes. Measuring costs less than one percent.
    pub batch: BatchSize,
    /// The number of jobs that can wait in a worker's inbox before submitting blocks. Default: 1024.
    pub inbox_capacity: usize,
    /// The memory limit, in bytes, for records, indexes, versions, and the read and write sets of transactions
    /// together. Read and write sets may take a 16th beyond the limit, and deletes a 64th. A transaction that would
    /// exceed the limit fails with [`Error::OutOfMemory`](crate::Error::OutOfMemory). Default: no limit.
    pub memory_limit_bytes: u64,
    /// How often a transaction runs again after a conflict before the caller sees the conflict. Default: 1000.
    pub retries_max: u32,
    /// How long a transaction waits for a row that another transaction has locked or written, in milliseconds. After
    /// that it fails with [`Error::LockTimeout`]. The limit applies in `get_for_update`, unless the call sets its
    /// own, and before a transaction runs again after a conflict with a transaction that stays open. Default: 10,000,
    /// far longer than any transaction that has not been forgotten. 0: no transaction waits.
    pub lock_wait_ms: u64,
    /// The kind of index for tables made without [`TableOptions`](crate::TableOptions). Existing tables keep theirs.
    /// Default: [`IndexKind::Masstree`].
    pub index: IndexKind,
    /// The front of the index for tables made without `TableOptions`. Default: [`Front::None`].
    pub front: Front,
    /// When commits are acknowledged. A transaction can choose for itself with `Txn::set_durability`. This option and
    /// all options below except `lab` have no effect on a database in memory. Default: [`Durability::Sync`].
    pub durability: Durability,
    /// Allows a new database in a directory that holds other files. Without it, such a directory is refused with
    /// [`Error::Occupied`], because it is probably a mistake. Has no effect if the directory already holds a
    /// database. Default: false.
    pub among_others: bool,
    /// The size of a file of the log, in bytes: whole sectors of 512 bytes, up to 1 GiB. The changes of one
    /// transaction must fit into one file. Default: 64 MiB.
    pub log_segment_bytes: u64,
    /// How many bytes of the log may wait to be written. Beyond that, commits wait. Default: 16 MiB.
    pub log_buffer_bytes: usize,
    /// How long a commit may wait to be written, in milliseconds. If one has waited longer, other transactions wait
    /// before they commit. Default: 1000, many times what a disk takes.
    pub log_lag_ms: u64,
    /// How long a caller waits for a disk that is full or does not answer, in milliseconds. The engine checks twice a
    /// second. After that time, until the log continues:
    ///
    /// - Transactions that have committed are answered with [`Error::Stalled`].
    /// - Commits are refused with an [`Error::Log`] that gives the reason.
    /// - Transactions that have only read, and read only durable data, are still answered.
    ///
    /// Default: 10,000, many times what a busy disk takes. 0: no limit.
    pub log_wait_ms: u64,
    /// How many bytes of the log open readers of changes ([`Database::changes`](crate::Database::changes)) may keep
    /// beyond what the database itself needs. A reader that keeps more is cut off, and answers
    /// [`Error::ChangesRemoved`](crate::Error::ChangesRemoved). All readers are cut off if the log has no room.
    /// Default: 1 GiB, about as much as recovery itself needs. 0: readers keep nothing.
    pub log_held_bytes: u64,
    /// A checkpoint begins when the log has grown by this many bytes since the last one began. Default: 1 GiB. 0: log
    /// growth starts no checkpoint, and closing the database makes none to save the next opening from reading the
    /// log.
    pub checkpoint_log_bytes: u64,
    /// A checkpoint begins this many seconds after the last one began, if anything has changed. Default: 600. 0: time
    /// starts no checkpoint.
    pub checkpoint_interval_s: u64,
    /// The approximate size of a file of a checkpoint, in bytes. Each file holds a range of a table's rows, and a
    /// file without changes is reused in the next checkpoint. With larger files, a change of one row rewrites more.
    /// With smaller files, there are more syncs and a larger directory, so tables of terabytes get larger files.
    /// Default: 16 MiB.
    pub checkpoint_range_bytes: u64,
    /// The maximum rate at which a checkpoint is written, because commits wait for the same disk. Default: 32 MiB per
    /// second.
    pub checkpoint_bytes_per_s: u64,
    /// Where segments of the log are kept for restorations before the database gives them up. Default: nowhere. The
    /// database can then be restored to points in time since its last checkpoint but one.
    pub archive: Option<Arc<dyn Archive>>,
    /// Settings of the schemes that exist for comparison.
    pub lab: LabOptions,
}

/// Returns the number of processors that the program may use, as of the first call. Finding it reads files of the
/// system.
fn processors() -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    *FOUND.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workers: processors(),
            pin_workers: false,
            batch: BatchSize::Auto,
            inbox_capacity: 1024,
            memory_limit_bytes: u64::MAX,
            retries_max: 1000,
            lock_wait_ms: 10_000,
            index: IndexKind::default(),
            front: Front::default(),
            durability: Durability::Sync,
            among_others: false,
            log_segment_bytes: 64 << 20,
            log_buffer_bytes: 16 << 20,
            log_lag_ms: 1000,
            log_wait_ms: 10_000,
            log_held_bytes: 1 << 30,
            checkpoint_log_bytes: 1 << 30,
            checkpoint_interval_s: 600,
            checkpoint_range_bytes: 16 << 20,
            checkpoint_bytes_per_s: 32 << 20,
            archive: None,
            lab: LabOptions::default(),
        }
    }
}

impl Options {
    /// How long a caller may wait for the log, in nanoseconds.
    pub(crate) fn log_wait_ns_max(&self) -> u64 {
        if self.log_wait_ms == 0 { u64::MAX } else { self.log_wait_ms.saturating_mul(1_000_000) }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |option, reason: &str| Err(Error::InvalidOption { option, reason: reason.into() });
        if let BatchSize::Fixed(batch) = self.batch
            && !(1..=BATCH_MAX).contains(&batch)
        {
            return invalid("batch", "must be from 1 to 4096");
        }
        if self.inbox_capacity == 0 {
            return invalid("inbox_capacity", "must be at least 1");
        }
        if self.workers > WORKERS_MAX {
            return invalid("workers", "must be at most 1024");
        }
        if !self.lab.partitions.is_power_of_two() || self.lab.partitions > PARTITIONS_MAX {
            return invalid("lab.partitions", "must be a power of two, at most 64");
        }
        let sectors = 2..=LOG_SEGMENT_BYTES_MAX / SECTOR_BYTES;
        let is_whole = self.log_segment_bytes.is_multiple_of(SECTOR_BYTES);
        if !is_whole || !sectors.contains(&(self.log_segment_bytes / SECTOR_BYTES)) {
            return invalid("log_segment_bytes", "must be a multiple of 512, from 1024 to 1 GiB");
        }
        if self.log_buffer_bytes == 0 {
            return invalid("log_buffer_bytes", "must be at least 1");
        }
        if self.checkpoint_range_bytes == 0 {
            return invalid("checkpoint_range_bytes", "must be at least 1");
        }
        if self.checkpoint_bytes_per_s == 0 {
            return invalid("checkpoint_bytes_per_s", "must be at least 1");
        }
        Ok(())
    }
}

const SECTOR_BYTES: u64 = 512;
const LOG_SEGMENT_BYTES_MAX: u64 = 1 << 30;
const BATCH_MAX: usize = 4096;
const WORKERS_MAX: usize = 1024;
