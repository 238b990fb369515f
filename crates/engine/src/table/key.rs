//! Typed keys: an encoding to bytes whose order is the keys' order.
//!
//! Integers become big-endian bytes (signed ones with the sign bit flipped), floats are not keys.
//! Strings and byte strings are themselves at the end of a key, and in front of another component
//! escaped (0x00 becomes 0x00 0xff) and closed by 0x00 0x00, so that a prefix sorts before what it
//! is a prefix of.

use super::KEY_BYTES_MAX;
use super::fault::Fault;
use crate::error::{Error, Result};
use crate::index;

/// A type of keys. Ordered as its values are.
///
/// An implementation that contradicts itself (keys of another length than `FIXED8` says, a
/// [short form](AsKey::short) unlike the encoding, an encoding that is not always the same) makes operations on its own
/// tables fail or find other rows than were meant, and does no other harm.
///
/// ```
/// use braiddb::Key;
/// let encoded = |key: (u32, String)| { let mut out = vec![]; key.encode(true, &mut out); out };
/// assert!(encoded((1, "b".into())) < encoded((2, "a".into())));
/// ```
pub trait Key: Sized {
    /// True if every key of the type is eight bytes long, which the index uses.
    const FIXED8: bool = false;
    /// What keys of the type are, in a word.
    const NAME: &'static str;
    /// The type's whole name, to tell tables of different types apart.
    fn type_name() -> String {
        Self::NAME.into()
    }
    /// Appends the encoding; `last`: nothing follows in the same key.
    fn encode(&self, last: bool, out: &mut Vec<u8>);
    /// Takes a key off the front of `bytes`.
    fn decode(last: bool, bytes: &mut &[u8]) -> Option<Self>;
}

/// What may stand for a `K` where one is looked up: `&str` for `String`, `&[u8]` for `Vec<u8>`, …
pub trait AsKey<K: Key> {
    /// The key, if it is at most eight bytes long and known to be: (bytes in the high end, length). The same bytes as
    /// [`encode_as`](Self::encode_as) writes with `last`.
    #[inline(always)]
    fn short(&self) -> Option<(u64, u32)> {
        None
    }
    /// Appends the encoding, as [`Key::encode`].
    fn encode_as(&self, last: bool, out: &mut Vec<u8>);
}

impl<K: Key + AsKey<K>> AsKey<K> for &K {
    #[inline(always)]
    fn short(&self) -> Option<(u64, u32)> {
        (**self).short()
    }
    fn encode_as(&self, last: bool, out: &mut Vec<u8>) {
        (**self).encode_as(last, out);
    }
}

macro_rules! integer_keys {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        integer_keys!(@one $unsigned, $unsigned, 0);
        integer_keys!(@one $signed, $unsigned, 1 << (<$unsigned>::BITS - 1));
    )*};
    (@one $int:ty, $unsigned:ty, $flip:expr) => {
        impl Key for $int {
            const FIXED8: bool = size_of::<$int>() == 8;
            const NAME: &'static str = stringify!($int);
            fn encode(&self, _: bool, out: &mut Vec<u8>) {
                out.extend_from_slice(&((*self as $unsigned) ^ $flip).to_be_bytes());
            }
            fn decode(_: bool, bytes: &mut &[u8]) -> Option<Self> {
                let (head, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some((<$unsigned>::from_be_bytes(*head) ^ $flip) as $int)
            }
        }
        impl AsKey<$int> for $int {
            #[inline(always)]
            fn short(&self) -> Option<(u64, u32)> {
                let word = u64::from((*self as $unsigned) ^ $flip);
                Some((word << (64 - <$unsigned>::BITS), size_of::<$int>() as u32))
            }
            fn encode_as(&self, last: bool, out: &mut Vec<u8>) {
                self.encode(last, out);
            }
        }
    };
}
integer_keys! { u8, i8; u16, i16; u32, i32; u64, i64; }

