//! Typed keys: an encoding to bytes whose order is the order of the keys. The types are in `key_types` and its
//! neighbors.

use super::KEY_BYTES_MAX;
use super::fault::Fault;
use crate::error::{Error, Result};
use crate::index;

/// A type of keys, ordered as its values are.
///
/// Implemented for fixed-size integers, `bool`, `char`, `String`, `Vec<u8>`, arrays and `Option`s of keys, tuples of
/// two to twelve keys, [`Duration`](std::time::Duration), and types of the crates `uuid`, `jiff` and `chrono` with
/// the features of these names. To use a type of your own, implement [`KeyAs`].
///
/// These types are not keys:
///
/// - `usize` and `isize`, because their size depends on the platform.
/// - Floating-point numbers, because their order does not agree with `==`.
/// - Times with a zone, because their order leaves out the zone.
/// - [`SystemTime`](std::time::SystemTime), because its range and resolution depend on the system.
///
/// A type that implements `Key` directly is passed by reference (`tx.get(table, &key)`, `tx.scan::<_, _,
/// &Word>(table, &from..&to)`). Implement [`AsKey`] to also pass it by value. An implementation may contradict
/// itself: keys of another length than `FIXED8` says, a [short form](AsKey::short) that differs from the encoding, or
/// an encoding that varies. Operations on its own tables then fail or find other rows than intended. It does no other
/// harm.
///
/// ```
/// use braiddb::Key;
/// let encoded = |key: (u32, String)| { let mut out = vec![]; key.encode(true, &mut out); out };
/// assert!(encoded((1, "b".into())) < encoded((2, "a".into())));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key type",
    note = "keys are integers of a known size (`u64` rather than `usize`), `bool`, `char`, `String`, `Vec<u8>`, arrays, `Option`s and tuples of keys, and types that implement `KeyAs`",
    note = "with the feature derive, `#[derive(Key)]` makes a struct or an enum a key type",
    note = "types of the crates uuid, jiff and chrono take the feature of that name"
)]
pub trait Key: Sized {
    /// True if every key of the type is eight bytes long, which the index uses.
    const FIXED8: bool = false;
    /// The type's name, in a word.
    const NAME: &'static str;
    /// Returns the type's whole name, which tells tables of different types apart.
    fn type_name() -> String {
        Self::NAME.into()
    }
    /// Appends the encoding. `last`: nothing follows in the same key. An encoding that something may follow is never
    /// the beginning of another one.
    fn encode(&self, last: bool, out: &mut Vec<u8>);
    /// Takes a key off the front of `bytes`.
    fn decode(last: bool, bytes: &mut &[u8]) -> Option<Self>;
    /// Returns the key as [`AsKey::short`] does. `None`, the default, is always right.
    #[inline(always)]
    fn short_form(&self) -> Option<(u64, u32)> {
        None
    }

    /// Appends the common beginning of the encodings without `last` of all keys whose encodings with `last` begin
    /// with `prefix`. If the relation between a type's two encodings is not known here, it appends nothing, and the
    /// keys are compared one by one.
    #[doc(hidden)]
    fn encode_prefix(prefix: &[u8], _out: &mut Vec<u8>) -> PrefixMatch {
        if prefix.is_empty() { PrefixMatch::All } else { PrefixMatch::Some }
    }
    /// Moves a key that something follows from the front of `prefix` to `out`. If `prefix` ends before the key does,
    /// or no key begins like that, everything is moved and there is no key.
    #[doc(hidden)]
    fn encode_prefix_part(prefix: &mut &[u8], out: &mut Vec<u8>) -> Option<Self> {
        let all = *prefix;
        let key = Self::decode(false, prefix);
        // A type's own code may have replaced the slice that it was to shorten.
        let taken = all.len().checked_sub(prefix.len()).filter(|_| key.is_some());
        out.extend_from_slice(&all[..taken.unwrap_or(all.len())]);
        taken.and(key)
    }

