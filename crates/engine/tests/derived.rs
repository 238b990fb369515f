//! Structs and enums as keys and values, and how they survive changes of the program.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::storage::MemoryStorage;
use braiddb::{
    ConcurrencyControl, Database, Durability, Error, IndexKind, Key, NoWait, Options, Serializable, Table,
    TableOptions, Value,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The first version of the program.
mod first {
    use braiddb::Value;

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "address")]
    pub struct Address {
        pub town: String,
    }

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "user")]
    pub struct User {
        pub name: String,
        pub home: Option<Address>,
    }
}

/// The second version: users have an age.
mod second {
    use super::first;
    pub use super::first::Address;
    use braiddb::Value;

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "user", version = 2, previous = first::User)]
    pub struct User {
        pub name: String,
        pub age: Option<u16>,
        pub home: Option<Address>,
    }

    impl From<first::User> for User {
        fn from(user: first::User) -> User {
            User { name: user.name, age: None, home: user.home }
        }
    }
}

/// The third version: users have several homes, each in a country. Types have moved and have other names.
mod third {
    use super::{first, second};
    use braiddb::Value;

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "address", version = 2, previous = first::Address)]
    pub struct Place {
        pub town: String,
        pub country: [u8; 2],
    }

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "user", version = 3, previous = second::User)]
    pub struct Person {
        pub name: String,
        pub age: Option<u16>,
        pub homes: Vec<Place>,
    }

    impl From<first::Address> for Place {
        fn from(address: first::Address) -> Place {
            Place { town: address.town, country: *b"??" }
        }
    }

    impl From<second::User> for Person {
        fn from(user: second::User) -> Person {
            let homes = user.home.into_iter().map(Place::from).collect();
            Person { name: user.name, age: user.age, homes }
        }
    }
}

/// The last version: everything is migrated, and the past is forgotten.
mod last {
    use braiddb::Value;

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "address", version = 2)]
    pub struct Place {
        pub town: String,
        pub country: [u8; 2],
    }

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "user", version = 3)]
    pub struct Person {
        pub name: String,
        pub age: Option<u16>,
        pub homes: Vec<Place>,
    }
}

fn options() -> Options {
    Options { workers: 0, log_segment_bytes: 1 << 16, durability: Durability::Async, ..Options::default() }
}

fn open<C: ConcurrencyControl>(storage: &MemoryStorage) -> Database<C> {
    let clock = Arc::new(braiddb::metrics::SystemClock::default());
    Database::open_with(Arc::new(storage.clone()), options(), clock, &mut |_| {}).unwrap()
}

fn in_memory() -> Database {
    Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap()
}

fn ada() -> first::User {
    first::User { name: "Ada".into(), home: Some(first::Address { town: "London".into() }) }
}

fn grace() -> second::User {
    second::User { name: "Grace".into(), age: Some(85), home: None }
}

fn alan() -> third::Person {
    let homes = [("Wilmslow", b"GB"), ("Princeton", b"US")];
    let place = |(town, country): (&str, &[u8; 2])| third::Place { town: town.into(), country: *country };
    third::Person { name: "Alan".into(), age: Some(41), homes: homes.map(place).into() }
}

