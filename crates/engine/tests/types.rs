//! Types of keys and values as a program uses them, including types of other crates and of the program itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use braiddb::{Database, Error, Key, KeyAs, Options, Table, Value};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use jiff::Timestamp;
use jiff::civil;
use proptest::prelude::*;
use std::fmt::Debug;
use std::time::Duration;
use uuid::Uuid;

fn database() -> Database {
    Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap()
}

/// Checks that a table of these keys has them in their order and finds each of them. `Key` is the only bound of the
/// type.
fn check<K: Key + Ord + Debug>(mut keys: Vec<K>) {
    let db = database();
    let table: Table<K, u64> = db.table("keys").unwrap();
    let tx = db.begin().unwrap();
    keys.sort();
    keys.dedup();
    for (at, key) in keys.iter().enumerate().rev() {
        tx.insert(table, key, at as u64).unwrap();
    }
    let mut rows = tx.scan::<K, u64, &K>(table, &keys[0]..=&keys[keys.len() - 1]);
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(rows.next().unwrap().as_ref().map(|(key, at)| (key, *at)), Some((key, at as u64)));
    }
    assert!(rows.next().unwrap().is_none());
    drop(rows);
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(tx.get(table, key).unwrap(), Some(at as u64), "{key:?}");
        check_encoding(key, &keys[at / 2]);
    }
    tx.commit().unwrap();
}

/// Checks that the encodings of two keys compare as the keys do, and decode to them.
fn check_encoding<K: Key + Ord + Debug>(a: &K, b: &K) {
    let encoded = |key: &K, last| {
        let mut out = vec![];
        key.encode(last, &mut out);
        out
    };
    for last in [false, true] {
        let bytes = encoded(a, last);
        assert_eq!(bytes.cmp(&encoded(b, last)), a.cmp(b), "{a:?} {b:?}");
        let mut rest = &bytes[..];
        assert_eq!(K::decode(last, &mut rest).as_ref(), Some(a));
        assert!(rest.is_empty());
    }
}

/// Checks that a written value is read back, alone, in an option, and as a field before another field.
macro_rules! check_value {
    ($type:ty, $value:expr) => {{
        let db = database();
        let alone: Table<u64, $type> = db.table("alone").unwrap();
        let option: Table<u64, Option<$type>> = db.table("option").unwrap();
        let fields: Table<u64, ($type, u8, $type)> = db.table("fields").unwrap();
        let tx = db.begin().unwrap();
        tx.put(alone, 1, $value).unwrap();
        tx.put(option, 1, Some($value)).unwrap();
        tx.put(option, 2, None).unwrap();
        tx.put(fields, 1, ($value, 7, $value)).unwrap();
        assert_eq!(tx.get(alone, 1).unwrap(), Some(<$type>::from($value)));
        assert_eq!(tx.get(option, 1).unwrap(), Some(Some(<$type>::from($value))));
        assert_eq!(tx.get(option, 2).unwrap(), Some(None));
        let both = (<$type>::from($value), 7, <$type>::from($value));
        assert_eq!(tx.get(fields, 1).unwrap(), Some(both));
    }};
}

/// Seconds that both crates have, and any part of one.
fn moments() -> impl Strategy<Value = Vec<(i64, u32)>> {
    let seconds = prop_oneof![-3i64..3, -62_000_000_000i64..250_000_000_000];
    proptest::collection::vec((seconds, 0u32..1_000_000_000), 2..9)
}

fn timestamp((seconds, nanos): (i64, u32)) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(seconds) * 1_000_000_000 + i128::from(nanos)).unwrap()
}

fn utc((seconds, nanos): (i64, u32)) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, nanos).unwrap()
}

fn civil_of(moment: (i64, u32)) -> civil::DateTime {
    jiff::tz::Offset::UTC.to_datetime(timestamp(moment))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Proves that dates, times and points of time are in the order of their crates, also before the epoch.
    #[test]
    fn moments_are_ordered(moments in moments()) {
        check(moments.iter().copied().map(timestamp).collect());
        check(moments.iter().copied().map(civil_of).collect());
        check(moments.iter().map(|moment| civil_of(*moment).date()).collect());
        check(moments.iter().map(|moment| civil_of(*moment).time()).collect());
        check(moments.iter().copied().map(utc).collect());
        check(moments.iter().map(|moment| utc(*moment).naive_utc()).collect());
        check(moments.iter().map(|moment| utc(*moment).date_naive()).collect());
        check(moments.iter().map(|moment| utc(*moment).time()).collect());
    }

    /// Proves the same of the other types, in tables.
    #[test]
    fn others_are_ordered(
        numbers in proptest::collection::vec(any::<(u128, i128, bool, char, u64, u32)>(), 2..9),
        strings in proptest::collection::vec(any::<(Option<String>, Vec<u8>)>(), 2..9),
    ) {
        check(numbers.iter().map(|number| Uuid::from_u128(number.0)).collect());
        check(numbers.iter().map(|number| Duration::new(number.4, number.5 % 1_000_000_000)).collect());
        check(numbers.iter().map(|number| (number.2, number.3, [number.1; 2])).collect());
        check(numbers.iter().map(|number| number.1).collect());
        check(numbers.iter().map(|number| number.3).collect());
        check(strings);
    }
}

