//! Databases that are opened read-only, and unfinished copies.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, OpenMode, Storage, Union};
use braiddb::{Database, Durability, Error, Options, Table};
use std::sync::Arc;

fn options() -> Options {
    Options { workers: 1, pin_workers: false, log_segment_bytes: 1 << 16, ..Options::default() }
}

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new(1 << 28))
}

fn open(storage: &Arc<dyn Storage>, options: Options) -> Result<Database, Error> {
    Database::open_with(storage.clone(), options, Arc::new(SystemClock::default()), &mut |_| {})
}

fn read(storage: &Arc<dyn Storage>, options: Options) -> Result<Database, Error> {
    Database::read_with(storage.clone(), options, Arc::new(SystemClock::default()), &mut |_| {})
}

/// Returns the contents of each file of a directory.
fn snapshot(storage: &Arc<dyn Storage>) -> Vec<(String, Vec<u8>)> {
    let contents = |name: String| {
        let file = storage.open(&name, OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len_bytes().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    storage.list().unwrap().into_iter().map(contents).collect()
}

/// Makes a database with rows of a checkpoint and of the log, closed or as a crash leaves it.
fn filled(is_closed: bool) -> Arc<dyn Storage> {
    let storage = memory();
    let db = open(&storage, options()).unwrap();
    let table: Table<u64, u64> = db.table("t").unwrap();
    let put = |key: u64| db.run(async move |tx| tx.put(table, key, key).await).wait().unwrap();
    (0..50).for_each(put);
    db.checkpoint().unwrap();
    (50..100).for_each(put);
    if is_closed {
        db.close().unwrap();
        return storage;
    }
    let copy = memory();
    for (name, bytes) in snapshot(&storage) {
        copy.open(&name, OpenMode::CreateNew).unwrap().write_all_at(0, &bytes).unwrap();
    }
    copy
}

/// Proves that a database is read on a medium that takes no write, closed or not. Writes, new tables and checkpoints
/// are refused. On a writable medium, nothing is written.
#[test]
fn a_database_is_read_without_a_write() {
    for (is_closed, durability) in
        [(true, Durability::Sync), (false, Durability::Async), (true, Durability::None)]
    {
        let options = || Options { durability, ..options() };
        let storage = filled(is_closed);
        let before = snapshot(&storage);
        let medium: Arc<dyn Storage> = Arc::new(Union::new(storage.clone(), Vec::new(), |_| false));
        assert!(matches!(open(&medium, options()), Err(Error::Storage(_))), "it takes no write");
        for place in [&medium, &storage] {
            let db = read(place, options()).unwrap();
            assert_eq!(db.recovery().unwrap().was_closed, is_closed);
            let table: Table<u64, u64> = db.table("t").unwrap();
            for key in 0..100 {
                assert_eq!(db.begin().unwrap().get(table, key).unwrap(), Some(key));
            }
            let sum = db.run(async move |tx| Ok(tx.get(table, 7).await?.unwrap_or(0)));
            assert_eq!(sum.wait().unwrap(), 7);
            let written = db.run(async move |tx| tx.put(table, 1, 2).await).wait();
            assert!(matches!(written, Err(Error::ReadOnly)), "{written:?}");
            // Also by a slot that has been used.
            let written = db.run(async move |tx| tx.delete(table, 1).await).wait();
            assert!(matches!(written, Err(Error::ReadOnly)), "{written:?}");
            assert!(matches!(db.begin().unwrap().put(table, 1, 2), Err(Error::ReadOnly)));
            assert!(matches!(db.table::<u64, u64>("new"), Err(Error::ReadOnly)));
            assert!(matches!(db.checkpoint(), Err(Error::ReadOnly)));
            db.close().unwrap();
            assert!(snapshot(&storage) == before, "nothing was written");
        }
    }
    assert!(matches!(read(&memory(), options()), Err(Error::NoDatabase)));
}

/// Proves that a database is locked while it is read.
#[test]
fn a_database_that_is_read_is_in_use() {
    let storage = filled(true);
    let db = read(&storage, options()).unwrap();
    assert!(matches!(open(&storage, options()), Err(Error::Storage(_))));
    drop(db);
    open(&storage, options()).unwrap();
}

/// Proves that a backup that ended at any of its files is refused as an unfinished backup, and not as a damaged
/// database, and that a finished backup leaves no trace of that.
#[test]
fn an_unfinished_backup_is_told_from_damage() {
    let storage = filled(true);
    let copy = memory();
    braiddb::tools::backup(&*storage, &*copy).unwrap();
    assert!(!copy.list().unwrap().iter().any(|name| name == "unfinished"));
    open(&copy, options()).unwrap().close().unwrap();
    let files = snapshot(&copy);
    for count in 0..=files.len() {
        let part = memory();
        for (name, bytes) in files.iter().take(count) {
            part.open(name, OpenMode::CreateNew).unwrap().write_all_at(0, bytes).unwrap();
        }
        part.open("unfinished", OpenMode::CreateNew).unwrap();
        let verified = braiddb::tools::verify(&*part, &mut |_| {});
        assert!(matches!(verified, Err(Error::Unfinished)), "{verified:?}");
        assert!(matches!(braiddb::tools::backup(&*part, &*memory()), Err(Error::Unfinished)));
        for opened in [open(&part, options()), read(&part, options())] {
            let error = opened.unwrap_err();
            assert!(matches!(error, Error::Unfinished), "{error}");
        }
    }
}
