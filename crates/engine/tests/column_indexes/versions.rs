//! Changing types of tables that have indexes by columns.

use super::*;

/// A year is added, and the city has another place.
mod second {
    use braiddb::Value;

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "person", version = 2, previous = super::Person)]
    pub struct Person {
        pub died: Option<u16>,
        pub city: String,
        pub name: String,
    }

    impl From<super::Person> for Person {
        fn from(of: super::Person) -> Person {
            Person { died: None, city: of.city, name: of.name }
        }
    }
}

/// The city is a number.
mod third {
    use super::second;
    use braiddb::Value;

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "person", version = 3, previous = second::Person)]
    pub struct Person {
        pub name: String,
        pub city: u32,
    }

    impl From<second::Person> for Person {
        fn from(of: second::Person) -> Person {
            Person { name: of.name, city: of.city.len() as u32 }
        }
    }
}

/// The fourth program's type instead: no city at all.
mod without {
    use super::second;
    use braiddb::Value;

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "person", version = 3, previous = second::Person)]
    pub struct Person {
        pub name: String,
    }

    impl From<second::Person> for Person {
        fn from(of: second::Person) -> Person {
            Person { name: of.name }
        }
    }
}

/// The type is an enum, whose variants have columns of their own.
mod varied {
    use super::second;
    use braiddb::Value;

    #[derive(Value, Clone, Debug, PartialEq)]
    #[braid(name = "person", version = 3, previous = second::Person)]
    #[repr(u8)]
    pub enum Person {
        Known { name: String, city: String } = 1,
        Unknown = 2,
    }

    impl From<second::Person> for Person {
        fn from(of: second::Person) -> Person {
            Person::Known { name: of.name, city: of.city }
        }
    }
}

fn two(name: &str, city: &str) -> second::Person {
    second::Person { died: Some(1852), city: city.into(), name: name.into() }
}

/// Proves that rows of all versions that have the columns are in the index, wherever their fields are and by whichever
/// type they were written. This includes rows of a version that a later program brings.
#[test]
fn rows_of_several_versions() {
    let storage = disk();
    let db = open(&storage);
    let (people, ..) = declared(&db);
    db.transact(|tx| tx.put(people, 1, &person("Ada", "London"))).unwrap();
    let newer: Table<u64, second::Person> = db.table("people").unwrap();
    // By either type, because both are the table's types.
    db.transact(|tx| {
        tx.put(newer, 2, &two("Alan", "London"))?;
        tx.put(people, 3, &person("Grace", "New York"))
    })
    .unwrap();
    assert!(is_taken(db.transact(|tx| tx.put(newer, 4, &two("Ada", ""))), "by name"));
    assert!(is_taken(db.transact(|tx| tx.put(people, 4, &person("Alan", ""))), "by name"));
    db.close().unwrap();

    let db = open(&storage);
    let newer: Table<u64, second::Person> = db.table("people").unwrap();
    let by_city: Index<(String, String), _, _> = db.index_on(newer, "by city", &["city", "name"]).unwrap();
    let london = || {
        db.transact(|tx| {
            let mut rows = tx.scan_by(by_city, ("London", "")..("London", "Z"));
            let mut found = Vec::new();
            while let Some((_, key, person)) = rows.next()? {
                found.push((key, person.name));
            }
            Ok(found)
        })
        .unwrap()
    };
    let expected = [(1, "Ada".to_string()), (2, "Alan".to_string())];
    assert_eq!(london(), expected);
    assert_eq!(db.migrate(newer).unwrap(), 2);
    assert_eq!(london(), expected);
    assert!(is_taken(db.transact(|tx| tx.put(newer, 4, &two("Grace", ""))), "by name"));
    // A column that the first version did not have, now that no row is of the first version.
    let died: Index<Option<u16>, _, _> = db.index_on(newer, "by death", &["died"]).unwrap();
    let first = db.transact(|tx| tx.scan_by(died, Some(1)..).next()).unwrap();
    assert_eq!(first.map(|row| row.1), Some(2));
}

