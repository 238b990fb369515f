//! The write-ahead log on a disk that crashes. In every state that a crash can leave, what was acknowledged is there,
//! and what is there is a prefix of what was appended. Omitted syncs, and errors planted into reading, are caught.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_sim::crash::Careless;
use braid_sim::storage::{Fault, FaultRule, SimulatedStorage};
use braiddb::metrics::{Clock, SystemClock};
use braiddb::storage::{Operation, Storage};
use braiddb::wal::{
    Change, Changes, DatabaseId, Ending, Error, Flusher, Lsn, Options, Planted, Reader, Tail, Writer, open,
};
use std::sync::Arc;

const CAPACITY: u64 = 1 << 20;
const DATABASE: DatabaseId = DatabaseId(77);
const OPTIONS: Options = Options {
    database: DATABASE,
    segment_bytes: 4096,
    buffer_bytes_max: 1 << 16,
    lag_ns_max: u64::MAX,
    pace_ns: 0,
    paced_records_min: 0,
    mark_interval_ns: u64::MAX,
    held_bytes_max: u64::MAX,
    number: 0,
};

fn changes(i: u64) -> Changes {
    let mut changes = Changes::new();
    let value: Vec<u8> = (0..i * 337 % 1500).map(|at| (i * 31 + at) as u8 | 1).collect();
    changes.push(Change { table: 1, key: &i.to_be_bytes(), value: Some(&value) });
    changes
}

/// The events, with the boundaries of the storage's history.
#[derive(Clone, Debug, Default)]
struct Trace {
    /// Each record with its end, when it was appended, and when it was acknowledged.
    records: Vec<(Lsn, u64, Option<u64>)>,
    /// The position before which nothing is needed any more, and since when.
    starts: Vec<(u64, Lsn)>,
    stopped: bool,
}

impl Trace {
    /// Returns where a reader starts after a crash at this boundary.
    fn start(&self, boundary: u64) -> Lsn {
        self.starts.iter().rev().find(|(at, _)| *at <= boundary).map_or(Lsn(0), |(_, lsn)| *lsn)
    }

    /// Returns the trace for a history that begins with a crash: the first `kept` records, all of which are
    /// acknowledged.
    fn after_crash(&self, boundary: u64, kept: usize) -> Trace {
        let records = self.records[..kept].iter().map(|(lsn, ..)| (*lsn, 0, Some(0))).collect();
        Trace { records, starts: vec![(0, self.start(boundary))], stopped: false }
    }
}

fn open_on(storage: Arc<dyn Storage>, start: Lsn) -> Result<(Writer, Flusher), Error> {
    let tail = Reader::open(&*storage, DATABASE, start)?.finish()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    open(storage, OPTIONS, clock, tail)
}

/// Opens the log, appends records up to this many in groups of one to three, and cuts the log from time to time.
fn work(inner: &SimulatedStorage, storage: Arc<dyn Storage>, trace: &mut Trace, until: u64) {
    let Ok((writer, mut flusher)) = open_on(storage, trace.start(u64::MAX)) else {
        trace.stopped = true;
        return;
    };
    for i in trace.records.len() as u64..until {
        // Taken before the append, because the record may be on the disk from then on.
        let boundary = inner.boundary();
        let appended = writer.try_append(i, &changes(i)).or_else(|error| {
            // Only a step makes the next segment.
            if !matches!(error, Error::WouldBlock) {
                return Err(error);
            }
            flusher.flush_once()?;
            writer.try_append(i, &changes(i))
        });
        match appended {
            Ok(end) => trace.records.push((end, boundary, None)),
            Err(_) => {
                trace.stopped = true;
                return;
            }
        }
        if i % 3 == 1 {
            continue;
        }
        let durable = flusher.flush_once();
        let durable_lsn = writer.durable_lsn();
        for (end, _, acknowledged) in &mut trace.records {
            if *end <= durable_lsn && acknowledged.is_none() {
                *acknowledged = Some(inner.boundary());
            }
        }
        if durable.is_err() {
            trace.stopped = true;
            return;
        }
        if i % 10 == 9 {
            trace.starts.push((inner.boundary(), durable_lsn));
            writer.truncate_before(durable_lsn);
        }
    }
}

