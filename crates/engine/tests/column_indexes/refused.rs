//! Indexes that are refused.

use super::*;
use braiddb::Plain;

fn reason<T: std::fmt::Debug>(refused: Result<T>) -> String {
    match refused {
        Err(Error::IndexedColumns { table, index, reason }) => {
            assert_eq!((&*table, &*index), ("people", "i"));
            reason
        }
        other => panic!("{other:?}"),
    }
}

/// Proves that columns that make no key are refused with the reason, and that nothing remains of the attempt.
#[test]
fn columns_that_are_none() {
    let db = in_memory();
    let people: People = db.table("people").unwrap();
    let by = |columns: &[&str]| reason(db.index_on::<String, _, _>(people, "i", columns));
    let line = "person 1: {name: string, city: string, born: option of u16, score: f64}";
    assert_eq!(by(&["town"]), format!("there is no column \"town\" in {line}"));
    assert_eq!(by(&["name", "0"]), format!("there is no column \"0\" in {line}"));
    assert_eq!(by(&["score"]), "column \"score\" is of the type f64, which is no type of keys");
    assert_eq!(by(&["name", "name"]), "column \"name\" is there twice");
    assert_eq!(by(&[]), "an index is by 1 to 12 columns");
    assert_eq!(by(&["name", "city"]), "its keys are (string, string), not string");
    let wrong = reason(db.index_on::<(String, u16), _, _>(people, "i", &["name", "born"]));
    assert_eq!(wrong, "its keys are (string, option of u16), not (string, u16)");
    assert!(db.tables()[0].indexes.is_empty());
    db.index_on::<(String, Option<u16>), _, _>(people, "i", &["name", "born"]).unwrap();
}

/// Proves that values without columns are refused with the reason.
#[test]
fn values_without_columns() {
    for no_columns in 0..4 {
        let db = in_memory();
        let refused = match no_columns {
            0 => db
                .table("people")
                .and_then(|of: Table<u64, str>| db.index_on::<u8, _, _>(of, "i", &["0"]).map(drop)),
            1 => db
                .table("people")
                .and_then(|of: Table<u64, u64>| db.index_on::<u64, _, _>(of, "i", &["0"]).map(drop)),
            2 => db.table("people").and_then(|of: Table<u64, Plain<[u32; 2]>>| {
                db.index_on::<u32, _, _>(of, "i", &["0"]).map(drop)
            }),
            _ => db.table("people").and_then(|of: Table<u64, Vec<Person>>| {
                db.index_on::<u32, _, _>(of, "i", &["name"]).map(drop)
            }),
        };
        let reason = reason(refused);
        assert!(reason.contains("no columns") && reason.contains("derive Value"), "{reason}");
    }
}

/// Proves that an index cannot be declared again with other columns or by another function, and that the error names
/// both.
#[test]
fn declared_otherwise() {
    let storage = disk();
    let mismatch = |refused: Result<ByName>| match refused {
        Err(Error::IndexMismatch { name, existing, requested }) => (name, existing, requested),
        other => panic!("{other:?}"),
    };
    let texts = |name: &str, existing: &str, requested: &str| {
        (name.to_string(), existing.to_string(), requested.to_string())
    };
    for is_first in [true, false] {
        let db = open(&storage);
        let (people, ..) = declared(&db);
        let other = mismatch(db.index_on(people, "by city", &["city"]));
        assert_eq!(other, texts("by city", "by (city, name)", "by (city)"));
        let other = mismatch(db.index_on(people, "by name", &["name"]));
        assert_eq!(other, texts("by name", "unique by (name)", "by (name)"));
        let by_function = mismatch(db.unique_index(people, "by name", |_, person: Person| Some(person.name)));
        assert_eq!(by_function, texts("by name", "unique by (name), which are string", "unique by string"));
        // An index by a function does not become an index by columns either.
        db.index(people, "mine", |_, person: Person| Some(person.city)).unwrap();
        let by_columns = mismatch(db.index_on(people, "mine", &["city"]));
        assert_eq!(by_columns, texts("mine", "by string", "by (city), which are string"));
        assert_eq!(db.tables()[0].indexes.len(), 2);
        if is_first {
            db.close().unwrap();
        }
    }
}

/// Proves that a key that is too long is refused, and that the row is not written.
#[test]
fn keys_that_are_too_long() {
    let db = in_memory();
    let (people, by_city, _) = declared(&db);
    let long = "x".repeat(1100);
    let written = db.transact(|tx| tx.put(people, 1, &person("Ada", &long)));
    assert!(matches!(written, Err(Error::KeyTooLong { .. })), "{written:?}");
    assert!(db.transact(|tx| tx.get(people, 1)).unwrap().is_none());
    assert!(of_city(&db, by_city, &long[..100]).is_empty());
}
