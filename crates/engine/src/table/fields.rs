//! Tuples, lists and options as values. A tuple or list has its fields one after another. Each field has its length
//! before it in four bytes, little-endian, except the last field of a tuple and fields of a type with a fixed length.
//! An option is a byte (0 for none, 1) and its content.

use super::definitions::Definitions;
use super::value::Value;
use crate::error::{Error, Result};
use std::borrow::Cow;

/// A value that can be part of another value, in any place. Its bytes need not be aligned, unlike those of
/// [`Plain`](crate::Plain).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a tuple or an option in values",
    note = "fields are the types of values that have a size, but for `Plain`, which has to be aligned: `String` rather than `str`"
)]
pub trait Field: Value + Sized {
    /// The length of every encoded value. `None` if it varies.
    const BYTES: Option<usize>;
}

/// A field whose values a program holds directly: in structs and variants that derive [`Value`], and in `Vec`s.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a struct or an element of a `Vec` in values",
    note = "such fields are numbers of a known size, `bool`, `char`, `String`, `[u8; N]`, `Option`s, tuples and `Vec`s of these, and types with `#[derive(Value)]`",
    note = "in a struct, `#[braid(serde)]` in front of a field lets it have any type that serde knows"
)]
pub trait OwnedField: Field {
    /// Returns the input for a write of this value.
    fn input(&self) -> Self::Input<'_>;
    /// Decodes a value.
    fn read(bytes: &[u8]) -> Result<Self>;

    /// Returns true if everything in it is of the newest version of its type.
    #[doc(hidden)]
    fn is_newest(_: &[u8]) -> Result<bool> {
        Ok(true)
    }
    /// A list of this type is a byte string. True only for `u8`.
    #[doc(hidden)]
    const IS_BYTE: bool = false;
    /// Returns the bytes of a list of bytes.
    #[doc(hidden)]
    fn as_bytes(_: &[Self]) -> &[u8] {
        unreachable!("asked of bytes alone")
    }
    /// Returns the list with these bytes.
    #[doc(hidden)]
    fn of_bytes(_: &[u8]) -> Vec<Self> {
        unreachable!("asked of bytes alone")
    }
}

macro_rules! fields {
    ($($type:ty: $bytes:expr $(, $byte:ident)?;)*) => {$(
        impl Field for $type {
            const BYTES: Option<usize> = $bytes;
        }
        impl OwnedField for $type {
            fn input(&self) -> $type {
                *self
            }
            fn read(bytes: &[u8]) -> Result<$type> {
                <$type as Value>::view(bytes)
            }
            $(fields!(@$byte);)?
        }
    )*};
    (@byte) => {
        const IS_BYTE: bool = true;
        fn as_bytes(list: &[u8]) -> &[u8] {
            list
        }
        fn of_bytes(bytes: &[u8]) -> Vec<u8> {
            bytes.to_vec()
        }
    };
}
fields! {
    (): Some(0);
    u8: Some(1), byte;
    i8: Some(1); u16: Some(2); i16: Some(2); u32: Some(4); i32: Some(4); f32: Some(4);
    u64: Some(8); i64: Some(8); f64: Some(8); u128: Some(16); i128: Some(16);
}

impl Field for String {
    const BYTES: Option<usize> = None;
}

impl OwnedField for String {
    fn input(&self) -> &str {
        self
    }
    fn read(bytes: &[u8]) -> Result<String> {
        <str as Value>::view(bytes).map(String::from)
    }
}

impl<const N: usize> Field for [u8; N] {
    const BYTES: Option<usize> = Some(N);
}

impl<const N: usize> OwnedField for [u8; N] {
    fn input(&self) -> [u8; N] {
        *self
    }
    fn read(bytes: &[u8]) -> Result<[u8; N]> {
        <[u8; N] as Value>::view(bytes)
    }
}

#[cfg(feature = "serde")]
impl<T: serde::Serialize + serde::de::DeserializeOwned + 'static> Field for super::Serde<T> {
    const BYTES: Option<usize> = None;
}