    /// Arrays of this type are byte strings. True only for `u8`.
    #[doc(hidden)]
    const IS_BYTE: bool = false;
    /// Appends an array's encoding.
    #[doc(hidden)]
    fn encode_array<const N: usize>(keys: &[Self; N], last: bool, out: &mut Vec<u8>) {
        for (at, key) in keys.iter().enumerate() {
            key.encode(last && at + 1 == N, out);
        }
    }
    /// Takes an array off the front.
    #[doc(hidden)]
    fn decode_array<const N: usize>(last: bool, bytes: &mut &[u8]) -> Option<[Self; N]> {
        let keys: Option<Vec<Self>> = (0..N).map(|at| Self::decode(last && at + 1 == N, bytes)).collect();
        keys?.try_into().ok()
    }
    /// Returns an array's short form.
    #[doc(hidden)]
    #[inline(always)]
    fn short_array<const N: usize>(_: &[Self; N]) -> Option<(u64, u32)> {
        None
    }
}

/// The keys whose beginning [`Key::encode_prefix`] has found.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixMatch {
    /// Exactly the keys with the prefix begin like that.
    All,
    /// The keys with the prefix begin like that, and so may others.
    Some,
    /// No key has the prefix.
    None,
}

impl PrefixMatch {
    /// Copies a prefix of encodings that always have this length, whether or not something follows.
    pub(super) fn of_fixed(bytes: usize, prefix: &[u8], out: &mut Vec<u8>) -> PrefixMatch {
        out.extend_from_slice(prefix);
        if prefix.len() > bytes { PrefixMatch::None } else { PrefixMatch::All }
    }
}

/// A stand-in for a `K` in lookups: `&str` for `String`, `&[u8]` for `Vec<u8>`, a reference for any `K`, …
///
/// Your own types of keys do not have to implement it: see [`Key`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand for a key of type `{K}`",
    note = "a reference can: `&key`"
)]
pub trait AsKey<K: Key> {
    /// Returns the key as (bytes in the high end, length) if it is known to be at most eight bytes long. The bytes
    /// are those that [`encode_as`](Self::encode_as) writes with `last`.
    #[inline(always)]
    fn short(&self) -> Option<(u64, u32)> {
        None
    }
    /// Appends the encoding, like [`Key::encode`].
    fn encode_as(&self, last: bool, out: &mut Vec<u8>);
}

impl<K: Key> AsKey<K> for &K {
    #[inline(always)]
    fn short(&self) -> Option<(u64, u32)> {
        (**self).short_form()
    }
    fn encode_as(&self, last: bool, out: &mut Vec<u8>) {
        (**self).encode(last, out);
    }
}

/// A type whose values stand for keys of another type: an identifier type for each table, or a struct for a tuple.
///
/// The type is then a [`Key`], ordered like the keys that its values stand for. Operations take it by value and by
/// reference. Its tables are stored as tables of the other type, and either type opens them. Arrays are an exception:
/// `[T; N]` is not `[u8; N]` if `T` stands for `u8`.
///
/// ```
/// use braiddb::{Database, KeyAs, Options, Table};
///
/// #[derive(Debug, PartialEq)]
/// struct Place { sheet: u32, row: u64 }
///
/// impl KeyAs for Place {
///     type As = (u32, u64);
///     fn to_key(&self) -> (u32, u64) {
///         (self.sheet, self.row)
///     }
///     fn from_key((sheet, row): (u32, u64)) -> Option<Place> {
///         Some(Place { sheet, row })
///     }
/// }
///
/// let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
/// let cells: Table<Place, str> = db.table("cells")?;
/// let tx = db.begin()?;
/// tx.put(cells, Place { sheet: 1, row: 7 }, "seven")?;
/// tx.put(cells, &Place { sheet: 2, row: 1 }, "one")?;
/// let mut rows = tx.scan(cells, Place { sheet: 2, row: 0 }..);
/// assert_eq!(rows.next()?, Some((Place { sheet: 2, row: 1 }, "one")));
/// # Ok::<(), braiddb::Error>(())
/// ```
pub trait KeyAs: Sized {
    /// The type of keys that its values stand for.
    type As: Key;
    /// Returns the key that this value stands for.
    fn to_key(&self) -> Self::As;
    /// Returns the value that stands for a key. `None` if there is none, which makes stored bytes
    /// [`Error::Malformed`].
    fn from_key(key: Self::As) -> Option<Self>;
}

