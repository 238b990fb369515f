//! Counters and latencies of a database. Each worker counts for itself, and a reader adds the counts up.
//!
//! Invariant: one thread at a time writes a `WorkerMetrics`. Counting is therefore a load and a store, not an atomic
//! addition. Readers see each counter as it was at some recent moment.

use crate::profile::Sums;
pub use crate::profile::{Activity, Breakdown};
use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The engine's source of time. The engine reads it for statistics, for when background work is due, and for the
/// marks in the log by which a database can be restored to a point in time. What is committed does not depend on it.
pub trait Clock: Send + Sync + 'static {
    /// Returns nanoseconds since some fixed moment. Never goes back.
    fn now_ns(&self) -> u64;

    /// Returns nanoseconds since 1970 (UTC), as well as the clock knows. May go back, and jump.
    fn unix_ns(&self) -> u64;
}

/// The system's clocks: the monotonic clock, and the time of day.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn unix_ns(&self) -> u64 {
        // Before 1970 and after 2554 the clock is wrong anyway.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// One transaction in this many has its latency measured.
pub(crate) const SAMPLE_EVERY: u64 = 16;

const SUB_BITS: u32 = 3;
const BUCKETS: usize = (64 - SUB_BITS as usize) << SUB_BITS;

/// A histogram of nanoseconds with eight buckets per power of two, so that a quantile is exact within an eighth.
#[derive(Debug)]
struct Histogram([AtomicU64; BUCKETS]);

impl Histogram {
    fn bucket(ns: u64) -> usize {
        let ns = ns.max(1 << SUB_BITS);
        let exponent = ns.ilog2();
        let sub = (ns >> (exponent - SUB_BITS)) as usize & ((1 << SUB_BITS) - 1);
        (((exponent - SUB_BITS) as usize) << SUB_BITS) + sub
    }

    /// Returns the highest value of a bucket.
    fn upper_ns(bucket: usize) -> u64 {
        let exponent = (bucket >> SUB_BITS) as u32;
        let sub = (bucket & ((1 << SUB_BITS) - 1)) as u64;
        ((1 << SUB_BITS) + sub + 1) << exponent
    }
}

/// Declares the counters once, for workers and for the sum.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One worker's counters.
        #[derive(Debug)]
        pub(crate) struct WorkerMetrics {
            $(pub(crate) $name: Counter,)*
            ticks: Counter,
            latency: Histogram,
            /// Where the worker's time goes.
            pub(crate) profile: Arc<Sums>,
        }

        impl Default for WorkerMetrics {
            fn default() -> Self {
                WorkerMetrics {
                    $($name: Counter::default(),)*
                    ticks: Counter::default(),
                    latency: Histogram(std::array::from_fn(|_| AtomicU64::new(0))),
                    profile: Arc::default(),
                }
            }
        }

        /// The counts of a database since it was opened, and its use of memory.
        #[derive(Clone, Debug, Default)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        pub struct Statistics {
            $($(#[$doc])* pub $name: u64,)*
            /// Transactions that wait for rows of other transactions at this moment.
            pub locks_awaited: u64,
            /// Contention under [`Adaptive`](crate::Adaptive). All zero under other schemes.
            pub contention: ContentionStatistics,
            /// Memory by use.
            pub memory: MemoryStatistics,
            /// Workers that hold up the reclamation of memory, now and for some time. Normally empty.
            pub stalls: Vec<Stall>,
            /// The log. All zero if there is none.
            pub log: LogStatistics,
            /// The archive of the log. All zero if there is none.
            pub archive: ArchiveStatistics,
            /// The condition of the log.
            pub log_condition: LogCondition,
            /// Checkpoints. None in a database in memory.
            pub checkpoints: CheckpointStatistics,
            /// The room on the device. All zero if there is no log.
            pub room: RoomStatistics,
            /// Latency from begin to commit, of a sample of the committed transactions.
            pub latency: LatencyStatistics,
            /// Where the workers' time went while profiling was on.
            pub breakdown: Breakdown,
        }

        impl Statistics {
            fn add(&mut self, worker: &WorkerMetrics) {
                $(self.$name += worker.$name.get();)*
                self.breakdown.add(&worker.profile.breakdown());
            }

            /// Returns the counters by their names, and the parts, to be written and read one by one.
            pub(crate) fn split(&mut self) -> (Vec<(&'static str, &mut u64)>, Parts<'_>) {
                let Statistics {
                    $($name,)*
                    locks_awaited, contention, memory, log, archive, checkpoints, room, latency,
                    stalls: _, log_condition: _, breakdown: _,
                } = self;
                let counters = vec![$((stringify!($name), $name),)* ("locks_awaited", locks_awaited)];
                (counters, Parts { contention, memory, log, archive, checkpoints, room, latency })
            }
        }
    };
}

