//! How a database is set up.

use crate::cc::{LabOptions, PARTITIONS_MAX};
use crate::error::{Error, Result};
use crate::exec::BatchSize;
use crate::index::{Front, IndexKind};
use crate::storage::Archive;
use std::sync::{Arc, OnceLock};

/// When the caller learns that a transaction has committed. Other transactions see its changes at once in any
/// case, and what one transaction depends on is durable before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it, and all that it has seen, is on disk: what was acknowledged survives every crash.
    #[default]
    Sync,
    /// As soon as it has committed in memory. A crash can lose the last acknowledged transactions: those of about
    /// two flushes as a rule; no more than `log_buffer_bytes` (but for a single longer transaction), nor than
    /// `log_lag_ms` and a moment.
    /// What survives is a state that there was, whole transactions and all that they depended on.
    Async,
    /// As `Async`, and no log is written: what survives a crash is the last checkpoint. For a whole database only, and not
    /// under the schemes without snapshots, those with one value per record.
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
    /// Worker threads that run what is submitted by `run` from other threads. Default: one per
    /// core. 0: none; then transactions run only on `Database::worker`s and through `begin`.
    pub workers: usize,
    /// Whether worker threads are pinned, each to a processor: within those that the thread which opens the database may run on,
    /// so that `taskset` and containers keep a say. Default: false, as a library shares a machine with what else runs there, and
    /// two databases would pin to the same processors. It pays where workers have the machine for themselves, in benchmarks above
    /// all. (Refusal by the system is ignored; macOS and Windows have no pinning here.)
    pub pin_workers: bool,
    /// Transactions that a worker keeps open at once. Default: what pays, from one after the other, for data in
    /// caches or under contention, to 64, for point reads in large tables. Each worker finds that out for itself by
    /// measuring, and follows when the work changes; that costs below one percent.
    pub batch: BatchSize,
    /// Jobs that wait in a worker's inbox before submitting blocks. Default: 1024.
    pub inbox_capacity: usize,
    /// Memory for records, indexes, versions, and what transactions note of what they read and write, together; the
    /// last may take a 16th beyond it, and deletes a 64th. Default: no limit. A transaction that would exceed it fails
    /// with [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub memory_limit_bytes: u64,
    /// How often a transaction is run again after a conflict before the caller sees it. Default: 1000.
    pub retries_max: u32,
    /// How long a transaction waits for a row that another one has locked or written, in milliseconds, before it fails
    /// with [`Error::LockTimeout`]: in `get_for_update`, which can say otherwise, and before it is run again after a conflict with
    /// a transaction that stays open. Default: 10,000, far more than transactions take that nobody has forgotten. 0: none waits.
    pub lock_wait_ms: u64,
    /// The kind of index of tables that are made without [`TableOptions`](crate::TableOptions). Default:
    /// [`IndexKind::Masstree`]. Tables that there are keep theirs.
    pub index: IndexKind,
    /// What such tables have in front of their index. Default: [`Front::None`].
    pub front: Front,
    /// When commits are acknowledged; a transaction can choose for itself by `Txn::set_durability`. This and what
    /// follows means nothing to a database in memory.
    pub durability: Durability,
    /// Whether a database may be made in a directory in which others keep files. Default: false: such a directory is
    /// more likely a mistake, and is refused with [`Error::Occupied`]. It counts only where there is no database yet.
    pub among_others: bool,
    /// How long a file of the log is: whole sectors of 512 bytes, up to 1 GiB. The changes of one transaction must
    /// fit into one. Default: 64 MiB.
    pub log_segment_bytes: u64,
    /// How much of the log may wait to be written; beyond, commits wait. Default: 16 MiB.
    pub log_buffer_bytes: usize,
    /// How long a commit may wait to be written; when one has waited longer, others wait before they commit.
    /// Default: 1000 ms, many times what a disk takes.
    pub log_lag_ms: u64,
    /// How long a caller waits for a disk that is full or does not answer, in milliseconds; a look at that is taken
    /// twice a second. Then what has committed is answered [`Error::Stalled`], and commits are refused with an
    /// [`Error::Log`] that says why, until the log goes on. Transactions that have only read, and only what is
    /// durable, are answered meanwhile. Default: 10,000 ms, many times what a busy disk takes. 0: without end.
    pub log_wait_ms: u64,
    /// How much of the log open readers of changes ([`Database::changes`](crate::Database::changes)) may keep beyond what the database
    /// needs for itself. One that keeps more is cut off, and answers [`Error::ChangesRemoved`](crate::Error::ChangesRemoved); so is every one when
    /// there is no room for the log. Default: 1 GiB, about as much as recovery needs itself. 0: they keep nothing.
    pub log_held_bytes: u64,
    /// A checkpoint begins when the log has grown by so much since the last one began. Default: 1 GiB. 0: none
    /// does for that reason, nor is one made when the database is closed to spare the next opening the log.
    pub checkpoint_log_bytes: u64,
    /// A checkpoint begins so long after the last one has, if anything has changed. Default: 600 s. 0: none does
    /// for that reason.
    pub checkpoint_interval_s: u64,
    /// The approximate size of a file of a checkpoint. Each holds a range of a table's rows, and a file without changes is
    /// kept for the next checkpoint. Default: 16 MiB. A change of one row costs a file of this size;
    /// a file costs a sync, and so much of the directory that a table of terabytes has longer ones.
    pub checkpoint_range_bytes: u64,
    /// How fast a checkpoint is written at most: commits wait for the same disk. Default: 32 MiB per second.
    pub checkpoint_bytes_per_s: u64,
    /// Where segments of the log are kept for restorations before they are given up. Default: nowhere; then a database
    /// can be restored to points of time since its last checkpoint but one.
    pub archive: Option<Arc<dyn Archive>>,
    /// Settings of the schemes that are there to be compared.
    pub lab: LabOptions,
}

/// The number of processors that the program may use, as of the first call: finding it out reads files of the system.
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
    /// How long somebody may wait for the log.
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
