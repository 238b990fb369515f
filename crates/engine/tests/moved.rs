//! Other programs rename, replace, remove or link the directory of an open database. The database stays in the
//! directory in which it was opened, and soon after its files are gone it acknowledges nothing more.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::metrics::LogCondition;
use braiddb::storage::{Cause, FileStorage, Holder, LOCK_NAME, Storage};
use braiddb::{Database, Error, Options, Table, tools, wal};
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A directory for a test's databases, which is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("braid-moved-{name}-{}", std::process::id()));
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

/// Segments are short, so they change names all the time.
fn options() -> Options {
    Options { workers: 1, pin_workers: false, log_segment_bytes: 64 << 10, ..Options::default() }
}

fn open(path: &Path) -> (Database, Table<u64, u64>) {
    let db = Database::open(path, options()).unwrap();
    let table = db.table("t").unwrap();
    (db, table)
}

fn put(db: &Database, table: Table<u64, u64>, key: u64, value: u64) -> Result<(), Error> {
    db.run(async move |tx| tx.put(table, key, value).await).wait()
}

fn put_all(db: &Database, table: Table<u64, u64>, keys: std::ops::Range<u64>, value: u64) {
    let results = db.run_each(keys.collect(), async move |tx, key: &u64| tx.put(table, *key, value).await);
    assert!(results.wait().unwrap().iter().all(Result::is_ok));
}

fn contents(db: &Database, table: Table<u64, u64>) -> Vec<(u64, u64)> {
    let rows = db.run(async move |tx| {
        let (mut rows, mut found) = (tx.scan_all(table), Vec::new());
        while let Some(row) = rows.next().await? {
            found.push(row);
        }
        Ok(found)
    });
    rows.wait().unwrap()
}

/// Checks that the database at this path has the keys from 0 to `rows` with this value, and nothing else, and that all
/// its files are good.
fn check(path: &Path, rows: u64, value: u64) {
    let (db, table) = open(path);
    assert_eq!(contents(&db, table), (0..rows).map(|key| (key, value)).collect::<Vec<_>>());
    db.close().unwrap();
    let found = tools::verify(&FileStorage::open(path).unwrap(), &mut |_| {}).unwrap();
    assert!(found.is_good(), "{found:?}");
}

/// Returns the file of the log that is written now.
fn current_segment(path: &Path) -> PathBuf {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut segments: Vec<_> = names.filter(|name| name.starts_with("log-")).collect();
    segments.sort_unstable();
    // The last segment is prepared and has not begun.
    path.join(&segments[segments.len() - 2])
}

/// Checks that commits are refused for this reason soon after `act` was applied to the files of a database, that reads
/// continue, and that closing reports an error.
fn refuses_after(name: &str, reason: &str, act: impl FnOnce(&Path)) {
    let scratch = Scratch::new(name);
    let path = scratch.path("p");
    let (db, table) = open(&path);
    put_all(&db, table, 0..100, 1);
    act(&path);
    let (begun, mut key) = (Instant::now(), 1000);
    let error = loop {
        match put(&db, table, key, 2) {
            Ok(()) => key += 1,
            Err(error) => break error,
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "commits are acknowledged for ever");
    };
    // The engine looks twice a second. The rest is for a busy machine.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // The commit that was in progress may get the answer that its outcome is unknown.
    let text = db.table::<u64, u64>("another").unwrap_err().to_string();
    assert!(text.contains(reason) && text.contains("somebody else has removed, moved or replaced"), "{text}");
    let later = put(&db, table, 1, 3).unwrap_err();
    assert!(matches!(later, Error::Log(wal::Error::Stopped(_))), "first {error}, then {later}");
    assert!(matches!(db.statistics().log_condition, LogCondition::Stopped { .. }));
    let tx = db.begin().unwrap();
    assert_eq!((tx.get(table, 7).unwrap(), tx.get(table, 1).unwrap()), (Some(1), Some(1)));
    drop(tx);
    assert!(matches!(db.checkpoint(), Err(Error::CheckpointFailed(_))));
    assert!(matches!(db.close(), Err(Error::Log(wal::Error::Stopped(_)))));
}

