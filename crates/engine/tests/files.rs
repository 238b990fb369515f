//! The room that the files of a database take when it is opened and closed often, when it is killed, and when it is
//! copied. Also checkpoints that are made when a database is closed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::storage::FileStorage;
use braiddb::wal::{Lsn, Until};
use braiddb::{Database, Options, Table, recovery::Recovery, tools};
use std::fs;
use std::path::{Path, PathBuf};

const SEGMENT_BYTES: u64 = 1 << 20;

/// A directory for a test's databases, which is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("braid-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options() -> Options {
    Options { workers: 1, pin_workers: false, log_segment_bytes: SEGMENT_BYTES, ..Options::default() }
}

fn open(path: &Path) -> (Database, Table<u64, [u8]>) {
    let db = Database::open(path, options()).unwrap();
    let table = db.table("t").unwrap();
    (db, table)
}

/// Puts rows of a KiB with these keys, a hundred in each transaction.
fn put_all(db: &Database, table: Table<u64, [u8]>, keys: impl Iterator<Item = u64>, value: u8) {
    let keys: Vec<u64> = keys.collect();
    let parts: Vec<Vec<u64>> = keys.chunks(100).map(<[u64]>::to_vec).collect();
    let put = async move |tx: &braiddb::Txn, part: &Vec<u64>| {
        for key in part {
            tx.put(table, *key, &[value; 1024]).await?;
        }
        Ok(())
    };
    assert!(db.run_each(parts, put).wait().unwrap().iter().all(Result::is_ok));
}

/// The files of a directory with their lengths, by name.
fn files(path: &Path) -> Vec<(String, u64)> {
    let file =
        |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len());
    let mut files: Vec<_> = fs::read_dir(path).unwrap().map(|entry| file(entry.unwrap())).collect();
    files.sort_unstable();
    files
}