fn encode_bytes(bytes: &[u8], last: bool, out: &mut Vec<u8>) {
    if last {
        return out.extend_from_slice(bytes);
    }
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

fn decode_bytes(last: bool, bytes: &mut &[u8]) -> Option<Vec<u8>> {
    if last {
        return Some(std::mem::take(bytes).to_vec());
    }
    let mut out = Vec::new();
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if byte != 0 {
            out.push(byte);
            continue;
        }
        let (&after, rest) = bytes.split_first()?;
        *bytes = rest;
        match after {
            0xff => out.push(0),
            0 => return Some(out),
            _ => return None,
        }
    }
}

/// The short form of bytes at the end of a key.
#[inline(always)]
fn short_bytes(bytes: &[u8]) -> Option<(u64, u32)> {
    if bytes.len() > 8 {
        return None;
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    Some((u64::from_be_bytes(word), bytes.len() as u32))
}

impl Key for Vec<u8> {
    const NAME: &'static str = "bytes";
    fn encode(&self, last: bool, out: &mut Vec<u8>) {
        encode_bytes(self, last, out);
    }
    fn decode(last: bool, bytes: &mut &[u8]) -> Option<Self> {
        decode_bytes(last, bytes)
    }
}

impl Key for String {
    const NAME: &'static str = "string";
    fn encode(&self, last: bool, out: &mut Vec<u8>) {
        encode_bytes(self.as_bytes(), last, out);
    }
    fn decode(last: bool, bytes: &mut &[u8]) -> Option<Self> {
        String::from_utf8(decode_bytes(last, bytes)?).ok()
    }
}

/// Text or bytes of one length: a column that is read where it lies, without an allocation.
impl<const N: usize> Key for [u8; N] {
    const FIXED8: bool = N == 8;
    const NAME: &'static str = "byte array";
    fn type_name() -> String {
        format!("{N} bytes")
    }
    fn encode(&self, _: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn decode(_: bool, bytes: &mut &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(*head)
    }
}

impl<const N: usize> AsKey<[u8; N]> for [u8; N] {
    #[inline(always)]
    fn short(&self) -> Option<(u64, u32)> {
        short_bytes(self)
    }
    fn encode_as(&self, last: bool, out: &mut Vec<u8>) {
        self.encode(last, out);
    }
}

macro_rules! bytes_as_key {
    ($(($key:ty, $from:ty $(, $n:ident)?);)*) => {$(
        impl$(<const $n: usize>)? AsKey<$key> for $from {
            #[inline(always)]
            fn short(&self) -> Option<(u64, u32)> {
                let bytes: &[u8] = self.as_ref();
                short_bytes(bytes)
            }
            fn encode_as(&self, last: bool, out: &mut Vec<u8>) {
                let bytes: &[u8] = self.as_ref();
                encode_bytes(bytes, last, out);
            }
        }
    )*};
}
bytes_as_key! {
    (Vec<u8>, Vec<u8>); (Vec<u8>, &[u8]); (Vec<u8>, [u8; N], N); (Vec<u8>, &[u8; N], N);
    (String, String); (String, &str);
}

macro_rules! tuple_keys {
    ($(($($k:ident $a:ident $i:tt),+; $last_k:ident $last_a:ident $last_i:tt);)*) => {$(
        impl<$($k: Key,)+ $last_k: Key> Key for ($($k,)+ $last_k) {
            const NAME: &'static str = "tuple";
            fn type_name() -> String {
                format!("({})", [$($k::type_name(),)+ $last_k::type_name()].join(", "))
            }
            fn encode(&self, last: bool, out: &mut Vec<u8>) {
                $(self.$i.encode(false, out);)+
                self.$last_i.encode(last, out);
            }
            fn decode(last: bool, bytes: &mut &[u8]) -> Option<Self> {
                Some(($($k::decode(false, bytes)?,)+ $last_k::decode(last, bytes)?))
            }
        }
        impl<$($k: Key, $a: AsKey<$k>,)+ $last_k: Key, $last_a: AsKey<$last_k>>
            AsKey<($($k,)+ $last_k)> for ($($a,)+ $last_a)
        {
            fn encode_as(&self, last: bool, out: &mut Vec<u8>) {
                $(self.$i.encode_as(false, out);)+
                self.$last_i.encode_as(last, out);
            }
        }
    )*};
}
tuple_keys! {
    (A X 0; B Y 1);
    (A X 0, B Y 1; D Z 2);
    (A X 0, B Y 1, D Z 2; E W 3);
    (A X 0, B Y 1, D Z 2, E W 3; F V 4);
}

/// Encodes a whole key into `out` and checks its length.
pub(crate) fn encode_whole<K: Key>(key: &impl AsKey<K>, out: &mut Vec<u8>) -> Result<(), Fault> {
    out.clear();
    key.encode_as(true, out);
    match out.len() {
        bytes if K::FIXED8 && bytes != 8 => Err(Fault::KeyNotOfEight { bytes }),
        0..=KEY_BYTES_MAX => Ok(()),
        bytes => Err(Fault::KeyTooLong { bytes }),
    }
}

/// Decodes a whole key.
#[inline]
pub(crate) fn decode_whole<K: Key>(mut bytes: &[u8]) -> Result<K> {
    let all = bytes.len();
    match K::decode(true, &mut bytes) {
        Some(key) if bytes.is_empty() => Ok(key),
        _ => Err(Error::Malformed { expected: K::NAME, bytes: all }),
    }
}

/// The index's form of encoded bytes, which have to stay where they are as long as it is used.
pub(crate) fn index_key(bytes: &[u8]) -> index::Key {
    let head = bytes.len().min(8);
    let mut word = [0; 8];
    word[..head].copy_from_slice(&bytes[..head]);
    index::Key { slice: u64::from_be_bytes(word), len: bytes.len() as u32, bytes: bytes.as_ptr() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded<K: Key>(key: &K) -> Vec<u8> {
        let mut out = vec![];
        key.encode(true, &mut out);
        out
    }

    /// The encodings of two keys compare as the keys do, and decode to them; the short form agrees.
    fn check<K: Key + Ord + std::fmt::Debug + AsKey<K>>(a: K, b: K) {
        let (x, y) = (encoded(&a), encoded(&b));
        assert_eq!(x.cmp(&y), a.cmp(&b), "{a:?} {b:?}");
        assert_eq!(decode_whole::<K>(&x).expect("a key's own encoding"), a);
        if let Some((slice, len)) = a.short() {
            let key = index_key(&x);
            assert_eq!((slice, len), (key.slice, key.len));
        }
    }

    proptest! {
        /// Order and value survive encoding, for every type.
        #[test]
        fn order_preserving(
            a: (u64, i64, u32, i16), b: (u64, i64, u32, i16),
            s in "[\\x00-\\x03a]{0,9}", t in "[\\x00-\\x03a]{0,9}",
            v in proptest::collection::vec(0u8..3, 0..12), w in proptest::collection::vec(0u8..3, 0..12),
        ) {
            check(a.0, b.0);
            check(a.1, b.1);
            check(a.2, b.2);
            check(a.0.to_be_bytes(), b.0.to_be_bytes());
            check((a.2.to_be_bytes(), a.1), (b.2.to_be_bytes(), b.1));
            check(a.3, b.3);
            check(s.clone(), t.clone());
            check(v.clone(), w.clone());
            check((s.clone(), a.1), (t.clone(), b.1));
            check((v.clone(), s.clone(), a.2), (w.clone(), t.clone(), b.2));
            check((a.2 % 2, v, s), (b.2 % 2, w, t));
        }
    }

    /// Bytes that are no encoding of the type are refused.
    #[test]
    fn malformed() {
        assert!(decode_whole::<u64>(&[1, 2]).is_err());
        assert!(decode_whole::<u16>(&[1, 2, 3]).is_err());
        assert!(decode_whole::<String>(&[0xff]).is_err());
        assert!(decode_whole::<(String, u8)>(&[b'a', 0, 7, 1]).is_err());
    }
}
