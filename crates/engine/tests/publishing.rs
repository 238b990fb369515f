//! Statistics that are published for other processes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::tools::{self, Published};
use braiddb::{Database, Error, Options, Publisher, Table};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A directory that is removed when this is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("braid-publishing-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options() -> Options {
    Options { workers: 1, pin_workers: false, log_segment_bytes: 1 << 20, ..Options::default() }
}

fn open(path: &Path) -> Database {
    Database::open(path, options()).unwrap()
}

const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(3600);

/// Waits until the published statistics meet a condition.
fn await_published(path: &Path, wanted: impl Fn(&Published) -> bool) -> Published {
    let began = Instant::now();
    loop {
        if let Some(published) = tools::published(path).unwrap().filter(&wanted) {
            return published;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it is published at last");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for an error of the publisher.
fn await_error(publisher: &Publisher) -> Error {
    let began = Instant::now();
    loop {
        if let Some(error) = publisher.take_error() {
            return error;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it fails at last");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn exists(path: &Path) -> [bool; 2] {
    ["statistics", "statistics.new"].map(|name| path.join(name).exists())
}

#[test]
fn what_is_counted_is_published() {
    // Proves that the file is there when the call returns, is updated, has the program's own statistics, and is
    // removed with the publisher.
    let directory = Directory::new("counted");
    let db = open(&directory.0);
    let table: Table<u64, u64> = db.table("t").unwrap();
    assert!(tools::published(&directory.0).unwrap().is_none());
    let publisher = db.publish_statistics(SHORT).unwrap();
    let first = tools::published(&directory.0).unwrap().unwrap();
    assert_eq!((first.pid, first.statistics.commits), (std::process::id().into(), 0));
    assert_eq!(first.interval_ns, 10_000_000);
    assert!(first.program.contains("publishing") && first.since_unix_ns <= first.written_unix_ns);
    for key in 0..7 {
        db.transact(|tx| tx.put(table, key, key)).unwrap();
    }
    let later = await_published(&directory.0, |published| published.statistics.commits == 7);
    assert!(later.clock_ns > first.clock_ns && later.since_unix_ns == first.since_unix_ns);
    let (told, own) = (later.statistics, db.statistics());
    assert_eq!((told.log.records, told.memory.records), (own.log.records, own.memory.records));
    assert!(told.log.groups > 0 && told.checkpoints == own.checkpoints, "{told:?}");
    publisher.stop().unwrap();
    assert_eq!(exists(&directory.0), [false; 2]);
    db.close().unwrap();
}

#[test]
fn a_closed_database_publishes_nothing() {
    // Proves that closing ends the publisher, waits for it, removes the file and leaves the directory free. The
    // publisher may be dropped later.
    let directory = Directory::new("closed");
    for round in 0..30 {
        let db = open(&directory.0);
        let publisher = db.publish_statistics(SHORT).unwrap();
        assert_eq!(exists(&directory.0), [true, false], "round {round}");
        if round % 2 == 0 {
            std::thread::sleep(SHORT);
        }
        db.close().unwrap();
        assert_eq!(exists(&directory.0), [false; 2]);
        let again = open(&directory.0); // the directory is not locked
        let other = again.publish_statistics(LONG).unwrap();
        publisher.stop().unwrap();
        assert_eq!(exists(&directory.0), [true, false], "what another one has published stays");
        drop((again, other));
        assert_eq!(exists(&directory.0), [false; 2]);
    }
    let db = open(&directory.0);
    std::mem::forget(db.publish_statistics(SHORT).unwrap());
    drop(db);
    assert_eq!(exists(&directory.0), [false; 2]);
}

#[test]
fn the_last_publisher_counts() {
    // Proves that a later publisher takes the place of the earlier one, whose end does not harm it.
    let directory = Directory::new("last");
    let db = open(&directory.0);
    let first = db.publish_statistics(SHORT).unwrap();
    let second = db.publish_statistics(LONG).unwrap();
    first.stop().unwrap();
    let published = tools::published(&directory.0).unwrap().unwrap();
    assert_eq!(u128::from(published.interval_ns), LONG.as_nanos());
    drop(second);
    assert_eq!(exists(&directory.0), [false; 2]);
}

#[test]
fn files_of_others_are_left() {
    // Proves that a file of this name that is not the engine's is refused and left, and that a file that a crash has
    // left is replaced.
    let directory = Directory::new("others");
    let db = open(&directory.0);
    for name in ["statistics", "statistics.new"] {
        let path = directory.0.join(name);
        fs::write(&path, "rainfall by month").unwrap();
        let error = db.publish_statistics(LONG).unwrap_err();
        assert!(matches!(error, Error::Storage(_)) && error.to_string().contains("move it away"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "rainfall by month");
        fs::remove_file(&path).unwrap();
        for left in [&b"braid sta"[..], b"", &[0; 700], b"braid statistics 1\ncommi"] {
            fs::write(&path, left).unwrap();
            db.publish_statistics(LONG).unwrap().stop().unwrap();
        }
    }
    let in_memory = Database::in_memory(options()).unwrap();
    assert!(matches!(in_memory.publish_statistics(LONG), Err(Error::InMemory)));
    db.close().unwrap();
    let read = Database::open_read_only(&directory.0, options()).unwrap();
    assert!(matches!(read.publish_statistics(LONG), Err(Error::ReadOnly)));
}

#[test]
fn errors_are_kept() {
    // Proves that an error is kept, that the publisher continues when it can, and that a damaged file is named.
    let directory = Directory::new("errors");
    let db = open(&directory.0);
    let publisher = db.publish_statistics(SHORT).unwrap();
    let path = directory.0.join("statistics.new");
    let began = Instant::now();
    while fs::create_dir(&path).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "there is a moment without that file");
    }
    let error = await_error(&publisher);
    assert!(error.to_string().contains("statistics.new"), "{error}");
    await_error(&publisher); // and again
    fs::remove_dir(&path).unwrap();
    let now = tools::published(&directory.0).unwrap().unwrap();
    await_published(&directory.0, |published| published.clock_ns > now.clock_ns);
    publisher.take_error();
    publisher.stop().unwrap();
    for text in ["rainfall", "", "braid statistics 1\ncommits 7\n"] {
        fs::write(directory.0.join("statistics"), text).unwrap();
        let error = tools::published(&directory.0).unwrap_err().to_string();
        assert!(error.contains("statistics") && error.contains("damaged"), "{error}");
    }
}

#[test]
fn the_file_disturbs_nothing() {
    // Proves that backups, checks, restorations and opening ignore the file, also if a killed process has left it.
    let directory = Directory::new("undisturbed");
    let path = directory.0.join("db");
    let db = open(&path);
    let table: Table<u64, u64> = db.table("t").unwrap();
    db.transact(|tx| tx.put(table, 1, 2)).unwrap();
    let publisher = db.publish_statistics(SHORT).unwrap();
    db.checkpoint().unwrap();
    db.backup(directory.0.join("copy")).unwrap();
    assert_eq!(exists(&directory.0.join("copy")), [false; 2]);
    let left = fs::read(path.join("statistics")).unwrap();
    drop(publisher);
    db.close().unwrap();
    for name in ["statistics", "statistics.new"] {
        fs::write(path.join(name), &left).unwrap();
    }
    let options = options();
    let past = Database::open_at(&path, directory.0.join("past"), braiddb::wal::Until::End, options).unwrap();
    assert_eq!(past.begin().unwrap().get(past.table::<u64, u64>("t").unwrap(), 1).unwrap(), Some(2));
    let db = open(&path);
    db.checkpoint().unwrap();
    assert_eq!(exists(&path), [true; 2], "it stays until something is published");
    db.publish_statistics(LONG).unwrap().stop().unwrap();
    assert_eq!(exists(&path), [false; 2]);
}
