//! Types of fields by their names in the catalog: a field's length in a value's bytes, and its form as a part of a
//! key.
//!
//! Invariant: if a type of fields is a type of keys, `encode` turns its bytes in a value into its bytes in a key.

use super::fields::{OwnedField, take_field};
use super::key::{AsKey, Key};
use super::value::Value;
use super::variants::split;
use crate::error::{Error, Result};
use std::time::Duration;

/// Longer names of types are refused, because they come from files.
const NAME_BYTES_MAX: usize = 4096;

/// The type of a field.
#[derive(Clone, Debug)]
pub(crate) enum FieldType {
    Simple(&'static Simple),
    /// A type with this many bytes, the same in keys and in values.
    Bytes(String, usize),
    Option(Box<FieldType>),
    Tuple(Vec<FieldType>),
    /// A type that is no key, and its fixed length if it has one.
    NoKey(Option<usize>),
}

/// Appends a field's form in a key. The flag: whether it is the last part of the key.
type Encode = fn(&[u8], bool, &mut Vec<u8>) -> Result<()>;

/// A type that contains no others.
#[derive(Debug)]
pub(crate) struct Simple {
    name: &'static str,
    bytes: Option<usize>,
    encode: Encode,
}

const fn simple<T: OwnedField + Key>() -> Simple {
    let encode: Encode = |bytes, last, out| {
        T::read(bytes)?.encode(last, out);
        Ok(())
    };
    Simple { name: <T as Value>::NAME, bytes: T::BYTES, encode }
}

/// Like `simple`, for types that are read in place.
const STRING: Simple = Simple {
    name: <str as Value>::NAME,
    bytes: None,
    encode: |bytes, last, out| {
        AsKey::<String>::encode_as(&<str as Value>::view(bytes)?, last, out);
        Ok(())
    },
};
const BYTES: Simple = Simple {
    name: <[u8] as Value>::NAME,
    bytes: None,
    encode: |bytes, last, out| {
        AsKey::<Vec<u8>>::encode_as(&bytes, last, out);
        Ok(())
    },
};

static SIMPLE: [Simple; 15] = [
    simple::<u8>(),
    simple::<i8>(),
    simple::<u16>(),
    simple::<i16>(),
    simple::<u32>(),
    simple::<i32>(),
    simple::<u64>(),
    simple::<i64>(),
    simple::<u128>(),
    simple::<i128>(),
    simple::<bool>(),
    simple::<char>(),
    simple::<Duration>(),
    STRING,
    BYTES,
];

/// Types with features. They are known here even without the features, because a tool need not have them. They have
/// the same bytes in keys and in values (`fixed.rs`).
const OPAQUE: [(&str, usize); 5] =
    [("uuid", 16), ("timestamp", 12), ("date", 6), ("time", 7), ("datetime", 13)];

/// Types that are no keys, with their lengths.
const NO_KEYS: [(&str, Option<usize>); 4] =
    [("f32", Some(4)), ("f64", Some(8)), ("nothing", Some(0)), ("serde", None)];

impl FieldType {
    /// Returns the type of this name. `is_struct` returns true for the name of a struct with a definition.
    pub(crate) fn named(name: &str, is_struct: &dyn Fn(&str) -> bool) -> Option<FieldType> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        if let Some(of) = name.strip_prefix("option of ") {
            return Some(FieldType::Option(Box::new(FieldType::named(of, is_struct)?)));
        }
        if name.starts_with("list of ") {
            return Some(FieldType::NoKey(None));
        }
        if let Some(parts) = parts_of_tuple(name) {
            let parts: Option<Vec<_>> = parts.map(|part| FieldType::named(part, is_struct)).collect();
            return parts.filter(|parts| parts.len() > 1).map(FieldType::Tuple);
        }
        if let Some(found) = SIMPLE.iter().find(|simple| simple.name == name) {
            return Some(FieldType::Simple(found));
        }
        let length = |of: &(&str, usize)| FieldType::Bytes(name.into(), of.1);
        let opaque = OPAQUE.iter().find(|of| of.0 == name).map(length);
        let no_key = || NO_KEYS.iter().find(|of| of.0 == name).map(|of| FieldType::NoKey(of.1));
        let array = || {
            let digits = name.strip_suffix(" bytes")?;
            let count: usize = digits.parse().ok()?;
            (count.to_string() == digits).then(|| FieldType::Bytes(name.into(), count))
        };
        opaque.or_else(no_key).or_else(array).or_else(|| is_struct(name).then_some(FieldType::NoKey(None)))
    }

    /// Returns the fixed length of each value as a field. `None` if the length varies and is written before the
    /// field.
    pub(crate) fn bytes(&self) -> Option<usize> {
        match self {
            FieldType::Simple(of) => of.bytes,
            FieldType::Bytes(_, bytes) => Some(*bytes),
            FieldType::Option(_) => None,
            FieldType::Tuple(parts) => {
                parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.bytes()?))
            }
            FieldType::NoKey(bytes) => *bytes,
        }
    }

    /// Returns the name of its keys. `None` if it is no type of keys.
    pub(crate) fn key_type(&self) -> Option<String> {
        match self {
            FieldType::Simple(of) => Some(of.name.into()),
            FieldType::Bytes(name, _) => Some(name.clone()),
            FieldType::Option(of) => of.key_type().map(|of| format!("option of {of}")),
            FieldType::Tuple(parts) => tuple_of(parts),
            FieldType::NoKey(_) => None,
        }
    }

    /// Appends to a key the key form of a field with these bytes.
    pub(crate) fn encode(&self, mut bytes: &[u8], last: bool, out: &mut Vec<u8>) -> Result<()> {
        match self {
            FieldType::Simple(of) => return (of.encode)(bytes, last, out),
            FieldType::Bytes(_, length) if *length == bytes.len() => out.extend_from_slice(bytes),
            FieldType::Bytes(..) => return Err(Error::malformed("byte array", bytes.len())),
            FieldType::Option(of) => match bytes.split_first() {
                Some((0, [])) => out.push(0),
                Some((1, inside)) => {
                    out.push(1);
                    return of.encode(inside, last, out);
                }
                _ => return Err(Error::malformed("option", bytes.len())),
            },
            FieldType::Tuple(parts) => {
                let (end, parts) = parts.split_last().expect("of two or more");
                for part in parts {
                    part.encode(take_field(part.bytes(), "tuple", &mut bytes)?, false, out)?;
                }
                return end.encode(bytes, last, out);
            }
            FieldType::NoKey(_) => return Err(Error::malformed("key", bytes.len())),
        }
        Ok(())
    }
}