/// A database lives through four versions of its program, closed and opened in between, with a checkpoint or by the
/// log alone.
fn lives<C: ConcurrencyControl>(kind: IndexKind, with_checkpoints: bool) {
    let storage = MemoryStorage::new(1 << 30);
    let with = TableOptions { index: kind, ..TableOptions::default() };
    let close = |db: Database<C>| {
        if with_checkpoints {
            db.checkpoint().unwrap();
        }
        db.close().unwrap();
    };
    {
        let db = open::<C>(&storage);
        let users: Table<u32, first::User> = db.table_with("users", with).unwrap();
        db.transact(|tx| tx.put(users, 1, &ada())).unwrap();
        assert_eq!(db.transact(|tx| tx.get(users, 1)).unwrap(), Some(ada()));
        close(db);
    }
    {
        let db = open::<C>(&storage);
        let users: Table<u32, second::User> = db.table("users").unwrap();
        db.transact(|tx| tx.put(users, 2, &grace())).unwrap();
        assert_eq!(db.transact(|tx| tx.get(users, 1)).unwrap(), Some(ada().into()));
        assert_eq!(db.transact(|tx| tx.get(users, 2)).unwrap(), Some(grace()));
        let (tx, upgraded) = (db.begin().unwrap(), second::User::from(ada()));
        assert!(tx.compare_and_set(users, 1, Some(&upgraded), None).unwrap(), "of the earlier version");
        drop(tx);
        close(db);
    }
    let everyone =
        [third::Person::from(second::User::from(ada())), third::Person::from(grace()), alan()].map(Some);
    {
        let db = open::<C>(&storage);
        let lines = db.tables().remove(0).definitions;
        assert_eq!(
            lines,
            [
                "address 1: {town: string}",
                "user 1: {name: string, home: option of address}",
                "user 2: {name: string, age: option of u16, home: option of address}"
            ]
        );
        let behind = db.table::<u32, first::User>("users").unwrap_err();
        assert!(
            matches!(&behind, Error::ShapeMismatch { existing, requested: None, .. } if existing.starts_with("user 2"))
        );
        let forgetful = db.table::<u32, last::Person>("users").unwrap_err().to_string();
        assert!(
            forgetful.contains("address 1: {town: string}, which this program does not know"),
            "{forgetful}"
        );

        let users: Table<u32, third::Person> = db.table("users").unwrap();
        db.transact(|tx| tx.put(users, 3, &alan())).unwrap();
        let read = |key| db.transact(|tx| tx.get(users, key)).unwrap();
        assert_eq!([1, 2, 3].map(read), everyone);
        assert_eq!(db.migrate(users).unwrap(), 2);
        assert_eq!(db.migrate(users).unwrap(), 0);
        assert_eq!([1, 2, 3].map(read), everyone);
        close(db);
    }
    let db = open::<C>(&storage);
    let users: Table<u32, last::Person> = db.table("users").unwrap();
    let homes = |key| db.transact(|tx| tx.get(users, key)).unwrap().unwrap().homes.len();
    assert_eq!([1, 2, 3].map(homes), [1, 0, 2]);
    assert_eq!(db.tables()[0].definitions.len(), 2);
}

#[test]
fn a_database_outlives_its_programs() {
    lives::<Serializable>(IndexKind::Masstree, false);
    lives::<Serializable>(IndexKind::Masstree, true);
    lives::<Serializable>(IndexKind::Cuckoo, true);
    lives::<NoWait>(IndexKind::BTree, false);
    lives::<NoWait>(IndexKind::Hopscotch, true);
}

#[test]
fn a_shape_that_changes_under_its_version_is_refused() {
    #[derive(Value)]
    #[braid(name = "user")]
    struct Careless {
        name: String,
        home: Option<first::Address>,
        age: u32,
    }
    let db = in_memory();
    db.table::<u32, first::User>("users").unwrap();
    let error = db.table::<u32, Careless>("users").unwrap_err().to_string();
    for part in [
        "\"users\"",
        "user 1: {name: string, home: option of address}",
        "user 1: {name: string, home: option of address, age: u32}",
        "higher version",
    ] {
        assert!(error.contains(part), "{error}");
    }
    // Both versions in one value.
    let error = db.table::<u32, (first::User, Careless)>("both").unwrap_err();
    assert!(matches!(error, Error::ShapeMismatch { table, requested: Some(_), .. } if table == "both"));
    let _ = |careless: Careless| (careless.name, careless.home, careless.age);
}

#[test]
fn a_value_of_a_later_version_names_its_row() {
    let db = in_memory();
    let users: Table<u32, first::User> = db.table("users").unwrap();
    let raw = db.raw_table("users").unwrap();
    let mut bytes = second::User::encode(&grace()).unwrap();
    db.transact(|tx| tx.with(async |txn| raw.put(txn, &7u32.to_be_bytes(), &bytes).await)).unwrap();
    let error = db.transact(|tx| tx.get(users, 7)).unwrap_err().to_string();
    assert!(error.contains("table \"users\"") && error.contains("user of version 1"), "{error}");
    let error = db.migrate(users).unwrap_err().to_string();
    assert!(error.contains("table \"users\"") && error.contains("user of version 1"), "{error}");
    // Whatever the bytes are, reading them gives an error or a value.
    for cut in 0..bytes.len() {
        let _ = second::User::view(&bytes[..cut]);
        bytes[cut] ^= 0xff;
        let _ = second::User::view(&bytes);
        bytes[cut] ^= 0xff;
    }
}

