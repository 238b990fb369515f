//! The measurement of one peer in its own process: it is opened, filled, and run through every workload, and the
//! results are written down. The peer's memory is therefore its own, its threads are gone before the next peer's turn,
//! and a crash affects no other peer.

use crate::engines::{self, Visitor};
use crate::peer::{Class, Peer, Session, Setting, failed};
use crate::work::{ACCOUNTS, Operation, Outcome, Shape, TELLERS, Table, Task, Work, shape_of};
use braid_bench::distribution::{Kind, Rng};
use braid_bench::{Failure, Result, mix};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// The task of the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The peer's name.
    pub peer: String,
    /// The promise of a commit.
    pub class: Class,
    /// Records at first.
    pub records: u64,
    /// The skew of requests; 0 is uniform.
    pub theta: f64,
    /// Branches of TPC-B.
    pub branches: u64,
    /// The workloads, in the order in which they run.
    pub cells: Vec<CellOrder>,
    /// Threads of a peer that multiplexes, if clients are not threads.
    pub workers: usize,
    /// How long each workload is measured.
    pub seconds: f64,
    /// Seed of all draws.
    pub seed: u64,
    /// An empty directory.
    pub directory: PathBuf,
    /// A PostgreSQL server, if one was named.
    pub postgres: Option<String>,
    /// A Redis server, if one was named.
    pub redis: Option<String>,
}

/// A workload and its number of clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellOrder {
    /// The workload's name.
    pub workload: String,
    /// Clients, each with one open transaction. In class memory, they are threads for every peer.
    pub clients: usize,
}

/// The results of a peer's turn.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// Memory of the process after loading, less its memory before the peer was opened.
    pub memory_bytes: u64,
    /// The share of all of the process's memory after loading that lies in huge pages.
    pub huge_share: f64,
    /// Disk space of the files after loading.
    pub file_bytes: u64,
    /// Duration of loading.
    pub load_s: f64,
    /// A result for each cell of the order. None if the peer does not support the workload.
    pub cells: Vec<Option<Cell>>,
}

/// The result of one cell.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cell {
    /// All threads together.
    pub transactions_per_s: f64,
    /// Median latency, retries included.
    pub p50_us: f64,
    /// 99th percentile of latency, retries included.
    pub p99_us: f64,
    /// Retried attempts per transaction.
    pub retries_per_commit: f64,
}

/// Runs an order.
pub fn measure(order: &Order) -> Result<Found> {
    let unknown = || Failure::new(format!("there is no peer {:?}", order.peer));
    engines::visit(&order.peer, order).ok_or_else(unknown)?
}

impl Visitor for &Order {
    type Answer = Result<Found>;

    fn visit<P: Peer>(self) -> Result<Found> {
        let before = memory_bytes();
        let threads = self.cells.iter().map(|cell| cell.clients).max().unwrap_or(1);
        let setting = Setting {
            class: self.class,
            directory: self.directory.clone(),
            records: self.records,
            threads,
            postgres: self.postgres.clone(),
            redis: self.redis.clone(),
        };
        let peer = P::open(&setting)?;
        let begin = Instant::now();
        peer.load(Table::Records, &mut (0..self.records).map(|number| (mix(number), number)))?;
        peer.settle()?;
        let mut found = Found { load_s: begin.elapsed().as_secs_f64(), ..Found::default() };
        found.memory_bytes = memory_bytes().saturating_sub(before);
        found.huge_share = huge_share();
        found.file_bytes = file_bytes(&self.directory);
        if self.cells.iter().any(|cell| cell.workload == "tpcb") {
            load_tpcb(&peer, self.branches)?;
        }
        let mut next = self.records;
        for (number, cell) in self.cells.iter().enumerate() {
            let shape = shape_of(&cell.workload, self.branches)?;
            let seed = self.seed.wrapping_add(number as u64 * 1000);
            let work = Work::new(shape, self.records, next, Kind::Zipfian, self.theta);
            found.cells.push(run(self, &peer, &work, cell.clients, seed)?);
            next = work.next();
        }
        peer.close()?;
        // The process ends, so taking the peer apart would gain nothing.
        std::mem::forget(peer);
        Ok(found)
    }
}

