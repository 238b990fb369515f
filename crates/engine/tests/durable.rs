//! A database in a directory: what was acknowledged is there when it is opened again. The crate crates/sim simulates
//! crashes and failures.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::metrics::SystemClock;
use braiddb::storage::{FileStorage, MemoryStorage, OpenMode, Storage};
use braiddb::tools::{backup, verify};
use braiddb::{Database, Durability, Error, Front, IndexKind, Options, Snapshot, Table, TableOptions};
use std::path::PathBuf;
use std::sync::Arc;

/// A directory that is removed when this is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("braid-durable-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }

    fn open(&self, options: Options) -> Database {
        Database::open(&self.0, options).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options() -> Options {
    Options { workers: 2, pin_workers: false, log_segment_bytes: 1 << 18, ..Options::default() }
}

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new(1 << 30))
}

fn open(storage: &Arc<dyn Storage>, options: Options) -> Result<Database, Error> {
    Database::open_with(storage.clone(), options, Arc::new(SystemClock::default()), &mut |_| {})
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

#[test]
fn what_was_acknowledged_is_there_again() {
    let directory = Directory::new("again");
    for life in 0..4 {
        let db = directory.open(options());
        let table = db.table("t").unwrap();
        assert_eq!(contents(&db, table).len(), life * 100);
        put_all(&db, table, life as u64 * 100..(life as u64 + 1) * 100, life as u64);
        match life % 2 {
            0 => db.close().unwrap(),
            _ => drop(db),
        }
    }
}

#[test]
fn updates_deletes_and_long_values_are_there_again() {
    let directory = Directory::new("kinds");
    let long = "x".repeat(50_000);
    let db = directory.open(options());
    let (words, pairs) =
        (db.table::<String, str>("words").unwrap(), db.table::<(u32, String), [u8]>("pairs").unwrap());
    let value = long.clone();
    db.run(async move |tx| {
        tx.put(words, "a key that is rather longer than eight bytes", &value).await?;
        tx.put(words, "gone", "soon").await?;
        tx.put(words, "", "empty key").await?;
        tx.put(pairs, (7, "seven".to_string()), b"").await?;
        tx.put(words, "twice", "first").await?;
        tx.put(words, "twice", "second").await
    })
    .wait()
    .unwrap();
    db.run(async move |tx| tx.delete(words, "gone").await).wait().unwrap();
    drop(db);
    for _ in 0..2 {
        let db = directory.open(options());
        let words = db.table::<String, str>("words").unwrap();
        let pairs = db.table::<(u32, String), [u8]>("pairs").unwrap();
        let tx = db.begin().unwrap();
        let long_key = "a key that is rather longer than eight bytes";
        assert_eq!(tx.get(words, long_key).unwrap(), Some(long.as_str()));
        assert_eq!(tx.get(words, "gone").unwrap(), None);
        assert_eq!(tx.get(words, "").unwrap(), Some("empty key"));
        assert_eq!(tx.get(words, "twice").unwrap(), Some("second"));
        assert_eq!(tx.get(pairs, (7, "seven".to_string())).unwrap(), Some(&[][..]));
        drop(tx);
        db.checkpoint().unwrap();
    }
}

#[test]
fn a_checkpoint_takes_the_place_of_the_log() {
    let storage = memory();
    let db = open(&storage, options()).unwrap();
    let (busy, idle) = (db.table("busy").unwrap(), db.table("idle").unwrap());
    put_all(&db, busy, 0..20_000, 1);
    put_all(&db, idle, 0..1000, 7);
    db.checkpoint().unwrap();
    put_all(&db, busy, 5_000..10_000, 2);
    db.checkpoint().unwrap();
    let names = storage.list().unwrap().into_iter();
    let rows_files: Vec<String> = names.filter(|name| name.starts_with("rows-")).collect();
    assert_eq!(rows_files.len(), 3, "a table that has not changed keeps its file: {rows_files:?}");
    put_all(&db, busy, 10_000..10_010, 3);
    db.close().unwrap();
    let db = open(&storage, options()).unwrap();
    let recovery = db.recovery().unwrap();
    assert_eq!((recovery.checkpoint, recovery.rows, recovery.was_closed), (Some(2), 21_000, true));
    assert_eq!(recovery.transactions, 10);
    let value = |key| match key {
        5_000..10_000 => 2,
        10_000..10_010 => 3,
        _ => 1,
    };
    assert_eq!(contents(&db, busy_of(&db)), (0..20_000).map(|key| (key, value(key))).collect::<Vec<_>>());
    assert_eq!(contents(&db, db.table("idle").unwrap()), (0..1000).map(|key| (key, 7)).collect::<Vec<_>>());
}

fn busy_of(db: &Database) -> Table<u64, u64> {
    db.table("busy").unwrap()
}

/// Proves that a log of many segments does not grow without bound, because checkpoints give up segments that are not
/// needed.
#[test]
fn the_log_does_not_grow_without_bound() {
    let storage = memory();
    let db = open(&storage, Options { log_segment_bytes: 4096, ..options() }).unwrap();
    let table = db.table("t").unwrap();
    for round in 0..20 {
        put_all(&db, table, 0..500, round);
        db.checkpoint().unwrap();
    }
    let segments = storage.list().unwrap().into_iter().filter(|name| name.starts_with("log-")).count();
    assert!(segments < 60, "{segments} segments of about 10 a round");
}

#[test]
fn writers_go_on_while_a_checkpoint_is_made() {
    let storage = memory();
    let db = open(&storage, options()).unwrap();
    let table = db.table("accounts").unwrap();
    put_all(&db, table, 0..1000, 100);
    let transfers: Vec<(u64, u64)> = (0..20_000u64).map(|i| (i * 7 % 1000, i * 13 % 1000)).collect();
    let moved = db.run_each(transfers, async move |tx, (from, to): &(u64, u64)| {
        let (a, b) = (tx.get(table, *from).await?.unwrap_or(0), tx.get(table, *to).await?.unwrap_or(0));
        if from == to || a == 0 {
            return Ok(());
        }
        tx.put(table, *from, a - 1).await?;
        tx.put(table, *to, b + 1).await
    });
    for _ in 0..5 {
        db.checkpoint().unwrap();
    }
    assert!(moved.wait().unwrap().iter().all(Result::is_ok));
    let before = contents(&db, table);
    drop(db);
    let db = open(&storage, options()).unwrap();
    let after = contents(&db, db.table("accounts").unwrap());
    assert_eq!(after.iter().map(|(_, amount)| amount).sum::<u64>(), 100_000);
    assert_eq!(after, before);
}

#[test]
fn without_a_log_the_last_checkpoint_survives() {
    let storage = memory();
    let unlogged = || Options { durability: Durability::None, ..options() };
    let db = open(&storage, unlogged()).unwrap();
    let table = db.table("t").unwrap();
    put_all(&db, table, 0..100, 1);
    db.checkpoint().unwrap();
    put_all(&db, table, 0..100, 2);
    drop(db);
    let db = open(&storage, unlogged()).unwrap();
    let table = db.table("t").unwrap();
    assert!(contents(&db, table).iter().all(|(_, value)| *value == 1));
    put_all(&db, table, 0..100, 3);
    db.close().unwrap();
    // With a log again: it continues from there.
    let db = open(&storage, options()).unwrap();
    let table = db.table("t").unwrap();
    assert!(contents(&db, table).iter().all(|(_, value)| *value == 3));
    put_all(&db, table, 0..50, 4);
    drop(db);
    let db = open(&storage, unlogged()).unwrap();
    assert_eq!(contents(&db, db.table("t").unwrap())[49..51], [(49, 4), (50, 3)]);
}

#[test]
fn a_directory_has_one_owner() {
    let directory = Directory::new("owner");
    let db = directory.open(options());
    let error = Database::open(&directory.0, options()).unwrap_err();
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    drop(db);
    directory.open(options());
}

#[test]
fn a_table_keeps_its_types() {
    let storage = memory();
    let db = open(&storage, options()).unwrap();
    db.table::<u64, str>("t").unwrap();
    drop(db);
    let db = open(&storage, options()).unwrap();
    assert!(matches!(db.table::<u64, u64>("t"), Err(Error::TableMismatch { .. })));
    db.table::<u64, str>("t").unwrap();
}

/// Proves that a table's options are kept by the log, by checkpoints and by copies. A table that is opened with other
/// options is refused. Verification knows such tables.
#[test]
fn a_table_keeps_its_options() {
    let storage = memory();
    let copy = memory();
    let btree = TableOptions { index: IndexKind::BTree, front: Front::Hash };
    let masstree = TableOptions::default();
    let without = TableOptions { front: Front::None, ..btree };
    for round in 0..3u64 {
        let db = open(&storage, options()).unwrap();
        let table: Table<u64, u64> =
            if round == 0 { db.table_with("t", btree).unwrap() } else { db.table("t").unwrap() };
        let error = db.table_with::<u64, u64>("t", masstree).unwrap_err().to_string();
        assert!(error.contains("btree") && error.contains("masstree"), "{error}");
        let error = db.table_with::<u64, u64>("t", without).unwrap_err().to_string();
        assert!(error.contains("front hash") && error.contains("front none"), "{error}");
        db.table_with::<u64, u64>("t", btree).unwrap();
        db.table::<u64, u64>("other").unwrap();
        put_all(&db, table, 100 * round..100 * round + 100, round);
        assert_eq!(contents(&db, table).len() as u64, 100 * (round + 1));
        let kinds: Vec<_> = db.tables().iter().map(|info| (info.index, info.front)).collect();
        assert_eq!(kinds, [(IndexKind::BTree, Front::Hash), (IndexKind::Masstree, Front::None)]);
        if round == 1 {
            db.checkpoint().unwrap();
        }
        db.close().unwrap();
    }
    assert!(verify(&*storage, &mut |_| {}).unwrap().is_good());
    backup(&*storage, &*copy).unwrap();
    let db = open(&copy, options()).unwrap();
    assert_eq!(contents(&db, db.table_with("t", btree).unwrap()).len(), 300);
}

/// Proves that the options decide the kind of the tables that are made without a choice, and of no others.
#[test]
fn the_usual_table_is_an_option() {
    let storage = memory();
    let db = open(&storage, options()).unwrap();
    db.table::<u64, u64>("old").unwrap();
    db.close().unwrap();
    let usual = Options { index: IndexKind::BTree, front: Front::Hash, ..options() };
    let db = open(&storage, usual).unwrap();
    db.table::<u64, u64>("old").unwrap();
    db.table::<u64, u64>("new").unwrap();
    let kinds: Vec<_> = db.tables().iter().map(|info| (info.index, info.front)).collect();
    assert_eq!(kinds, [(IndexKind::Masstree, Front::None), (IndexKind::BTree, Front::Hash)]);
}

#[test]
fn other_schemes_and_interactive_transactions_are_durable() {
    let storage = memory();
    let open = || {
        Database::<Snapshot>::open_with(
            storage.clone(),
            options(),
            Arc::new(SystemClock::default()),
            &mut |_| {},
        )
    };
    let db = open().unwrap();
    let table: Table<u64, u64> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    tx.put(table, 1, 10).unwrap();
    tx.commit().unwrap();
    let tx = db.begin().unwrap();
    tx.set_durability(Durability::Async).unwrap();
    assert!(matches!(tx.set_durability(Durability::None), Err(Error::InvalidOption { .. })));
    tx.put(table, 2, 20).unwrap();
    tx.commit().unwrap();
    db.close().unwrap();
    let db = open().unwrap();
    let table: Table<u64, u64> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    assert_eq!((tx.get(table, 1).unwrap(), tx.get(table, 2).unwrap()), (Some(10), Some(20)));
}

#[test]
fn a_worker_of_ones_own_gets_its_results_when_they_are_durable() {
    let storage = memory();
    let db = open(&storage, options()).unwrap();
    let table: Table<u64, u64> = db.table("t").unwrap();
    let mut count = 0;
    db.worker().run_each(
        0..5000u64,
        async |tx, key| tx.insert(table, *key, 1).await,
        |result| {
            count += u32::from(result.is_ok());
        },
    );
    assert_eq!(count, 5000);
    drop(db);
    let db = open(&storage, options()).unwrap();
    assert_eq!(contents(&db, db.table("t").unwrap()).len(), 5000);
}

#[test]
fn a_transaction_that_does_not_fit_is_refused_whole() {
    let storage = memory();
    let db = open(&storage, Options { log_segment_bytes: 4096, ..options() }).unwrap();
    let table: Table<u64, [u8]> = db.table("t").unwrap();
    let refused = db.run(async move |tx| {
        tx.put(table, 1, &[1; 10]).await?;
        tx.put(table, 2, &[2; 8000]).await
    });
    let error = refused.wait().unwrap_err();
    assert!(matches!(error, Error::TransactionTooLarge { bytes_max: 3584 }), "{error}");
    assert_eq!(db.begin().unwrap().get(table, 1).unwrap(), None);
    db.run(async move |tx| tx.put(table, 1, &[1; 3000]).await).wait().unwrap();
}

#[test]
fn a_directory_of_something_else_is_refused() {
    let directory = Directory::new("other");
    std::fs::create_dir_all(&directory.0).unwrap();
    std::fs::write(directory.0.join("database"), "a diary").unwrap();
    let error = Database::open(&directory.0, options()).unwrap_err();
    assert!(error.to_string().contains("database"), "{error}");
    let storage = FileStorage::open(&directory.0).unwrap();
    assert!(!storage.list().unwrap().iter().any(|name| name.starts_with("log-")), "nothing was written");
}

/// Flips a bit in the middle of a file.
fn damage(storage: &Arc<dyn Storage>, name: &str) {
    let file = storage.open(name, OpenMode::ReadWrite).unwrap();
    let (at, mut byte) = (file.len_bytes().unwrap() / 2, [0]);
    file.read_exact_at(at, &mut byte).unwrap();
    file.write_all_at(at, &[byte[0] ^ 1]).unwrap();
}

/// Proves that a damaged checkpoint is skipped if the log has what it had, and is refused if not: in a database that
/// is or was open without a log.
#[test]
fn a_damaged_checkpoint_is_passed_over_only_if_the_log_has_it() {
    for durability in [Durability::Sync, Durability::None] {
        let storage = memory();
        let db = open(&storage, Options { durability, ..options() }).unwrap();
        put_all(&db, db.table("t").unwrap(), 0..100, 1);
        db.checkpoint().unwrap();
        db.close().unwrap();
        let newest =
            storage.list().unwrap().into_iter().rfind(|name| name.starts_with("checkpoint-")).unwrap();
        damage(&storage, &newest);
        match (durability, open(&storage, options())) {
            (Durability::Sync, Ok(db)) => {
                assert_eq!(contents(&db, db.table("t").unwrap()).len(), 100);
                assert_eq!(db.recovery().unwrap().damaged_checkpoints.len(), 1);
            }
            (Durability::None, Err(error)) => {
                assert!(error.to_string().contains(&newest), "{error}");
                assert!(storage.list().unwrap().contains(&newest), "nothing was removed");
            }
            (durability, opened) => panic!("{durability:?}: {opened:?}"),
        }
    }
}

/// Proves that programs that open and close a database again and again do not fill the disk.
#[test]
fn closing_gives_back_what_was_reserved() {
    let storage = memory();
    for life in 0..20 {
        let db = open(&storage, Options { log_segment_bytes: 1 << 20, ..options() }).unwrap();
        put_all(&db, db.table("t").unwrap(), life..life + 1, life);
        db.close().unwrap();
    }
    let bytes = |name: &String| storage.open(name, OpenMode::Read).unwrap().len_bytes().unwrap();
    let all: u64 = storage.list().unwrap().iter().map(bytes).sum();
    assert!(all < 100_000, "{all} bytes");
    let db = open(&storage, options()).unwrap();
    assert_eq!(contents(&db, db.table("t").unwrap()).len(), 20);
}

/// Proves that a transaction longer than the log's buffer commits although shorter transactions commit all the time.
#[test]
fn a_long_transaction_gets_its_turn() {
    let storage = memory();
    let db = open(&storage, Options { log_buffer_bytes: 1000, ..options() }).unwrap();
    let (short, long) = (db.table::<u64, u64>("short").unwrap(), db.table::<u64, [u8]>("long").unwrap());
    let results = db.run_each((0..5000).collect(), async move |tx, key: &u64| tx.put(short, *key, 1).await);
    for key in 0..20 {
        db.run(async move |tx| tx.put(long, key, &[7; 5000]).await).wait().unwrap();
    }
    assert!(results.wait().unwrap().iter().all(Result::is_ok));
    drop(db);
    let db = open(&storage, options()).unwrap();
    assert_eq!(contents(&db, db.table("short").unwrap()).len(), 5000);
}

/// Proves that a directory with other files is left as it is, unless it is explicitly chosen. An empty directory, a
/// directory with only a file system's own entries, and an existing database need no such choice.
#[test]
fn a_directory_of_others_is_refused() {
    let directory = Directory::new("others");
    let inside = |name: &str| directory.0.join(name);
    std::fs::create_dir(&directory.0).unwrap();
    std::fs::create_dir(inside("lost+found")).unwrap();
    std::fs::write(inside("database.new"), "").unwrap();
    for names in [&["notes.txt"][..], &[".git"], &["with space"], &["a", "b", "c", "d", "e"]] {
        names.iter().for_each(|name| std::fs::write(inside(name), "mine").unwrap());
        let error = Database::open(&directory.0, options()).unwrap_err();
        assert!(matches!(&error, Error::Occupied { found } if found == names), "{error}");
        let text = error.to_string();
        assert!(text.contains(names[0]) && text.contains("among_others"), "{text}");
        assert!(!inside("lock").exists());
        for name in names {
            assert_eq!(std::fs::read(inside(name)).unwrap(), b"mine");
            std::fs::remove_file(inside(name)).unwrap();
        }
    }
    std::fs::write(inside("lock"), "mine").unwrap();
    let error = Database::open(&directory.0, options()).unwrap_err();
    assert!(matches!(error, Error::Storage(_)), "{error}");
    assert_eq!(std::fs::read(inside("lock")).unwrap(), b"mine");
    std::fs::remove_file(inside("lock")).unwrap();
    directory.open(options()).close().unwrap();
    std::fs::write(inside("notes.txt"), "mine").unwrap();
    directory.open(options()).close().unwrap();

    let asked = Directory::new("asked");
    std::fs::create_dir(&asked.0).unwrap();
    std::fs::write(asked.0.join("notes.txt"), "mine").unwrap();
    asked.open(Options { among_others: true, ..options() }).close().unwrap();
    assert_eq!(std::fs::read(asked.0.join("notes.txt")).unwrap(), b"mine");
}