#[derive(Key, Value, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i16)]
enum Level {
    High = 300,
    Low = -5,
    Middle = 0,
}

#[derive(Value, Debug, PartialEq)]
#[braid(name = "everything")]
struct Everything {
    numbers: (u8, i64, f64, u128),
    text: String,
    r#type: [u8; 3],
    bytes: Vec<u8>,
    texts: Vec<String>,
    levels: Vec<Level>,
    nested: Vec<Option<(u32, Vec<Level>)>>,
    elapsed: std::time::Duration,
    #[braid(serde)]
    map: std::collections::BTreeMap<String, Vec<u8>>,
    flag: bool,
}

#[derive(Value, Debug, PartialEq)]
#[braid(name = "unit")]
struct Unit;

#[derive(Value, Debug, PartialEq)]
#[braid(name = "pair", version = 65535)]
struct Pair(u16, String);

#[test]
fn all_kinds_of_fields_are_read_back() {
    let db = in_memory();
    let table: Table<u8, Everything> = db.table("everything").unwrap();
    let everything = Everything {
        numbers: (1, -2, 0.5, 1 << 100),
        text: "text".into(),
        r#type: *b"abc",
        bytes: vec![0, 255],
        texts: vec![String::new(), "ü".into()],
        levels: vec![Level::Low, Level::High],
        nested: vec![None, Some((7, vec![Level::Middle])), Some((8, vec![]))],
        elapsed: std::time::Duration::from_millis(1500),
        map: [("key".to_owned(), vec![1])].into(),
        flag: true,
    };
    db.transact(|tx| tx.put(table, 1, &everything)).unwrap();
    assert_eq!(db.transact(|tx| tx.get(table, 1)).unwrap(), Some(everything));
    assert_eq!(
        db.tables()[0].definitions,
        [
            "everything 1: {numbers: fields (u8, i64, f64, u128), text: string, type: 3 bytes, bytes: bytes, texts: list of string, \
          levels: list of i16, nested: list of option of fields (u32, list of i16), elapsed: duration, map: serde, flag: bool}"
        ]
    );
    let small: Table<u8, (Unit, Pair, Option<Unit>)> = db.table("small").unwrap();
    let pair = Pair(7, "seven".into());
    db.transact(|tx| tx.put(small, 1, (&Unit, &pair, Some(&Unit)))).unwrap();
    assert_eq!(db.transact(|tx| tx.get(small, 1)).unwrap(), Some((Unit, pair, Some(Unit))));
    assert_eq!(db.tables()[1].value_type, "fields (unit, pair, option of unit)");
    assert_eq!(db.tables()[1].definitions, ["pair 65535: {0: u16, 1: string}", "unit 1: {}"]);
}

#[derive(Key, Clone, Debug, PartialEq)]
struct Seat {
    level: Level,
    row: String,
    number: u8,
}

#[derive(Key, Clone, Copy, Debug, PartialEq)]
struct Id(u64);

