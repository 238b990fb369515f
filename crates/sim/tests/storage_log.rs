//! A worked example: an append-only log with checksums, whose current file is named by a manifest that a rename
//! publishes. Written correctly, it survives every crash. With any of five planted errors it loses something in some
//! state, and the test notices it. The simulated disk is therefore harsh enough, and not harsher than a program can
//! bear.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_sim::storage::{Fault, FaultRule, SimulatedStorage};
use braiddb::storage::{File, OpenMode, Operation, Result, Storage};
use std::io::ErrorKind;

const CAPACITY: u64 = 1 << 20;
const MANIFEST: &str = "manifest";
const MANIFEST_NEW: &str = "manifest.new";
/// A record is its length (2 bytes), its checksum (8 bytes), and that many bytes.
const HEAD_BYTES: usize = 10;
const RECORD_BYTES_MAX: usize = 1000;
/// Space is reserved in steps of this size.
const RESERVE_BYTES: u64 = 8 << 10;
/// The number of records after which a new file is begun.
const RECORDS_PER_FILE: usize = 6;

/// How the log is written. Each variant but `None` is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    None,
    /// The new files' data is not synced before the rename that makes them current.
    NoDataSync,
    /// Names are never synced.
    NoDirectorySync,
    /// Checksums are not checked.
    NoChecksum,
    /// A record is acknowledged before it is synced.
    AcknowledgeFirst,
    /// A failed sync is repeated.
    SyncAgain,
}

/// Mixes eight bytes at a time. This is good enough against noise, which is all that a test produces.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    };
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let hash = bytes.chunks(8).fold(mix(seed, bytes.len() as u64), |hash, chunk| mix(hash, word(chunk)));
    mix(hash, 1)
}

struct Log<'a> {
    storage: &'a dyn Storage,
    planted: Planted,
    /// The file's number, with which the chain of checksums begins.
    number: u64,
    file: Box<dyn File>,
    tail: u64,
    reserved: u64,
    chain: u64,
    records: Vec<Vec<u8>>,
}

