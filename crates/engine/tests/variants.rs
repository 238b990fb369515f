//! Enums whose variants have fields, as keys and values, and how they survive changes of the program.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::storage::MemoryStorage;
use braiddb::{AsKey, Database, Durability, Error, Key, Options, Table, Value};
use proptest::prelude::*;
use std::sync::Arc;

/// The first version of the program.
mod first {
    use braiddb::{Key, Value};

    #[derive(Key, Value, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[braid(name = "event")]
    #[repr(u8)]
    pub enum Event {
        Created { at: u64, by: String } = 1,
        Renamed(String) = 2,
        Closed = 7,
    }
}

/// The second version: events have another variant, in another order.
mod grown {
    use braiddb::{Key, Value};

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "place")]
    pub struct Place {
        pub town: String,
    }

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "event")]
    #[repr(u8)]
    pub enum Event {
        Moved(Option<Place>, bool) = 3,
        Closed = 7,
        Renamed(String) = 2,
        Created { at: u64, by: String } = 1,
    }

    /// As a key, it has got another variant.
    #[derive(Key, Clone, Debug, PartialEq)]
    #[repr(u8)]
    pub enum Occurrence {
        Created { at: u64, by: String } = 1,
        Renamed(String) = 2,
        Moved(Option<u8>, bool) = 3,
        Closed = 7,
    }
}

/// The third version: a variant has another field.
mod second {
    use super::grown;
    use braiddb::Value;

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "event", version = 2, previous = grown::Event)]
    #[repr(u8)]
    pub enum Event {
        Created { at: u64, by: Option<String> } = 1,
        Changed { what: String } = 2,
        Gone = 3,
    }

    impl From<grown::Event> for Event {
        fn from(event: grown::Event) -> Event {
            match event {
                grown::Event::Created { at, by } => Event::Created { at, by: Some(by) },
                grown::Event::Renamed(name) => Event::Changed { what: name },
                grown::Event::Moved(..) => Event::Changed { what: "place".into() },
                grown::Event::Closed => Event::Gone,
            }
        }
    }
}

/// The same name and version as the first, with a different variant. For keys, the type's name says so.
mod changed {
    use braiddb::{Key, Value};

    #[derive(Key, Value, Clone, Debug, PartialEq)]
    #[braid(name = "event")]
    #[repr(u8)]
    pub enum Event {
        Created { at: u64, by: String } = 1,
        Renamed(String, u8) = 2,
        Closed = 7,
    }
}

fn open(storage: &MemoryStorage) -> Database {
    let options = Options {
        workers: 0,
        log_segment_bytes: 1 << 16,
        durability: Durability::Async,
        ..Options::default()
    };
    let clock = Arc::new(braiddb::metrics::SystemClock::default());
    Database::open_with(Arc::new(storage.clone()), options, clock, &mut |_| {}).unwrap()
}

fn in_memory() -> Database {
    Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap()
}

fn events() -> [first::Event; 4] {
    use first::Event::*;
    [Created { at: 5, by: "Ada".into() }, Created { at: 6, by: String::new() }, Renamed("x\0".into()), Closed]
}

/// Returns all keys of a table, in order.
fn all<K: Key, V: Value>(db: &Database, table: Table<K, V>) -> Vec<K> {
    let mut keys = Vec::new();
    db.transact(|tx| {
        let mut rows = tx.scan_all(table);
        while let Some((key, _)) = rows.next()? {
            keys.push(key);
        }
        Ok(())
    })
    .unwrap();
    keys
}