#[test]
fn structs_are_keys_in_the_order_of_their_fields() {
    let db = in_memory();
    let seats: Table<Seat, u8> = db.table("seats").unwrap();
    let seat = |level, row: &str, number| Seat { level, row: row.into(), number };
    let ordered = [
        seat(Level::Low, "b", 200),
        seat(Level::Middle, "", 1),
        seat(Level::Middle, "a", 0),
        seat(Level::Middle, "a", 9),
        seat(Level::Middle, "aa", 0),
        seat(Level::High, "a", 1),
    ];
    db.transact(|tx| ordered.iter().rev().try_for_each(|seat| tx.put(seats, seat, seat.number))).unwrap();
    let mut found = Vec::new();
    db.transact(|tx| {
        let mut rows = tx.scan::<_, _, Seat>(seats, ..);
        while let Some((seat, _)) = rows.next()? {
            found.push(seat);
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(found, ordered);
    assert_eq!(db.tables()[0].key_type, "(i16, string, u8)");
    // A struct of one field is that field, with everything that is known of the field.
    let ids: Table<Id, u8> = db.table("ids").unwrap();
    db.transact(|tx| tx.put(ids, Id(7), 1)).unwrap();
    assert!(db.raw_table("ids").unwrap().is_fixed8());
    assert_eq!(db.transact(|tx| tx.get(ids, Id(7))).unwrap(), Some(1));
    // A number without a variant is not a key.
    let raw = db.raw_table("seats").unwrap();
    let key = [&9i16.to_be_bytes()[..], b"\0\0", &[1]].concat();
    db.transact(|tx| tx.with(async |txn| raw.put(txn, &key, &[1]).await)).unwrap();
    let error = db.transact(|tx| tx.last(seats).map(|_| ())).and_then(|()| {
        db.transact(|tx| {
            let mut rows = tx.scan::<_, _, Seat>(seats, ..);
            while rows.next()?.is_some() {}
            Ok(())
        })
    });
    assert!(matches!(error, Err(Error::Malformed { row: Some(row), .. }) if row.table == "seats"));
}

#[test]
fn tables_are_renamed_and_retyped_for_good() {
    for with_checkpoint in [false, true] {
        let storage = MemoryStorage::new(1 << 30);
        {
            let db = open::<Serializable>(&storage);
            let [a, b] = ["a", "b"].map(|name| db.table::<u64, u32>(name).unwrap());
            db.transact(|tx| tx.put(a, 1, 10).and_then(|()| tx.put(b, 1, 20))).unwrap();
            if with_checkpoint {
                db.checkpoint().unwrap();
            }
            // The two tables swap names, and a third takes a free name.
            db.rename_table("a", "c").unwrap();
            db.rename_table("b", "a").unwrap();
            db.rename_table("c", "b").unwrap();
            db.rename_table("b", "b").unwrap();
            assert!(matches!(db.rename_table("a", "b"), Err(Error::TableExists { table }) if table == "b"));
            assert!(matches!(db.rename_table("c", "d"), Err(Error::NoTable { table }) if table == "c"));
            db.table::<u64, str>("c").unwrap();
            db.retype::<u64, i32>("a").unwrap();
            assert!(matches!(db.retype::<u32, i32>("a"), Err(Error::TableMismatch { .. })));
            assert!(matches!(db.retype::<u32, i32>("z"), Err(Error::NoTable { .. })));
            assert_eq!(db.transact(|tx| tx.get(a, 1)).unwrap(), Some(10), "its handle stays");
            db.close().unwrap();
        }
        let db = open::<Serializable>(&storage);
        let names: Vec<_> = db.tables().into_iter().map(|table| (table.name, table.value_type)).collect();
        let expected = [("b", "u32"), ("a", "i32"), ("c", "string")];
        assert_eq!(names, expected.map(|(name, of)| (name.to_owned(), of.to_owned())));
        let (a, b): (Table<u64, i32>, Table<u64, u32>) = (db.table("a").unwrap(), db.table("b").unwrap());
        assert_eq!(db.transact(|tx| Ok((tx.get(a, 1)?, tx.get(b, 1)?))).unwrap(), (Some(20), Some(10)));
    }
}

#[test]
fn checkpoints_beside_renames_have_each_name_once() {
    // Proves that the names in a checkpoint are those of one moment. The checkpoint lists many tables, and the first
    // and the last exchange their names all the time.
    let storage = MemoryStorage::new(1 << 30);
    for _ in 0..20 {
        let db = open::<Serializable>(&storage);
        for number in 0..500 {
            db.table::<u64, u32>(&format!("table {number}")).unwrap();
        }
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    db.rename_table("table 0", "free").unwrap();
                    db.rename_table("table 499", "table 0").unwrap();
                    db.rename_table("free", "table 499").unwrap();
                }
            });
            (0..5).for_each(|_| db.checkpoint().unwrap());
            is_over.store(true, Relaxed);
        });
        db.close().unwrap();
    }
    let mut names: Vec<_> =
        open::<Serializable>(&storage).tables().into_iter().map(|table| table.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 500);
}

