//! The types of keys.
//!
//! Integers become big-endian bytes, signed ones with the sign bit flipped. Floats are not keys. Strings and byte
//! strings are stored unchanged at the end of a key. Before another component they are escaped (0x00 becomes 0x00
//! 0xff) and closed by 0x00 0x00, so that a prefix sorts before the longer string. An array is its elements one after
//! another. An option is a byte (0 for none, 1) and its content.

use super::key::{AsKey, Key, PrefixMatch};

macro_rules! integer_keys {
    ($($unsigned:ident, $signed:ident;)*) => {$(
        integer_keys!(@one $unsigned, $unsigned, 0);
        integer_keys!(@one $signed, $unsigned, 1 << (<$unsigned>::BITS - 1));
    )*};
    (@one $int:ident, $unsigned:ident, $flip:expr) => {
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
            fn encode_prefix(prefix: &[u8], out: &mut Vec<u8>) -> PrefixMatch {
                PrefixMatch::of_fixed(size_of::<$int>(), prefix, out)
            }
            #[inline(always)]
            fn short_form(&self) -> Option<(u64, u32)> {
                if size_of::<$int>() > 8 {
                    return None;
                }
                let word = ((*self as $unsigned) ^ $flip) as u64;
                Some((word << (64 - <$unsigned>::BITS.min(64)), size_of::<$int>() as u32))
            }
            integer_keys!(@bytes $int);
        }
        itself_as_key!($int);
    };
    // Arrays of these are copied at once, and are the bytes of a short form.
    (@bytes u8) => {
        const IS_BYTE: bool = true;
        fn encode_array<const N: usize>(keys: &[u8; N], _: bool, out: &mut Vec<u8>) {
            out.extend_from_slice(keys);
        }
        fn decode_array<const N: usize>(_: bool, bytes: &mut &[u8]) -> Option<[u8; N]> {
            let (head, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            Some(*head)
        }
        #[inline(always)]
        fn short_array<const N: usize>(keys: &[u8; N]) -> Option<(u64, u32)> {
            short_bytes(keys)
        }
    };
    (@bytes $int:ident) => {};
}

/// Lets keys of a type stand for themselves.
macro_rules! itself_as_key {
    ($key:ty $(, $($generic:tt)+)?) => {
        impl$(<$($generic)+>)? $crate::table::AsKey<$key> for $key {
            #[inline(always)]
            fn short(&self) -> Option<(u64, u32)> {
                $crate::table::Key::short_form(self)
            }
            fn encode_as(&self, last: bool, out: &mut Vec<u8>) {
                $crate::table::Key::encode(self, last, out);
            }
        }
    };
}
pub(crate) use itself_as_key;

integer_keys! { u8, i8; u16, i16; u32, i32; u64, i64; u128, i128; }

fn encode_bytes(bytes: &[u8], last: bool, out: &mut Vec<u8>) {
    if last {
        return out.extend_from_slice(bytes);
    }
    escape(bytes, out);
    out.extend_from_slice(&[0, 0]);
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
}