#[test]
fn variants_are_added_freely() {
    // Proves that a program with more variants opens a table of a program with fewer, and the other way round, with a
    // checkpoint and without. Reading a variant that a program does not have is an error that names the row.
    for with_checkpoint in [false, true] {
        let storage = MemoryStorage::new(1 << 30);
        let close = |db: Database| {
            if with_checkpoint {
                db.checkpoint().unwrap();
            }
            db.close().unwrap();
        };
        let grown = [
            "event 1: one of u8 (Created {at: u64, by: string} = 1, Renamed {0: string} = 2, Closed = 7, \
             Moved {0: option of place, 1: bool} = 3)",
            "place 1: {town: string}",
        ];
        {
            let db = open(&storage);
            let table: Table<u64, first::Event> = db.table("events").unwrap();
            db.transact(|tx| (1..).zip(&events()).try_for_each(|(key, event)| tx.put(table, key, event)))
                .unwrap();
            assert_eq!(db.tables()[0].value_type, "event");
            let definition =
                "event 1: one of u8 (Created {at: u64, by: string} = 1, Renamed {0: string} = 2, Closed = 7)";
            assert_eq!(db.tables()[0].definitions, [definition]);
            close(db);
        }
        let moved = grown::Event::Moved(Some(grown::Place { town: "London".into() }), true);
        {
            let db = open(&storage);
            let table: Table<u64, grown::Event> = db.table("events").unwrap();
            db.transact(|tx| tx.put(table, 9, &moved)).unwrap();
            let read = |key| db.transact(|tx| tx.get(table, key)).unwrap();
            assert_eq!(read(1), Some(grown::Event::Created { at: 5, by: "Ada".into() }));
            assert_eq!(read(4), Some(grown::Event::Closed));
            assert_eq!(read(9), Some(moved));
            assert_eq!(db.tables()[0].definitions, grown);
            close(db);
        }
        let db = open(&storage);
        let table: Table<u64, first::Event> = db.table("events").unwrap();
        assert_eq!(db.transact(|tx| tx.get(table, 3)).unwrap(), Some(events()[2].clone()));
        for error in [db.transact(|tx| tx.get(table, 9)).unwrap_err(), db.migrate(table).unwrap_err()] {
            let Error::Malformed { row: Some(row), .. } = &error else { panic!("{error}") };
            assert_eq!((&*row.table, row.key.contains('9')), ("events", true), "{error}");
            assert!(error.to_string().contains("variant of event of version 1 that is known"), "{error}");
        }
        assert_eq!(db.tables()[0].definitions, grown, "nothing is forgotten");
    }
}

#[test]
fn variants_are_added_freely_to_keys() {
    // Proves the same of keys, also as parts of others: the type's name grows.
    let storage = MemoryStorage::new(1 << 30);
    {
        let db = open(&storage);
        let table: Table<(first::Event, u8), u64> = db.table("times").unwrap();
        db.transact(|tx| events().into_iter().try_for_each(|event| tx.put(table, (event, 1), 10))).unwrap();
        db.close().unwrap();
    }
    let moved = grown::Occurrence::Moved(Some(1), true);
    let grown = "(one of u8 (Created {at: u64, by: string} = 1, Renamed {0: string} = 2, Closed = 7, \
                 Moved {0: option of u8, 1: bool} = 3), u8)";
    {
        let db = open(&storage);
        let table: Table<(grown::Occurrence, u8), u64> = db.table("times").unwrap();
        db.transact(|tx| tx.put(table, (moved.clone(), 2), 11)).unwrap();
        assert_eq!(db.transact(|tx| tx.get(table, (&moved, 2))).unwrap(), Some(11));
        assert_eq!(db.tables()[0].key_type, grown);
        db.close().unwrap();
    }
    let db = open(&storage);
    let table: Table<(first::Event, u8), u64> = db.table("times").unwrap();
    assert_eq!(db.tables()[0].key_type, grown);
    assert_eq!(db.transact(|tx| tx.get(table, (first::Event::Closed, 1))).unwrap(), Some(10));
    let error = db
        .transact(|tx| {
            let mut rows = tx.scan_all(table);
            while rows.next()?.is_some() {}
            Ok(())
        })
        .unwrap_err();
    assert!(matches!(&error, Error::Malformed { row: Some(row), .. } if row.table == "times"), "{error}");
}