fn reason<T: std::fmt::Debug>(refused: Result<T>) -> String {
    match refused {
        Err(Error::IndexedColumns { index, reason, .. }) => format!("{index}: {reason}"),
        other => panic!("{other:?}"),
    }
}

/// Proves that a table is not opened with a version that lacks a column of an index, or has it with another type.
/// Nothing has changed then, and the error says what to do.
#[test]
fn versions_without_the_column() {
    let storage = disk();
    let db = open(&storage);
    let (people, ..) = declared(&db);
    db.transact(|tx| tx.put(people, 1, &person("Ada", "London"))).unwrap();
    let newer: Table<u64, second::Person> = db.table("people").unwrap();
    db.transact(|tx| tx.put(newer, 2, &two("Alan", "Princeton"))).unwrap();
    db.close().unwrap();

    let db = open(&storage);
    let retyped = reason(db.table::<u64, third::Person>("people"));
    assert!(retyped.starts_with("by city: column \"city\" is string here, and u32 in person 3"), "{retyped}");
    let removed = reason(db.table::<u64, without::Person>("people"));
    assert!(
        removed.starts_with("by city: there is no column \"city\" in person 3: {name: string}"),
        "{removed}"
    );
    assert!(removed.contains("drop_index") && removed.contains("migrate"), "{removed}");
    let varied = reason(db.table::<u64, varied::Person>("people"));
    assert!(varied.contains("there is no column \"name\" in person 3: one of u8 ("), "{varied}");
    assert!(!db.tables()[0].definitions.iter().any(|line| line.starts_with("person 3")));
    let retyped = reason(db.retype::<u64, third::Person>("people"));
    assert!(retyped.contains("drop_index"), "{retyped}");

    db.drop_index("people", "by city").unwrap();
    let newest: Table<u64, third::Person> = db.table("people").unwrap();
    // Not before all rows have the new column.
    let early = reason(db.index_on::<u32, _, _>(newest, "by city", &["city"]));
    assert!(early.contains("column \"city\" is u32 here, and string in person 1"), "{early}");
    assert_eq!(db.migrate(newest).unwrap(), 2);
    let by_city: Index<u32, _, _> = db.index_on(newest, "by city", &["city"]).unwrap();
    let found = db.transact(|tx| tx.scan_by(by_city, 9..).next()).unwrap().unwrap();
    assert_eq!((found.0, found.1), (9, 2));
    let ada = third::Person { name: "Ada".into(), city: 0 };
    assert!(is_taken(db.transact(|tx| tx.put(newest, 3, &ada)), "by name"), "the other index goes on");
    db.close().unwrap();
    let db = open(&storage);
    assert_eq!(db.tables()[0].indexes.len(), 2);
    assert!(matches!(db.table::<u64, Person>("people"), Err(Error::ShapeMismatch { .. })));
}

/// Proves that a row keeps the key that its bytes give, whatever an upgrade would make of them, until it is rewritten.
#[test]
fn an_upgrade_that_changes_the_column() {
    mod louder {
        use braiddb::Value;
        #[derive(Value, Clone, Debug, PartialEq)]
        #[braid(name = "person", version = 2, previous = super::Person)]
        pub struct Person {
            pub name: String,
        }
        impl From<super::Person> for Person {
            fn from(of: super::Person) -> Person {
                Person { name: of.name.to_uppercase() }
            }
        }
    }
    let db = in_memory();
    let people: People = db.table("people").unwrap();
    db.transact(|tx| tx.put(people, 1, &person("Ada", "London"))).unwrap();
    let newer: Table<u64, louder::Person> = db.table("people").unwrap();
    let by_name: Index<String, _, _> = db.index_on(newer, "by name", &["name"]).unwrap();
    let row = || db.transact(|tx| tx.scan_by::<_, _, _, &str>(by_name, ..).next()).unwrap().unwrap();
    assert_eq!((row().0, row().2.name), ("Ada".to_string(), "ADA".to_string()));
    db.migrate(newer).unwrap();
    assert_eq!((row().0, row().2.name), ("ADA".to_string(), "ADA".to_string()));
}
