//! Tuples and options as values: their fields one after another, each but the last one behind its length in four bytes,
//! little-endian, unless the type says how long it always is; an option is a byte (0 for none, 1) and what it holds.

use super::value::Value;
use crate::error::{Error, Result};

/// A value that can be part of another one: in any place, not only where its bytes are aligned as those of
/// [`Plain`](crate::Plain) have to be.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a tuple or an option in values",
    note = "fields are the types of values that have a size, but for `Plain`, which has to be aligned: `String` rather than `str`"
)]
pub trait Field: Value + Sized {
    /// The length of every encoded value; `None` if it varies.
    const BYTES: Option<usize>;
}

macro_rules! fields {
    ($($type:ty: $bytes:expr;)*) => {$(
        impl Field for $type {
            const BYTES: Option<usize> = $bytes;
        }
    )*};
}
fields! {
    (): Some(0); String: None; Vec<u8>: None;
    u8: Some(1); i8: Some(1); u16: Some(2); i16: Some(2); u32: Some(4); i32: Some(4); f32: Some(4);
    u64: Some(8); i64: Some(8); f64: Some(8); u128: Some(16); i128: Some(16);
}

impl<const N: usize> Field for [u8; N] {
    const BYTES: Option<usize> = Some(N);
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

/// Appends a field behind which others follow.
fn push<V: Field>(input: V::Input<'_>, out: &mut Vec<u8>) -> Result<()> {
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
fn take<'b, V: Field>(bytes: &mut &'b [u8]) -> Result<&'b [u8]> {
    let malformed = Error::malformed(V::NAME, bytes.len());
    let length = match V::BYTES {
        Some(known) => Some(known),
        None => bytes
            .split_off(..4)
            .map(|length| u32::from_le_bytes(length.try_into().expect("four bytes")) as usize),
    };
    length.and_then(|length| bytes.split_off(..length)).ok_or(malformed)
}

/// How many bytes all of them have together.
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