/// Proves that a database whose directory is renamed continues there, and that a database that is made at the old path
/// is another. Both keep everything that was acknowledged, whatever checkpoints they make.
#[test]
fn a_renamed_directory_is_still_its_databases() {
    let scratch = Scratch::new("renamed");
    let (p, q) = (scratch.path("p"), scratch.path("q"));
    let (a, in_a) = open(&p);
    put_all(&a, in_a, 0..4, 1);
    fs::rename(&p, &q).unwrap();
    let (b, in_b) = open(&p);
    for part in 0..4 {
        put_all(&b, in_b, part * 2001..(part + 1) * 2001, 2);
        put_all(&a, in_a, 4 + part * 1000..4 + (part + 1) * 1000, 1);
        a.checkpoint().unwrap();
        b.checkpoint().unwrap();
    }
    let publisher = a.publish_statistics(Duration::from_secs(3600)).unwrap();
    assert!(q.join("statistics").exists() && !p.join("statistics").exists());
    publisher.stop().unwrap();
    a.backup(scratch.path("copy")).unwrap();
    a.close().unwrap();
    b.close().unwrap();
    check(&p, 8004, 2);
    check(&q, 4004, 1);
    check(&scratch.path("copy"), 4004, 1);
}

fn names(directory: &Path) -> Vec<OsString> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort_unstable();
    names
}

/// Copies the files of an open database. The database may meanwhile remove files and make others. In that case,
/// everything is copied again.
fn copy_all(from: &Path, to: &Path) {
    loop {
        let found = names(from);
        fs::create_dir(to).unwrap();
        let is_copied = found.iter().all(|name| match fs::copy(from.join(name), to.join(name)) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => panic!("{}: {error}", name.display()),
        });
        if is_copied && names(from) == found {
            return;
        }
        fs::remove_dir_all(to).unwrap();
    }
}

/// Proves that a killed process's database is complete after its directory was renamed: what was acknowledged is in
/// the directory's present place.
#[test]
fn a_renamed_directory_is_recovered_without_a_close() {
    let scratch = Scratch::new("killed");
    let (p, q) = (scratch.path("p"), scratch.path("q"));
    let (a, in_a) = open(&p);
    put_all(&a, in_a, 0..500, 1);
    fs::rename(&p, &q).unwrap();
    fs::create_dir(&p).unwrap();
    put_all(&a, in_a, 500..3000, 1);
    a.checkpoint().unwrap();
    put_all(&a, in_a, 3000..5000, 1);
    // As a kill leaves it: a copy of the files at this moment.
    let copy = scratch.path("copy");
    copy_all(&q, &copy);
    assert_eq!(fs::read_dir(&p).unwrap().count(), 0, "nothing is written at the old path");
    check(&copy, 5000, 1);
    drop(a);
    check(&q, 5000, 1);
}