#[test]
fn a_variant_that_changes_under_its_version_is_refused() {
    // Proves that the error has both shapes, for values and for keys.
    let db = in_memory();
    db.table::<u64, first::Event>("events").unwrap();
    let error = db.table::<u64, changed::Event>("events").unwrap_err();
    assert!(matches!(&error, Error::ShapeMismatch { table, .. } if table == "events"));
    for part in
        ["\"events\"", "Renamed {0: string} = 2", "Renamed {0: string, 1: u8} = 2", "a higher version"]
    {
        assert!(error.to_string().contains(part), "{error}");
    }
    db.table::<first::Event, u64>("times").unwrap();
    let error = db.table::<changed::Event, u64>("times").unwrap_err();
    assert!(matches!(&error, Error::TableMismatch { name, .. } if name == "times"));
    for part in ["\"times\"", "Renamed {0: string} = 2", "Renamed {0: string, 1: u8} = 2"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    db.table::<u64, second::Event>("later").unwrap();
    let behind = db.table::<u64, grown::Event>("later").unwrap_err();
    assert!(matches!(behind, Error::ShapeMismatch { requested: None, .. }), "{behind}");
}

#[test]
fn enums_are_upgraded() {
    // Proves that rows of an enum's earlier version are upgraded when they are read, and migrated, after the database
    // was opened again.
    let storage = MemoryStorage::new(1 << 30);
    {
        let db = open(&storage);
        let table: Table<u64, grown::Event> = db.table("events").unwrap();
        let all = [
            grown::Event::Created { at: 1, by: "Ada".into() },
            grown::Event::Renamed("y".into()),
            grown::Event::Moved(None, false),
            grown::Event::Closed,
        ];
        db.transact(|tx| (1..).zip(&all).try_for_each(|(key, event)| tx.put(table, key, event))).unwrap();
        db.close().unwrap();
    }
    let upgraded = [
        second::Event::Created { at: 1, by: Some("Ada".into()) },
        second::Event::Changed { what: "y".into() },
        second::Event::Changed { what: "place".into() },
        second::Event::Gone,
    ]
    .map(Some);
    {
        let db = open(&storage);
        let table: Table<u64, second::Event> = db.table("events").unwrap();
        let read = |key| db.transact(|tx| tx.get(table, key)).unwrap();
        assert_eq!([1, 2, 3, 4].map(read), upgraded);
        db.transact(|tx| tx.put(table, 5, &second::Event::Gone)).unwrap();
        assert_eq!(db.migrate(table).unwrap(), 4);
        assert_eq!(db.migrate(table).unwrap(), 0);
        assert_eq!([1, 2, 3, 4].map(read), upgraded);
        db.close().unwrap();
    }
    let db = open(&storage);
    let event = "event 2: one of u8 (Created {at: u64, by: option of string} = 1, Changed {what: string} = 2, Gone = 3)";
    assert_eq!(db.tables()[0].definitions, [event]);
    let table: Table<u64, second::Event> = db.table("events").unwrap();
    assert_eq!(db.transact(|tx| tx.get(table, 5)).unwrap(), Some(second::Event::Gone));
}

#[derive(Value, Debug, PartialEq)]
#[braid(name = "item")]
struct Book {
    title: String,
}

#[derive(Value, Debug, PartialEq)]
#[braid(name = "item", version = 2, previous = Book)]
#[repr(i16)]
enum Item {
    Book { title: String, pages: Option<u32> } = -300,
    Film(String) = 300,
}

impl From<Book> for Item {
    fn from(book: Book) -> Item {
        Item::Book { title: book.title, pages: None }
    }
}

/// An item that is no longer an enum.
#[derive(Value, Debug, PartialEq)]
#[braid(name = "item", version = 3, previous = Item)]
struct Title(String);

impl From<Item> for Title {
    fn from(item: Item) -> Title {
        match item {
            Item::Book { title, .. } | Item::Film(title) => Title(title),
        }
    }
}

#[test]
fn a_struct_becomes_an_enum_and_a_struct_again() {
    // Proves that versions of one name can be structs and enums, each upgraded to the next, also in lists.
    let db = in_memory();
    let books: Table<u8, Vec<Book>> = db.table("items").unwrap();
    let title = |title: &str| title.to_owned();
    db.transact(|tx| tx.put(books, 1, &[Book { title: title("Emma") }, Book { title: title("") }])).unwrap();
    let items: Table<u8, Vec<Item>> = db.table("items").unwrap();
    let book = |title: &str| Item::Book { title: title.into(), pages: None };
    assert_eq!(db.transact(|tx| tx.get(items, 1)).unwrap(), Some(vec![book("Emma"), book("")]));
    db.transact(|tx| tx.put(items, 2, &[Item::Film(title("Metropolis"))])).unwrap();
    assert_eq!(db.migrate(items).unwrap(), 1);
    let titles: Table<u8, Vec<Title>> = db.table("items").unwrap();
    let read = |key| db.transact(|tx| tx.get(titles, key)).unwrap();
    assert_eq!(read(1), Some(vec![Title(title("Emma")), Title(title(""))]));
    assert_eq!(read(2), Some(vec![Title(title("Metropolis"))]));
}

#[derive(Value, Debug, PartialEq)]
#[braid(name = "shelf")]
#[repr(u8)]
enum Books {
    Empty = 0,
    Row(Vec<Book>, u8) = 1,
    One { book: Book } = 2,
}

#[derive(Value, Debug, PartialEq)]
#[braid(name = "shelf")]
#[repr(u8)]
enum Items {
    Empty = 0,
    Row(Vec<Item>, u8) = 1,
    One { book: Item } = 2,
}

#[test]
fn what_is_in_a_variant_is_migrated() {
    // Proves that a row is outdated exactly if a field of its variant is of an earlier version, at any depth.
    let db = in_memory();
    let books: Table<u8, Books> = db.table("shelves").unwrap();
    let emma = || Book { title: "Emma".into() };
    db.transact(|tx| {
        tx.put(books, 0, &Books::Empty)?;
        tx.put(books, 1, &Books::Row(vec![emma()], 1))?;
        tx.put(books, 2, &Books::One { book: emma() })?;
        tx.put(books, 3, &Books::Row(vec![], 1))
    })
    .unwrap();
    let items: Table<u8, Items> = db.table("shelves").unwrap();
    let emma = || Item::Book { title: "Emma".into(), pages: None };
    let read = |key| db.transact(|tx| tx.get(items, key)).unwrap();
    assert_eq!(read(1), Some(Items::Row(vec![emma()], 1)));
    assert_eq!(db.migrate(items).unwrap(), 2);
    assert_eq!(db.migrate(items).unwrap(), 0);
    assert_eq!((read(0), read(2)), (Some(Items::Empty), Some(Items::One { book: emma() })));
}

/// Variants without fields, and with a type name, so that a variant can get fields later.
#[derive(Key, Value, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[braid(name = "state")]
#[repr(u16)]
enum State {
    Off = 1,
    On = 2,
}

#[derive(Value, Clone, Copy, Debug, PartialEq, Eq)]
#[braid(name = "state")]
#[repr(u16)]
enum Dimmed {
    Off = 1,
    On = 2,
    Low(u8) = 3,
}

#[test]
fn an_enum_without_fields_can_have_a_name() {
    let db = in_memory();
    let states: Table<State, State> = db.table("states").unwrap();
    db.transact(|tx| tx.put(states, State::On, &State::Off)).unwrap();
    let info = db.tables().remove(0);
    assert_eq!((&*info.key_type, &*info.value_type), ("u16", "state"), "a key is a number");
    assert_eq!(info.definitions, ["state 1: one of u16 (Off = 1, On = 2)"]);
    let dimmed: Table<State, Dimmed> = db.table("states").unwrap();
    assert_eq!(db.transact(|tx| tx.get(dimmed, State::On)).unwrap(), Some(Dimmed::Off));
    db.transact(|tx| tx.put(dimmed, State::Off, &Dimmed::Low(7))).unwrap();
    assert_eq!(db.transact(|tx| tx.get(dimmed, State::Off)).unwrap(), Some(Dimmed::Low(7)));
}

#[test]
fn ranges_by_variant() {
    // Proves that the rows of a variant are together, after the rows of lower numbers, and are found by ranges and by
    // a prefix.
    use first::Event::*;
    let db = in_memory();
    let table: Table<first::Event, u64> = db.table("times").unwrap();
    db.transact(|tx| events().iter().rev().try_for_each(|event| tx.put(table, event, 1))).unwrap();
    let mut ordered = events().to_vec();
    ordered.sort();
    assert_eq!(all(&db, table), ordered);
    let in_range = |from: first::Event, to: first::Event| {
        db.transact(|tx| {
            let mut rows = tx.scan(table, from.clone()..to.clone());
            let mut keys = Vec::new();
            while let Some((key, _)) = rows.next()? {
                keys.push(key);
            }
            Ok(keys)
        })
        .unwrap()
    };
    assert_eq!(in_range(Renamed(String::new()), Closed), ordered[2..3]);
    assert_eq!(in_range(Created { at: 6, by: String::new() }, Closed), ordered[1..3]);
    let created = db.transact(|tx| {
        let mut rows = tx.scan_prefix(table, &[1]);
        let mut count = 0;
        while rows.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    });
    assert_eq!(created.unwrap(), 2);
}

#[derive(Key, Value, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[braid(name = "part")]
#[repr(i8)]
enum Part {
    Word(String) = 5,
    Both { word: Option<String>, number: i16 } = -5,
    Bytes(Vec<u8>, [u8; 2]) = 0,
    Nested(u8, Inner) = 100,
    Empty {} = 101,
    Nothing = -128,
}

#[derive(Key, Value, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[braid(name = "inner")]
#[repr(u64)]
enum Inner {
    One(u32) = 1,
    Two(String, bool) = 1 << 40,
}

fn parts() -> impl Strategy<Value = Part> {
    let word = "[\\x00-\\x02a]{0,4}";
    let inner = prop_oneof![
        (0u32..3).prop_map(Inner::One),
        (word, any::<bool>()).prop_map(|(word, flag)| Inner::Two(word, flag)),
    ];
    prop_oneof![
        word.prop_map(Part::Word),
        (proptest::option::of(word), -2i16..3).prop_map(|(word, number)| Part::Both { word, number }),
        (proptest::collection::vec(0u8..3, 0..4), [0u8..2, 0u8..2])
            .prop_map(|(list, pair)| Part::Bytes(list, pair)),
        (0u8..2, inner).prop_map(|(number, inner)| Part::Nested(number, inner)),
        Just(Part::Empty {}),
        Just(Part::Nothing),
    ]
}

fn encoded<K: Key>(key: &K) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode(true, &mut bytes);
    bytes
}