/// Returns the name of keys that are tuples of these types. `None` if such tuples are no keys.
pub(crate) fn tuple_of(parts: &[FieldType]) -> Option<String> {
    let parts: Option<Vec<_>> = parts.iter().map(FieldType::key_type).collect();
    Some(format!("({})", parts?.join(", ")))
}

/// Returns the names of the types in a tuple of values.
pub(crate) fn parts_of_tuple(name: &str) -> Option<impl Iterator<Item = &str>> {
    name.strip_prefix("fields (")?.strip_suffix(')').map(split)
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks that a value's bytes become the bytes of the same value as a key, at the end of a key and before other
    /// parts.
    fn check<T: OwnedField + Key>(value: &T) {
        let (field, no_struct) = (<T as Value>::type_name(), |_: &str| false);
        let of = FieldType::named(&field, &no_struct).expect("it is known");
        assert_eq!(of.key_type(), Some(<T as Key>::type_name()));
        assert_eq!(of.bytes(), T::BYTES, "{field}");
        let bytes = T::encode_value(value);
        for last in [false, true] {
            let (mut encoded, mut expected) = (Vec::new(), Vec::new());
            of.encode(&bytes, last, &mut encoded).expect("of this type");
            value.encode(last, &mut expected);
            assert_eq!(encoded, expected, "{field}");
        }
        let longer = [&bytes[..], &[7; 3]].concat();
        if T::BYTES.is_some() {
            assert!(of.encode(&longer, true, &mut Vec::new()).is_err(), "{field}");
        }
    }

    trait EncodeValue {
        fn encode_value(&self) -> Vec<u8>;
    }

    impl<T: OwnedField> EncodeValue for T {
        fn encode_value(&self) -> Vec<u8> {
            <T as Value>::encode(self.input()).expect("a value").as_ref().to_vec()
        }
    }

    proptest! {
        /// Proves that an extracted key equals the key of the column's type, for every type of keys.
        #[test]
        fn fields_as_keys(
            a: (u8, i8, u16, i16, u32, i32), b: (u64, i64, u128, i128, bool, char), of: Duration,
            text in "[\\x00-\\x02é]{0,5}", bytes in proptest::collection::vec(0u8..3, 0..6), array: [u8; 5],
        ) {
            check(&a.0);
            check(&a.1);
            check(&a.2);
            check(&a.3);
            check(&a.4);
            check(&a.5);
            check(&b.0);
            check(&b.1);
            check(&b.2);
            check(&b.3);
            check(&b.4);
            check(&b.5);
            check(&of);
            check(&text);
            check(&bytes);
            check(&array);
            check(&a);
            check(&Some(a.3));
            check(&None::<String>);
            check(&Some(Some(text.clone())));
            check(&(text.clone(), Some(bytes.clone()), array));
            check(&Some((b.1, (text, b.4), bytes)));
        }
    }

    /// Proves that types with features are encoded in the same way as by the crates that define them.
    #[test]
    #[cfg(all(feature = "uuid", feature = "jiff"))]
    fn types_with_features() {
        check(&uuid::Uuid::from_bytes(*b"0123456789abcdef"));
        check(&jiff::Timestamp::UNIX_EPOCH);
        let day = jiff::civil::date(2026, 11, 26);
        check(&day);
        check(&jiff::civil::time(7, 58, 0, 1));
        check(&day.at(7, 58, 0, 1));
    }

    /// Proves that valid names are told from invalid ones, and types of keys from other types.
    #[test]
    fn names() {
        let is_struct = |name: &str| name == "user";
        let of = |name: &str| FieldType::named(name, &is_struct);
        for unknown in
            ["", "u9", "fields (u8)", "fields (u8, )", "fields ()", "02 bytes", "option of x", "usize"]
        {
            assert!(of(unknown).is_none(), "{unknown}");
        }
        assert!(of(&"option of ".repeat(1000)).is_none(), "it is too long");
        for (name, bytes) in [
            ("f64", Some(8)),
            ("user", None),
            ("list of user", None),
            ("serde", None),
            ("nothing", Some(0)),
            ("fields (f32, fields (u8, nothing))", Some(5)),
            ("option of f32", None),
        ] {
            let of = of(name).expect("it is known");
            assert_eq!((of.bytes(), of.key_type()), (bytes, None), "{name}");
        }
        let of = of("fields (u8, option of fields (string, 3 bytes))").expect("it is known");
        assert_eq!(of.key_type().as_deref(), Some("(u8, option of (string, 3 bytes))"));
        assert!(of.encode(&[1, 2], true, &mut Vec::new()).is_err());
        assert!(of.encode(&[1, 3, 0, 0, 0, 0], true, &mut Vec::new()).is_err());
    }
}