/// Proves that a link on the path may be switched while a database is open: it stays in the directory to which the
/// link led.
#[test]
fn a_link_that_is_switched_leads_to_another_database() {
    let scratch = Scratch::new("switched");
    let (link, one, two) = (scratch.path("link"), scratch.path("one"), scratch.path("two"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    symlink(&one, &link).unwrap();
    let (a, in_a) = open(&link);
    put_all(&a, in_a, 0..10, 1);
    fs::remove_file(&link).unwrap();
    symlink(&two, &link).unwrap();
    let (b, in_b) = open(&link);
    for part in 0..3 {
        put_all(&a, in_a, 10 + part * 1000..10 + (part + 1) * 1000, 1);
        put_all(&b, in_b, part * 1000..(part + 1) * 1000, 2);
        a.checkpoint().unwrap();
        b.checkpoint().unwrap();
    }
    // One database, by each of its paths.
    for path in [&one, &two, &link] {
        assert!(matches!(Database::open(path, options()), Err(Error::Storage(_))), "{path:?}");
    }
    a.close().unwrap();
    b.close().unwrap();
    check(&one, 3010, 1);
    check(&two, 3000, 2);
}

/// Proves that when the whole directory is removed, acknowledgments stop within the time of a look, and that closing
/// neither succeeds nor makes anything at the path again.
#[test]
fn commits_are_refused_when_the_directory_is_removed() {
    let scratch = Scratch::new("aside");
    let aside = scratch.path("p");
    refuses_after("removed", "log-", |path| {
        fs::rename(path, &aside).unwrap();
        fs::remove_dir_all(&aside).unwrap();
    });
    assert!(!aside.exists());
}

/// Proves the same of the single files that a log needs: removed, moved away, or replaced by a copy.
#[test]
fn commits_are_refused_when_a_needed_file_is_gone() {
    refuses_after("unlinked", "log-", |path| fs::remove_file(current_segment(path)).unwrap());
    let scratch = Scratch::new("elsewhere");
    let elsewhere = scratch.path("elsewhere");
    refuses_after("away", "log-", |path| fs::rename(current_segment(path), &elsewhere).unwrap());
    refuses_after("replaced", "log-", |path| {
        let (segment, copy) = (current_segment(path), path.join("copy"));
        fs::copy(&segment, &copy).unwrap();
        fs::rename(copy, segment).unwrap();
    });
    refuses_after("nameless", "database", |path| fs::remove_file(path.join("database")).unwrap());
}

/// Proves that a lock holds although its file is removed, or another file gets its name. Otherwise a second process
/// would write to the same log.
#[test]
fn a_lock_holds_without_its_file() {
    let scratch = Scratch::new("lock");
    let path = scratch.path("p");
    let (db, table) = open(&path);
    put_all(&db, table, 0..100, 1);
    let is_locked = || match Database::open(&path, options()) {
        Err(Error::Storage(error)) => assert!(matches!(error.cause(), Cause::Locked(_)), "{error}"),
        other => panic!("{other:?}"),
    };
    is_locked();
    fs::remove_file(path.join(LOCK_NAME)).unwrap();
    is_locked();
    fs::write(path.join("other"), "").unwrap();
    fs::rename(path.join("other"), path.join(LOCK_NAME)).unwrap();
    is_locked();
    put_all(&db, table, 100..200, 1);
    db.close().unwrap();
    check(&path, 200, 1);
    // The guard of a storage alone, of the same handle too.
    let storage = FileStorage::open(&path).unwrap();
    let guard = storage.lock(&Holder::this_process(0)).unwrap();
    fs::remove_file(path.join(LOCK_NAME)).unwrap();
    assert!(storage.lock(&Holder::this_process(0)).is_err());
    drop(guard);
    drop(storage.lock(&Holder::this_process(0)).unwrap());
}

fn link_all(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::hard_link(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Proves that files with a second name are not written: a copy by hard links is refused, and neither the copy nor the
/// original is harmed.
#[test]
fn a_copy_by_hard_links_is_refused() {
    let scratch = Scratch::new("linked");
    let (path, copy) = (scratch.path("p"), scratch.path("copy"));
    let (db, table) = open(&path);
    put_all(&db, table, 0..5000, 1);
    db.checkpoint().unwrap();
    put_all(&db, table, 0..5000, 2);
    drop(db);
    link_all(&path, &copy);
    let error = Database::open(&copy, options()).unwrap_err();
    assert!(error.to_string().contains("hard link"), "{error}");
    // The copy can be read, and a backup of it is complete.
    tools::backup(&FileStorage::open(&copy).unwrap(), &FileStorage::create(scratch.path("real")).unwrap())
        .unwrap();
    check(&scratch.path("real"), 5000, 2);
    fs::remove_dir_all(&copy).unwrap();
    check(&path, 5000, 2);
}

/// Proves that a copy by hard links of an open database, which continues to write the shared files, is refused because
/// of the links, and not because of what is in the files.
#[test]
fn a_copy_by_hard_links_of_an_open_database_is_refused() {
    let scratch = Scratch::new("linked-open");
    let (path, copy) = (scratch.path("p"), scratch.path("copy"));
    let (db, table) = open(&path);
    put_all(&db, table, 0..5000, 1);
    link_all(&path, &copy);
    fs::remove_file(copy.join(LOCK_NAME)).unwrap(); // with the lock file, the copy counts as open
    for generation in 2..10 {
        put_all(&db, table, 0..5000, generation);
        let error = Database::open(&copy, options()).unwrap_err();
        assert!(error.to_string().contains("hard link"), "{error}");
    }
    // Nor because of its own files' contents: the links are checked before anything is read.
    let first = fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().path());
    let first =
        first.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log-")).min().unwrap();
    let mut bytes = fs::read(&first).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::remove_file(&first).unwrap();
    fs::write(&first, bytes).unwrap();
    let error = Database::open(&copy, options()).unwrap_err();
    assert!(error.to_string().contains("hard link"), "{error}");
    drop(db);
    check(&path, 5000, 9);
}

/// Proves that segments that get a second name while the database is open are not overwritten when the log takes new
/// segments: a copy of an open database that was made of links stays a database.
#[test]
fn linked_segments_are_not_used_again() {
    let scratch = Scratch::new("relinked");
    let (path, copy) = (scratch.path("p"), scratch.path("copy"));
    let (db, table) = open(&path);
    put_all(&db, table, 0..5000, 1);
    link_all(&path, &copy);
    let current = current_segment(&copy);
    let kept: Vec<_> = fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().path()).collect();
    // The segment that is written now, and the next one, are still the log's.
    let kept: Vec<_> = kept
        .into_iter()
        .filter(|path| *path < current)
        .map(|path| (fs::read(&path).unwrap(), path))
        .collect();
    assert!(kept.len() > 3, "{kept:?}");
    for value in 2..6 {
        put_all(&db, table, 0..5000, value);
        db.checkpoint().unwrap();
    }
    for (bytes, path) in &kept {
        let is_log = path.file_name().unwrap().to_str().unwrap().starts_with("log-");
        assert!(!is_log || fs::read(path).unwrap() == *bytes, "{path:?} has changed");
    }
    db.close().unwrap();
    check(&path, 5000, 5);
}