/// Fills the tables of TPC-B.
pub fn load_tpcb<P: Peer>(peer: &P, branches: u64) -> Result<()> {
    for (table, rows) in [
        (Table::Branches, branches),
        (Table::Tellers, branches * TELLERS),
        (Table::Accounts, branches * ACCOUNTS),
    ] {
        peer.load(table, &mut (0..rows).map(|number| (number, 0)))?;
    }
    peer.settle()
}

/// Runs one workload. Returns `None` if the peer does not support it.
fn run<P: Peer>(order: &Order, peer: &P, work: &Work, clients: usize, seed: u64) -> Result<Option<Cell>> {
    if work.shape().scans() && !P::FACTS.ordered {
        return Ok(None);
    }
    let (threads, in_flight) = match order.class {
        Class::Sync if P::FACTS.multiplexes => {
            let threads = order.workers.clamp(1, clients);
            (threads, Some(clients.div_ceil(threads)))
        }
        _ => (clients, None),
    };
    let start = Start { barrier: Barrier::new(threads), moment: OnceLock::new() };
    let ran: Vec<Result<Measured>> = thread::scope(|scope| {
        let spawn = |number: usize| {
            let (seed, start) = (mix(seed.wrapping_add(number as u64)), &start);
            scope.spawn(move || run_thread(order, peer, work, in_flight, seed, start))
        };
        let handles: Vec<_> = (0..threads).map(spawn).collect();
        handles.into_iter().map(|handle| handle.join().map_err(|_| died::<P>())?).collect()
    });
    // Measured until the last thread has ended, because a transaction that began in time may end later.
    let (began, conflicts) = *start.moment.get_or_init(|| (Instant::now(), peer.conflicts()));
    let (elapsed, conflicts) = (began.elapsed(), peer.conflicts() - conflicts);
    let mut all = Measured::new();
    for measured in ran {
        all.add(measured?);
    }
    if all.missing > 0 {
        return Err(failed(P::FACTS.name, format!("{} records were not found that are there", all.missing)));
    }
    if P::FACTS.transactional
        && let Shape::TpcB(branches) = work.shape()
    {
        check_tpcb(peer, *branches)?;
    }
    Ok(Some(all.cell(elapsed, conflicts)))
}

fn died<P: Peer>() -> Failure {
    failed(P::FACTS.name, "a thread has panicked")
}

/// The results of one thread, or of all threads.
struct Measured {
    transactions: u64,
    retries: u64,
    missing: u64,
    latency_ns: Histogram<u64>,
}

impl Measured {
    fn new() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid");
        Measured { transactions: 0, retries: 0, missing: 0, latency_ns }
    }

    #[inline(always)]
    fn ended(&mut self, clock: Instant, started_ns: u64, outcome: Outcome) {
        self.transactions += 1;
        self.retries += outcome.retries;
        self.missing += outcome.missing;
        std::hint::black_box(outcome.sum);
        if started_ns != 0 {
            self.latency_ns.saturating_record((clock.elapsed().as_nanos() as u64).saturating_sub(started_ns));
        }
    }

    fn add(&mut self, other: Measured) {
        self.transactions += other.transactions;
        self.retries += other.retries;
        self.missing += other.missing;
        self.latency_ns.add(other.latency_ns).expect("all have the same bounds");
    }

    fn cell(&self, elapsed: Duration, conflicts: u64) -> Cell {
        let us = |quantile| self.latency_ns.value_at_quantile(quantile) as f64 / 1e3;
        Cell {
            transactions_per_s: self.transactions as f64 / elapsed.as_secs_f64(),
            p50_us: us(0.5),
            p99_us: us(0.99),
            retries_per_commit: (self.retries + conflicts) as f64 / self.transactions.max(1) as f64,
        }
    }
}

/// The share of its time that a thread warms up before it is measured.
const WARM_UP_SHARE: f64 = 0.2;

/// The point at which threads begin together.
struct Start {
    barrier: Barrier,
    /// The time of the start, and the conflicts that the peer had counted by then.
    moment: OnceLock<(Instant, u64)>,
}