fn encode_prefix_of_bytes(prefix: &[u8], out: &mut Vec<u8>) -> PrefixMatch {
    escape(prefix, out);
    PrefixMatch::All
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

/// Returns the short form of bytes at the end of a key.
#[inline(always)]
pub(crate) fn short_bytes(bytes: &[u8]) -> Option<(u64, u32)> {
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
    fn encode_prefix(prefix: &[u8], out: &mut Vec<u8>) -> PrefixMatch {
        encode_prefix_of_bytes(prefix, out)
    }
    #[inline(always)]
    fn short_form(&self) -> Option<(u64, u32)> {
        short_bytes(self)
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
    fn encode_prefix(prefix: &[u8], out: &mut Vec<u8>) -> PrefixMatch {
        encode_prefix_of_bytes(prefix, out)
    }
    #[inline(always)]
    fn short_form(&self) -> Option<(u64, u32)> {
        short_bytes(self.as_bytes())
    }
}

/// An array of `u8` is text or bytes of one length: a column that is read in place, without an allocation.
impl<K: Key, const N: usize> Key for [K; N] {
    const FIXED8: bool = K::IS_BYTE && N == 8;
    const NAME: &'static str = if K::IS_BYTE { "byte array" } else { "array" };
    fn type_name() -> String {
        if K::IS_BYTE { format!("{N} bytes") } else { format!("[{}; {N}]", K::type_name()) }
    }
    fn encode(&self, last: bool, out: &mut Vec<u8>) {
        K::encode_array(self, last, out);
    }
    fn decode(last: bool, bytes: &mut &[u8]) -> Option<Self> {
        K::decode_array(last, bytes)
    }
    fn encode_prefix(mut prefix: &[u8], out: &mut Vec<u8>) -> PrefixMatch {
        if K::IS_BYTE || N == 0 {
            return PrefixMatch::of_fixed(N, prefix, out);
        }
        for _ in 1..N {
            if K::encode_prefix_part(&mut prefix, out).is_none() {
                return PrefixMatch::All;
            }
        }
        K::encode_prefix(prefix, out)
    }
    #[inline(always)]
    fn short_form(&self) -> Option<(u64, u32)> {
        K::short_array(self)
    }
}
itself_as_key!([K; N], K: Key, const N: usize);

/// `None` comes first.
impl<K: Key> Key for Option<K> {
    const NAME: &'static str = "option";
    fn type_name() -> String {
        format!("option of {}", K::type_name())
    }
    fn encode(&self, last: bool, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        self.iter().for_each(|key| key.encode(last, out));
    }
    fn decode(last: bool, bytes: &mut &[u8]) -> Option<Self> {
        let (&is_some, rest) = bytes.split_first()?;
        *bytes = rest;
        match is_some {
            0 => Some(None),
            1 => K::decode(last, bytes).map(Some),
            _ => None,
        }
    }
    fn encode_prefix(prefix: &[u8], out: &mut Vec<u8>) -> PrefixMatch {
        let Some((&is_some, rest)) = prefix.split_first() else { return PrefixMatch::All };
        out.push(is_some);
        match is_some {
            0 => PrefixMatch::of_fixed(0, rest, out),
            1 => K::encode_prefix(rest, out),
            _ => PrefixMatch::None,
        }
    }
}
itself_as_key!(Option<K>, K: Key);

macro_rules! option_as_key {
    ($($key:ty, $from:ty;)*) => {$(
        impl AsKey<Option<$key>> for Option<$from> {
            fn encode_as(&self, last: bool, out: &mut Vec<u8>) {
                out.push(u8::from(self.is_some()));
                self.iter().for_each(|key| key.encode_as(last, out));
            }
        }
    )*};
}
option_as_key! { String, &str; Vec<u8>, &[u8]; }

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
            fn encode_prefix(mut prefix: &[u8], out: &mut Vec<u8>) -> PrefixMatch {
                $(if $k::encode_prefix_part(&mut prefix, out).is_none() {
                    return PrefixMatch::All;
                })+
                $last_k::encode_prefix(prefix, out)
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
    (A XA 0; B XB 1);
    (A XA 0, B XB 1; D XD 2);
    (A XA 0, B XB 1, D XD 2; E XE 3);
    (A XA 0, B XB 1, D XD 2, E XE 3; F XF 4);
    (A XA 0, B XB 1, D XD 2, E XE 3, F XF 4; G XG 5);
    (A XA 0, B XB 1, D XD 2, E XE 3, F XF 4, G XG 5; H XH 6);
    (A XA 0, B XB 1, D XD 2, E XE 3, F XF 4, G XG 5, H XH 6; I XI 7);
    (A XA 0, B XB 1, D XD 2, E XE 3, F XF 4, G XG 5, H XH 6, I XI 7; J XJ 8);
    (A XA 0, B XB 1, D XD 2, E XE 3, F XF 4, G XG 5, H XH 6, I XI 7, J XJ 8; L XL 9);
    (A XA 0, B XB 1, D XD 2, E XE 3, F XF 4, G XG 5, H XH 6, I XI 7, J XJ 8, L XL 9; M XM 10);
    (A XA 0, B XB 1, D XD 2, E XE 3, F XF 4, G XG 5, H XH 6, I XI 7, J XJ 8, L XL 9, M XM 10; N XN 11);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{decode_whole, index_key};
    use proptest::prelude::*;
    use std::time::Duration;

    fn encoded<K: Key>(key: &K) -> Vec<u8> {
        let mut out = vec![];
        key.encode(true, &mut out);
        out
    }

    /// Checks that the encodings of two keys compare as the keys do and decode to them, at the end of a key and
    /// before another key, and that the short form agrees.
    fn check<K: Key + Ord + std::fmt::Debug + Clone>(a: K, b: K) {
        check_alone(&a, &b);
        check_alone(&(a.clone(), 1u8), &(b.clone(), 0u8));
        check_alone(&Some(a), &Some(b));
    }

    fn check_alone<K: Key + Ord + std::fmt::Debug>(a: &K, b: &K) {
        let (x, y) = (encoded(a), encoded(b));
        assert_eq!(x.cmp(&y), a.cmp(b), "{a:?} {b:?}");
        assert_eq!(&decode_whole::<K>(&x).expect("a key's own encoding"), a);
        assert_eq!(a.short_form(), AsKey::<K>::short(&a));
        if let Some((slice, len)) = a.short_form() {
            let key = index_key(&x);
            assert_eq!((slice, len), (key.slice, key.len));
        }
        if K::FIXED8 {
            assert_eq!(x.len(), 8);
        }
    }

    proptest! {
        /// Proves that order and value survive encoding, for every type.
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

        /// Proves the same for types whose values can differ from their neighbors in few bits.
        #[test]
        fn order_preserving_further(
            a: (u128, i128, bool, char, Duration), b: (u128, i128, bool, char, Duration),
            words in any::<[(u8, i8, u16); 2]>(), strings in any::<[Option<String>; 2]>(),
            lists in proptest::array::uniform2(proptest::array::uniform3("[\\x00-\\x01a]{0,3}")),
        ) {
            check(a.0, b.0);
            check(a.1, b.1);
            check(a.2, b.2);
            check(a.3, b.3);
            check(a.4, b.4);
            check(a, b);
            let [x, y] = words;
            check(x.0, y.0);
            check(x.1, y.1);
            check(x.2, y.2);
            check([x.1; 3], [y.1; 3]);
            check((Some(x.0 % 2), None::<u64>), (Some(y.0 % 2), Some(1)));
            let [s, t] = strings;
            check(s, t);
            let [v, w] = lists;
            check(v, w);
            let one = |x: (u8, i8, u16)| (x.0 % 2, x.1 % 2, x.2 % 2, x.0 % 3, x.1 % 3, x.2 % 3, x.0 % 5, x.1 % 5, x.2 % 5, x.0, x.1, x.2);
            check(one(x), one(y));
        }
    }

    /// Proves that a stand-in for a key is encoded as the key is.
    #[test]
    fn what_stands_for_a_key() {
        fn check<K: Key>(key: K, form: impl AsKey<K>) {
            for last in [false, true] {
                let (mut whole, mut stands) = (vec![], vec![]);
                key.encode(last, &mut whole);
                form.encode_as(last, &mut stands);
                assert_eq!(stands, whole);
            }
            assert!(form.short().is_none_or(|short| Some(short) == key.short_form()));
        }
        check("a\0".to_string(), "a\0");
        check(vec![1, 0], &[1u8, 0][..]);
        check(vec![1, 0], [1u8, 0]);
        let by_reference = &[1u8, 0];
        check(vec![1, 0], by_reference);
        check([1u8; 8], [1u8; 8]);
        check(Some("a".to_string()), Some("a"));
        check(None::<Vec<u8>>, None::<&[u8]>);
        check(None::<u64>, None);
        check((7u64, "a".to_string(), [1u16; 2]), (7, "a", &[1; 2]));
        check((true, ('x', vec![0u8])), &(true, ('x', vec![0u8])));
    }

    /// Proves that bytes that are no encoding of the type are refused.
    #[test]
    fn malformed() {
        assert!(decode_whole::<u64>(&[1, 2]).is_err());
        assert!(decode_whole::<u16>(&[1, 2, 3]).is_err());
        assert!(decode_whole::<String>(&[0xff]).is_err());
        assert!(decode_whole::<(String, u8)>(&[b'a', 0, 7, 1]).is_err());
        assert!(decode_whole::<bool>(&[2]).is_err());
        assert!(decode_whole::<char>(&0xd800u32.to_be_bytes()).is_err());
        assert!(decode_whole::<Option<u8>>(&[2, 1]).is_err());
        assert!(decode_whole::<Option<u8>>(&[0, 1]).is_err());
        assert!(decode_whole::<[u16; 2]>(&[0, 1, 2]).is_err());
        assert!(decode_whole::<Duration>(&[0xff; 12]).is_err());
    }
}
