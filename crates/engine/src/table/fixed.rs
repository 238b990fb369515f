//! Types with an encoding of fixed length, the same in keys and values, whose byte order is the order of the values.

use std::time::Duration;

/// Makes a type one of keys and values. `$to`: its `$bytes` bytes. `$from`: the value with these bytes, if there is
/// one.
macro_rules! fixed {
    ($type:ty, $bytes:literal, $name:literal, $to:expr, $from:expr) => {
        impl $crate::table::Key for $type {
            const NAME: &'static str = $name;
            fn encode(&self, _: bool, out: &mut Vec<u8>) {
                let to: fn(&$type) -> [u8; $bytes] = $to;
                out.extend_from_slice(&to(self));
            }
            fn decode(_: bool, bytes: &mut &[u8]) -> Option<Self> {
                let from: fn([u8; $bytes]) -> Option<$type> = $from;
                let (head, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                from(*head)
            }
            fn encode_prefix(prefix: &[u8], out: &mut Vec<u8>) -> $crate::table::PrefixMatch {
                $crate::table::PrefixMatch::of_fixed($bytes, prefix, out)
            }
            #[inline(always)]
            fn short_form(&self) -> Option<(u64, u32)> {
                let to: fn(&$type) -> [u8; $bytes] = $to;
                $crate::table::key_types::short_bytes(&to(self))
            }
        }
        $crate::table::key_types::itself_as_key!($type);

        impl $crate::table::Value for $type {
            const NAME: &'static str = $name;
            type Input<'v> = $type;
            type Encoded<'v> = [u8; $bytes];
            type View<'t> = $type;
            fn encode<'v>(input: Self::Input<'v>) -> $crate::error::Result<Self::Encoded<'v>> {
                let to: fn(&$type) -> [u8; $bytes] = $to;
                Ok(to(&input))
            }
            fn view(bytes: &[u8]) -> $crate::error::Result<$type> {
                let from: fn([u8; $bytes]) -> Option<$type> = $from;
                let malformed = || $crate::error::Error::malformed($name, bytes.len());
                bytes.try_into().ok().and_then(from).ok_or_else(malformed)
            }
        }
        impl $crate::table::Field for $type {
            const BYTES: Option<usize> = Some($bytes);
        }
        impl $crate::table::OwnedField for $type {
            fn input(&self) -> $type {
                *self
            }
            fn read(bytes: &[u8]) -> $crate::error::Result<$type> {
                <$type as $crate::table::Value>::view(bytes)
            }
        }
    };
}
#[cfg(any(feature = "uuid", feature = "jiff", feature = "chrono"))]
pub(crate) use fixed;

fixed!(bool, 1, "bool", |value| [u8::from(*value)], |bytes| match bytes {
    [0] => Some(false),
    [1] => Some(true),
    _ => None,
});
fixed!(char, 4, "char", |value| u32::from(*value).to_be_bytes(), |bytes| char::from_u32(u32::from_be_bytes(
    bytes
)));
fixed!(Duration, 12, "duration", |value| seconds_and_nanos(value.as_secs(), value.subsec_nanos()), |bytes| {
    let (seconds, nanos) = split_seconds(bytes);
    (nanos < NANOS_PER_SECOND).then(|| Duration::new(seconds, nanos))
});

pub(crate) const NANOS_PER_SECOND: u32 = 1_000_000_000;

pub(crate) fn seconds_and_nanos(seconds: u64, nanos: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&seconds.to_be_bytes());
    bytes[8..].copy_from_slice(&nanos.to_be_bytes());
    bytes
}

pub(crate) fn split_seconds(bytes: [u8; 12]) -> (u64, u32) {
    let [seconds @ .., a, b, c, d] = bytes;
    (u64::from_be_bytes(seconds), u32::from_be_bytes([a, b, c, d]))
}
