//! Tables and indexes that are made and dropped all the time, and what remains of the dropped ones.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braid_schemes as _;
use braiddb::changes::ChangeKind;
use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, OpenMode, Storage};
use braiddb::tools::SalvageOptions;
use braiddb::{Database, Durability, Error, Options, Table};
use std::collections::BTreeSet;
use std::sync::Arc;

type Rows = Table<u64, u64>;

fn open(storage: &MemoryStorage, durability: Durability) -> Database {
    let options = Options { workers: 0, log_segment_bytes: 1 << 14, durability, ..Options::default() };
    let clock = Arc::new(SystemClock::default());
    Database::open_with(Arc::new(storage.clone()), options, clock, &mut |_| {}).unwrap()
}

/// The size of the newest checkpoint's list of tables.
fn manifest_bytes(storage: &MemoryStorage) -> u64 {
    let names = storage.list().unwrap();
    let newest = names.iter().filter(|name| name.starts_with("checkpoint-")).max().unwrap();
    storage.open(newest, OpenMode::Read).unwrap().len_bytes().unwrap()
}

fn make_and_drop(db: &Database, tables: u64) {
    for table in 0..tables {
        let name = format!("table number {table}");
        let made: Rows = db.table(&name).unwrap();
        db.transact(|tx| tx.put(made, table, table)).unwrap();
        db.drop_table(&name).unwrap();
    }
}

/// Writes until the log no longer mentions what was dropped before, and makes the checkpoint that leaves it out.
fn move_on(db: &Database, rows: Rows) {
    for _ in 0..5 {
        for first in (0..1000).step_by(200) {
            db.transact(|tx| (first..first + 200).try_for_each(|key| tx.put(rows, key, key))).unwrap();
        }
        db.checkpoint().unwrap();
    }
}

/// Proves that checkpoints list the existing tables, and dropped tables only while the log mentions them. What is
/// opened, read, checked and salvaged from them is complete.
#[test]
fn checkpoints_leave_out_tables_that_were_dropped() {
    for durability in [Durability::Async, Durability::None] {
        let storage = MemoryStorage::new(1 << 30);
        let db = open(&storage, durability);
        let first: Rows = db.table("first").unwrap();
        move_on(&db, first);
        let few = manifest_bytes(&storage);
        make_and_drop(&db, 100);
        let second: Rows = db.table("second").unwrap();
        db.transact(|tx| tx.put(second, 1, 10)).unwrap();
        make_and_drop(&db, 100);
        move_on(&db, first);
        let many = manifest_bytes(&storage);
        assert!(many < few + 500, "{durability:?}: {few} bytes, and {many} after 200 tables that went");
        db.close().unwrap();

        for _ in 0..2 {
            let db = open(&storage, durability);
            let names: Vec<String> = db.tables().into_iter().map(|table| table.name).collect();
            assert_eq!(names, ["first", "second"], "{durability:?}");
            let second: Rows = db.table("second").unwrap();
            assert_eq!(db.transact(|tx| tx.get(second, 1)).unwrap(), Some(10));
            make_and_drop(&db, 3); // with numbers after the last
            db.close().unwrap();
        }
        assert!(braiddb::tools::verify(&storage, &mut |_| {}).unwrap().is_good());
        let to: Database = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
        let salvage = braiddb::tools::salvage(&storage, &to, SalvageOptions::default(), &mut |_| {}).unwrap();
        assert!(salvage.is_complete(), "{salvage:?}");
        assert_eq!(to.tables().len(), 2);
    }
}

/// Proves that a reader of changes that begins as early as possible knows every table that the log mentions, also
/// after the database was opened again. No number occurs twice, and a reader that follows forgets dropped tables.
#[test]
fn readers_of_changes_know_what_the_log_tells_of() {
    let storage = MemoryStorage::new(1 << 30);
    let mut made = BTreeSet::new();
    for round in 0..4 {
        let db = open(&storage, Durability::Async);
        let first: Rows = db.table("first").unwrap();
        make_and_drop(&db, 20);
        let mut changes = db.changes(db.oldest_change_position().unwrap()).unwrap();
        let (end, mut dropped) = (db.change_position().unwrap(), BTreeSet::new());
        while let Some(transaction) = changes.next_before(end).unwrap() {
            for change in transaction.changes() {
                match change.kind {
                    ChangeKind::Dropped => assert!(dropped.insert(change.table.number), "round {round}"),
                    _ => assert!(!dropped.contains(&change.table.number), "round {round}: {change:?}"),
                }
            }
        }
        assert!(dropped.len() >= 20, "round {round}: {dropped:?}");
        let before = made.len();
        made.extend(dropped.into_iter().rev().take(20));
        assert_eq!(made.len(), before + 20, "round {round}: a number was given again");
        move_on(&db, first);
        db.close().unwrap();
    }
}

/// Proves that the limit of 32 counts only indexes and projections that exist.
#[test]
fn indexes_that_have_gone_do_not_count() {
    let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
    let rows: Table<u64, (u64, u64)> = db.table("rows").unwrap();
    let put = |key: u64| db.transact(|tx| tx.put(rows, key, (key, 0)));
    (0..20).for_each(|key| put(key).unwrap());
    for round in 0..50 {
        let kept = db.index_on::<u64, _, _>(rows, "kept", &["0"]).unwrap();
        assert!(db.transact(|tx| Ok(tx.scan_by(kept, 7_u64..8).next()?.is_some())).unwrap());
        put(20 + round).unwrap();
        db.drop_index("rows", "kept").unwrap();
        assert!(matches!(
            db.transact(|tx| tx.scan_by(kept, 7_u64..8).next().map(drop)),
            Err(Error::TableDropped)
        ));
        let twice = db.unique_index(rows, "all alike", |_, (_, alike)| Some(alike));
        assert!(matches!(twice, Err(Error::IndexNotBuilt { .. })), "{twice:?}");
    }
    let there: Vec<_> = (0..32)
        .map(|number| {
            db.index(rows, &format!("index {number}"), move |_, (one, _)| Some(one + number)).unwrap()
        })
        .collect();
    let more = db.projection(rows, "one more", |_, (one, _)| Some((one,)));
    assert!(matches!(more, Err(Error::IndexNotBuilt { .. })));
    put(1000).unwrap();
    for (index, number) in there.into_iter().zip(0..) {
        let found = db.transact(|tx| Ok(tx.scan_by(index, 1000 + number..).next()?.map(|(_, key, _)| key)));
        assert_eq!(found.unwrap(), Some(1000), "{number}");
    }
}