/// The parts of [`Statistics`].
pub(crate) struct Parts<'s> {
    pub(crate) contention: &'s mut ContentionStatistics,
    pub(crate) memory: &'s mut MemoryStatistics,
    pub(crate) log: &'s mut LogStatistics,
    pub(crate) archive: &'s mut ArchiveStatistics,
    pub(crate) checkpoints: &'s mut CheckpointStatistics,
    pub(crate) room: &'s mut RoomStatistics,
    pub(crate) latency: &'s mut LatencyStatistics,
}

counters! {
    /// Transactions that committed.
    commits,
    /// Attempts that were undone because of a conflict with another transaction.
    aborts_conflict,
    /// The part of `aborts_conflict` that met no other transaction until the commit. No serial order was sure to
    /// explain what they had read.
    aborts_unserializable,
    /// Transactions undone because their closure returned an error other than a conflict, usually a refusal by the
    /// program.
    aborts_user,
    /// Transactions that failed because of other transactions and are not run again: after all retries, or because a
    /// row was held for too long.
    given_up,
    /// Transactions undone because the memory limit was reached.
    aborts_out_of_memory,
    /// Attempts that were run again after a conflict.
    retries,
    /// Switches from one transaction to another at a probable cache miss.
    suspensions,
    /// Times that a transaction's closure was entered.
    polls,
    /// Rounds of workers over their open transactions.
    rounds,
    /// Open transactions met in these rounds. Divided by `rounds`: the mean batch occupancy.
    visits,
    /// Groups of open transactions with the same next step, if a worker gathers them
    /// ([`Teams`](crate::suspend::Teams)). `visits` divided by this: the mean size of a group.
    teams,
    /// Times that a transaction was parked to wait for something outside.
    parkings,
}

/// The work of a durable database's log since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LogStatistics {
    /// Groups made durable. Each is one write and one sync.
    pub groups: u64,
    /// Records in all groups.
    pub records: u64,
    /// Bytes in all groups.
    pub bytes: u64,
    /// The most records in one group.
    pub group_records_max: u64,
    /// The most bytes in one group.
    pub group_bytes_max: u64,
    /// The fastest group, in nanoseconds from the start of its write to the end of its sync.
    pub flush_ns_min: u64,
    /// The slowest group, in nanoseconds.
    pub flush_ns_max: u64,
    /// All groups together, in nanoseconds. Divided by `groups`: the mean.
    pub flush_ns_sum: u64,
    /// Times that a write was refused for lack of room, or that something had waited for the disk for a second.
    pub stalls: u64,
    /// The bytes of the log that are kept only for readers of changes.
    pub held_bytes: u64,
}

/// The condition of a durable database's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum LogCondition {
    /// The log continues, or there is none.
    #[default]
    Good,
    /// No further segment could be made. When the present one is full, commits are refused. Reads continue.
    Refusing {
        /// The reason.
        cause: String,
    },
    /// Appended records do not become durable.
    Stalled {
        /// How long the oldest of them has waited, in nanoseconds.
        for_ns: u64,
        /// The reason.
        cause: String,
    },
    /// Storage has failed. Nothing more is committed until the database is opened again.
    Stopped {
        /// The reason.
        cause: String,
    },
}

/// The checkpoints of a durable database since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckpointStatistics {
    /// Checkpoints that succeeded.
    pub made: u64,
    /// Checkpoints that failed.
    pub failed: u64,
    /// True while a checkpoint is being written.
    pub is_under_way: bool,
    /// The number of the last good checkpoint, which may be from before the database was opened.
    pub last_number: Option<u64>,
    /// The position of the log from which recovery would replay it on top of that checkpoint.
    pub last_lsn: Option<u64>,
    /// How long ago that checkpoint was made, in nanoseconds. `None` if that was before the database was opened.
    pub last_ago_ns: Option<u64>,
    /// How many bytes of the log recovery would have to replay.
    pub lag_bytes: u64,
    /// Why the last failed checkpoint failed.
    pub last_error: Option<String>,
    /// How long ago that was, in nanoseconds.
    pub last_error_ago_ns: Option<u64>,
}