impl<'a> Log<'a> {
    /// Opens the log that a crash has left, or an empty one. Begins a new file, which makes everything found durable.
    fn open(storage: &'a dyn Storage, planted: Planted) -> Result<Log<'a>> {
        let found = recover(storage, planted).unwrap_or_else(|reason| panic!("{reason}")).unwrap_or_default();
        let mut last = 0;
        for name in storage.list()? {
            if let Some(number) = name.strip_prefix("log-") {
                last = last.max(number.parse().unwrap());
            }
            if name == MANIFEST_NEW {
                storage.remove(&name)?;
            }
        }
        let file = storage.open(&name_of(last + 1), OpenMode::CreateNew)?;
        let mut log =
            Log { storage, planted, number: 0, file, tail: 0, reserved: 0, chain: 0, records: found };
        log.publish(last + 1)?;
        for name in storage.list()? {
            if name.starts_with("log-") && name != name_of(log.number) {
                storage.remove(&name)?;
            }
        }
        Ok(log)
    }

    /// Begins the file with this number, which has been created, with all records so far, and makes it current.
    fn publish(&mut self, number: u64) -> Result<()> {
        (self.number, self.tail, self.reserved, self.chain) = (number, 0, 0, number);
        for record in std::mem::take(&mut self.records) {
            self.write(record)?;
        }
        let manifest = self.storage.open(MANIFEST_NEW, OpenMode::CreateNew)?;
        let sum = hash(0, &number.to_le_bytes());
        manifest.write_all_at(0, &[number.to_le_bytes(), sum.to_le_bytes()].concat())?;
        if self.planted != Planted::NoDataSync {
            self.sync(&*self.file)?;
            self.sync(&*manifest)?;
        }
        // The log's own name comes first, because the manifest must never lead to a missing file.
        self.sync_directory()?;
        self.storage.rename(MANIFEST_NEW, MANIFEST)?;
        self.sync_directory()
    }

    fn sync(&self, file: &dyn File) -> Result<()> {
        match file.sync_data() {
            Err(_) if self.planted == Planted::SyncAgain => file.sync_data(),
            synced => synced,
        }
    }

    fn sync_directory(&self) -> Result<()> {
        if self.planted == Planted::NoDirectorySync { Ok(()) } else { self.storage.sync_directory() }
    }

    fn write(&mut self, record: Vec<u8>) -> Result<()> {
        let end = self.tail + (HEAD_BYTES + record.len()) as u64;
        if end > self.reserved {
            self.file.preallocate(self.reserved, RESERVE_BYTES)?;
            self.reserved += RESERVE_BYTES;
        }
        self.chain = hash(self.chain, &record);
        let len = record.len() as u16;
        let bytes = [&len.to_le_bytes()[..], &self.chain.to_le_bytes(), &record].concat();
        self.file.write_all_at(self.tail, &bytes)?;
        self.tail = end;
        self.records.push(record);
        Ok(())
    }

    /// Adds a record. When this returns, it is acknowledged.
    fn append(&mut self, record: Vec<u8>) -> Result<()> {
        if self.records.len() % RECORDS_PER_FILE == RECORDS_PER_FILE - 1 {
            let old = name_of(self.number);
            self.file = self.storage.open(&name_of(self.number + 1), OpenMode::CreateNew)?;
            self.publish(self.number + 1)?;
            self.storage.remove(&old)?;
        }
        if self.planted == Planted::AcknowledgeFirst {
            self.sync(&*self.file)?; // the records before this one
        }
        self.write(record)?;
        if self.planted == Planted::AcknowledgeFirst { Ok(()) } else { self.sync(&*self.file) }
    }
}

fn name_of(number: u64) -> String {
    format!("log-{number}")
}

/// Returns the records that a crash has left, or nothing if there never was a log.
fn recover(storage: &dyn Storage, planted: Planted) -> Result<Option<Vec<Vec<u8>>>, String> {
    let manifest = match storage.open(MANIFEST, OpenMode::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        manifest => manifest.map_err(|error| error.to_string())?,
    };
    let mut bytes = [0; 16];
    manifest.read_exact_at(0, &mut bytes).map_err(|error| error.to_string())?;
    let (number, sum) = bytes.split_at(8);
    let is_checked = planted != Planted::NoChecksum;
    if is_checked && hash(0, number) != u64::from_le_bytes(sum.try_into().unwrap()) {
        return Err("the manifest is broken".to_string());
    }
    let number = u64::from_le_bytes(number.try_into().unwrap());
    let file = storage.open(&name_of(number), OpenMode::Read).map_err(|error| error.to_string())?;
    let mut bytes = vec![0; file.len_bytes().map_err(|error| error.to_string())? as usize];
    file.read_exact_at(0, &mut bytes).map_err(|error| error.to_string())?;
    let (mut records, mut rest, mut chain) = (Vec::new(), &bytes[..], number);
    while let Some((head, behind)) = rest.split_at_checked(HEAD_BYTES) {
        let len = usize::from(u16::from_le_bytes(head[..2].try_into().unwrap()));
        let Some((record, behind)) = behind.split_at_checked(len) else { break };
        chain = hash(chain, record);
        let is_good = !is_checked || chain == u64::from_le_bytes(head[2..].try_into().unwrap());
        if len == 0 || len > RECORD_BYTES_MAX || !is_good {
            break;
        }
        records.push(record.to_vec());
        rest = behind;
    }
    Ok(Some(records))
}

fn record(i: usize) -> Vec<u8> {
    let len = 20 + i * 337 % 900;
    (0..len).map(|at| (i * 31 + at) as u8).collect()
}

/// The events, with their boundaries.
#[derive(Default)]
struct Trace {
    /// When the log existed.
    created: Option<u64>,
    /// When each record was begun, and when it was acknowledged.
    begun: Vec<u64>,
    acknowledged: Vec<u64>,
    /// True if an operation failed. Nothing more was done after it.
    has_failed: bool,
}

/// Opens a log and appends records up to this many, or to the first error.
fn work(storage: &SimulatedStorage, planted: Planted, until: usize) -> Trace {
    let mut trace = Trace::default();
    let Ok(mut log) = Log::open(storage, planted) else {
        trace.has_failed = true;
        return trace;
    };
    trace.created = Some(storage.boundary());
    trace.begun = vec![0; log.records.len()];
    trace.acknowledged = trace.begun.clone();
    for i in log.records.len()..until {
        trace.begun.push(storage.boundary());
        if log.append(record(i)).is_err() {
            trace.has_failed = true;
            return trace;
        }
        trace.acknowledged.push(storage.boundary());
    }
    trace
}

/// Checks that everything was found after a crash at this boundary that must be there.
fn check(trace: &Trace, boundary: u64, found: Result<Option<Vec<Vec<u8>>>, String>) -> Result<(), String> {
    let before = |times: &[u64]| times.iter().filter(|time| **time <= boundary).count();
    let (acknowledged, begun) = (before(&trace.acknowledged), before(&trace.begun));
    let Some(found) = found? else {
        let is_created = trace.created.is_some_and(|created| created <= boundary);
        return if is_created { Err("the log is gone".to_string()) } else { Ok(()) };
    };
    if found.len() < acknowledged {
        return Err(format!("{acknowledged} records were acknowledged, {} are there", found.len()));
    }
    if found.len() > begun {
        return Err(format!("{begun} records were written, {} are there", found.len()));
    }
    match (0..found.len()).find(|i| found[*i] != record(*i)) {
        Some(wrong) => Err(format!("record {wrong} is not what was written")),
        None => Ok(()),
    }
}

/// Returns what is lost in the first bad crash state, and how many states were looked at.
fn first_loss(
    storage: &SimulatedStorage,
    trace: &Trace,
    planted: Planted,
    states: u64,
) -> (Option<String>, u64) {
    let mut looked_at = 0;
    for crash in storage.crash_states(7, states) {
        looked_at += 1;
        if let Err(loss) = check(trace, crash.boundary, recover(&crash.storage, planted)) {
            let place = storage.describe(crash.boundary);
            return (Some(format!("{place}, seed {}: {loss}", crash.seed)), looked_at);
        }
    }
    (None, looked_at)
}

/// The correctly written log loses nothing in 10^5 crash states.
#[test]
fn the_correct_log_survives_every_crash() {
    let storage = SimulatedStorage::new(1, CAPACITY);
    let trace = work(&storage, Planted::None, 24);
    assert!(!trace.has_failed && trace.acknowledged.len() == 24);
    let (loss, looked_at) = first_loss(&storage, &trace, Planted::None, 1000);
    assert_eq!(loss, None);
    assert!(looked_at >= 100_000, "{looked_at} states");
}

/// A recovery that crashes at any point loses nothing that the first crash had left.
#[test]
fn recovery_survives_crashes_too() {
    let storage = SimulatedStorage::new(1, CAPACITY);
    let trace = work(&storage, Planted::None, 9);
    for crash in storage.crash_states(3, 5) {
        let found = recover(&crash.storage, Planted::None);
        check(&trace, crash.boundary, found.clone()).unwrap();
        let left = found.unwrap();
        let mut again = work(&crash.storage, Planted::None, 11);
        assert!(!again.has_failed);
        // Found records count as acknowledged from the start.
        again.created = again.created.map(|created| if left.is_some() { 0 } else { created });
        let (loss, _) = first_loss(&crash.storage, &again, Planted::None, 4);
        assert_eq!(loss, None, "{}, seed {}", storage.describe(crash.boundary), crash.seed);
    }
}

/// Each planted error loses something in some state.
#[test]
fn planted_errors_are_caught() {
    for planted in
        [Planted::NoDataSync, Planted::NoDirectorySync, Planted::NoChecksum, Planted::AcknowledgeFirst]
    {
        let storage = SimulatedStorage::new(1, CAPACITY);
        let trace = work(&storage, planted, 24);
        assert!(!trace.has_failed);
        let (loss, looked_at) = first_loss(&storage, &trace, planted, 100);
        let loss = loss.unwrap_or_else(|| panic!("{planted:?} is not caught in {looked_at} states"));
        println!("{planted:?}: state {looked_at}, {loss}");
    }
}

/// A log that stops at the first error survives any single failure of any operation, and crashes after it.
#[test]
fn a_log_that_stops_survives_failures() {
    let (clean, mut failures) = (SimulatedStorage::new(1, CAPACITY), 0);
    work(&clean, Planted::None, 9);
    for (operation, fault) in [
        (Operation::SyncData, Fault::DropUnsynced),
        (Operation::SyncDirectory, Fault::DropUnsynced),
        (Operation::Write, Fault::Torn),
        (Operation::Write, Fault::Full),
        (Operation::Write, Fault::Short),
        (Operation::Create, Fault::Fail),
        (Operation::Preallocate, Fault::Full),
        (Operation::Rename, Fault::Fail),
        (Operation::Remove, Fault::Fail),
    ] {
        for nth in 1..=clean.operations(operation) {
            let storage = SimulatedStorage::new(nth, CAPACITY);
            storage.inject(FaultRule::once(operation, nth, fault));
            let trace = work(&storage, Planted::None, 9);
            assert_eq!((storage.faults_injected(), trace.has_failed), (1, fault != Fault::Short));
            failures += u32::from(trace.has_failed);
            let (loss, _) = first_loss(&storage, &trace, Planted::None, 6);
            assert_eq!(loss, None, "{fault:?} at {operation} {nth}");
        }
    }
    assert!(failures > 50, "{failures}");
}

/// A log that syncs again after a failed sync, and continues when this succeeds, loses acknowledged records.
#[test]
fn syncing_again_after_a_failure_is_caught() {
    let is_caught = |nth: u64| {
        let storage = SimulatedStorage::new(nth, CAPACITY);
        storage.inject(FaultRule::once(Operation::SyncData, nth, Fault::DropUnsynced));
        let trace = work(&storage, Planted::SyncAgain, 9);
        assert!(!trace.has_failed, "the second sync succeeds");
        first_loss(&storage, &trace, Planted::SyncAgain, 6).0.is_some()
    };
    assert!((1..=9).any(is_caught));
}
