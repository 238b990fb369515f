//! A database on a device that is full, or nearly full. It opens, reads, makes checkpoints and gives up its log.
//! Commits continue, or are refused with an error that says what is missing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, OpenMode, Storage};
use braiddb::{Database, Error, Options, Table, wal};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SEGMENT: u64 = 64 << 10;
const ROWS: u64 = 2400;
const VALUE: usize = 1000;

fn options() -> Options {
    Options { workers: 1, pin_workers: false, log_segment_bytes: SEGMENT, ..Options::default() }
}

fn open(storage: &MemoryStorage, options: Options) -> Result<Database, Error> {
    Database::open_with(Arc::new(storage.clone()), options, Arc::new(SystemClock::default()), &mut |_| {})
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Log(wal::Error::Full(_)))
}

fn value(round: u64) -> Vec<u8> {
    vec![round as u8; VALUE]
}

fn put(db: &Database, table: Table<u64, [u8]>, key: u64, round: u64) -> Result<(), Error> {
    db.run(async move |tx| tx.put(table, key, &value(round)).await).wait()
}

/// Puts a row when there is room. Returns how often there was none.
fn put_patiently(db: &Database, table: Table<u64, [u8]>, key: u64, round: u64) -> u64 {
    let (deadline, mut refused) = (Instant::now() + Duration::from_secs(30), 0);
    while let Err(error) = put(db, table, key, round) {
        assert!(is_full(&error), "{error}");
        assert!(Instant::now() < deadline, "commits do not go on: {error}");
        refused += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    refused
}

fn free_bytes(storage: &MemoryStorage) -> u64 {
    storage.space().unwrap().unwrap().free_bytes
}

fn check_rows(db: &Database, table: Table<u64, [u8]>, rounds: &[u64]) {
    let tx = db.begin().unwrap();
    for (key, round) in rounds.iter().enumerate() {
        let found = tx.get(table, key as u64).unwrap();
        assert_eq!(found, Some(&value(*round)[..]), "key {key}");
    }
}

/// Proves that a log does not fill the device before its first checkpoint is due. A checkpoint begins when room runs
/// out, the log is given up, commits continue, and the database opens again with everything that was acknowledged.
#[test]
fn a_small_device_goes_on() {
    let storage = MemoryStorage::new(12 << 20);
    let db = open(&storage, options()).unwrap();
    let table = db.table("t").unwrap();
    let (mut rounds, mut refused) = (vec![0; ROWS as usize], 0);
    for round in 1..=7 {
        for key in 0..ROWS {
            refused += put_patiently(&db, table, key, round);
            rounds[key as usize] = round;
        }
    }
    println!("{refused} commits were refused, {} bytes are free", free_bytes(&storage));
    let newest = storage.list().unwrap().into_iter().rfind(|name| name.starts_with("checkpoint-")).unwrap();
    assert!(newest > format!("checkpoint-{:020}", 1), "{newest}");
    drop(db);
    let db = open(&storage, options()).unwrap();
    let table = db.table("t").unwrap();
    check_rows(&db, table, &rounds);
    put_patiently(&db, table, 0, 99);
}

/// Fills the device except for this many bytes.
fn fill(storage: &MemoryStorage, left_bytes: u64) {
    let file = storage.open("others", OpenMode::CreateNew).unwrap();
    file.preallocate(0, free_bytes(storage) - left_bytes).unwrap();
}

/// Proves that a database opens without any room, and without reserved room. What was acknowledged is read, and
/// existing tables are opened. Commits are refused with an error that says what is missing, and everything works again
/// when there is room.
#[test]
fn a_full_device_is_opened() {
    let storage = MemoryStorage::new(12 << 20);
    let db = open(&storage, options()).unwrap();
    let table = db.table("t").unwrap();
    (0..ROWS).for_each(|key| put(&db, table, key, 1).unwrap());
    drop(db);
    for left_bytes in [0, 10, SEGMENT - 1] {
        // Soon after it was opened, the database makes room by itself. On a slow machine that may come first.
        let refused = (0..20).find_map(|attempt| opened_full(&storage, left_bytes, attempt));
        let error = refused.expect("commits are refused");
        let text = error.to_string();
        assert!(is_full(&error), "{text}");
        for part in ["bytes are free and ", " are needed", "make room on the device"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

/// Opens the database with this many bytes left, reads everything, and gives it its room back. Returns the error of a
/// write, if a table could not be made either.
fn opened_full(storage: &MemoryStorage, left_bytes: u64, attempt: u32) -> Option<Error> {
    storage.remove("reserve").unwrap();
    fill(storage, left_bytes);
    let db = open(storage, options()).unwrap();
    let table = db.table("t").unwrap();
    let written = put(&db, table, 0, 1);
    let made = db.table::<u64, u64>(&format!("another {left_bytes} {attempt}"));
    check_rows(&db, table, &vec![1; ROWS as usize]);
    let rows = db.run(async move |tx| {
        let (mut rows, mut count) = (tx.scan_all(table), 0);
        while rows.next().await?.is_some() {
            count += 1;
        }
        Ok(count)
    });
    assert_eq!(rows.wait().unwrap(), ROWS);
    storage.remove("others").unwrap();
    put_patiently(&db, table, 0, 1);
    db.checkpoint().unwrap();
    db.close().unwrap();
    written.err().filter(|_| made.is_err())
}

/// Proves that a database whose device others have filled recovers by itself, with its reserved room: it makes
/// checkpoints, gives up its log, and commits continue.
#[test]
fn the_reserve_makes_room() {
    let storage = MemoryStorage::new(12 << 20);
    let db = open(&storage, options()).unwrap();
    let table = db.table("t").unwrap();
    (0..ROWS).for_each(|key| put(&db, table, key, 1).unwrap());
    drop(db);
    fill(&storage, 0);
    let db = open(&storage, options()).unwrap();
    let table = db.table("t").unwrap();
    for key in 0..ROWS {
        put_patiently(&db, table, key, 2);
    }
    assert!(db.statistics().checkpoints.made > 0);
    check_rows(&db, table, &vec![2; ROWS as usize]);
    let segments = || storage.list().unwrap().into_iter().filter(|name| name.starts_with("log-")).count();
    let deadline = Instant::now() + Duration::from_secs(30);
    // The present number depends on how much was committed during the last checkpoint.
    while segments() > 5 {
        assert!(Instant::now() < deadline, "{} segments are left", segments());
        put_patiently(&db, table, 0, 3);
        std::thread::sleep(Duration::from_millis(5));
    }
}