/// Checks that the encodings of two keys compare as the keys do, and decode to them.
fn check<K: Key + Ord + std::fmt::Debug>(a: &K, b: &K) {
    let (x, y) = (encoded(a), encoded(b));
    assert_eq!(x.cmp(&y), a.cmp(b), "{a:?} {b:?}");
    let mut rest = &*x;
    assert_eq!(K::decode(true, &mut rest).as_ref(), Some(a));
    assert!(rest.is_empty());
    let mut by_reference = Vec::new();
    AsKey::<K>::encode_as(&a, true, &mut by_reference);
    assert_eq!(by_reference, x);
}

/// Checks that a value is read back. Whatever else its bytes become, reading them gives an error or a value.
fn check_value<V>(value: &V)
where
    V: for<'v> Value<Input<'v> = &'v V, View<'v> = V> + PartialEq + std::fmt::Debug,
{
    let mut bytes = V::encode(value).unwrap().as_ref().to_vec();
    assert_eq!(&V::view(&bytes).unwrap(), value);
    for cut in 0..bytes.len() {
        assert!(V::view(&bytes[..cut]).is_err() || cut > 0);
        bytes[cut] ^= 0xff;
        let _ = V::view(&bytes);
        bytes[cut] ^= 0xff;
    }
}

proptest! {
    /// Proves that the order of keys is the order that Rust derives, alone and as a part of others, and that values
    /// are read back.
    #[test]
    fn order_and_value_survive_encoding(a in parts(), b in parts(), x in 0u8..2, y in 0u8..2) {
        check(&a, &b);
        check(&(a.clone(), x), &(b.clone(), y));
        check(&(x, Some(a.clone()), [b.clone(), a.clone()]), &(y, Some(b.clone()), [a.clone(), b.clone()]));
        check_value(&a);
        let list = [a.clone(), b.clone(), a.clone()];
        let bytes = <(Vec<Part>, Option<Part>)>::encode((&list, Some(&b))).unwrap();
        prop_assert_eq!(<(Vec<Part>, Option<Part>)>::view(&bytes).unwrap(), (list.to_vec(), Some(b)));
    }

    /// Proves that any bytes are the encoding of the key that they decode to, or are not a key.
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..12)) {
        let mut rest = &*bytes;
        if let Some(key) = Part::decode(true, &mut rest) {
            let read = &bytes[..bytes.len() - rest.len()];
            prop_assert_eq!(encoded(&key), read);
        }
        let _ = Part::view(&bytes);
    }
}

