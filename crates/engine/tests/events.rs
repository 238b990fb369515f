//! The events that subscribers of the crate `tracing` get from the engine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod troubled;

use braiddb::metrics::SystemClock;
use braiddb::storage::{OpenMode, Storage};
use braiddb::{Database, Error, Index, Options, Table, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_global_default;
use tracing::{Event, Level, Metadata, Subscriber};
use troubled::{Trouble, Troubled};

/// An event, with its fields as text.
#[derive(Clone, Debug)]
struct Told {
    level: Level,
    target: &'static str,
    message: String,
    fields: BTreeMap<&'static str, String>,
}

impl Told {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_else(|| panic!("{name} is a field of {self:?}"))
    }
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => drop(self.fields.insert(name, format!("{value:?}"))),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// Keeps the engine's events of every level.
struct Keeper;

static KEPT: Mutex<Vec<Told>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<Told>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("braiddb")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        panic!("the engine has no spans")
    }
    fn event(&self, event: &Event<'_>) {
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        let mut told = Told { level, target, message: String::new(), fields: BTreeMap::new() };
        event.record(&mut told);
        kept().push(told);
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The events of one test. The engine's threads emit events as well, so the subscriber is the process's, and tests
/// take turns.
struct Events(#[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Events {
    fn listen() -> Events {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = set_global_default(Keeper); // an error: an earlier test has set it
        kept().clear();
        Events(turn)
    }

    /// The events with this message up to now.
    fn all(&self, message: &str) -> Vec<Told> {
        kept().iter().filter(|told| told.message.starts_with(message)).cloned().collect()
    }

    /// The only event with this message up to now, which has this level and target.
    fn only(&self, level: Level, target: &str, message: &str) -> Told {
        let [told] = &self.all(message)[..] else { panic!("one is {message:?} in {:#?}", kept()) };
        assert_eq!((told.level, told.target), (level, format!("braiddb::{target}").as_str()), "{told:?}");
        told.clone()
    }

    /// Like `only`, for an event that the engine emits later.
    fn awaited(&self, level: Level, target: &str, message: &str) -> Told {
        let began = Instant::now();
        while self.all(message).is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60), "{message:?} comes after {:#?}", kept());
            std::thread::sleep(Duration::from_millis(1));
        }
        self.only(level, target, message)
    }
}

fn options() -> Options {
    Options {
        workers: 1,
        batch: 8.into(),
        log_segment_bytes: 1 << 20,
        log_wait_ms: 300,
        ..Options::default()
    }
}

fn local() -> Database {
    Database::in_memory(Options { workers: 0, ..options() }).unwrap()
}

fn open(storage: &Troubled) -> Database {
    let clock = Arc::new(SystemClock::default());
    Database::open_with(Arc::new(storage.clone()), options(), clock, &mut |_| {}).unwrap()
}

fn put(db: &Database, table: Table<u64, u64>, key: u64) -> Result<(), Error> {
    db.run(async move |tx| tx.put(table, key, key).await).wait()
}