/// Proves that ends of ranges are keys as well.
#[test]
fn ends_of_ranges() {
    check(vec![Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX]);
    check(vec![civil::DateTime::MIN, civil::DateTime::MAX]);
    check(vec![DateTime::<Utc>::MIN_UTC, DateTime::UNIX_EPOCH, DateTime::<Utc>::MAX_UTC]);
    check(vec![NaiveDate::MIN, NaiveDate::MAX]);
    check(vec![NaiveDateTime::MIN, NaiveDateTime::MAX]);
    check(vec![NaiveTime::MIN, NaiveTime::from_hms_nano_opt(23, 59, 59, 1_999_999_999).unwrap()]);
    check(vec![Uuid::nil(), Uuid::max()]);
    check(vec![Duration::ZERO, Duration::MAX]);
    check(vec![char::MIN, '\u{d7ff}', '\u{e000}', char::MAX]);
}

/// Proves that values of all types are read back as they were written.
#[test]
fn values() {
    check_value!(bool, true);
    check_value!(char, 'é');
    check_value!(u128, u128::MAX);
    check_value!(f64, -0.5);
    check_value!(String, "a\0é");
    check_value!(Vec<u8>, &[0u8, 255][..]);
    check_value!([u8; 3], [1, 2, 3]);
    check_value!([u8; 0], []);
    check_value!(Duration, Duration::new(5, 999_999_999));
    check_value!(Uuid, Uuid::from_u128(7));
    check_value!(Timestamp, timestamp((-1, 1)));
    check_value!(civil::Date, civil::date(-44, 3, 15));
    check_value!(civil::Time, civil::time(23, 59, 59, 1));
    check_value!(civil::DateTime, civil::date(2026, 3, 1).at(12, 0, 0, 0));
    check_value!(DateTime<Utc>, utc((-1, 1)));
    check_value!(NaiveDate, NaiveDate::MIN);
    check_value!(NaiveDateTime, NaiveDateTime::MAX);
    check_value!(NaiveTime, NaiveTime::MIN);
}

/// Proves that tuples are as deep and as long as allowed, and that bytes that are not a tuple are refused.
#[test]
fn tuples_of_values() {
    type Long =
        (u8, String, Vec<u8>, bool, i128, (), Option<String>, (String, u8), f32, char, [u8; 2], String);
    let db = database();
    let table: Table<u8, Long> = db.table("long").unwrap();
    let tx = db.begin().unwrap();
    tx.put(table, 0, (0, "", &[], false, 0, (), None, ("", 0), 0.0, 'x', [0; 2], "")).unwrap();
    tx.put(table, 1, (9, "a", &[1], true, -1, (), Some("b"), ("c", 1), 0.5, 'y', [1; 2], "d")).unwrap();
    let (a, b, c, .., d) = tx.get(table, 0).unwrap().unwrap();
    assert_eq!((a, b, c, d), (0, String::new(), vec![], String::new()));
    let (.., f, g, h, i, j, k, l) = tx.get(table, 1).unwrap().unwrap();
    assert_eq!((f, g, h, i, j, k, l), ((), Some("b".into()), ("c".into(), 1), 0.5, 'y', [1; 2], "d".into()));

    fn refused<V: Value>(bytes: &[u8]) {
        assert!(matches!(V::view(bytes), Err(Error::Malformed { .. })), "{bytes:?}");
    }
    refused::<(u8, u8)>(&[1]);
    refused::<(u8, u8)>(&[1, 2, 3]);
    refused::<(String, u8)>(&[1, 0, 0]);
    refused::<(String, u8)>(&[2, 0, 0, 0, b'a']);
    refused::<(String, u8)>(&[255, 255, 255, 255, b'a']);
    refused::<Option<u8>>(&[]);
    refused::<Option<u8>>(&[0, 1]);
    refused::<Option<()>>(&[2]);
    refused::<bool>(&[2]);
    refused::<[u8; 2]>(&[1]);
    refused::<civil::Date>(&[0x80, 0, 7, 0xea, 2, 30]);
    refused::<NaiveDate>(&[0x80, 0, 7, 0xea, 2, 30]);
}

