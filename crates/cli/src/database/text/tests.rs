//! Tests of writing text and reading it back.

use super::*;
use braiddb::Value;

fn values(type_name: &str) -> Column {
    Column::values(&TableInfo::new("t", "u64", type_name))
}

/// Checks that the bytes are written as `text`, and that `text` is read back to the same bytes, as JSON and as a cell.
fn check(column: &Column, bytes: &[u8], text: &str) {
    let mut json = String::new();
    column.write_json(bytes, &mut json);
    assert_eq!(json, text);
    assert_eq!(column.read_json(&json).as_deref(), Ok(bytes), "{json}");
    if let Some(cell) = column.cell(bytes) {
        assert_eq!(column.read_cell(&cell).as_deref(), Ok(bytes), "{cell}");
    }
}

fn key<K: Key>(key: K, text: &str) {
    let mut bytes = Vec::new();
    key.encode(true, &mut bytes);
    check(&Column::keys(&K::type_name()), &bytes, text);
}

#[test]
fn keys_have_their_natural_form() {
    // Proves that all key types are written and read, including nested tuples and the ends of ranges.
    key(0u8, "0");
    key(u16::MAX, "65535");
    key(7u32, "7");
    key(u64::MAX, "18446744073709551615");
    key(i8::MIN, "-128");
    key(-1i16, "-1");
    key(i32::MAX, "2147483647");
    key(i64::MIN, "-9223372036854775808");
    key(vec![0u8, 255], r#""00ff""#);
    key("a\"b\n\0é".to_string(), r#""a\"b\n\u0000é""#);
    key([1u8, 0, 255], r#""0100ff""#);
    key([7u8; 8], r#""0707070707070707""#);
    key(([0u8; 2], 5u8, [1u8]), r#"["0000",5,"01"]"#);
    key((1u32, "a\0".to_string()), r#"[1,"a\u0000"]"#);
    key(((vec![0u8], -1i8), "".to_string(), 5u64), r#"[["00",-1],"",5]"#);
    key(i128::MIN, "-170141183460469231731687303715884105728");
    key((true, 'é', Some(7u8)), r#"[true,"é",7]"#);
    key((None::<String>, Some(Some(1u8))), "[null,[1]]");
    key((Some("a\0".to_string()), Some(None::<u8>)), r#"["a\u0000",[null]]"#);
    key(([(1u8, "a".to_string()), (2, "b".to_string())], [0u16; 0]), r#"[[[1,"a"],[2,"b"]],[]]"#);
    key(std::time::Duration::from_secs(1), r#""000000000000000100000000""#);
}

/// Checks that values of a type are written as `text`.
fn fields<V: Value>(input: V::Input<'_>, text: &str) {
    let bytes = V::encode(input).unwrap();
    check(&values(&V::type_name()), bytes.as_ref(), text);
}

#[test]
fn composed_values_have_their_natural_form() {
    // Proves that tuples and options are written and read, whether or not their parts state their length.
    fields::<(u8, String, bool)>((1, "a", true), r#"[1,"a",true]"#);
    fields::<(String, Vec<u8>, f64, char)>(("", &[], 0.5, 'x'), r#"["","",0.5,"x"]"#);
    fields::<Option<(u8, String)>>(Some((1, "a")), r#"[1,"a"]"#);
    fields::<Option<u8>>(None, "null");
    fields::<(Option<()>, Option<Option<u8>>, ())>((Some(()), None, ()), "[[null],null,null]");
    fields::<((String, u8), [u8; 2], (u8, u16))>((("a", 1), [2, 3], (4, 5)), r#"[["a",1],"0203",[4,5]]"#);
}

#[test]
fn values_have_their_natural_form() {
    // Proves that all value types are written and read. Numbers that JSON does not have are written as their bytes.
    let value = |name: &str, bytes: &[u8], text: &str| check(&values(name), bytes, text);
    value("u8", &[200], "200");
    value("i16", &(-2i16).to_le_bytes(), "-2");
    value("u64", &u64::MAX.to_le_bytes(), "18446744073709551615");
    value("u128", &u128::MAX.to_le_bytes(), "340282366920938463463374607431768211455");
    value("i128", &i128::MIN.to_le_bytes(), "-170141183460469231731687303715884105728");
    value("f32", &0.1f32.to_le_bytes(), "0.1");
    value("f64", &f64::MIN_POSITIVE.to_le_bytes(), "2.2250738585072014e-308");
    value("f64", &(-0.0f64).to_le_bytes(), "-0.0");
    value("f64", &f64::INFINITY.to_le_bytes(), r#"{"hex":"000000000000f07f"}"#);
    value("bytes", &[], r#""""#);
    value("string", "hex:".as_bytes(), r#""hex:""#);
    value("nothing", &[], "null");
    value("my::Struct", &[1, 2], r#"{"hex":"0102"}"#);
    value("u64", &[1], r#"{"hex":"01"}"#);
    value("string", &[0xff], r#"{"hex":"ff"}"#);
}

#[derive(Key, Value)]
#[braid(name = "event")]
#[repr(i8)]
#[allow(non_camel_case_types, reason = "a name that means something else in the text")]
enum Event {
    Created { at: u64, by: Option<String> } = 1,
    Renamed(String) = -2,
    hex(String) = 3,
    Closed = 7,
}

fn events() -> [(Event, &'static str); 5] {
    [
        (Event::Created { at: 5, by: Some("Ada".into()) }, r#"{"Created":{"at":5,"by":"Ada"}}"#),
        (Event::Created { at: 6, by: None }, r#"{"Created":{"at":6,"by":null}}"#),
        (Event::Renamed("x\0".into()), r#"{"Renamed":{"0":"x\u0000"}}"#),
        (Event::hex("00".into()), r#"{"hex":{"0":"00"}}"#),
        (Event::Closed, r#"{"Closed":{}}"#),
    ]
}

/// The catalog's definition of a derived type.
fn defined(definition: &str) -> Column {
    let mut info = TableInfo::new("t", "u64", "event");
    info.definitions = vec![definition.into()];
    Column::values(&info)
}

#[test]
fn enums_are_objects_with_their_variant() {
    // Proves that text of programs is read, as keys and as values, and that anything that is not of the type is
    // refused.
    for (event, text) in events() {
        check(
            &defined(concat!(
                "event 1: one of i8 (Created {at: u64, by: option of string} = 1, Renamed {0: string} = -2, ",
                "hex {0: string} = 3, Closed = 7)"
            )),
            &<Event as Value>::encode(&event).unwrap(),
            text,
        );
        key(event, text);
    }
    for (event, text) in events() {
        key((1u8, Some(event)), &format!("[1,{text}]"));
    }
    for (event, text) in events() {
        key((event, 1u8), &format!("[{text},1]"));
    }
    let column = Column::keys(&<Event as Key>::type_name());
    for (json, why) in [
        ("{}", "one member"),
        (r#"{"Closed":{},"Renamed":{"0":"a"}}"#, "one member"),
        (r#"{"Opened":{}}"#, "no variant \"Opened\""),
        (r#"{"Renamed":{}}"#, "Renamed: {} has no field \"0\""),
        (r#"{"Renamed":{"0":"a","1":"b"}}"#, "Renamed: the type has no field \"1\""),
        (r#"{"Renamed":{"0":1}}"#, "Renamed: 0: 1 is not a string"),
        (r#"{"Renamed":"a"}"#, "Renamed: \"a\" is not an object"),
        (r#""Closed""#, "is not an object"),
        (r#"{"hex":1}"#, "hex: 1 is not an object"),
    ] {
        let wrong = column.read_json(json).unwrap_err();
        assert!(wrong.contains(why), "{json}: {wrong}");
    }
    // Bytes of no variant are shown raw.
    check(&column, &[0x80], r#"{"hex":"80"}"#);
    check(&column, &[0x87, 1], r#"{"hex":"8701"}"#);
}

#[test]
fn first_fields_of_a_variant_are_a_prefix() {
    let column = Column::keys(&<Event as Key>::type_name());
    let whole = |event: Event| {
        let mut bytes = Vec::new();
        event.encode(true, &mut bytes);
        bytes
    };
    let ada = whole(Event::Created { at: 5, by: Some("Ada".into()) });
    let prefix = |cell: &str| column.read_prefix(cell);
    assert_eq!(prefix(r#"{"Created":{}}"#).as_deref(), Ok(&ada[..1]));
    assert_eq!(prefix(r#"{"Created":{"at":5}}"#).as_deref(), Ok(&ada[..9]));
    assert_eq!(prefix(r#"{"Created":{"by":"Ada","at":5}}"#).as_deref(), Ok(&*ada));
    for cell in
        [r#"{"Created":{"by":"Ada"}}"#, r#"{"Created":{"at":5,"by":"Ada","c":1}}"#, "[]", r#"{"Opened":{}}"#]
    {
        assert!(prefix(cell).is_err(), "{cell}");
    }
}

#[test]
fn what_is_no_type_with_variants_is_not_known() {
    // Proves that definitions are not guessed: rows are shown raw.
    for shape in [
        "one of u8 (A {0: u8} = 1, B {0: unknown} = 2)",
        "one of f32 (A = 1)",
        "one of u8 (A = 1, A = 2)",
        "one of u8 (A = 1, B = 1)",
        "one of u8 (A)",
        "one of u8 (A = 1",
        "one of u8 ()",
        "one of u8 A = 1",
        "u8",
    ] {
        check(&defined(&format!("event 1: {shape}")), &[1, 1, 0], r#"{"hex":"010100"}"#);
    }
    check(&defined("event 1: one of u8 (A = 1)"), &[1, 1, 0], r#"{"A":{}}"#);
}

#[test]
fn what_is_no_text_of_the_type_is_refused() {
    // Proves that nothing is rounded, cut or guessed.
    for (name, json) in [
        ("u8", "256"),
        ("u8", "-1"),
        ("i8", "128"),
        ("u8", "1.0"),
        ("u8", r#""1""#),
        ("u8", "+1"),
        ("f64", "1e999"),
        ("f64", "inf"),
        ("bytes", r#""0""#),
        ("bytes", r#""0g""#),
        ("string", "1"),
        ("nothing", "0"),
        ("u8", r#"{"hex":"0"}"#),
        ("u8", r#"{"hex":"00","more":1}"#),
        ("my::Struct", "1"),
    ] {
        assert!(values(name).read_json(json).is_err(), "{name} {json}");
    }
    for json in ["1", "[1]", r#"[1,"a",2]"#, r#"["a",1]"#] {
        assert!(Column::keys("(u32, string)").read_json(json).is_err(), "{json}");
    }
    for (name, json) in [
        ("option of nothing", "1"),
        ("option of nothing", "[]"),
        ("option of u8", "[1]"),
        ("fields (u8, string)", "[1]"),
        ("fields (u8, string)", r#"{"0":1}"#),
        ("bool", "1"),
        ("char", r#""ab""#),
    ] {
        assert!(values(name).read_json(json).is_err(), "{name} {json}");
    }
    for name in ["f64", "nothing", "[f32; 2]", "option of f64", "[u8]", "[u8; 02]", "fields (u8, u8)"] {
        assert!(Column::keys(name).is_fixed8().is_none(), "{name} is no type of keys");
    }
    assert!(values("(u8, u8)").read_json("[1,2]").is_err(), "which is a type's of a program's own");
    for json in [r#""01""#, r#""010203""#, r#""01g2""#, "1"] {
        assert!(Column::keys("2 bytes").read_json(json).is_err(), "{json}");
    }
    assert_eq!(Column::keys("8 bytes").is_fixed8(), Some(true));
    assert_eq!(Column::keys("08 bytes").is_fixed8(), None);
    assert!(values("my::Struct").read_cell("01").is_err());
    assert_eq!(values("string").cell(&[0xff]), None, "a string's cell has no other form");
}