#[test]
fn checkpoints_beside_tables_that_come_and_go_are_opened() {
    // Proves that the tables in a checkpoint, and their names, are those of one moment: a table is made and dropped,
    // and another table takes its name.
    let storage = MemoryStorage::new(1 << 30);
    for _ in 0..10 {
        let db = open::<Serializable>(&storage);
        for number in 0..200 {
            db.table::<u64, u32>(&format!("table {number}")).unwrap();
        }
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    db.table::<u64, u32>("new").unwrap();
                    db.drop_table("new").unwrap();
                    db.rename_table("table 0", "new").unwrap();
                    db.rename_table("new", "table 0").unwrap();
                }
            });
            (0..3).for_each(|_| db.checkpoint().unwrap());
            is_over.store(true, Relaxed);
        });
        db.close().unwrap();
    }
    assert_eq!(open::<Serializable>(&storage).tables().len(), 200);
}

#[test]
fn rows_that_were_to_be_cleared_do_not_come_back_by_a_newer_definition() {
    // Proves that the catalog does not forget that a table is being cleared when it learns another version of a type.
    // The rows that remain because clearing has failed are in no checkpoint.
    let storage = MemoryStorage::new(1 << 30);
    {
        let db = open::<Serializable>(&storage);
        let users: Table<u64, first::User> = db.table("users").unwrap();
        let fails = Arc::new(AtomicBool::new(false));
        let extractor = {
            let fails = fails.clone();
            move |key: &u64, _: first::User| {
                assert!(*key != 700 || !fails.load(Relaxed), "on purpose");
                Some(*key)
            }
        };
        db.index(users, "by key", extractor).unwrap();
        db.transact(|tx| (0..1000).try_for_each(|key| tx.put(users, key, &ada()))).unwrap();
        fails.store(true, Relaxed);
        assert!(matches!(db.clear(users), Err(Error::Panicked(text)) if text.contains("on purpose")));
        let newer: Table<u64, second::User> = db.table("users").unwrap();
        assert!(matches!(db.transact(|tx| tx.get(newer, 999)), Err(Error::NotCleared)));
        db.checkpoint().unwrap();
        db.close().unwrap();
    }
    let db = open::<Serializable>(&storage);
    let users: Table<u64, second::User> = db.table("users").unwrap();
    assert!(db.transact(|tx| tx.scan_all(users).next().map(|row| row.is_none())).unwrap());
}

#[test]
fn a_migration_goes_on_beside_writers() {
    // Proves that rows that change during the migration are neither lost nor left in the old version.
    const ROWS: u32 = 3_000;
    let db = in_memory();
    let before: Table<u32, first::User> = db.table("users").unwrap();
    let named = |name: u32| first::User { name: name.to_string(), home: None };
    db.transact(|tx| (0..ROWS).try_for_each(|key| tx.put(before, key, &named(key)))).unwrap();
    let users: Table<u32, second::User> = db.table("users").unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for key in (0..ROWS).rev().step_by(3) {
                db.transact(|tx| {
                    let user = tx.get(users, key)?.unwrap();
                    tx.put(users, key, &second::User { age: Some(1), ..user })
                })
                .unwrap();
            }
        });
        let rewritten = db.migrate(users).unwrap();
        writer.join().unwrap();
        assert!((u64::from(ROWS - ROWS / 3)..=u64::from(ROWS)).contains(&rewritten), "{rewritten}");
    });
    for key in 0..ROWS {
        let user = db.transact(|tx| tx.get(users, key)).unwrap().unwrap();
        assert_eq!((user.name, user.age.is_some()), (key.to_string(), (ROWS - 1 - key).is_multiple_of(3)));
    }
    assert_eq!(db.migrate(users).unwrap(), 0);
    assert_eq!(db.tables()[0].definitions.len(), 2, "user 2, and what it has in it");
}

#[derive(Value)]
#[braid(name = "unstable")]
struct Unstable {
    #[braid(serde)]
    map: std::collections::HashMap<u64, u64>,
}