impl<T: KeyAs> Key for T {
    const FIXED8: bool = T::As::FIXED8;
    const NAME: &'static str = T::As::NAME;
    fn type_name() -> String {
        T::As::type_name()
    }
    fn encode(&self, last: bool, out: &mut Vec<u8>) {
        self.to_key().encode(last, out);
    }
    fn decode(last: bool, bytes: &mut &[u8]) -> Option<Self> {
        T::from_key(T::As::decode(last, bytes)?)
    }
    fn encode_prefix(prefix: &[u8], out: &mut Vec<u8>) -> PrefixMatch {
        T::As::encode_prefix(prefix, out)
    }
    #[inline(always)]
    fn short_form(&self) -> Option<(u64, u32)> {
        self.to_key().short_form()
    }
}

impl<T: KeyAs> AsKey<T> for T {
    #[inline(always)]
    fn short(&self) -> Option<(u64, u32)> {
        self.short_form()
    }
    fn encode_as(&self, last: bool, out: &mut Vec<u8>) {
        self.encode(last, out);
    }
}

/// So many bytes of a sought key give its place among the keys of rows. A longer key is none of them.
const SOUGHT_BYTES_MAX: usize = KEY_BYTES_MAX + 1;

/// Encodes the whole key of a row into `out` and checks its length.
pub(crate) fn encode_whole<K: Key>(key: &impl AsKey<K>, out: &mut Vec<u8>) -> Result<(), Fault> {
    encode_any(key, out)?;
    match out.len() {
        0..=KEY_BYTES_MAX => Ok(()),
        bytes => Err(Fault::KeyTooLong { bytes }),
    }
}

/// Encodes a sought key, or a bound of keys. A key that is too long belongs to no row, but has a place in the order.
/// It is cut after the bytes that distinguish it from every row's key.
pub(crate) fn encode_sought<K: Key>(key: &impl AsKey<K>, out: &mut Vec<u8>) -> Result<(), Fault> {
    encode_any(key, out)?;
    out.truncate(SOUGHT_BYTES_MAX);
    Ok(())
}

fn encode_any<K: Key>(key: &impl AsKey<K>, out: &mut Vec<u8>) -> Result<(), Fault> {
    out.clear();
    key.encode_as(true, out);
    match out.len() {
        bytes if K::FIXED8 && bytes != 8 => Err(Fault::KeyNotOfEight { bytes }),
        _ => Ok(()),
    }
}

/// Encodes a bound that something follows, and cuts it in the same way.
pub(crate) fn encode_sought_part<K: Key>(key: &impl AsKey<K>, out: &mut Vec<u8>) {
    out.clear();
    key.encode_as(false, out);
    out.truncate(SOUGHT_BYTES_MAX);
}

/// Decodes a whole key.
#[inline]
pub(crate) fn decode_whole<K: Key>(mut bytes: &[u8]) -> Result<K> {
    let all = bytes.len();
    match K::decode(true, &mut bytes) {
        Some(key) if bytes.is_empty() => Ok(key),
        _ => Err(Error::malformed(K::NAME, all)),
    }
}

/// Returns the index's form of encoded bytes. The bytes must stay in place as long as it is used.
pub(crate) fn index_key(bytes: &[u8]) -> index::Key {
    let head = bytes.len().min(8);
    let mut word = [0; 8];
    word[..head].copy_from_slice(&bytes[..head]);
    index::Key { slice: u64::from_be_bytes(word), len: bytes.len() as u32, bytes: bytes.as_ptr() }
}