/// Proves that the two crates' types have the same bytes under the same name: either crate reads what the other has
/// written.
#[test]
fn either_crate_opens_a_table() {
    let db = database();
    let by_jiff: Table<Timestamp, civil::DateTime> = db.table("t").unwrap();
    let by_chrono: Table<DateTime<Utc>, NaiveDateTime> = db.table("t").unwrap();
    let tx = db.begin().unwrap();
    let moment = (-1_000_000_000, 999_999_999);
    tx.put(by_jiff, timestamp(moment), civil_of(moment)).unwrap();
    assert_eq!(tx.get(by_chrono, utc(moment)).unwrap(), Some(utc(moment).naive_utc()));
    // A leap second, and a year that one of the crates does not have.
    let leap = DateTime::from_timestamp(59, 1_500_000_000).unwrap();
    tx.put(by_chrono, leap, leap.naive_utc()).unwrap();
    let found = tx.get(by_chrono, leap).unwrap();
    assert_eq!(found, Some(leap.naive_utc()));
    let mut rows = tx.scan(by_jiff, Timestamp::UNIX_EPOCH..);
    assert!(matches!(rows.next(), Err(Error::Malformed { .. })));
}

/// An identifier, and a struct that is ordered by another component first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OrderId(u64);

impl KeyAs for OrderId {
    type As = u64;
    fn to_key(&self) -> u64 {
        self.0
    }
    fn from_key(key: u64) -> Option<OrderId> {
        (key != u64::MAX).then_some(OrderId(key))
    }
}

/// Proves that keys that stand for others are given by value and by reference, alone and in tuples, and that an
/// invalid order is refused.
#[test]
fn keys_by_way_of_others() {
    check(vec![OrderId(1), OrderId(300), OrderId(0)]);
    check(vec![(OrderId(1), "b".to_string()), (OrderId(1), "a".to_string())]);
    const { assert!(OrderId::FIXED8) }
    let db = database();
    let orders: Table<OrderId, u8> = db.table("orders").unwrap();
    let lines: Table<(OrderId, String), u8> = db.table("lines").unwrap();
    let numbers: Table<u64, u8> = db.table("orders").unwrap();
    let tx = db.begin().unwrap();
    tx.put(orders, OrderId(7), 1).unwrap();
    tx.put(lines, (OrderId(7), "a"), 2).unwrap();
    tx.put(lines, (&OrderId(7), "b"), 3).unwrap();
    assert_eq!(tx.get(numbers, 7).unwrap(), Some(1));
    let by_reference = &OrderId(7);
    assert_eq!(tx.get(orders, by_reference).unwrap(), Some(1));
    let mut rows = tx.scan(lines, (OrderId(7), "")..(OrderId(8), ""));
    assert_eq!(rows.next().unwrap(), Some(((OrderId(7), "a".to_string()), 2)));
    assert_eq!(rows.next().unwrap(), Some(((OrderId(7), "b".to_string()), 3)));
    drop(rows);
    tx.put(numbers, u64::MAX, 4).unwrap();
    let mut rows = tx.scan(orders, OrderId(8)..);
    assert!(matches!(rows.next(), Err(Error::Malformed { .. })));
}

/// A key with an encoding of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Word(String);

impl Key for Word {
    const NAME: &'static str = "word";
    fn encode(&self, last: bool, out: &mut Vec<u8>) {
        self.0.encode(last, out);
    }
    fn decode(last: bool, bytes: &mut &[u8]) -> Option<Word> {
        Key::decode(last, bytes).map(Word)
    }
}

/// Proves that `Key` is the only trait that a type of keys has to implement, for every operation.
#[test]
fn key_alone() {
    check(vec![Word("b".into()), Word("a".into()), Word("".into())]);
    check(vec![Some((Word("b".into()), 1u8)), None]);
    let db = database();
    let table: Table<Word, u8> = db.table("words").unwrap();
    let index = db.index(table, "again", |word: &Word, _| Some(word.clone())).unwrap();
    let tx = db.begin().unwrap();
    let word = Word("a".into());
    tx.insert(table, &word, 1).unwrap();
    assert!(tx.update(table, &word, 2).unwrap());
    assert_eq!(tx.get_many(table, &[&word, &word]).unwrap(), [Some(2), Some(2)]);
    assert_eq!(tx.get_for_update(table, &word).unwrap(), Some(2));
    assert_eq!(
        tx.scan_by::<_, _, _, &Word>(index, &word..).next().unwrap(),
        Some((word.clone(), word.clone(), 2))
    );
    assert_eq!(tx.scan::<_, _, &Word>(table, ..=&word).next().unwrap(), Some((word.clone(), 2)));
    assert_eq!(tx.scan_all(table).next().unwrap(), Some((word.clone(), 2)));
    assert!(tx.delete(table, &word).unwrap());
}