/// An event that a durable database reports: see [`Database::on_event`](crate::Database::on_event).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A checkpoint has succeeded.
    CheckpointMade {
        /// The checkpoint's number.
        number: u64,
    },
    /// A checkpoint has failed. The log is kept, and grows.
    CheckpointFailed {
        /// The reason.
        error: String,
    },
    /// The condition of the log has changed.
    Log(LogCondition),
    /// There is no longer room for the next checkpoint, or there is again.
    Room(RoomStatistics),
}

impl LogStatistics {
    /// Adds a group.
    pub(crate) fn add(&mut self, records: u64, bytes: u64, flush_ns: u64) {
        self.flush_ns_min = if self.groups == 0 { flush_ns } else { self.flush_ns_min.min(flush_ns) };
        self.flush_ns_max = self.flush_ns_max.max(flush_ns);
        self.flush_ns_sum += flush_ns;
        self.groups += 1;
        self.records += records;
        self.bytes += bytes;
        self.group_records_max = self.group_records_max.max(records);
        self.group_bytes_max = self.group_bytes_max.max(bytes);
    }

    /// Returns the difference to an earlier reading. Minima and maxima are those since the database was opened.
    pub fn since(&self, earlier: &LogStatistics) -> LogStatistics {
        LogStatistics {
            groups: self.groups - earlier.groups,
            records: self.records - earlier.records,
            bytes: self.bytes - earlier.bytes,
            flush_ns_sum: self.flush_ns_sum - earlier.flush_ns_sum,
            ..*self
        }
    }
}

/// The archiving of the log's segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ArchiveStatistics {
    /// Segments that the archive has kept since the database was opened, including segments that it already had.
    pub segments: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Why the last attempt failed, if no segment has been kept since.
    pub last_error: Option<String>,
    /// The bytes of the log that the archive does not have yet. Much more than `log_segment_bytes` means that the
    /// archive is too slow, or fails.
    pub waiting_bytes: u64,
}

/// Contention as [`Adaptive`](crate::Adaptive) measures it. Hot records are locked before they are read, and
/// transactions that would conflict there wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ContentionStatistics {
    /// How often a transaction met another one, while validating its reads or at a lock.
    pub meetings: u64,
    /// Groups of records, of 4096, that are hot for transactions that write, at this moment.
    pub hot_for_writers: u64,
    /// Groups of records, of 4096, that are hot for transactions that only read, at this moment.
    pub hot_for_readers: u64,
}

/// The room on the device of a durable database with a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RoomStatistics {
    /// Free bytes. `None` if the system does not say.
    pub free_bytes: Option<u64>,
    /// All bytes of the device.
    pub total_bytes: Option<u64>,
    /// Bytes reserved for the next checkpoint, in the file `reserve`. 0 while there is plenty of room.
    pub reserve_bytes: u64,
    /// The most bytes that the next checkpoint is expected to need, if it begins soon.
    pub checkpoint_bytes: u64,
    /// There is not enough room for the next checkpoint. No segment of the log is begun, and when the present one is
    /// full, commits are refused.
    pub is_short: bool,
}

/// A worker that does not move although it has operations in flight: a closure blocks its thread, or the program does
/// not step it in the middle of a scan. Memory that other workers replace and delete meanwhile is not reclaimed until
/// it moves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stall {
    /// The name of the thread that made the worker, or its number.
    pub thread: String,
    /// How long reclamation is known to have stood still, in nanoseconds. It counts from when this was first noticed:
    /// when much memory waits to be reclaimed, memory is short, or statistics are read.
    pub for_ns: u64,
}

/// Memory in use, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MemoryStatistics {
    /// Index nodes.
    pub index_bytes: u64,
    /// The indirection array, including small newest versions.
    pub records_bytes: u64,
    /// Versions outside of the indirection array, and long keys.
    pub versions_bytes: u64,
    /// Open transactions: their places, their read and write sets, and their buffers, of which a few are kept for the
    /// next transactions.
    pub transactions_bytes: u64,
    /// Everything else.
    pub other_bytes: u64,
    /// The limit on the total ([`Options::memory_limit_bytes`](crate::Options::memory_limit_bytes)). `None` if there
    /// is no limit.
    pub limit_bytes: Option<u64>,
    /// Records in use, including deleted records that are not yet reclaimed.
    pub records: u64,
    /// Index nodes in use.
    pub nodes: u64,
}