impl<V: Field> Value for Option<V> {
    const NAME: &'static str = "option";
    fn type_name() -> String {
        format!("option of {}", V::type_name())
    }
    fn define(to: &mut Definitions) {
        V::define(to);
    }
    type Input<'v> = Option<V::Input<'v>>;
    type Encoded<'v> = Vec<u8>;
    type View<'t> = Option<V::View<'t>>;
    fn encode<'v>(input: Self::Input<'v>) -> Result<Self::Encoded<'v>> {
        let Some(input) = input else { return Ok(vec![0]) };
        let mut bytes = vec![1];
        bytes.extend_from_slice(V::encode(input)?.as_ref());
        Ok(bytes)
    }
    fn view(bytes: &[u8]) -> Result<Self::View<'_>> {
        match bytes.split_first() {
            Some((0, [])) => Ok(None),
            Some((1, bytes)) => V::view(bytes).map(Some),
            _ => Err(Error::malformed(<Self as Value>::NAME, bytes.len())),
        }
    }
}

impl<V: Field> Field for Option<V> {
    const BYTES: Option<usize> = None;
}

impl<V: OwnedField> OwnedField for Option<V> {
    fn input(&self) -> Option<V::Input<'_>> {
        self.as_ref().map(V::input)
    }
    fn read(bytes: &[u8]) -> Result<Option<V>> {
        match bytes.split_first() {
            Some((0, [])) => Ok(None),
            Some((1, bytes)) => V::read(bytes).map(Some),
            _ => Err(Error::malformed(<Self as Value>::NAME, bytes.len())),
        }
    }
    fn is_newest(bytes: &[u8]) -> Result<bool> {
        bytes.split_first().map_or(Ok(true), |(is_some, bytes)| Ok(*is_some == 0 || V::is_newest(bytes)?))
    }
}

/// Copied when it is read. (`[u8]` is read in place.)
impl<V: OwnedField> Value for Vec<V> {
    const NAME: &'static str = if V::IS_BYTE { "bytes" } else { "list" };
    fn type_name() -> String {
        if V::IS_BYTE { "bytes".into() } else { format!("list of {}", V::type_name()) }
    }
    fn define(to: &mut Definitions) {
        V::define(to);
    }
    type Input<'v> = &'v [V];
    type Encoded<'v> = Cow<'v, [u8]>;
    type View<'t> = Vec<V>;
    fn encode<'v>(input: Self::Input<'v>) -> Result<Self::Encoded<'v>> {
        const { assert!(!matches!(V::BYTES, Some(0)), "elements that take no bytes cannot be counted") }
        if V::IS_BYTE {
            return Ok(Cow::Borrowed(V::as_bytes(input)));
        }
        let mut out = Vec::new();
        input.iter().try_for_each(|value| push::<V>(value.input(), &mut out))?;
        Ok(Cow::Owned(out))
    }
    fn view(mut bytes: &[u8]) -> Result<Vec<V>> {
        const { assert!(!matches!(V::BYTES, Some(0)), "elements that take no bytes cannot be counted") }
        if V::IS_BYTE {
            return Ok(V::of_bytes(bytes));
        }
        let mut list = Vec::new();
        while !bytes.is_empty() {
            list.push(V::read(take::<V>(&mut bytes)?)?);
        }
        Ok(list)
    }
}

impl<V: OwnedField> Field for Vec<V> {
    const BYTES: Option<usize> = None;
}

