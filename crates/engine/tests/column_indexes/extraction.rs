//! Keys that the engine makes of rows' bytes equal the keys that a program would make.

use super::*;
use braiddb::{Key, Serde};
use proptest::prelude::*;
use std::time::Duration;

#[derive(Value, Key, Clone, Copy, Debug, PartialEq, PartialOrd)]
#[repr(i16)]
enum Level {
    Low = -3,
    High = 200,
}

#[derive(Value, Clone, Debug, PartialEq)]
#[braid(name = "inner")]
struct Inner {
    text: String,
    more: Vec<u16>,
}

/// Fields of all types that can be keys, and of some others in between.
#[derive(Value, Clone, Debug, PartialEq)]
#[braid(name = "wide")]
struct Wide {
    byte: u8,
    small: i8,
    inner: Inner,
    numbers: (u16, i16),
    word: u32,
    #[braid(serde)]
    tags: Vec<String>,
    signed: i32,
    float: f32,
    long: u64,
    negative: i64,
    list: Vec<Option<String>>,
    huge: u128,
    less: i128,
    flag: bool,
    letter: char,
    text: String,
    bytes: Vec<u8>,
    array: [u8; 3],
    maybe: Option<u32>,
    words: Option<String>,
    nested: Option<(String, Option<Vec<u8>>)>,
    took: Duration,
    level: Level,
    last: String,
}

fn text() -> impl Strategy<Value = String> {
    "[\\x00-\\x02é]{0,4}"
}

fn wide() -> impl Strategy<Value = Wide> {
    let bytes = || proptest::collection::vec(0u8..3, 0..5);
    let numbers: (_, _, _, _) =
        (any::<(u8, i8, u16, i16, u32, i32)>(), any::<(u64, i64, u128, i128)>(), any::<f32>(), any::<bool>());
    let options = (
        any::<Option<u32>>(),
        proptest::option::of(text()),
        proptest::option::of((text(), proptest::option::of(bytes()))),
    );
    let texts = (text(), bytes(), any::<[u8; 3]>(), text(), any::<char>(), any::<Duration>());
    (numbers, options, texts).prop_map(|((a, b, float, flag), (maybe, words, nested), texts)| {
        let (text, bytes, array, last, letter, took) = texts;
        let inner = Inner { text: last.clone(), more: vec![7; a.0 as usize % 4] };
        let level = if flag { Level::Low } else { Level::High };
        let (list, tags) = (vec![words.clone(); a.0 as usize % 3], vec![text.clone(); a.2 as usize % 3]);
        Wide {
            byte: a.0 % 3,
            small: a.1 % 3,
            inner,
            numbers: (a.2 % 5, a.3),
            word: a.4,
            tags,
            signed: a.5 % 4,
            float,
            long: b.0,
            negative: b.1,
            list,
            huge: b.2,
            less: b.3,
            flag,
            letter,
            text,
            bytes,
            array,
            maybe,
            words,
            nested,
            took,
            level,
            last,
        }
    })
}

type WideIndex<I> = Index<I, u64, Wide>;

/// Returns the keys and rows of an index, in its order.
fn all<I: Key>(db: &Database, index: WideIndex<I>) -> Vec<(Vec<u8>, u64)> {
    db.transact(|tx| {
        let (mut rows, mut found) = (tx.scan_by_prefix(index, b""), Vec::new());
        while let Some((key, id, _)) = rows.next()? {
            let mut bytes = Vec::new();
            key.encode(true, &mut bytes);
            found.push((bytes, id));
        }
        Ok(found)
    })
    .unwrap()
}

/// Checks that both indexes have the same rows under the same keys, in the same order.
fn check<I: Key>(db: &Database, columns: &[&str], of: impl Fn(&Wide) -> I + Send + Sync + 'static) {
    let wide: Table<u64, Wide> = db.table("wide").unwrap();
    let name = columns.join(" ");
    let by_columns: WideIndex<I> = db.index_on(wide, &name, columns).unwrap();
    let by_function: WideIndex<I> = db
        .index(wide, &format!("{name}, as the program does"), move |_, wide: Wide| Some(of(&wide)))
        .unwrap();
    assert_eq!(all(db, by_columns), all(db, by_function), "{name}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Proves that a row's key by columns is the encoding of the tuple of the columns, for columns of all types, alone
    /// and together, in any order and anywhere in the value.
    #[test]
    fn keys_are_tuples_of_columns(rows in proptest::collection::vec(wide(), 1..12)) {
        let db = in_memory();
        let wide: Table<u64, Wide> = db.table("wide").unwrap();
        for (key, row) in rows.iter().enumerate() {
            db.transact(|tx| tx.put(wide, key as u64, row)).unwrap();
        }
        check(&db, &["byte", "small"], |of| (of.byte, of.small));
        check(&db, &["numbers", "byte"], |of| (of.numbers, of.byte));
        check(&db, &["signed", "word", "negative"], |of| (of.signed, of.word, of.negative));
        check(&db, &["less", "huge", "long"], |of| (of.less, of.huge, of.long));
        check(&db, &["flag", "letter", "took"], |of| (of.flag, of.letter, of.took));
        check(&db, &["text"], |of| of.text.clone());
        check(&db, &["last"], |of| of.last.clone());
        check(&db, &["last", "text", "bytes"], |of| (of.last.clone(), of.text.clone(), of.bytes.clone()));
        check(&db, &["bytes", "array", "maybe"], |of| (of.bytes.clone(), of.array, of.maybe));
        check(&db, &["words", "nested"], |of| (of.words.clone(), of.nested.clone()));
        check(&db, &["nested", "level"], |of| (of.nested.clone(), of.level));
        check(&db, &["level", "byte", "small", "signed", "flag", "words", "maybe", "array", "bytes", "text", "word", "last"], |of| {
            let Wide { words, bytes, text, last, .. } = of.clone();
            (of.level, of.byte, of.small, of.signed, of.flag, words, of.maybe, of.array, bytes, text, of.word, last)
        });
    }
}

/// Proves that a value that serde has encoded, and a nested value, is skipped and is not a column.
#[test]
fn what_is_no_column() {
    let db = in_memory();
    let wide: Table<u64, Wide> = db.table("wide").unwrap();
    for column in ["inner", "tags", "float", "list"] {
        let refused = db.index_on::<String, _, _>(wide, "i", &[column]);
        assert!(matches!(refused, Err(Error::IndexedColumns { .. })), "{column}");
    }
    let serde: Table<u64, Serde<(u8, u8)>> = db.table("serde").unwrap();
    let refused = db.index_on::<u8, _, _>(serde, "i", &["0"]);
    assert!(matches!(refused, Err(Error::IndexedColumns { .. })), "{refused:?}");
}