fn run(careless: Option<Careless>, until: u64) -> (SimulatedStorage, Trace) {
    let inner = SimulatedStorage::new(1, CAPACITY);
    let storage: Arc<dyn Storage> = match careless {
        None => Arc::new(inner.clone()),
        Some(careless) => Arc::new(careless.over(&inner)),
    };
    let mut trace = Trace::default();
    work(&inner, storage, &mut trace, until);
    (inner, trace)
}

/// Returns what a reader finds from its start: the numbers of records, and the end.
fn read(storage: &dyn Storage, start: Lsn, planted: Option<Planted>) -> Result<(Vec<u64>, Tail), String> {
    let text = |error: Error| error.to_string();
    let reader = match planted {
        Some(planted) => planted.open(storage, DATABASE, start, Ending::Open),
        None => Reader::open(storage, DATABASE, start),
    };
    let mut reader = reader.map_err(text)?;
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().map_err(text)? {
        let i = record.commit_timestamp;
        let mut read = Changes::new();
        record.changes().for_each(|change| read.push(change));
        if read != changes(i) {
            return Err(format!("record {i} is not what was appended"));
        }
        found.push(i);
    }
    Ok((found, reader.finish().map_err(text)?))
}

/// Checks that a crash at this boundary has left what it must and nothing else. Returns the number of all records.
fn check(
    trace: &Trace,
    boundary: u64,
    storage: &dyn Storage,
    planted: Option<Planted>,
) -> Result<usize, String> {
    let start = trace.start(boundary);
    let (found, tail) = read(storage, start, planted)?;
    if (found.clone(), tail.clone()) != read(storage, start, planted)? {
        return Err("reading twice gives different records".to_string());
    }
    let first = trace.records.iter().filter(|(end, ..)| *end <= start).count() as u64;
    if !found.iter().copied().eq(first..first + found.len() as u64) {
        return Err(format!("from {first} on there are records {found:?}"));
    }
    let count = first as usize + found.len();
    let acknowledged =
        trace.records.iter().take_while(|(.., at)| at.is_some_and(|at| at <= boundary)).count();
    let appended = trace.records.iter().filter(|(_, at, _)| *at <= boundary).count();
    if !(acknowledged..=appended).contains(&count) {
        return Err(format!("{acknowledged} acknowledged, {appended} appended, {count} are there"));
    }
    Ok(count)
}

/// Returns what is wrong in the first bad crash state, and how many states were looked at.
fn first_loss(
    storage: &SimulatedStorage,
    trace: &Trace,
    planted: Option<Planted>,
    states: u64,
) -> (Option<String>, u64) {
    let mut looked_at = 0;
    for crash in storage.crash_states(7, states) {
        looked_at += 1;
        if let Err(loss) = check(trace, crash.boundary, &crash.storage, planted) {
            let place = storage.describe(crash.boundary);
            return (Some(format!("{place}, seed {}: {loss}", crash.seed)), looked_at);
        }
    }
    (None, looked_at)
}

/// Proves that the log loses nothing in 10^4 crash states at every operation boundary, including truncation and
/// recycling.
#[test]
fn the_log_survives_every_crash() {
    let (storage, trace) = run(None, 60);
    assert!(!trace.stopped && storage.operations(Operation::Rename) > 0);
    let (loss, looked_at) = first_loss(&storage, &trace, None, 80);
    assert_eq!(loss, None);
    assert!(looked_at >= 10_000, "{looked_at} states");
}

