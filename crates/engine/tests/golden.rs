//! Opens databases of every kind, and checks their contents, what recovery reports, and that they can be used further.
//!
//! The databases are written by this version of Braid, or by the versions of the format in `KEPT` when these were
//! declared stable. The files of the latter are in `golden`, and are never changed. `golden/contents.rs` describes the
//! contents, and the example `golden` writes the files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "golden/contents.rs"]
mod contents;

use braiddb::recovery::Past;
use braiddb::storage::{OpenMode, Storage};
use braiddb::wal::{Lsn, Until};
use braiddb::{Database, Table};
use contents::{NAMES, Steady, counters, every_type, make, memory, options, ranged, transactions};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The versions of the format whose files are kept.
const KEPT: [&str; 1] = ["v1"];

/// The versions to check. The last is the present version.
fn versions() -> impl Iterator<Item = Option<&'static str>> {
    KEPT.into_iter().map(Some).chain([None])
}

/// Returns the files of a database: a copy of what is kept, or what this version writes.
fn copy(version: Option<&str>, name: &str) -> Arc<dyn Storage> {
    let Some(version) = version else { return make(name) };
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(version).join(name);
    let storage = memory();
    for entry in std::fs::read_dir(directory).unwrap() {
        let (name, bytes) = {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        };
        storage.open(&name, OpenMode::CreateNew).unwrap().write_all_at(0, &bytes).unwrap();
    }
    storage
}

fn open(storage: &Arc<dyn Storage>) -> Database {
    Database::open_with(storage.clone(), options(), Arc::new(Steady::default()), &mut |_| {}).unwrap()
}

fn check_contents(name: &str, db: &Database) {
    let tx = db.begin().unwrap();
    if name == "ranges" {
        let table: Table<u64, [u8]> = db.table("ranged").unwrap();
        let mut rows = tx.scan::<_, _, u64>(table, ..);
        for (key, value) in ranged() {
            assert_eq!(rows.next().unwrap(), Some((key, &value[..])));
        }
        assert_eq!(rows.next().unwrap(), None);
        return;
    }
    every_type(db, &tx, false);
    let (table, mut found): (Table<u64, u64>, _) = (db.table("counters").unwrap(), BTreeMap::new());
    let mut rows = tx.scan::<_, _, u64>(table, ..);
    while let Some((key, value)) = rows.next().unwrap() {
        found.insert(key, value);
    }
    assert_eq!(found, counters(transactions(name)), "{name}");
    let tables = db.tables().into_iter().filter(|table| table.name != "more").count();
    assert_eq!(tables, 18, "{name}");
}

/// Proves that each database is verified, read, opened and used further, and that recovery reports what was written.
#[test]
fn what_was_written_is_there() {
    for (version, name) in versions().flat_map(|version| NAMES.map(|name| (version, name))) {
        let storage = copy(version, name);
        let verified = braiddb::tools::verify(&*storage, &mut |_| {}).unwrap();
        assert!(verified.is_good(), "{name}: {verified:?}");
        let clock = Arc::new(Steady::default());
        let read: Database = Database::read_with(storage.clone(), options(), clock, &mut |_| {}).unwrap();
        check_contents(name, &read);
        read.close().unwrap();
        let db = open(&storage);
        check_contents(name, &db);
        let recovery = db.recovery().unwrap();
        assert!(recovery.damaged_checkpoints.is_empty(), "{name}");
        let checkpoint = match name {
            "checkpointed" | "ranges" => Some(2),
            "unlogged" | "restored" => Some(1),
            _ => None,
        };
        assert_eq!(recovery.checkpoint, checkpoint, "{name}");
        let was_closed = matches!(name, "closed" | "checkpointed" | "restored" | "unlogged");
        assert_eq!(recovery.was_closed, was_closed, "{name}");
        // One record of the torn run was complete.
        assert_eq!(recovery.cut.is_some(), name == "crashed", "{name}: {:?}", recovery.cut);
        let in_log = match name {
            // A deletion of a row that does not exist is not logged.
            "closed" | "crashed" => 56,
            "checkpointed" => 30,
            _ => 0,
        };
        assert_eq!(recovery.transactions, in_log, "{name}");
        // The files that this version writes beside the old ones are read with them.
        drop(db);
        for life in 0..2 {
            let db = open(&storage);
            check_contents(name, &db);
            db.table::<u64, u64>("more").unwrap();
            if life == 0 {
                db.checkpoint().unwrap();
            }
            db.close().unwrap();
        }
    }
}

/// Proves that marks of the time are where they were written.
#[test]
fn marks_are_read() {
    for version in versions() {
        let storage = copy(version, "crashed");
        let id = braiddb::tools::verify(&*storage, &mut |_| {}).unwrap().database.unwrap();
        let mut reader = braiddb::wal::Reader::open(&*storage, braiddb::wal::DatabaseId(id), Lsn(0)).unwrap();
        let mut times = Vec::new();
        while let Some(mark) = reader.next_mark().unwrap() {
            times.push(mark.unix_ns);
        }
        assert!(times.len() > 20 && times.is_sorted() && times[0] > 1_600_000_000_000_000_000, "{times:?}");
        let until = Until::Time { unix_ns: times[times.len() / 2] };
        let past = Past { from: storage, logs: Vec::new(), until };
        let clock = Arc::new(Steady::default());
        let done = braiddb::recovery::restore(&past, memory(), &options(), clock, &mut |_| {}).unwrap();
        assert!((1..56).contains(&done.transactions), "{done:?}");
    }
}
