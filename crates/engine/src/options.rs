//! How a database is set up.

use crate::error::{Error, Result};

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
    /// Whether worker threads are pinned, one to a core. Default: true. (Refusal by the system is ignored.)
    pub pin_workers: bool,
    /// Transactions that a worker keeps open at once. Default: 48, about where more
    /// misses in flight stop to pay for point reads.
    pub batch: usize,
    /// Jobs that wait in a worker's inbox before submitting blocks. Default: 1024.
    pub inbox_capacity: usize,
    /// Memory for records, indexes and versions together. Default: no limit. A transaction that
    /// would exceed it fails with [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub memory_limit_bytes: u64,
    /// How often a transaction is run again after a conflict before the caller sees it. Default: 1000.
    pub retries_max: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workers: std::thread::available_parallelism().map_or(1, |n| n.get()),
            pin_workers: true,
            batch: 48,
            inbox_capacity: 1024,
            memory_limit_bytes: u64::MAX,
            retries_max: 1000,
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |option, reason: &str| Err(Error::InvalidOption { option, reason: reason.into() });
        if self.batch == 0 || self.batch > BATCH_MAX {
            return invalid("batch", "must be from 1 to 4096");
        }
        if self.inbox_capacity == 0 {
            return invalid("inbox_capacity", "must be at least 1");
        }
        if self.workers > WORKERS_MAX {
            return invalid("workers", "must be at most 1024");
        }
        Ok(())
    }
}

const BATCH_MAX: usize = 4096;
const WORKERS_MAX: usize = 1024;
