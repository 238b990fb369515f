//! Secondary indexes by columns, whose definitions the database keeps: every program that writes rows maintains them,
//! however the previous program ended.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contended;
mod extraction;
mod lasting;
mod refused;
mod versions;

use braiddb::metrics::SystemClock;
use braiddb::storage::{MemoryStorage, OpenMode, Storage};
use braiddb::{Database, Durability, Error, Index, Options, Result, Table, Value};
use std::sync::Arc;

#[derive(Value, Clone, Debug, PartialEq)]
#[braid(name = "person")]
struct Person {
    name: String,
    city: String,
    born: Option<u16>,
    score: f64,
}

type People = Table<u64, Person>;
type ByCity = Index<(String, String), u64, Person>;
type ByName = Index<String, u64, Person>;

fn person(name: &str, city: &str) -> Person {
    Person { name: name.into(), city: city.into(), born: Some(1815), score: 0.5 }
}

fn options(durability: Durability) -> Options {
    Options { workers: 0, log_segment_bytes: 1 << 18, durability, ..Options::default() }
}

fn open_as(storage: &MemoryStorage, durability: Durability) -> Result<Database> {
    let clock = Arc::new(SystemClock::default());
    Database::open_with(Arc::new(storage.clone()), options(durability), clock, &mut |_| {})
}

fn open(storage: &MemoryStorage) -> Database {
    open_as(storage, Durability::Async).unwrap()
}

fn read(storage: &MemoryStorage) -> Database {
    let clock = Arc::new(SystemClock::default());
    Database::read_with(Arc::new(storage.clone()), options(Durability::Async), clock, &mut |_| {}).unwrap()
}

fn disk() -> MemoryStorage {
    MemoryStorage::new(1 << 30)
}

fn in_memory() -> Database {
    Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap()
}

/// Copies what is on the disk now, which is all that is left if the process is killed.
fn killed(storage: &MemoryStorage) -> MemoryStorage {
    let copy = disk();
    for name in storage.list().unwrap() {
        let file = storage.open(&name, OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len_bytes().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        copy.open(&name, OpenMode::CreateNew).unwrap().write_all_at(0, &bytes).unwrap();
    }
    copy
}

/// Declares the indexes as a program does.
fn declared(db: &Database) -> (People, ByCity, ByName) {
    let people = db.table("people").unwrap();
    let by_city = db.index_on(people, "by city", &["city", "name"]).unwrap();
    let by_name = db.unique_index_on(people, "by name", &["name"]).unwrap();
    (people, by_city, by_name)
}

/// Returns the names of a city's people, by the index.
fn of_city(db: &Database, by_city: ByCity, city: &str) -> Vec<String> {
    db.transact(|tx| {
        let mut rows = tx.scan_by(by_city, (city, "")..(city, "\u{10ffff}"));
        let mut found = Vec::new();
        while let Some(((of, name), _, person)) = rows.next()? {
            assert_eq!((&*of, &name), (city, &person.name));
            found.push(name);
        }
        Ok(found)
    })
    .unwrap()
}

/// Writes a row as bytes, like a program that knows none of its types.
fn put_raw(db: &Database, key: u64, person: &Person) -> Result<()> {
    let raw = db.raw_table("people").unwrap();
    let bytes = Person::encode(person)?;
    db.transact(|tx| tx.with(async |txn| raw.put(txn, &key.to_be_bytes(), &bytes).await))
}

fn is_taken(written: Result<()>, of: &str) -> bool {
    matches!(written, Err(Error::UniqueViolation { index }) if index == of)
}

/// Proves that rows are found by columns, and that writes of all kinds maintain the index.
#[test]
fn rows_are_found_by_columns() {
    let db = in_memory();
    let people: People = db.table("people").unwrap();
    db.transact(|tx| tx.put(people, 1, &person("Ada", "London"))).unwrap();
    let (_, by_city, by_name) = declared(&db); // of an existing row
    db.transact(|tx| tx.put(people, 2, &person("Alan", "London"))).unwrap();
    put_raw(&db, 3, &person("Grace", "New York")).unwrap();
    assert_eq!(of_city(&db, by_city, "London"), ["Ada", "Alan"]);
    db.transact(|tx| tx.put(people, 2, &person("Alan", "Princeton"))).unwrap();
    assert_eq!(of_city(&db, by_city, "London"), ["Ada"]);
    let grace = db.transact(|tx| tx.get_by(by_name, "Grace")).unwrap();
    assert_eq!(grace, Some((3, person("Grace", "New York"))));
    assert!(is_taken(db.transact(|tx| tx.put(people, 4, &person("Ada", "Paris"))), "by name"));
    assert!(is_taken(put_raw(&db, 4, &person("Ada", "Paris")), "by name"));
    db.transact(|tx| tx.delete(people, 1)).unwrap();
    put_raw(&db, 4, &person("Ada", "Paris")).unwrap();
    assert_eq!(of_city(&db, by_city, "Paris"), ["Ada"]);
    db.clear(people).unwrap();
    assert_eq!(of_city(&db, by_city, "Paris"), [""; 0]);
    assert!(db.transact(|tx| tx.get_by(by_name, "Ada")).unwrap().is_none());
    // Not a value of the table's type.
    let raw = db.raw_table("people").unwrap();
    for bytes in [&b""[..], b"\x01", b"\x07\0\0\0abc\x01\0", b"\0\0\0\0\0\0\0\0\0\0\0\0\x02\0"] {
        let written = db.transact(|tx| tx.with(async |txn| raw.put(txn, &[9; 8], bytes).await));
        assert!(matches!(written, Err(Error::Malformed { .. })), "{written:?}");
    }
}

/// Proves that columns of tuples are named by their numbers, and that one column alone is a key.
#[test]
fn columns_of_tuples() {
    let db = in_memory();
    let rows: Table<u32, (String, f32, Option<i16>, u8)> = db.table("rows").unwrap();
    let last: Index<(u8, String), _, _> = db.index_on(rows, "last", &["3", "0"]).unwrap();
    let middle: Index<Option<i16>, _, _> = db.unique_index_on(rows, "middle", &["2"]).unwrap();
    db.transact(|tx| {
        tx.put(rows, 1, ("b", 1.5, Some(-1), 7))?;
        tx.put(rows, 2, ("a", 2.5, None, 7))
    })
    .unwrap();
    assert!(is_taken(db.transact(|tx| tx.put(rows, 3, ("c", 0.0, None, 0))), "middle"), "none is a key");
    let first = db.transact(|tx| tx.scan_by(last, (7, "")..).next().map(|row| row.map(|row| (row.0, row.1))));
    assert_eq!(first.unwrap(), Some(((7, "a".to_string()), 2)));
    let found = db.transact(|tx| tx.get_by(middle, Some(-1)).map(|row| row.map(|row| row.0)));
    assert_eq!(found.unwrap(), Some(1));
}