impl<V: OwnedField> OwnedField for Vec<V> {
    fn input(&self) -> &[V] {
        self
    }
    fn read(bytes: &[u8]) -> Result<Vec<V>> {
        <Vec<V> as Value>::view(bytes)
    }
    fn is_newest(mut bytes: &[u8]) -> Result<bool> {
        while !V::IS_BYTE && !bytes.is_empty() {
            if !V::is_newest(take::<V>(&mut bytes)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Appends a field that is followed by others.
pub(super) fn push<V: Field>(input: V::Input<'_>, out: &mut Vec<u8>) -> Result<()> {
    let encoded = V::encode(input)?;
    let bytes: &[u8] = encoded.as_ref();
    if V::BYTES.is_none() {
        let too_long = |_| Error::ValueTooLong { bytes: bytes.len(), bytes_max: u32::MAX as usize };
        let length = u32::try_from(bytes.len()).map_err(too_long)?;
        out.extend_from_slice(&length.to_le_bytes());
    }
    if V::BYTES.is_some_and(|known| known != bytes.len()) {
        return Err(Error::malformed(V::NAME, bytes.len())); // the type contradicts itself
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// Takes the bytes of a field off the front.
pub(super) fn take<'b, V: Field>(bytes: &mut &'b [u8]) -> Result<&'b [u8]> {
    take_field(V::BYTES, V::NAME, bytes)
}

/// Takes a field like [`take`], given its type's name and fixed length, if it has one.
#[inline]
pub(super) fn take_field<'b>(
    always: Option<usize>,
    name: &'static str,
    bytes: &mut &'b [u8],
) -> Result<&'b [u8]> {
    let malformed = Error::malformed(name, bytes.len());
    let length = match always {
        Some(known) => Some(known),
        None => bytes
            .split_off(..4)
            .map(|length| u32::from_le_bytes(length.try_into().expect("four bytes")) as usize),
    };
    length.and_then(|length| bytes.split_off(..length)).ok_or(malformed)
}

/// Returns the length of all fields together. `None` if a length varies.
const fn sum(fields: &[Option<usize>]) -> Option<usize> {
    let (mut at, mut sum) = (0, 0);
    while at < fields.len() {
        let Some(bytes) = fields[at] else { return None };
        let Some(more) = usize::checked_add(sum, bytes) else { return None };
        sum = more;
        at += 1;
    }
    Some(sum)
}

macro_rules! tuple_values {
    ($(($($v:ident $i:tt),+; $last:ident $last_i:tt);)*) => {$(
        impl<$($v: Field,)+ $last: Field> Value for ($($v,)+ $last) {
            const NAME: &'static str = "tuple";
            fn type_name() -> String {
                format!("fields ({})", [$($v::type_name(),)+ $last::type_name()].join(", "))
            }
            fn define(to: &mut Definitions) {
                $($v::define(to);)+
                $last::define(to);
            }
            type Input<'v> = ($($v::Input<'v>,)+ $last::Input<'v>);
            type Encoded<'v> = Vec<u8>;
            type View<'t> = ($($v::View<'t>,)+ $last::View<'t>);
            fn encode<'v>(input: Self::Input<'v>) -> Result<Self::Encoded<'v>> {
                let mut out = Vec::with_capacity(<Self as Field>::BYTES.unwrap_or(64).min(1024));
                $(push::<$v>(input.$i, &mut out)?;)+
                out.extend_from_slice($last::encode(input.$last_i)?.as_ref());
                Ok(out)
            }
            fn view(mut bytes: &[u8]) -> Result<Self::View<'_>> {
                Ok(($($v::view(take::<$v>(&mut bytes)?)?,)+ $last::view(bytes)?))
            }
        }
        impl<$($v: Field,)+ $last: Field> Field for ($($v,)+ $last) {
            const BYTES: Option<usize> = sum(&[$($v::BYTES,)+ $last::BYTES]);
        }
        impl<$($v: OwnedField,)+ $last: OwnedField> OwnedField for ($($v,)+ $last) {
            fn input(&self) -> Self::Input<'_> {
                ($(self.$i.input(),)+ self.$last_i.input())
            }
            fn read(mut bytes: &[u8]) -> Result<Self> {
                Ok(($($v::read(take::<$v>(&mut bytes)?)?,)+ $last::read(bytes)?))
            }
            fn is_newest(mut bytes: &[u8]) -> Result<bool> {
                Ok($($v::is_newest(take::<$v>(&mut bytes)?)? &&)+ $last::is_newest(bytes)?)
            }
        }
    )*};
}
tuple_values! {
    (A 0; B 1);
    (A 0, B 1; C 2);
    (A 0, B 1, C 2; D 3);
    (A 0, B 1, C 2, D 3; E 4);
    (A 0, B 1, C 2, D 3, E 4; F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5; G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6; H 7);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7; I 8);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8; J 9);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9; K 10);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10; L 11);
}
