//! Tables that are made, renamed, cleared and dropped, from a consumer's view.

use crate::{Replica, memory, open, put};
use braiddb::changes::{ChangeKind, Changes};
use braiddb::{AnyScheme, Database, Table};

/// Describes the next changes in words, while there are durable ones.
fn told(changes: &mut Changes) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(transaction) = changes.try_next().unwrap() {
        for change in &transaction {
            let what = match change.kind {
                ChangeKind::Put { .. } => "put",
                ChangeKind::Delete { .. } => "delete",
                ChangeKind::Described => "described",
                ChangeKind::Cleared => "cleared",
                ChangeKind::Dropped => "dropped",
                other => panic!("{other:?}"),
            };
            told.push(format!("{} {} {what}", change.table.number, change.table.name));
        }
    }
    told
}

/// Proves that each event arrives at its place among the changes of rows, and that rows deleted by clearing do not
/// arrive.
#[test]
fn tables_that_come_and_go() {
    let storage = memory();
    let db: Database<AnyScheme> = open(&storage);
    let start = db.change_position().unwrap();
    let mut changes = db.changes(start).unwrap();
    let first: Table<u64, u64> = db.table("first").unwrap();
    (0..100).for_each(|key| put(&db, first, key, key));
    assert_eq!(told(&mut changes).len(), 101);
    db.clear(first).unwrap();
    put(&db, first, 3, 4);
    db.rename_table("first", "second").unwrap();
    put(&db, first, 5, 6);
    let other: Table<String, u64> = db.table("first").unwrap();
    db.transact(|tx| tx.put(other, "x", 1)).unwrap();
    db.drop_table("second").unwrap();
    let again: Table<u64, u64> = db.table("second").unwrap();
    put(&db, again, 7, 8);
    let expected = [
        "0 first cleared",
        "0 first put",
        "0 second described",
        "0 second put",
        "1 first described",
        "1 first put",
        "0 second dropped",
        "2 second described",
        "2 second put",
    ];
    assert_eq!(told(&mut changes), expected);
    // Reading from the beginning again, also after the database was opened again, gives the same, except that tables
    // have their last names until their renaming arrives.
    let position = start.to_bytes();
    drop((changes, db));
    let db = open(&storage);
    let start = braiddb::changes::ChangePosition::from_bytes(&position).unwrap();
    let again = told(&mut db.changes(start).unwrap());
    assert_eq!(again.len(), 101 + expected.len());
    assert_eq!(again[101..], expected);
    assert_eq!([&*again[0], &*again[1]], ["0 first described", "0 first put"]);
    let mut replica = Replica::from_oldest(&db);
    replica.catch_up(&db).unwrap();
    replica.check(&db);
}

/// Proves that a reader that begins after a table was made knows the table and its types.
#[test]
fn tables_are_known_from_the_middle() {
    let storage = memory();
    let db: Database<AnyScheme> = open(&storage);
    let names: Table<(u32, String), str> = db.table("names").unwrap();
    let middle = db.change_position().unwrap();
    db.rename_table("names", "people").unwrap();
    let mut changes = db.changes(middle).unwrap();
    db.transact(|tx| tx.put(names, (1, "a".to_string()), "b")).unwrap();
    let renamed = changes.wait_next().unwrap().unwrap();
    assert_eq!(renamed.changes().next().unwrap().kind, ChangeKind::Described);
    let row = changes.wait_next().unwrap().unwrap();
    let change = row.changes().next().unwrap();
    assert_eq!((&*change.table.name, &*change.table.key_type), ("people", "(u32, string)"));
    let decoded = change.decode::<(u32, String), str>().unwrap();
    assert_eq!(decoded, Some(((1, "a".to_string()), Some("b"))));
}

/// Proves that a clearing that is unfinished when the database goes down is still reported, and is reported again when
/// it is completed later.
#[test]
fn a_table_that_is_cleared_twice() {
    let storage = memory();
    let db: Database<AnyScheme> = open(&storage);
    let table: Table<u64, u64> = db.table("t").unwrap();
    (0..10).for_each(|key| put(&db, table, key, key));
    db.clear(table).unwrap();
    db.clear(table).unwrap();
    let mut replica = Replica::from_oldest(&db);
    replica.catch_up(&db).unwrap();
    replica.check(&db);
    assert!(replica.tables[&0].1.is_empty());
    put(&db, table, 1, 1);
    replica.catch_up(&db).unwrap();
    replica.check(&db);
}
