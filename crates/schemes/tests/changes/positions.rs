//! Positions at which reading continues, and positions at which it cannot.

use crate::{Replica, memory, open, options, put};
use braiddb::changes::{ChangePosition, InvalidPosition};
use braiddb::storage::{MemoryStorage, Storage};
use braiddb::tools::backup;
use braiddb::{AnyScheme, Database, Durability, Error, Options, Table};
use std::sync::Arc;

fn refused(db: &Database<AnyScheme>, position: ChangePosition, what: &str) {
    match db.changes(position) {
        Err(Error::NoSuchPosition { reason }) => assert!(reason.contains(what), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// Proves that a stored position can be read back, and that a position with any change in it is invalid.
#[test]
fn positions_are_bytes_and_text() {
    let storage = memory();
    let db = open(&storage);
    let table: Table<u64, u64> = db.table("t").unwrap();
    put(&db, table, 1, 1);
    let mut changes = db.changes(db.oldest_change_position().unwrap()).unwrap();
    changes.wait_next().unwrap().unwrap();
    for position in [db.change_position().unwrap(), changes.position()] {
        let bytes = position.to_bytes();
        assert_eq!(ChangePosition::from_bytes(&bytes), Ok(position));
        assert_eq!(position.to_string().parse(), Ok(position));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ChangePosition::from_bytes(&changed), Err(InvalidPosition));
        }
        assert_eq!(ChangePosition::from_bytes(&bytes[1..]), Err(InvalidPosition));
        assert_eq!("".parse::<ChangePosition>(), Err(InvalidPosition));
        assert_eq!("é".repeat(40).parse::<ChangePosition>(), Err(InvalidPosition));
        assert_eq!(position.to_string().replace('0', "g").parse::<ChangePosition>(), Err(InvalidPosition));
    }
    assert!(changes.position() < db.change_position().unwrap());
}

/// Proves that positions of another database are refused, and positions of a copy that has been written by itself.
#[test]
fn positions_of_other_logs() {
    let storage = memory();
    let db = open(&storage);
    let table: Table<u64, u64> = db.table("t").unwrap();
    put(&db, table, 1, 1);
    let other = open(&memory());
    refused(&db, other.change_position().unwrap(), "another database");
    let mut changes = db.changes(db.change_position().unwrap()).unwrap();
    let until = changes.next_before(other.change_position().unwrap());
    assert!(matches!(until, Err(Error::NoSuchPosition { .. })), "{until:?}");

    let copied = MemoryStorage::new(1 << 28);
    backup(&*storage, &copied).unwrap();
    let copied: Arc<dyn Storage> = Arc::new(copied);
    let copy = open(&copied);
    let table_of_copy: Table<u64, u64> = copy.table("t").unwrap();
    // What both logs have can be read from either.
    let common = db.change_position().unwrap();
    assert!(copy.changes(common).unwrap().try_next().unwrap().is_none());
    // The logs diverge: a position of one is behind the end of the other, or follows another record.
    let mut of_db = db.changes(common).unwrap();
    put(&db, table, 2, 2);
    let first = of_db.wait_next().unwrap().unwrap().position();
    refused(&copy, first, "behind the end");
    put(&copy, table_of_copy, 2, 3);
    put(&copy, table_of_copy, 2, 4);
    let gone = copy.changes(first).unwrap().try_next();
    assert!(matches!(gone, Err(Error::NoSuchPosition { .. })), "{gone:?}");
    put(&db, table, 2, 5);
    assert!(db.changes(first).unwrap().try_next().unwrap().is_some());
}

/// Proves that without a log nothing can be read, and that changes that were made without a log are not skipped in
/// silence afterwards.
#[test]
fn databases_without_a_log() {
    let clock = Arc::new(braiddb::metrics::SystemClock::default());
    let in_memory = Database::<AnyScheme>::in_memory_with(options(), clock).unwrap();
    assert!(matches!(in_memory.change_position(), Err(Error::NoLog)));
    assert!(matches!(in_memory.oldest_change_position(), Err(Error::NoLog)));
    let storage = memory();
    let before = {
        let db = open(&storage);
        let table: Table<u64, u64> = db.table("t").unwrap();
        put(&db, table, 1, 1);
        assert!(matches!(in_memory.changes(db.change_position().unwrap()), Err(Error::NoLog)));
        db.change_position().unwrap()
    };
    let mut before = before;
    for value in 2..5 {
        let unlogged = Options { durability: Durability::None, ..options() };
        let db: Database<AnyScheme> = crate::open_as(&storage, unlogged).unwrap();
        assert!(matches!(db.change_position(), Err(Error::NoLog)));
        assert!(matches!(db.changes(before), Err(Error::NoLog)));
        let table: Table<u64, u64> = db.table("t").unwrap();
        put(&db, table, 1, value);
        db.close().unwrap();
        let db = open(&storage);
        refused(&db, before, "without a log");
        let copied: Arc<dyn Storage> = memory();
        backup(&*storage, &*copied).unwrap();
        // Other positions are valid, here and in a copy.
        before = db.change_position().unwrap();
        assert!(db.changes(before).unwrap().try_next().unwrap().is_none());
        db.close().unwrap();
        let db = open(&storage);
        assert!(db.changes(before).unwrap().try_next().unwrap().is_none());
        drop(db);
        assert!(open(&copied).changes(before).unwrap().try_next().unwrap().is_none());
    }
}

/// Proves that what a checkpoint has made unneeded is deleted, and that the error names where the log begins. A
/// consumer then begins again with the present rows.
#[test]
fn positions_that_are_gone() {
    let storage = memory();
    let db = open(&storage);
    let table: Table<u64, u64> = db.table("t").unwrap();
    let position = db.change_position().unwrap();
    for round in 0..3 {
        (0..200).for_each(|key| put(&db, table, key, round));
        db.checkpoint().unwrap();
    }
    let oldest = db.oldest_change_position().unwrap();
    assert!(oldest > position);
    let check = |db: &Database<AnyScheme>| match db.changes(position) {
        Err(error @ Error::ChangesRemoved { asked, oldest: first }) => {
            assert_eq!((asked, first), (position.lsn(), oldest.lsn()));
            assert!(error.to_string().contains(&oldest.lsn().to_string()), "{error}");
        }
        other => panic!("{other:?}"),
    };
    check(&db);
    drop(db);
    let db = open(&storage);
    check(&db);
    assert_eq!(db.oldest_change_position().unwrap(), oldest);
    // From the oldest position on, the reader gets the changes of the last two rounds, over the rows.
    let mut replica = Replica::new(oldest);
    replica.tables.insert(0, ("t".into(), crate::contents(&db).remove("t").unwrap()));
    replica.catch_up(&db).unwrap();
    replica.check(&db);
}

/// Proves that a restored database counts as another database.
#[test]
fn positions_of_a_restored_database() {
    let storage = memory();
    let db = open(&storage);
    let table: Table<u64, u64> = db.table("t").unwrap();
    (0..10).for_each(|key| put(&db, table, key, key));
    let position = db.change_position().unwrap();
    put(&db, table, 1, 100);
    db.close().unwrap();
    let past = braiddb::recovery::Past {
        from: storage.clone(),
        logs: Vec::new(),
        until: braiddb::wal::Until::Lsn(position.lsn()),
    };
    let to = memory();
    let clock = Arc::new(braiddb::metrics::SystemClock::default());
    braiddb::recovery::restore(&past, to.clone(), &options(), clock, &mut |_| {}).unwrap();
    let restored = open(&to);
    refused(&restored, position, "another database");
    let oldest = restored.oldest_change_position().unwrap();
    assert_eq!(oldest.lsn(), position.lsn(), "its log begins at the point");
    let mut changes = restored.changes(oldest).unwrap();
    let table: Table<u64, u64> = restored.table("t").unwrap();
    put(&restored, table, 2, 2);
    assert!(changes.wait_next().unwrap().is_some());
}
