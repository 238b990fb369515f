//! Index keys and entries as bytes.

use crate::error::{Error, Result};
use crate::table::{
    AsKey, Columns, Extract, Fault, KEY_BYTES_MAX, Key, PrefixMatch, Value, decode_whole, encode_sought,
    encode_sought_part,
};
use std::ops::Bound;
use std::sync::Arc;

/// Wraps a typed function for use on bytes.
pub(crate) fn extractor<I: Key, K: Key, V: Value + ?Sized>(
    is_unique: bool,
    extract: impl for<'v> Fn(&K, V::View<'v>) -> Option<I> + Send + Sync + 'static,
) -> Extract {
    Box::new(move |key, value, out| {
        let key = decode_whole::<K>(key)?;
        let Some(index_key) = extract(&key, V::view(value)?) else { return Ok(false) };
        let start = out.len();
        index_key.encode(is_unique, out);
        check_length(I::NAME, start, out)
    })
}

/// Returns an extractor by columns.
pub(crate) fn column_extractor(columns: Arc<Columns>) -> Extract {
    Box::new(move |_, value, out| {
        let start = out.len();
        columns.extract(value, out)?;
        check_length("key", start, out)
    })
}

/// Checks the length of a key that was added to `out` after `start`.
fn check_length(name: &'static str, start: usize, out: &[u8]) -> Result<bool> {
    match out.len().checked_sub(start) {
        Some(0..=KEY_BYTES_MAX) => Ok(true),
        Some(bytes) => Err(Error::KeyTooLong { bytes, bytes_max: KEY_BYTES_MAX }),
        // The function has removed bytes that were there before.
        None => Err(Error::malformed(name, 0)),
    }
}

/// Takes a bound's memory.
fn take(bound: &mut Bound<Vec<u8>>) -> Vec<u8> {
    match std::mem::replace(bound, Bound::Unbounded) {
        Bound::Included(bytes) | Bound::Excluded(bytes) => bytes,
        Bound::Unbounded => Vec::new(),
    }
}

/// Changes `bytes` to the least bytes that are greater than all that begin with them. Returns false if there are
/// none.
fn step_over(bytes: &mut Vec<u8>) -> bool {
    while bytes.pop_if(|byte| *byte == u8::MAX).is_some() {}
    match bytes.last_mut() {
        Some(byte) => {
            *byte += 1;
            true
        }
        None => false,
    }
}

/// Returns the bounds of the entries whose index keys are in a range. If several rows may have the same index key,
/// the row's key follows it. The index key is then encoded so that no index key is the beginning of another. Returns
/// false if the range is empty.
pub(crate) fn encode_range<I: Key, A: AsKey<I>>(
    range: (Bound<&A>, Bound<&A>),
    is_unique: bool,
    from: &mut Bound<Vec<u8>>,
    to: &mut Bound<Vec<u8>>,
) -> Result<bool, Fault> {
    let mut has_rows = true;
    let mut encode =
        |bound: Bound<&A>, is_lower: bool, mut bytes: Vec<u8>| -> Result<Bound<Vec<u8>>, Fault> {
            let (Bound::Included(key) | Bound::Excluded(key)) = bound else { return Ok(Bound::Unbounded) };
            if is_unique {
                encode_sought(key, &mut bytes)?;
                return Ok(bound.map(|_| bytes));
            }
            encode_sought_part(key, &mut bytes);
            Ok(match (is_lower, matches!(bound, Bound::Included(_))) {
                (true, true) => Bound::Included(bytes),
                (false, false) => Bound::Excluded(bytes),
                (true, false) => {
                    has_rows = step_over(&mut bytes);
                    Bound::Included(bytes)
                }
                (false, true) => match step_over(&mut bytes) {
                    true => Bound::Excluded(bytes),
                    false => Bound::Unbounded,
                },
            })
        };
    *from = encode(range.0, true, take(from))?;
    *to = encode(range.1, false, take(to))?;
    Ok(has_rows)
}

/// Returns the bounds of the entries whose index keys, encoded with nothing after them, begin with `prefix`. Also
/// returns whether these are all entries between the bounds. If several rows may have the same index key, it is
/// encoded differently, because the row's key follows.
pub(crate) fn encode_prefix<I: Key>(
    prefix: &[u8],
    is_unique: bool,
    from: &mut Bound<Vec<u8>>,
    to: &mut Bound<Vec<u8>>,
) -> PrefixMatch {
    let (mut first, mut end) = (take(from), take(to));
    first.clear();
    let mut matches = match is_unique {
        _ if prefix.len() > KEY_BYTES_MAX => PrefixMatch::None,
        true => {
            first.extend_from_slice(prefix);
            PrefixMatch::All
        }
        false => I::encode_prefix(prefix, &mut first),
    };
    if first.len() > KEY_BYTES_MAX {
        matches = PrefixMatch::None;
    }
    end.clone_from(&first);
    *from = Bound::Included(first);
    *to = if step_over(&mut end) { Bound::Excluded(end) } else { Bound::Unbounded };
    matches
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that a range of index keys includes all rows under a key or none, for keys that are prefixes of one
    /// another and at the very end of the order.
    #[test]
    fn ranges() {
        let keys = ["", "\0", "a", "a\0", "a\u{1}", "ab"];
        let entry = |key: &str, row: u8| {
            let mut bytes = vec![];
            String::from(key).encode(false, &mut bytes);
            bytes.push(row);
            bytes
        };
        let bounds = |key| [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded];
        for (from, to) in keys.iter().flat_map(|a| keys.iter().map(move |b| (a, b))) {
            for (lower, upper) in bounds(from).into_iter().flat_map(|a| bounds(to).map(|b| (a, b))) {
                let (mut low, mut high) = (Bound::Unbounded, Bound::Unbounded);
                let some = encode_range::<String, &str>((lower, upper), false, &mut low, &mut high);
                assert!(some.expect("short keys"));
                let encoded = (low, high);
                for (key, row) in keys.iter().flat_map(|key| [(key, 0), (key, u8::MAX)]) {
                    let is_within = std::ops::RangeBounds::<&str>::contains(&(lower, upper), key);
                    let is_found = std::ops::RangeBounds::contains(&encoded, &entry(key, row));
                    assert_eq!(is_found, is_within, "{key:?} {row} in {lower:?} {upper:?}");
                }
            }
        }
        let (mut low, mut high) = (Bound::Unbounded, Bound::Unbounded);
        let last = Bound::Excluded(&u64::MAX);
        let some = encode_range::<u64, u64>((last, Bound::Unbounded), false, &mut low, &mut high);
        assert!(!some.expect("short keys"), "nothing comes behind the last key");
    }
}