/// Proves that continuing after a crash loses nothing, also if this crashes too.
#[test]
fn recovery_survives_crashes_too() {
    let (storage, trace) = run(None, 30);
    for crash in storage.crash_states(3, 4) {
        let kept = check(&trace, crash.boundary, &crash.storage, None).unwrap();
        let mut again = trace.after_crash(crash.boundary, kept);
        work(&crash.storage, Arc::new(crash.storage.clone()), &mut again, kept as u64 + 4);
        assert!(!again.stopped, "{}, seed {}", storage.describe(crash.boundary), crash.seed);
        let (loss, _) = first_loss(&crash.storage, &again, None, 4);
        assert_eq!(loss, None, "{}, seed {}", storage.describe(crash.boundary), crash.seed);
    }
}

/// Proves that acknowledging unsynced records, and not syncing names, are caught.
#[test]
fn careless_writers_are_caught() {
    for careless in [Careless::BodyUnsynced("log-"), Careless::NameUnsynced("log-")] {
        let (storage, trace) = run(Some(careless), 40);
        let (loss, looked_at) = first_loss(&storage, &trace, None, 50);
        let loss = loss.unwrap_or_else(|| panic!("{careless:?} is not caught in {looked_at} states"));
        println!("{careless:?}: state {looked_at}, {loss}");
    }
}

/// Proves that readers that check too little are caught: no checksum, a torn tail, a recycled segment.
#[test]
fn careless_readers_are_caught() {
    for planted in [Planted::NoChecksum, Planted::TornTail, Planted::AnySegment] {
        let (storage, trace) = run(None, 60);
        let (loss, looked_at) = first_loss(&storage, &trace, Some(planted), 50);
        let loss = loss.unwrap_or_else(|| panic!("{planted:?} is not caught in {looked_at} states"));
        println!("{planted:?}: state {looked_at}, {loss}");
    }
}

/// Proves that after a single failure of any operation nothing that was acknowledged is lost, that a failed sync stops
/// the log, and that the log can be opened again without a crash.
#[test]
fn the_log_survives_failures() {
    let (clean, _) = run(None, 24);
    for (operation, fault) in [
        (Operation::SyncData, Fault::DropUnsynced),
        (Operation::SyncDirectory, Fault::DropUnsynced),
        (Operation::Write, Fault::Torn),
        (Operation::Write, Fault::Full),
        (Operation::Write, Fault::Short),
        (Operation::Create, Fault::Full),
        (Operation::Preallocate, Fault::Full),
        (Operation::Rename, Fault::Fail),
        (Operation::Remove, Fault::Fail),
        (Operation::Read, Fault::Short),
    ] {
        for nth in 1..=clean.operations(operation) {
            let storage = SimulatedStorage::new(nth, CAPACITY);
            storage.inject(FaultRule::once(operation, nth, fault));
            let mut trace = Trace::default();
            work(&storage, Arc::new(storage.clone()), &mut trace, 24);
            assert_eq!(storage.faults_injected(), 1, "{fault:?} at {operation} {nth}");
            let stops = matches!(operation, Operation::SyncData | Operation::SyncDirectory);
            assert!(!stops || trace.stopped, "{fault:?} at {operation} {nth}");
            let (loss, _) = first_loss(&storage, &trace, None, 4);
            assert_eq!(loss, None, "{fault:?} at {operation} {nth}");
            let boundary = storage.boundary();
            let kept = check(&trace, boundary, &storage, None).unwrap();
            let mut again = trace.after_crash(boundary, kept);
            work(&storage, Arc::new(storage.clone()), &mut again, kept as u64 + 3);
            assert!(!again.stopped, "{fault:?} at {operation} {nth}");
            // What a reader has found is durable as soon as the log continues.
            let end = storage.boundary();
            check(&again, end, &storage.crash(end, 0), None).unwrap();
        }
    }
}