#[test]
fn a_type_within_itself_is_refused() {
    #[derive(Value)]
    #[braid(name = "expression")]
    #[repr(u8)]
    enum Expression {
        Number(f64) = 1,
        Sum(Vec<Expression>) = 2,
    }
    let error = in_memory().table::<u64, Expression>("expressions").unwrap_err();
    assert!(matches!(&error, Error::RecursiveType { name, .. } if name == "expression"), "{error}");
    let count = |of: Expression| match of {
        Expression::Number(number) => number as usize,
        Expression::Sum(parts) => parts.len(),
    };
    assert_eq!(count(Expression::Sum(vec![Expression::Number(1.0)])), 1);
}

#[test]
fn names_around_a_derive_do_not_matter() {
    // Proves that derived code uses no name that could mean something else in its surroundings or in its own variants.
    #![allow(dead_code, non_upper_case_globals, reason = "names that could be in the way")]
    mod crowded {
        const number: u8 = 1;
        const to: u8 = 1;
        const from: u8 = 1;
        const FIRST: u8 = 1;
        type Option = ();
        type Result = ();
        type Vec = ();
        type String = ();
        #[derive(braiddb::Key, braiddb::Value, Debug, PartialEq, Clone)]
        #[braid(name = "crowded")]
        #[repr(u8)]
        pub enum Crowded {
            Ok(u8, u16) = FIRST,
            None {
                to: u8,
                from: u8,
                r#type: u8,
            } = FIRST + 1,
            Some = 1 << 2,
            #[deprecated]
            Myself(u8) = 9,
        }
        #[derive(braiddb::Value)]
        #[braid(name = "serde-inside")]
        #[repr(u8)]
        pub enum Inside {
            Map {
                #[braid(serde)]
                map: std::collections::BTreeMap<u8, u8>,
                #[braid(serde)]
                other: std::collections::BTreeMap<u8, u8>,
            } = 1,
        }
    }
    use crowded::{Crowded, Inside};
    let db = in_memory();
    let table: Table<Crowded, (u8, Crowded)> = db.table("t").unwrap();
    for crowded in [Crowded::Ok(1, 2), Crowded::None { to: 1, from: 2, r#type: 3 }, Crowded::Some] {
        db.transact(|tx| tx.put(table, crowded.clone(), (7, &crowded))).unwrap();
        assert_eq!(db.transact(|tx| tx.get(table, &crowded)).unwrap(), Some((7, crowded)));
    }
    assert_eq!(
        db.tables()[0].definitions,
        [
            "crowded 1: one of u8 (Ok {0: u8, 1: u16} = 1, None {to: u8, from: u8, type: u8} = 2, Some = 4, Myself {0: u8} = 9)"
        ]
    );
    let maps: Table<u8, Inside> = db.table("maps").unwrap();
    let inside = Inside::Map { map: [(1, 2)].into(), other: [].into() };
    db.transact(|tx| tx.put(maps, 1, &inside)).unwrap();
    let read = db.transact(|tx| tx.get(maps, 1)).unwrap();
    assert!(matches!(read, Some(Inside::Map { map, other }) if map[&1] == 2 && other.is_empty()));
    assert_eq!(db.migrate(maps).unwrap(), 0);
}