fn bytes(path: &Path) -> u64 {
    files(path).iter().map(|(_, bytes)| bytes).sum()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for (name, _) in files(from) {
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

fn recovery(path: &Path) -> Recovery {
    let db = Database::open_read_only(path, options()).unwrap();
    db.recovery().unwrap()
}

/// Proves that opening and closing a database leaves its files unchanged, and that a commit in between leaves one
/// short segment.
#[test]
fn openings_leave_nothing() {
    let scratch = Scratch::new("openings");
    let path = scratch.path("p");
    let (db, table) = open(&path);
    put_all(&db, table, 0..10, 1);
    db.close().unwrap();
    let before = files(&path);
    assert!(before.iter().filter(|(name, _)| name.starts_with("log-")).count() == 1, "{before:?}");
    for _ in 0..5 {
        open(&path).0.close().unwrap();
        assert_eq!(files(&path), before);
    }
    let (db, table) = open(&path);
    put_all(&db, table, 10..20, 1);
    db.close().unwrap();
    let after = files(&path);
    assert_eq!(after.len(), before.len() + 1, "{after:?}");
    assert!(bytes(&path) < 64 << 10, "{after:?}");
    assert_eq!(recovery(&path).transactions, 2);
}

/// Proves that a database with short segments that is opened, written to and closed again and again keeps some dozens
/// of files.
#[test]
fn many_openings_keep_few_segments() {
    let scratch = Scratch::new("many");
    let path = scratch.path("p");
    let open_short = || Database::open(&path, Options { log_segment_bytes: 1 << 16, ..options() }).unwrap();
    for round in 0..120u64 {
        let db = open_short();
        let table: Table<u64, u64> = db.table("t").unwrap();
        db.transact(|tx| tx.put(table, round % 4, round)).unwrap();
        db.close().unwrap();
        let count = files(&path).len();
        assert!(count <= 50, "{count} files after round {round}");
    }
    let db = open_short();
    let (table, tx) = (db.table::<u64, u64>("t").unwrap(), db.begin().unwrap());
    assert_eq!([0, 1, 2, 3].map(|key| tx.get(table, key).unwrap()), [116, 117, 118, 119].map(Some));
}

/// Proves that opening a directory without a database read-only leaves nothing there.
#[test]
fn reading_what_is_no_database_leaves_nothing() {
    let scratch = Scratch::new("nothing");
    let path = scratch.path("p");
    fs::create_dir(&path).unwrap();
    let refused = Database::open_read_only(&path, options());
    assert!(matches!(refused, Err(braiddb::Error::NoDatabase)), "{refused:?}");
    assert_eq!(files(&path), []);
}

/// Proves that a refused restoration and a refused backup remove the directory that they have created, and keep an
/// existing one.
#[test]
fn refused_copies_leave_no_directory() {
    let scratch = Scratch::new("refused");
    let (path, nothing, to) = (scratch.path("p"), scratch.path("nothing"), scratch.path("to"));
    let restore = |from: &Path| Database::open_at(from, &to, Until::Lsn(Lsn(1 << 40)), options()).map(drop);
    let (db, table) = open(&path);
    put_all(&db, table, 0..10, 1);
    db.close().unwrap();
    fs::create_dir(&nothing).unwrap();
    assert!(restore(&path).is_err() && !to.exists(), "a position behind the end");
    assert!(restore(&nothing).is_err() && !to.exists(), "not a database");
    fs::create_dir(&to).unwrap();
    assert!(restore(&nothing).is_err() && to.exists());
    fs::remove_dir_all(&to).unwrap();
    let (db, _) = open(&path);
    fs::remove_dir_all(&path).unwrap();
    assert!(db.backup(&to).is_err() && !to.exists(), "a database that was removed");
}

/// Proves that a process that is killed and started again and again, and writes little, does not leave a segment's
/// room each time, whether or not it makes checkpoints.
#[test]
fn kills_leave_no_segments() {
    for checkpoints in [0, 2] {
        let scratch = Scratch::new("kills");
        for round in 0..6 {
            let path = scratch.path(&round.to_string());
            let (db, table) = open(&path);
            put_all(&db, table, round * 10..round * 10 + 10, 1);
            (0..checkpoints).for_each(|_| db.checkpoint().unwrap());
            let (found, max) = (files(&path), 5 * SEGMENT_BYTES / 2);
            // A segment that is written, a segment that is prepared, the older log, and rows.
            assert!(found.iter().map(|(_, bytes)| bytes).sum::<u64>() < max, "round {round}: {found:?}");
            copy(&path, &scratch.path(&(round + 1).to_string()));
        }
        let (db, table) = open(&scratch.path("6"));
        let tx = db.begin().unwrap();
        assert!((0..60).all(|key| tx.get(table, key).unwrap().is_some()));
    }
}

/// Proves that segments that are no longer needed are used again by the next process, and are removed when the
/// database is closed.
#[test]
fn segments_of_a_killed_process_are_used_again() {
    let scratch = Scratch::new("again");
    let path = scratch.path("p");
    let (db, table) = open(&path);
    for value in 0..4 {
        put_all(&db, table, 0..3000, value);
        db.checkpoint().unwrap();
    }
    let segments = |path: &Path| -> Vec<String> {
        let named = files(path).into_iter().map(|(name, _)| name);
        named.filter(|name| name.starts_with("log-")).collect()
    };
    let killed = scratch.path("killed");
    copy(&path, &killed);
    let before = segments(&killed);
    let (again, in_again) = open(&killed);
    let after = segments(&killed);
    // One segment has begun, and one is prepared in place of the previous one.
    assert!(after.len() <= before.len(), "{before:?} {after:?}");
    assert!(!after.contains(&before[0]), "{before:?} {after:?}");
    put_all(&again, in_again, 0..5000, 9);
    again.close().unwrap();
    db.close().unwrap();
    for path in [&path, &killed] {
        assert!(bytes(path) < 20 << 20, "{:?}", files(path));
        assert!(tools::verify(&FileStorage::open(path).unwrap(), &mut |_| {}).unwrap().is_good());
    }
    let (again, in_again) = open(&killed);
    let tx = again.begin().unwrap();
    assert!((0..5000).all(|key| tx.get(in_again, key).unwrap().is_some_and(|value| value == [9; 1024])));
}

/// Proves that a copy takes as much room as its contents, and reports this size, whether the database is open or
/// closed.
#[test]
fn a_copy_is_as_large_as_what_is_in_it() {
    let scratch = Scratch::new("copy");
    let path = scratch.path("p");
    let db = Database::open(&path, Options { workers: 1, pin_workers: false, ..Options::default() }).unwrap();
    let table: Table<u64, [u8]> = db.table("t").unwrap();
    put_all(&db, table, 0..1000, 1);
    let rows_bytes = 1000 * 1024;
    let of_open = db.backup(scratch.path("of open")).unwrap();
    db.close().unwrap();
    let from = FileStorage::open(&path).unwrap();
    let of_closed = tools::backup(&from, &FileStorage::create(scratch.path("of closed")).unwrap()).unwrap();
    for (name, said) in [("of open", of_open), ("of closed", of_closed)] {
        let taken = bytes(&scratch.path(name));
        assert!((rows_bytes..rows_bytes * 11 / 10).contains(&taken), "{name}: {taken}");
        assert!((rows_bytes..rows_bytes * 11 / 10).contains(&said.bytes), "{name}: {said:?}");
        let copy = FileStorage::open(scratch.path(name)).unwrap();
        let found = tools::verify(&copy, &mut |_| {}).unwrap();
        assert!(found.is_good() && found.was_closed, "{found:?}");
        let (db, table) = open(&scratch.path(name));
        let tx = db.begin().unwrap();
        assert!((0..1000).all(|key| tx.get(table, key).unwrap() == Some(&[1; 1024][..])));
    }
}

/// Proves that a database that would take long to recover makes a checkpoint when it is closed, without resting. It
/// makes none if there is little to replay, or if the checkpoint would write much more than is replayed. A database
/// that is dropped makes none.
#[test]
fn closing_makes_a_checkpoint_where_it_pays() {
    let scratch = Scratch::new("closing");
    let path = scratch.path("p");
    let slow = Options { checkpoint_bytes_per_s: 1 << 20, ..options() };
    let db = Database::open(&path, slow).unwrap();
    let table = db.table("t").unwrap();
    put_all(&db, table, 0..20_000, 1);
    let begun = std::time::Instant::now();
    db.close().unwrap();
    assert!(begun.elapsed().as_secs() < 15, "20 MiB at a MiB each second: {:?}", begun.elapsed());
    let found = recovery(&path);
    assert_eq!((found.checkpoint, found.rows, found.transactions), (Some(1), 20_000, 0));

    let (db, table) = open(&path);
    put_all(&db, table, 0..100, 2);
    db.close().unwrap();
    let found = recovery(&path);
    assert_eq!((found.checkpoint, found.rows, found.transactions), (Some(1), 20_000, 1));

    // All ranges of 20 MiB are changed, by nine MiB of log.
    let (db, table) = open(&path);
    put_all(&db, table, (0..20_000).step_by(4), 3);
    put_all(&db, table, (0..20_000).step_by(5), 4);
    drop(db);
    assert_eq!(recovery(&path).transactions, 1 + 50 + 40);
    let (db, table) = open(&path);
    put_all(&db, table, 20_000..40_000, 5);
    db.checkpoint().unwrap();
    put_all(&db, table, (0..40_000).step_by(4), 6);
    db.close().unwrap();
    let found = recovery(&path);
    assert_eq!((found.checkpoint, found.rows, found.transactions), (Some(2), 40_000, 100));

    // The log is now as long as what is to be written.
    let (db, table) = open(&path);
    put_all(&db, table, 0..40_000, 7);
    db.close().unwrap();
    let found = recovery(&path);
    assert_eq!((found.checkpoint, found.rows, found.transactions), (Some(3), 40_000, 0));

    // If the length of the log makes no checkpoints, closing makes none either.
    let never = Options { checkpoint_log_bytes: 0, ..options() };
    let db = Database::open(&path, never).unwrap();
    put_all(&db, db.table("t").unwrap(), 0..40_000, 8);
    db.close().unwrap();
    let found = recovery(&path);
    assert_eq!((found.checkpoint, found.rows, found.transactions), (Some(3), 40_000, 400));
}