/// Proves that after a failed sync the waiting appenders learn that their outcome is unknown, and that appends fail.
#[test]
fn a_failed_sync_stops_the_log() {
    let storage = SimulatedStorage::new(1, CAPACITY);
    let (writer, mut flusher) = open_on(Arc::new(storage.clone()), Lsn(0)).unwrap();
    let first = writer.try_append(0, &changes(0)).unwrap();
    flusher.flush_once().unwrap();
    storage.inject(FaultRule::once(Operation::SyncData, 1, Fault::DropUnsynced));
    let second = writer.try_append(1, &changes(1)).unwrap();
    assert!(matches!(flusher.flush_once(), Err(Error::Stopped(_))));
    assert!(matches!(flusher.flush_once(), Err(Error::Stopped(_))));
    assert!(matches!(writer.wait_durable(second), Err(Error::Stopped(_))));
    assert!(matches!(writer.append(2, &changes(2)), Err(Error::Stopped(_))));
    writer.wait_durable(first).unwrap();
}

/// Proves that a full disk refuses appends clearly and keeps what was acknowledged readable. The log continues when
/// there is room, given back by truncation or by other users.
#[test]
fn a_full_disk_passes() {
    let storage = SimulatedStorage::new(1, 5 * OPTIONS.segment_bytes);
    let (writer, mut flusher) = open_on(Arc::new(storage.clone()), Lsn(0)).unwrap();
    let mut count = 0;
    let mut fill = |flusher: &mut Flusher| loop {
        match writer.try_append(count, &changes(count)) {
            Ok(_) => count += 1,
            Err(error) => return (count, error),
        }
        flusher.flush_once().unwrap();
    };
    let (full_at, error) = fill(&mut flusher);
    assert!(matches!(error, Error::Full(_)) && full_at > 5, "{full_at}, {error}");
    assert_eq!(read(&storage, Lsn(0), None).unwrap().0.len() as u64, full_at);
    writer.truncate_before(writer.durable_lsn());
    flusher.flush_once().unwrap();
    let (later, error) = fill(&mut flusher);
    assert!(matches!(error, Error::Full(_)) && later > full_at + 5, "{later}, {error}");
    // On a device without promises, a write finds no room and succeeds the next time.
    storage.inject(FaultRule::once(Operation::Write, 1, Fault::Full));
    writer.truncate_before(writer.durable_lsn());
    flusher.flush_once().unwrap();
    let end = writer.try_append(later, &changes(later)).unwrap();
    assert!(matches!(flusher.flush_once(), Err(Error::Full(_))));
    assert!(matches!(writer.try_append(later, &changes(later)), Err(Error::Full(_))));
    assert_eq!(flusher.flush_once().unwrap(), end);
}

/// Proves that zeros are written ahead into blocks that were never written, once for many groups, and that a reused
/// segment is not filled.
#[test]
fn zeros_are_written_ahead() {
    const PIECES: u64 = 4; // 64 KiB each
    let inner = SimulatedStorage::new(1, 8 << 20);
    let storage: Arc<dyn Storage> = Arc::new(inner.clone());
    let options = Options { segment_bytes: 256 << 10, ..OPTIONS };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let (writer, mut flusher) = open(storage, options, clock, Tail::default()).unwrap();
    let (mut filled, mut begun_unfilled) = (0, 0);
    for _ in 0..1500 {
        let before = inner.operations(Operation::Write);
        let end = writer.try_append(4, &changes(4)).unwrap();
        flusher.flush_once().unwrap();
        writer.truncate_before(end);
        match inner.operations(Operation::Write) - before {
            1 => {}
            // A segment's head before the record.
            2 => begun_unfilled += 1,
            writes => {
                assert!((1 + PIECES..=2 + PIECES).contains(&writes), "{writes} writes");
                filled += 1;
            }
        }
    }
    assert!(inner.operations(Operation::Rename) > 0);
    assert!(filled <= 4 && begun_unfilled >= 3, "{filled} segments were filled, {begun_unfilled} were not");
}