fn run_thread<P: Peer>(
    order: &Order,
    peer: &P,
    work: &Work,
    in_flight: Option<usize>,
    seed: u64,
    start: &Start,
) -> Result<Measured> {
    let mut session = peer.session(in_flight);
    let mut run = |clock: Instant, seconds: f64, seed: u64| {
        let session = session.as_mut().map_err(|failure| Failure::new(failure.to_string()))?;
        let mut measured = Measured::new();
        let tasks = Tasks::new(work, order.class, clock, Duration::from_secs_f64(seconds), seed);
        session.stream(work, tasks, |started_ns, outcome| measured.ended(clock, started_ns, outcome))?;
        Ok(measured)
    };
    let warm = run(Instant::now(), order.seconds * WARM_UP_SHARE, seed);
    // Every thread reaches the barrier, whatever its warm-up returned, so none is left waiting.
    start.barrier.wait();
    let (clock, _) = *start.moment.get_or_init(|| (Instant::now(), peer.conflicts()));
    warm?;
    run(clock, order.seconds, !seed)
}

/// For short transactions in memory, one in this many has its latency measured. Only then is the clock read to see
/// whether the time is over.
const LATENCY_SAMPLE_EVERY: u32 = 16;

/// A source of tasks until the time is over.
struct Tasks<'a> {
    work: &'a Work,
    seeds: Rng,
    clock: Instant,
    length: Duration,
    stride: u32,
    until_next: u32,
}

impl<'a> Tasks<'a> {
    fn new(work: &'a Work, class: Class, clock: Instant, length: Duration, seed: u64) -> Self {
        let is_long = work.shape().weight() >= 50 || class == Class::Sync;
        let stride = if is_long { 1 } else { LATENCY_SAMPLE_EVERY };
        Tasks { work, seeds: Rng::new(seed), clock, length, stride, until_next: 0 }
    }
}

impl Iterator for Tasks<'_> {
    type Item = Task;

    #[inline(always)]
    fn next(&mut self) -> Option<Task> {
        let mut started_ns = 0;
        if self.until_next == 0 {
            let now = self.clock.elapsed();
            if now >= self.length {
                return None;
            }
            self.until_next = self.stride;
            started_ns = now.as_nanos() as u64 | 1;
        }
        self.until_next -= 1;
        Some(self.work.task(self.seeds.next_u64(), started_ns))
    }
}

/// Checks that branches, tellers and accounts have changed by the same amount. If so, no update was lost, and none was
/// done by half.
pub fn check_tpcb<P: Peer>(peer: &P, branches: u64) -> Result<()> {
    let mut session = peer.session(Some(1))?;
    let mut sums = Vec::new();
    for (table, rows) in [
        (Table::Branches, branches),
        (Table::Tellers, branches * TELLERS),
        (Table::Accounts, branches * ACCOUNTS),
    ] {
        let sum = match P::FACTS.ordered {
            true => vec![Operation::Scan(table, 0, rows as usize)],
            false => (0..rows).map(|key| Operation::Get(table, key)).collect(),
        };
        let work = Work::script(vec![sum]);
        sums.push(session.execute(&work, &work.task(0, 0))?.sum as i64);
    }
    if sums.iter().any(|sum| *sum != sums[0]) {
        let text =
            format!("branches, tellers and accounts of TPC-B have sums of {sums:?}, which are not equal");
        return Err(failed(P::FACTS.name, text));
    }
    Ok(())
}

/// Returns the resident memory of this process, as the system counts it.
fn memory_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Returns the share of this process's resident memory that lies in huge pages, as the system counts it. Mapped files
/// in memory are included.
fn huge_share() -> f64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let kib = |names: &[&str]| {
        let values = text.lines().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            let value: f64 = value.split_whitespace().next()?.parse().ok()?;
            names.contains(&name).then_some(value)
        });
        values.sum::<f64>()
    };
    kib(&["AnonHugePages", "ShmemPmdMapped", "FilePmdMapped"]) / kib(&["Rss"]).max(1.0)
}

/// Returns the disk space of a folder's files: their blocks, not their lengths.
pub fn file_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => file_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}