#[derive(Value, Debug, PartialEq)]
#[braid(name = "blob")]
struct BlobV1 {
    bytes: Vec<u8>,
}

#[derive(Value, Debug, PartialEq)]
#[braid(name = "blob", version = 2, previous = BlobV1)]
struct Blob {
    bytes: Vec<u8>,
    note: String,
}

impl From<BlobV1> for Blob {
    fn from(blob: BlobV1) -> Blob {
        Blob { bytes: blob.bytes, note: String::new() }
    }
}

#[test]
fn a_migration_rewrites_what_is_outdated_and_no_more() {
    // Proves that the version counts where the same value can have several encodings.
    let db = in_memory();
    for kind in [IndexKind::Masstree, IndexKind::Hopscotch] {
        let with = TableOptions { index: kind, ..TableOptions::default() };
        let table: Table<u64, Unstable> = db.table_with(kind.name(), with).unwrap();
        let value = Unstable { map: (0..50).map(|key| (key, key)).collect() };
        db.transact(|tx| (0..600).try_for_each(|key| tx.put(table, key, &value))).unwrap();
        assert_eq!(db.migrate(table).unwrap(), 0);
        assert_eq!(db.transact(|tx| Ok(tx.get(table, 1)?.map(|found| found.map.len()))).unwrap(), Some(50));
    }
}

#[test]
fn large_rows_are_migrated() {
    // Proves that no transaction of a migration outgrows the log's segments, even if they are small.
    for kind in [IndexKind::Masstree, IndexKind::Cuckoo] {
        let storage = MemoryStorage::new(1 << 30);
        let db = open::<Serializable>(&storage);
        let with = TableOptions { index: kind, ..TableOptions::default() };
        let before: Table<u64, BlobV1> = db.table_with("blobs", with).unwrap();
        let blob = BlobV1 { bytes: vec![7; 9_000] };
        (0..300).for_each(|key| db.transact(|tx| tx.put(before, key, &blob)).unwrap());
        let blobs: Table<u64, Blob> = db.table("blobs").unwrap();
        assert_eq!(db.migrate(blobs).unwrap(), 300);
        assert_eq!(db.migrate(blobs).unwrap(), 0);
        assert_eq!(db.transact(|tx| tx.get(blobs, 299)).unwrap().unwrap().bytes.len(), 9_000);
    }
}

#[test]
fn a_type_within_itself_is_refused() {
    #[derive(Value)]
    #[braid(name = "tree")]
    struct Tree {
        children: Vec<Tree>,
    }
    let db = in_memory();
    let error = db.table::<u64, Tree>("trees").unwrap_err();
    assert!(matches!(&error, Error::RecursiveType { name, .. } if name == "tree"), "{error}");
    assert!(error.to_string().contains("consists of itself"));
    let _ = |tree: Tree| tree.children.len();
}

#[test]
fn names_around_a_derive_do_not_matter() {
    // Proves that derived code uses no name that could mean something else in its surroundings.
    #![allow(dead_code, non_upper_case_globals, reason = "names that could be in the way")]
    mod crowded {
        const number: u8 = 1;
        const to: u8 = 1;
        const from: u8 = 1;
        const key: u8 = 1;
        const bytes: u8 = 1;
        const input: u8 = 1;
        type Option = ();
        type Result = ();
        type String = ();
        #[derive(braiddb::Key, braiddb::Value, Debug, PartialEq)]
        #[repr(u8)]
        pub enum Two {
            One = 1,
            Two = 2,
        }
        #[derive(braiddb::Value, Debug, PartialEq)]
        #[braid(name = "crowded")]
        pub struct Crowded {
            pub to: u8,
            pub from: u8,
            pub input: u8,
            pub bytes: u8,
        }
    }
    use crowded::{Crowded, Two};
    let db = in_memory();
    let table: Table<Two, (Two, Crowded)> = db.table("t").unwrap();
    let crowded = Crowded { to: 1, from: 2, input: 3, bytes: 4 };
    db.transact(|tx| tx.put(table, Two::Two, (Two::Two, &crowded))).unwrap();
    assert_eq!(db.transact(|tx| tx.get(table, Two::Two)).unwrap(), Some((Two::Two, crowded)));
}
