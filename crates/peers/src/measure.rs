//! One peer in a process of its own: opened, filled, put through every workload, and written down. So its memory is
//! its own, its threads are gone when the next one's turn comes, and what kills it kills nothing else.

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

/// What the process is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The peer's name.
    pub peer: String,
    /// What commits promise.
    pub class: Class,
    /// Records to begin with.
    pub records: u64,
    /// The skew of requests: 0 is uniform.
    pub theta: f64,
    /// Branches of TPC-B.
    pub branches: u64,
    /// What to run, in this order.
    pub cells: Vec<CellOrder>,
    /// Threads of a peer that multiplexes, where clients are not threads.
    pub workers: usize,
    /// How long each is measured.
    pub seconds: f64,
    /// Of all draws.
    pub seed: u64,
    /// An empty directory.
    pub directory: PathBuf,
    /// A PostgreSQL server, if one was named.
    pub postgres: Option<String>,
    /// A Redis server, if one was named.
    pub redis: Option<String>,
}

/// A workload, and who asks for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellOrder {
    /// By its name.
    pub workload: String,
    /// Clients, each of which has one transaction open; in memory these are threads for every peer.
    pub clients: usize,
}

/// What was found out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// How much more memory the process has after loading than before it opened the peer.
    pub memory_bytes: u64,
    /// Of all memory that the process then has, the share that lies in huge pages.
    pub huge_share: f64,
    /// What the files take on the disk after loading.
    pub file_bytes: u64,
    /// How long loading took.
    pub load_s: f64,
    /// A result for each order. None: the peer has no form of this workload.
    pub cells: Vec<Option<Cell>>,
}

/// A result.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cell {
    /// All threads together.
    pub transactions_per_s: f64,
    /// Median latency, retries included.
    pub p50_us: f64,
    /// Its 99th percentile.
    pub p99_us: f64,
    /// Attempts that were begun again, by transaction.
    pub retries_per_commit: f64,
}

/// Does what is ordered.
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
        // Nothing is gained by taking all of it apart: the process ends.
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

/// Runs one workload. None: the peer has no form of it.
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
    // Until the last one has ended: what was begun in time may take longer.
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

/// What one thread, or all, have done.
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

/// How much of its time a thread warms up before it is measured.
const WARM_UP_SHARE: f64 = 0.2;

/// Where threads begin together.
struct Start {
    barrier: Barrier,
    /// When that was, and how many conflicts the peer had counted until then.
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
    // Reached by all, whatever has become of them: nobody is left waiting.
    start.barrier.wait();
    let (clock, _) = *start.moment.get_or_init(|| (Instant::now(), peer.conflicts()));
    warm?;
    run(clock, order.seconds, !seed)
}

/// Of short transactions in memory, one in so many has its latency measured, and then the clock is asked if it is
/// over.
const LATENCY_SAMPLE_EVERY: u32 = 16;

/// Tasks until the time is over.
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

/// Branches, tellers and accounts must have changed by the same amount: no update was lost, none done by half.
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

/// Memory of this process that is resident, by the system's count.
fn memory_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The share of this process's resident memory that lies in huge pages, files in memory that it maps included; by the
/// system's count.
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

/// What the files of a folder take: their blocks, not their lengths.
pub fn file_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => file_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}
