//! Indexes that outlive the program.

use super::*;
use braiddb::recovery::{Past, restore};
use braiddb::tools::{SalvageOptions, backup, salvage, verify};
use braiddb::wal::Until;

/// Runs a program that declares the indexes, and writes three rows.
fn first_program(storage: &MemoryStorage, checkpoints: bool) -> Database {
    let db = open_as(storage, Durability::Sync).unwrap();
    let (people, ..) = declared(&db);
    if checkpoints {
        db.checkpoint().unwrap();
    }
    db.transact(|tx| {
        tx.put(people, 1, &person("Ada", "London"))?;
        tx.put(people, 2, &person("Alan", "London"))?;
        tx.put(people, 3, &person("Grace", "New York"))
    })
    .unwrap();
    db
}

/// Checks what the database then has. A program that declares nothing finds and writes rows. Afterwards, a program
/// that declares the indexes finds everything by them.
fn check_kept(storage: &MemoryStorage) {
    let db = open(storage);
    let kept: Vec<_> =
        db.tables().remove(0).indexes.iter().map(|kept| (kept.name.clone(), kept.to_string())).collect();
    assert_eq!(
        kept,
        [("by city", "by (city, name)"), ("by name", "unique by (name)")]
            .map(|(name, by)| (name.to_string(), by.to_string()))
    );
    assert!(is_taken(put_raw(&db, 9, &person("Ada", "Paris")), "by name"));
    let people: People = db.table("people").unwrap();
    assert!(is_taken(db.transact(|tx| tx.insert(people, 9, &person("Alan", "Paris"))), "by name"));
    put_raw(&db, 2, &person("Alan", "Princeton")).unwrap();
    put_raw(&db, 9, &person("Eve", "London")).unwrap();
    let (_, by_city, by_name) = declared(&db);
    assert_eq!(of_city(&db, by_city, "London"), ["Ada", "Eve"]);
    assert_eq!(db.transact(|tx| tx.get_by(by_name, "Alan")).unwrap().unwrap().1.city, "Princeton");
    db.close().unwrap();
}

/// Proves that declarations are found again after an orderly close, from the log and from a checkpoint.
#[test]
fn closed_and_opened() {
    for checkpoints in [false, true] {
        let storage = disk();
        let db = first_program(&storage, checkpoints);
        if checkpoints {
            db.checkpoint().unwrap();
        }
        db.close().unwrap();
        assert!(verify(&storage, &mut |_| {}).unwrap().is_good());
        check_kept(&storage);
    }
}

/// Proves the same after the process is killed.
#[test]
fn killed_and_opened() {
    for checkpoints in [false, true] {
        let storage = disk();
        let db = first_program(&storage, checkpoints);
        check_kept(&killed(&storage));
        db.close().unwrap();
    }
}

/// Proves that copies, restored and salvaged databases have the indexes.
#[test]
fn copies_have_them() {
    for checkpoints in [false, true] {
        let storage = disk();
        first_program(&storage, checkpoints).close().unwrap();
        let copy = disk();
        backup(&storage, &copy).unwrap();
        check_kept(&copy);

        let restored = disk();
        let past = Past { from: Arc::new(storage.clone()), logs: vec![], until: Until::End };
        let (to, clock) = (Arc::new(restored.clone()), Arc::new(SystemClock::default()));
        restore(&past, to, &options(Durability::Sync), clock, &mut |_| {}).unwrap();
        check_kept(&restored);

        let salvaged = disk();
        let db = open(&salvaged);
        let done = salvage(&storage, &db, SalvageOptions::default(), &mut |_| {}).unwrap();
        assert!(done.is_complete() && done.tables[0].indexes.len() == 2, "{done:?}");
        assert!(is_taken(put_raw(&db, 9, &person("Ada", "Paris")), "by name"));
        db.close().unwrap();
        check_kept(&salvaged);
    }
}

/// Proves that a database that is opened read-only has the indexes when they are asked for, and no others.
#[test]
fn opened_to_be_read() {
    let storage = disk();
    first_program(&storage, true).close().unwrap();
    let db = read(&storage);
    let (people, by_city, by_name) = declared(&db);
    assert_eq!(of_city(&db, by_city, "London"), ["Ada", "Alan"]);
    assert_eq!(db.transact(|tx| tx.get_by(by_name, "Grace")).unwrap().unwrap().0, 3);
    let more = db.index_on::<String, _, _>(people, "by town", &["city"]);
    assert!(matches!(more, Err(Error::ReadOnly)), "{more:?}");
    let closure = db.index(people, "by city", |_, person: Person| Some(person.city));
    assert!(matches!(closure, Err(Error::IndexMismatch { .. })), "{closure:?}");
    let by_born = db.index(people, "by year", |_, person: Person| person.born).unwrap();
    let first = db.transact(|tx| tx.scan_by(by_born, 0u16..).next().map(|row| row.is_some()));
    assert!(first.unwrap(), "functions make indexes of it, too");
    assert!(matches!(put_raw(&db, 9, &person("Eve", "London")), Err(Error::ReadOnly)));
}

/// Proves that what is done to a table is done to its indexes, permanently.
#[test]
fn tables_and_indexes_that_go() {
    let storage = disk();
    let db = first_program(&storage, false);
    db.rename_table("people", "persons").unwrap();
    db.close().unwrap();

    let db = open(&storage);
    let persons: People = db.table("persons").unwrap();
    assert!(is_taken(db.transact(|tx| tx.insert(persons, 9, &person("Ada", ""))), "by name"));
    assert!(matches!(db.drop_index("people", "by name"), Err(Error::NoTable { .. })));
    assert!(matches!(db.drop_index("persons", "by nam"), Err(Error::NoIndex { .. })));
    let by_name: ByName = db.unique_index_on(persons, "by name", &["name"]).unwrap();
    db.drop_index("persons", "by name").unwrap();
    assert!(matches!(db.transact(|tx| tx.get_by(by_name, "Ada")), Err(Error::TableDropped)));
    assert!(matches!(db.drop_index("persons", "by name"), Err(Error::NoIndex { .. })));
    db.transact(|tx| tx.insert(persons, 9, &person("Ada", ""))).unwrap();
    db.close().unwrap();

    let db = open(&storage);
    let persons: People = db.table("persons").unwrap();
    let twice = db.unique_index_on::<String, _, _>(persons, "by name", &["name"]).unwrap_err();
    assert!(matches!(&twice, Error::IndexNotBuilt { .. }), "{twice}");
    assert_eq!(db.tables()[0].indexes.len(), 1, "what cannot be built is not kept");
    db.drop_table("persons").unwrap();
    let again: Table<u64, String> = db.table("persons").unwrap();
    db.transact(|tx| tx.put(again, 1, "Ada")).unwrap();
    db.close().unwrap();
    let db = open(&storage);
    assert!(db.tables()[0].indexes.is_empty());
    drop(db);
    assert!(verify(&storage, &mut |_| {}).unwrap().is_good());
}
