//! How numbers are written in files: little-endian, or as varints where most of them are small. Also the rule by
//! which later versions add parts.

/// Parts of this or a higher kind are optional: a reader that does not know the kind skips the part. A reader has to
/// know any other kind.
pub(crate) const OPTIONAL_KIND_MIN: u8 = 128;

/// Appends a varint: seven bits per byte, the lowest first. The top bit says that more bytes follow.
#[inline]
pub(crate) fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a varint from the front. Returns none if the bytes do not begin with a varint that fits.
#[inline]
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Takes `count` bytes from the front. Returns none if there are fewer.
#[inline]
pub(crate) fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(count).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// Skips further parts, none of whose kinds is known. Returns none if one of them has to be known.
pub(crate) fn pass_parts(bytes: &mut &[u8]) -> Option<()> {
    take_parts(bytes, |_, _| false)
}

/// Takes further parts. They are encoded as their number, and then for each part a byte for its kind, its length, and
/// its bytes. `known` returns true if it knows a part of this kind with these bytes. Every other part has to be
/// optional.
pub(crate) fn take_parts(bytes: &mut &[u8], mut known: impl FnMut(u8, &[u8]) -> bool) -> Option<()> {
    // Each part takes bytes, so a wrong number soon meets their end.
    for _ in 0..take_varint(bytes)? {
        let kind = take(bytes, 1)?[0];
        let part_bytes = take_varint(bytes)?;
        let part = take(bytes, part_bytes)?;
        if !known(kind, part) && kind < OPTIONAL_KIND_MIN {
            return None;
        }
    }
    Some(())
}

/// Returns the number in the four bytes at `at`, which must exist.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Returns the number in the eight bytes at `at`, which must exist.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
