//! Counters and latencies of a database. Each worker counts for itself; reading adds up.
//!
//! Invariant: a `WorkerMetrics` is written by one thread at a time, so counting is a load and a
//! store, not an atomic addition; readers see each counter as it was at some recent moment.

use crate::profile::Sums;
pub use crate::profile::{Activity, Breakdown};
use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Where the engine reads the time from: for statistics, for when background work is due, and for the marks in the log by
/// which a database can be restored to a point in time. What is committed does not depend on it.
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds since some fixed moment. Never goes back.
    fn now_ns(&self) -> u64;

    /// Nanoseconds since 1970 (UTC), as far as is known here. May go back, and jump.
    fn unix_ns(&self) -> u64;
}

/// The system's clocks: the monotonic one, and that of the day.
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
        // (Before 1970, and after 2554, it is wrong anyway.)
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The latency of one transaction in this many is measured.
pub(crate) const SAMPLE_EVERY: u64 = 16;

const SUB_BITS: u32 = 3;
const BUCKETS: usize = (64 - SUB_BITS as usize) << SUB_BITS;

/// A histogram of nanoseconds: eight buckets per power of two, so that a quantile is told within an eighth.
#[derive(Debug)]
struct Histogram([AtomicU64; BUCKETS]);

impl Histogram {
    fn bucket(ns: u64) -> usize {
        let ns = ns.max(1 << SUB_BITS);
        let exponent = ns.ilog2();
        let sub = (ns >> (exponent - SUB_BITS)) as usize & ((1 << SUB_BITS) - 1);
        (((exponent - SUB_BITS) as usize) << SUB_BITS) + sub
    }

    /// The highest value of a bucket.
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
            /// Where its time goes.
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

        /// What a database has counted since it was opened, and where its memory is.
        #[derive(Clone, Debug, Default)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        pub struct Statistics {
            $($(#[$doc])* pub $name: u64,)*
            /// Waits for rows that other transactions have, at this moment.
            pub locks_awaited: u64,
            /// Where transactions meet, under [`Adaptive`](crate::Adaptive); all zero under other schemes.
            pub contention: ContentionStatistics,
            /// Memory by use.
            pub memory: MemoryStatistics,
            /// Workers that hold up the reclamation of memory, now and for a while. Empty when all is well.
            pub stalls: Vec<Stall>,
            /// The log; all zero where there is none.
            pub log: LogStatistics,
            /// The archive of the log; all zero where there is none.
            pub archive: ArchiveStatistics,
            /// How the log is.
            pub log_condition: LogCondition,
            /// Checkpoints; none in a database in memory.
            pub checkpoints: CheckpointStatistics,
            /// The room on the device; all zero where there is no log.
            pub room: RoomStatistics,
            /// From begin to commit, of a sample of the committed transactions.
            pub latency: LatencyStatistics,
            /// Where the workers' time has gone, while that was asked for.
            pub breakdown: Breakdown,
        }

        impl Statistics {
            fn add(&mut self, worker: &WorkerMetrics) {
                $(self.$name += worker.$name.get();)*
                self.breakdown.add(&worker.profile.breakdown());
            }

            /// The counters by their names, and the parts, to be written and read one by one.
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

/// Parts of [`Statistics`].
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
    /// Those of them that nobody stood in the way of until they wanted to commit: no serial order was sure to
    /// explain what they had read.
    aborts_unserializable,
    /// Transactions undone because their closure returned an error that is no conflict: as a rule, a refusal by the program.
    aborts_user,
    /// Transactions that have failed because of others and are not run again: after all retries, or because a row was held for too long.
    given_up,
    /// Transactions undone because the memory limit was reached.
    aborts_out_of_memory,
    /// Attempts that were run again after a conflict.
    retries,
    /// Times that a transaction was left at a probable cache miss for another one.
    suspensions,
    /// Times that a transaction's closure was entered.
    polls,
    /// Rounds of workers over their open transactions.
    rounds,
    /// Open transactions met in these rounds; by `rounds`, the mean batch occupancy.
    visits,
    /// Groups of open transactions that did the same next, where a worker gathers them ([`Teams`](crate::suspend::Teams));
    /// `visits` by this: the mean size of a group.
    teams,
    /// Times that a transaction was parked, waiting for something outside.
    parkings,
}

/// What the log of a durable database has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LogStatistics {
    /// Groups made durable: each is one write and one sync.
    pub groups: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// The most records in one group.
    pub group_records_max: u64,
    /// The most bytes in one group.
    pub group_bytes_max: u64,
    /// The fastest group, from the start of its write to the end of its sync.
    pub flush_ns_min: u64,
    /// The slowest.
    pub flush_ns_max: u64,
    /// All together; by `groups`, the mean.
    pub flush_ns_sum: u64,
    /// Times that a write was refused for want of room, or that something had waited for the disk for a second.
    pub stalls: u64,
    /// How much of the log is kept for readers of changes alone.
    pub held_bytes: u64,
}

/// How the log of a durable database is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum LogCondition {
    /// It goes on; or there is none.
    #[default]
    Good,
    /// No further segment could be made: once the present one is full, commits are refused. Reads go on.
    Refusing {
        /// Why.
        cause: String,
    },
    /// What was appended does not become durable.
    Stalled {
        /// For how long the oldest of it has waited, in nanoseconds.
        for_ns: u64,
        /// Why.
        cause: String,
    },
    /// Storage has failed: nothing more is committed until the database is opened again.
    Stopped {
        /// Why.
        cause: String,
    },
}