impl MemoryStatistics {
    /// Returns the sum of all kinds.
    pub fn total_bytes(&self) -> u64 {
        let data = self.index_bytes + self.records_bytes + self.versions_bytes;
        data + self.transactions_bytes + self.other_bytes
    }
}

/// Latencies in nanoseconds, each exact within an eighth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LatencyStatistics {
    /// Transactions measured.
    pub samples: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
}

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: there is one writer, and readers need no order.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl WorkerMetrics {
    /// Returns true if the transaction that begins now is to be measured.
    #[inline(always)]
    pub(crate) fn samples_now(&self) -> bool {
        self.ticks.add(1);
        self.ticks.get().is_multiple_of(SAMPLE_EVERY)
    }

    pub(crate) fn record_latency(&self, ns: u64) {
        let bucket = &self.latency.0[Histogram::bucket(ns)];
        bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// The metrics of all workers of a database.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Vec<Arc<WorkerMetrics>>>);

impl Metrics {
    /// Returns the metrics of a worker. They remain when the worker ends, and a later worker continues with them.
    pub(crate) fn worker(&self) -> Arc<WorkerMetrics> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(idle) = all.iter().find(|worker| Arc::strong_count(worker) == 1) {
            return idle.clone();
        }
        all.push(Arc::default());
        all.last().expect("pushed just now").clone()
    }

    /// Returns the sum over all workers. The caller fills in the memory.
    pub(crate) fn sum(&self) -> Statistics {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sum = Statistics::default();
        let mut latency = vec![0; BUCKETS];
        for worker in all.iter() {
            sum.add(worker);
            for (sum, bucket) in latency.iter_mut().zip(&worker.latency.0) {
                *sum += bucket.load(Ordering::Relaxed);
            }
        }
        sum.latency = LatencyStatistics::of(&latency);
        sum
    }
}

impl LatencyStatistics {
    fn of(buckets: &[u64]) -> Self {
        let samples = buckets.iter().sum();
        let quantile = |per_mille: u64| {
            let rank = samples * per_mille / 1000;
            let mut before = 0;
            let bucket = buckets.iter().position(|count| {
                before += count;
                before > rank
            });
            bucket.map_or(0, Histogram::upper_ns)
        };
        LatencyStatistics { samples, p50_ns: quantile(500), p99_ns: quantile(990), p999_ns: quantile(999) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that every value lies within an eighth below its bucket's upper end.
    #[test]
    fn buckets() {
        for ns in (0..10_000).chain((0..60).map(|i| 0x1234_5678_9abc << (i % 16))) {
            let upper = Histogram::upper_ns(Histogram::bucket(ns));
            assert!(upper > ns && upper - upper / 8 <= ns.max(8), "{ns} {upper}");
        }
        assert!(Histogram::bucket(u64::MAX) < BUCKETS);
    }

    /// Proves that statistics are serialized with all their parts.
    #[cfg(feature = "serde")]
    #[test]
    fn serialized() {
        let mut statistics = Statistics { commits: 7, ..Statistics::default() };
        let plain = postcard::to_allocvec(&statistics).unwrap();
        assert_eq!(plain[0], 7, "the first counter");
        statistics.stalls.push(Stall { thread: "worker".into(), for_ns: 1 });
        statistics.log_condition = LogCondition::Stopped { cause: "gone".into() };
        let further = postcard::to_allocvec(&statistics).unwrap();
        assert!(further.len() > plain.len() + "workergone".len());
    }

    /// Proves that workers' counts add up, and that an ended worker's counts are kept.
    #[test]
    fn sums() {
        let metrics = Metrics::default();
        let (a, b) = (metrics.worker(), metrics.worker());
        a.commits.add(3);
        b.commits.add(4);
        for ns in 1..=1000 {
            b.record_latency(ns);
        }
        drop(a);
        let c = metrics.worker();
        c.commits.add(5);
        let sum = metrics.sum();
        assert_eq!((sum.commits, sum.latency.samples), (12, 1000));
        assert!((500..=570).contains(&sum.latency.p50_ns), "{:?}", sum.latency);
        assert_eq!(metrics.0.lock().expect("no panic").len(), 2);
    }
}