#[test]
fn a_database_opens_and_closes() {
    // Proves the events of opening, recovery, checkpoints and closing, with what they have found and done.
    let events = Events::listen();
    let directory = std::env::temp_dir().join(format!("braid-events-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let db = Database::open(&directory, options()).unwrap();
    let created = events.only(Level::INFO, "database", "database created");
    assert_eq!(created.field("path"), directory.display().to_string());
    assert_eq!((created.field("kind"), created.field("workers")), ("disk", "1"));
    assert!(created.field("duration_ms").parse::<u64>().is_ok());
    assert!(events.all("log replayed").is_empty(), "nothing was there");
    let table = db.table("t").unwrap();
    (0..100).for_each(|key| put(&db, table, key).unwrap());
    db.checkpoint().unwrap();
    events.only(Level::DEBUG, "checkpoint", "checkpoint begun");
    let made = events.only(Level::INFO, "checkpoint", "checkpoint made");
    assert_eq!((made.field("checkpoint"), made.field("rows"), made.field("tables")), ("1", "100", "1"));
    assert!(made.field("bytes").parse::<u64>().unwrap() > 1000);
    (100..130).for_each(|key| put(&db, table, key).unwrap());
    db.close().unwrap();
    let closed = events.only(Level::INFO, "database", "database closed");
    assert_eq!(closed.field("database"), created.field("database"));

    kept().clear();
    let db = Database::open(&directory, options()).unwrap();
    let loaded = events.only(Level::INFO, "recovery", "checkpoint loaded");
    assert_eq!((loaded.field("checkpoint"), loaded.field("rows")), ("1", "100"));
    let replayed = events.only(Level::INFO, "recovery", "log replayed");
    assert_eq!((replayed.field("transactions"), replayed.field("was_closed")), ("30", "true"));
    let opened = events.only(Level::INFO, "database", "database opened");
    assert_eq!((opened.field("tables"), opened.field("records")), ("1", "130"));
    assert!(opened.field("database") == loaded.field("database"));
    assert!(opened.field("database") != created.field("database"), "it is counted anew");
    let _table: Table<u64, u64> = db.table("t").unwrap();
    assert_eq!(events.only(Level::DEBUG, "table", "table opened").field("table"), "t");
    db.backup(directory.join("copy")).unwrap();
    assert_eq!(events.only(Level::INFO, "database", "backup made").field("rows"), "100");
    drop(db);
    events.only(Level::INFO, "database", "database closed");
    drop(Database::open_read_only(&directory, options()).unwrap());
    assert_eq!(events.all("database opened")[1].field("kind"), "read only");
    drop(local());
    assert_eq!(events.only(Level::INFO, "database", "database created").field("kind"), "memory");
    assert_eq!(events.all("database closed").len(), 3);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_log_that_was_cut_off() {
    // Proves the events for a log whose end was left out, and for a database that had not been closed.
    let events = Events::listen();
    let storage = Troubled::new();
    let kept_files = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1/crashed");
    for entry in std::fs::read_dir(kept_files).unwrap().map(Result::unwrap) {
        let file = storage.open(entry.file_name().to_str().unwrap(), OpenMode::CreateNew).unwrap();
        file.write_all_at(0, &std::fs::read(entry.path()).unwrap()).unwrap();
    }
    let db = open(&storage);
    let replayed = events.only(Level::INFO, "recovery", "log replayed");
    assert_eq!(replayed.field("was_closed"), "false");
    let cut = events.only(Level::INFO, "recovery", "the log was cut off");
    let found = db.recovery().unwrap().cut.unwrap();
    assert_eq!((cut.field("file"), cut.field("offset")), (&*found.file, &*found.offset.to_string()));
    assert_eq!((cut.field("lsn"), cut.field("bytes")), (&*found.lsn.to_string(), &*found.bytes.to_string()));
}

#[test]
fn a_log_that_fails() {
    // Proves that a failed sync is reported once, as an error, and that a database that is not closed in order is
    // reported.
    let events = Events::listen();
    let storage = Troubled::new();
    let db = open(&storage);
    let table = db.table("t").unwrap();
    put(&db, table, 1).unwrap();
    storage.begin(Trouble::SyncsFail);
    assert!(put(&db, table, 2).is_err() && put(&db, table, 3).is_err());
    let failed = events.awaited(Level::ERROR, "log", "the log has failed");
    assert!(failed.field("error").contains("the disk is broken"), "{failed:?}");
    assert!(db.checkpoint().is_err());
    events.only(Level::WARN, "checkpoint", "checkpoint failed");
    drop(db);
    events.only(Level::WARN, "database", "database not closed in order");
    events.only(Level::ERROR, "log", "the log has failed");
}

#[test]
fn a_disk_that_is_full_for_a_while() {
    // Proves the events for commits that have to wait, and for commits that continue.
    let events = Events::listen();
    let storage = Troubled::new();
    let db = open(&storage);
    let table = db.table("t").unwrap();
    storage.begin(Trouble::Full);
    assert!(put(&db, table, 1).is_err());
    events.awaited(Level::WARN, "log", "the disk keeps commits waiting");
    storage.end(Trouble::Full);
    events.awaited(Level::INFO, "log", "the log goes on");
    db.close().unwrap();
}

/// A row with columns.
#[derive(Debug, Value)]
#[braid(name = "user", version = 1)]
struct User {
    name: String,
    age: u32,
}

#[test]
fn tables_and_indexes() {
    // Proves the event of each change of the catalog, with the names of what has changed.
    let events = Events::listen();
    let db = local();
    let users: Table<u64, User> = db.table("users").unwrap();
    assert_eq!(events.only(Level::INFO, "table", "table created").field("table"), "users");
    let by_age: Index<u32, u64, User> = db.index_on(users, "by age", &["age"]).unwrap();
    let declared = events.only(Level::INFO, "table", "index declared");
    assert_eq!((declared.field("table"), declared.field("index")), ("users", "by age"));
    assert_eq!((declared.field("columns"), declared.field("is_unique")), ("age", "false"));
    assert_eq!(events.only(Level::DEBUG, "table", "index built").field("index"), "by age");
    let again: Index<u32, u64, User> = db.index_on(users, "by age", &["age"]).unwrap();
    assert_eq!(format!("{again:?}"), format!("{by_age:?}"));
    events.only(Level::INFO, "table", "index declared"); // the earlier declaration
    db.drop_index("users", "by age").unwrap();
    assert_eq!(events.only(Level::INFO, "table", "index dropped").field("index"), "by age");

    let counts: Table<u64, u64> = db.table("counts").unwrap();
    let sums = db.projection(counts, "sums", |_, count| Some((count,))).unwrap();
    assert_eq!(events.only(Level::DEBUG, "table", "projection declared").field("projection"), "sums");
    db.transact(|tx| tx.put(counts, 1, 2)).unwrap();
    sums.refresh().unwrap();
    assert_eq!(events.only(Level::DEBUG, "table", "projection refreshed").field("rows"), "1");

    db.migrate(users).unwrap();
    assert_eq!(events.only(Level::INFO, "table", "table migrated").field("rows"), "0");
    db.rename_table("users", "people").unwrap();
    let renamed = events.only(Level::INFO, "table", "table renamed");
    assert_eq!((renamed.field("from"), renamed.field("to")), ("users", "people"));
    db.clear(users).unwrap();
    assert_eq!(events.only(Level::INFO, "table", "table cleared").field("table"), "people");
    db.drop_table("people").unwrap();
    assert_eq!(events.only(Level::INFO, "table", "table dropped").field("table"), "people");
    assert!(db.drop_table("people").is_err());
    events.only(Level::INFO, "table", "table dropped"); // a failure emits no event
}

#[test]
fn transactions_that_fail() {
    // Proves that retries and giving up emit events, that errors of a program do not, and that full memory is reported
    // once.
    let events = Events::listen();
    let limit = 16 << 20;
    let options = Options { workers: 0, lock_wait_ms: 0, memory_limit_bytes: limit, ..options() };
    let db = Database::in_memory(options).unwrap();
    let table: Table<u64, [u8]> = db.table("t").unwrap();
    let mut worker = db.worker();
    worker.set_retries_max(3);
    let first = db.begin().unwrap();
    first.put(table, 1, b"1").unwrap();
    assert!(matches!(worker.run(async |tx| tx.put(table, 1, b"2").await), Err(Error::Conflict)));
    first.commit().unwrap();
    let retried = events.all("transaction is run again");
    assert_eq!(retried.iter().map(|told| told.field("retries")).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert!(retried.iter().all(|told| told.level == Level::TRACE));
    let given_up = events.only(Level::DEBUG, "transaction", "transaction given up");
    assert_eq!(given_up.field("retries"), "3");
    assert_eq!(given_up.field("error"), Error::Conflict.to_string());

    kept().clear();
    worker.run(async |_| Err::<(), _>(Error::user("not enough money"))).unwrap_err();
    assert!(matches!(worker.run(async |tx| tx.insert(table, 1, b"3").await), Err(Error::KeyExists)));
    assert!(kept().is_empty(), "{:?}", kept());
    let mut key = 2;
    let mut is_full = || {
        key += 1;
        matches!(worker.run(async |tx| tx.put(table, key, &[1; 1000]).await), Err(Error::OutOfMemory { .. }))
    };
    while !is_full() {}
    assert!(is_full());
    let full = events.only(Level::WARN, "transaction", "a transaction has failed at the memory limit");
    assert_eq!(full.field("limit_bytes"), limit.to_string());
}

#[test]
fn expired_rows() {
    // Proves the events for deleted rows, and for the first of several failures in a row.
    let events = Events::listen();
    let db = local();
    let tokens: Table<u64, u64> = db.table("tokens").unwrap();
    let expires = |_: &u64, until_s| UNIX_EPOCH.checked_add(Duration::from_secs(until_s));
    let expiry = db.expiry(tokens, "tokens by expiry", expires).unwrap();
    db.transact(|tx| tx.put(tokens, 1, 1)).unwrap();
    db.freeze(tokens).unwrap();
    let sweeper = expiry.sweep_every(Duration::from_millis(1)).unwrap();
    let failed = events.awaited(Level::WARN, "background", "expired rows were not deleted");
    assert_eq!(failed.field("table"), "tokens");
    for _ in 0..3 {
        while sweeper.take_error().is_none() {
            std::thread::yield_now();
        }
    }
    db.thaw(tokens).unwrap();
    assert_eq!(events.awaited(Level::DEBUG, "background", "expired rows deleted").field("rows"), "1");
    events.only(Level::WARN, "background", "expired rows were not deleted");
}

#[test]
fn statistics_that_are_not_published() {
    // Proves the event for the first of several failures in a row to publish statistics.
    let events = Events::listen();
    let directory = std::env::temp_dir().join(format!("braid-events-published-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let db = Database::open(&directory, options()).unwrap();
    let publisher = db.publish_statistics(Duration::from_millis(10)).unwrap();
    // A directory in the place of the file that is written and renamed, made at a moment without the file.
    while std::fs::create_dir(directory.join("statistics.new")).is_err() {}
    let failed = events.awaited(Level::WARN, "background", "statistics were not published");
    assert!(failed.field("error").contains("statistics.new"), "{failed:?}");
    for _ in 0..3 {
        while publisher.take_error().is_none() {
            std::thread::yield_now();
        }
    }
    events.only(Level::WARN, "background", "statistics were not published");
    std::fs::remove_dir(directory.join("statistics.new")).unwrap();
    drop(publisher);
    db.close().unwrap();
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn ordinary_transactions_tell_nothing() {
    // Proves that a transaction that commits at once emits no event of any level, in memory and on disk, in every way
    // of running it.
    let events = Events::listen();
    for db in [Database::in_memory(options()).unwrap(), open(&Troubled::new())] {
        let table: Table<u64, u64> = db.table("t").unwrap();
        let mut worker = db.worker();
        worker.set_batch(8);
        kept().clear();
        for key in 0..1000 {
            put(&db, table, key).unwrap();
            db.transact(|tx| tx.put(table, key, key + 1)).unwrap();
            let read = worker.run(async |tx| tx.get(table, key).await);
            assert_eq!(read.unwrap(), Some(key + 1));
        }
        let inputs = (0..1000).collect();
        let deleted = db.run_each(inputs, async move |tx, key| tx.delete(table, *key).await);
        assert!(deleted.wait().unwrap().iter().all(|deleted| matches!(deleted, Ok(true))));
        assert!(kept().is_empty(), "{:?}", kept());
        drop(worker);
    }
    assert_eq!(events.all("database closed").len(), 1, "of the last");
}