/// The checkpoints of a durable database since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckpointStatistics {
    /// Those that count.
    pub made: u64,
    /// Those that failed.
    pub failed: u64,
    /// One is being written.
    pub is_under_way: bool,
    /// The number of the last good one, which may be from before the database was opened.
    pub last_number: Option<u64>,
    /// The position of the log from which it has to be replayed over that one.
    pub last_lsn: Option<u64>,
    /// How long ago it was made, in nanoseconds; none if that was before the database was opened.
    pub last_ago_ns: Option<u64>,
    /// How many bytes of log recovery would have to replay.
    pub lag_bytes: u64,
    /// Why the last one failed that did.
    pub last_error: Option<String>,
    /// How long ago that was, in nanoseconds.
    pub last_error_ago_ns: Option<u64>,
}

/// What a durable database tells of by itself: see [`Database::on_event`](crate::Database::on_event).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A checkpoint counts.
    CheckpointMade {
        /// Its number.
        number: u64,
    },
    /// A checkpoint has failed. The log is kept, and grows.
    CheckpointFailed {
        /// Why.
        error: String,
    },
    /// The log is in another condition than before.
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

    /// What has come since an earlier look; the extremes are those of all.
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

/// What has become of the log's segments that were to be archived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ArchiveStatistics {
    /// Segments that the archive has kept since the database was opened, such as it had already included.
    pub segments: u64,
    /// How often it has failed.
    pub failures: u64,
    /// Why it has failed, if it has kept nothing since.
    pub last_error: Option<String>,
    /// How much of the log it does not have yet. Much more than `log_segment_bytes`: it does not keep up, or fails.
    pub waiting_bytes: u64,
}

/// Where transactions meet, as [`Adaptive`](crate::Adaptive) keeps it. Records that are hot are locked before they are read, and transactions that
/// would conflict there wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ContentionStatistics {
    /// How often a transaction has found another one in its way, when it validated what it had read or at a lock.
    pub meetings: u64,
    /// Groups of records, of 4096, that are hot for transactions that write, at this moment.
    pub hot_for_writers: u64,
    /// And for those that only read.
    pub hot_for_readers: u64,
}

/// The room on the device of a durable database that has a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RoomStatistics {
    /// What is free, in bytes; none where the system does not say.
    pub free_bytes: Option<u64>,
    /// What there is in all.
    pub total_bytes: Option<u64>,
    /// What is kept back for the next checkpoint, in the file `reserve`. 0 while there is plenty of room.
    pub reserve_bytes: u64,
    /// What the next checkpoint is expected to need at most, if it begins before long.
    pub checkpoint_bytes: u64,
    /// There is not room enough for that: no segment of the log is begun any more, and once the present one is full,
    /// commits are refused.
    pub is_short: bool,
}

/// A worker that does not go on, though it has operations in flight: a closure blocks its thread, or it is not stepped
/// in the middle of a scan. What others replace and delete meanwhile is not given back before it does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stall {
    /// The name of the thread that made the worker, or its number.
    pub thread: String,
    /// How long reclamation is known to have stood still, in nanoseconds: since this was first noticed, which is when
    /// much waits for it, memory is short, or statistics are asked for.
    pub for_ns: u64,
}

/// Memory in use, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MemoryStatistics {
    /// Index nodes.
    pub index_bytes: u64,
    /// The indirection array, small newest versions included.
    pub records_bytes: u64,
    /// Versions outside of it, and long keys.
    pub versions_bytes: u64,
    /// Open transactions: their places, what they have read and written, and their buffers, of which a little is kept
    /// for the next ones.
    pub transactions_bytes: u64,
    /// Everything else.
    pub other_bytes: u64,
    /// The limit on all of it ([`Options::memory_limit_bytes`](crate::Options::memory_limit_bytes)). `None`: there is none.
    pub limit_bytes: Option<u64>,
    /// Records in use, deleted ones not yet reclaimed included.
    pub records: u64,
    /// Index nodes in use.
    pub nodes: u64,
}

impl MemoryStatistics {
    /// All kinds together.
    pub fn total_bytes(&self) -> u64 {
        let data = self.index_bytes + self.records_bytes + self.versions_bytes;
        data + self.transactions_bytes + self.other_bytes
    }
}

/// Latencies in nanoseconds, each told within an eighth.
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
        // Relaxed: one writer; readers want no order.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl WorkerMetrics {
    /// Is the transaction that begins now one to be measured?
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

/// All workers' metrics of a database.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Vec<Arc<WorkerMetrics>>>);

impl Metrics {
    /// A worker's; kept when the worker goes, and given to a later one to go on with.
    pub(crate) fn worker(&self) -> Arc<WorkerMetrics> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(idle) = all.iter().find(|worker| Arc::strong_count(worker) == 1) {
            return idle.clone();
        }
        all.push(Arc::default());
        all.last().expect("pushed just now").clone()
    }

    /// The sum over all workers; memory is left for the caller.
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

    /// Every value lies within an eighth below its bucket's upper end.
    #[test]
    fn buckets() {
        for ns in (0..10_000).chain((0..60).map(|i| 0x1234_5678_9abc << (i % 16))) {
            let upper = Histogram::upper_ns(Histogram::bucket(ns));
            assert!(upper > ns && upper - upper / 8 <= ns.max(8), "{ns} {upper}");
        }
        assert!(Histogram::bucket(u64::MAX) < BUCKETS);
    }

    /// Statistics are serialized with all that they are made of.
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

    /// Workers' counts add up, and a departed worker's are kept.
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
