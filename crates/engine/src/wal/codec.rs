//! How numbers are written in files: little-endian, or as varints where most are small; and the rule by which later
//! versions add to what there is.

/// What has a kind of this or a higher number is optional: a reader that does not know the kind passes over it. Any
/// other has to be known.
pub(crate) const OPTIONAL_KIND_MIN: u8 = 128;

/// Seven bits per byte, the lowest first; the top bit says that more follow.
#[inline]
pub(crate) fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a varint from the front; none if the bytes do not begin with one that fits.
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

/// Takes so many bytes from the front; none if there are fewer.
#[inline]
pub(crate) fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(count).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// Passes over further parts, of which no kind is known: none of them may be one that has to be.
pub(crate) fn pass_parts(bytes: &mut &[u8]) -> Option<()> {
    take_parts(bytes, |_, _| false)
}

/// Takes further parts: how many there are, then of each its kind in a byte, its length, and so many bytes. `known`
/// says whether it knows a part of this kind with these bytes; the others have to be ones that may be passed over.
pub(crate) fn take_parts(bytes: &mut &[u8], mut known: impl FnMut(u8, &[u8]) -> bool) -> Option<()> {
    // Each takes bytes, so a number that is wrong soon comes to their end.
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

/// The number in the four bytes at this place, which are there.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// The number in the eight bytes at this place, which are there.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
