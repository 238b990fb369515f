//! Typed values over bytes.

use super::definitions::Definitions;
use crate::error::{Error, Result};
use std::marker::PhantomData;

/// A type of values in a table: how a value is written, and how it is read in place.
///
/// Implemented for:
///
/// - numbers, `bool`, `char`, `()`, `str` and `[u8]`, which are read in place
/// - `String` and `Vec<u8>`, which are copied
/// - `[u8; N]`, [`Duration`](std::time::Duration), and types of the crates `uuid`, `jiff` and `chrono` with the
///   features of these names
/// - `Option`s, tuples and `Vec`s of these types, if they are sized ([`Field`](crate::Field))
/// - [`Plain`] structs, which are read in place
/// - with the feature `serde`, any type that serde supports (`Serde<T>`)
///
/// With the feature `derive`, `#[derive(Value)]` makes structs and enums values, with a name and versions that
/// outlast changes of the program.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value type",
    note = "values are numbers of a known size (`u64` rather than `usize`), `bool`, `char`, `String`, `str`, `Vec<u8>`, `[u8]`, `[u8; N]`, `Option`s, tuples and `Vec`s of these, `Plain<T>` and, with the feature serde, `Serde<T>`",
    note = "with the feature derive, `#[derive(Value)]` makes a struct or an enum a value type",
    note = "types of the crates uuid, jiff and chrono take the feature of that name"
)]
pub trait Value: 'static {
    /// The name of the type, in a word.
    const NAME: &'static str;
    /// Returns the type's whole name, which tells tables of different types apart.
    fn type_name() -> String {
        Self::NAME.into()
    }
    /// The version, if the type has versions.
    #[doc(hidden)]
    const VERSION: u16 = 0;
    /// Adds the definitions of the named types in values, for the catalog to keep. Adds none by default.
    /// `#[derive(Value)]` implements it.
    fn define(_to: &mut Definitions) {}
    /// The input of a write.
    type Input<'v>;
    /// The encoded bytes.
    type Encoded<'v>: AsRef<[u8]>;
    /// The result of a read: if possible a borrow, valid until the transaction ends.
    type View<'t>;
    /// Encodes a value.
    fn encode<'v>(input: Self::Input<'v>) -> Result<Self::Encoded<'v>>;
    /// Decodes a value.
    fn view(bytes: &[u8]) -> Result<Self::View<'_>>;
}

impl Value for [u8] {
    const NAME: &'static str = "bytes";
    type Input<'v> = &'v [u8];
    type Encoded<'v> = &'v [u8];
    type View<'t> = &'t [u8];
    #[inline(always)]
    fn encode<'v>(input: Self::Input<'v>) -> Result<Self::Encoded<'v>> {
        Ok(input)
    }
    #[inline(always)]
    fn view(bytes: &[u8]) -> Result<&[u8]> {
        Ok(bytes)
    }
}

impl Value for str {
    const NAME: &'static str = "string";
    type Input<'v> = &'v str;
    type Encoded<'v> = &'v str;
    type View<'t> = &'t str;
    fn encode<'v>(input: Self::Input<'v>) -> Result<Self::Encoded<'v>> {
        Ok(input)
    }
    fn view(bytes: &[u8]) -> Result<&str> {
        std::str::from_utf8(bytes).map_err(|_| Error::malformed("string", bytes.len()))
    }
}

impl Value for () {
    const NAME: &'static str = "nothing";
    type Input<'v> = ();
    type Encoded<'v> = [u8; 0];
    type View<'t> = ();
    fn encode<'v>((): Self::Input<'v>) -> Result<Self::Encoded<'v>> {
        Ok([])
    }
    fn view(bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() { Ok(()) } else { Err(Error::malformed("nothing", bytes.len())) }
    }
}

/// Copied when it is read, so a transaction's closure can return it. (`str` is read in place.)
impl Value for String {
    const NAME: &'static str = "string";
    type Input<'v> = &'v str;
    type Encoded<'v> = &'v str;
    type View<'t> = String;
    fn encode<'v>(input: Self::Input<'v>) -> Result<Self::Encoded<'v>> {
        Ok(input)
    }
    fn view(bytes: &[u8]) -> Result<String> {
        <str as Value>::view(bytes).map(String::from)
    }
}

impl<const N: usize> Value for [u8; N] {
    const NAME: &'static str = "byte array";
    fn type_name() -> String {
        format!("{N} bytes")
    }
    type Input<'v> = [u8; N];
    type Encoded<'v> = [u8; N];
    type View<'t> = [u8; N];
    fn encode<'v>(input: Self::Input<'v>) -> Result<Self::Encoded<'v>> {
        Ok(input)
    }
    fn view(bytes: &[u8]) -> Result<[u8; N]> {
        let malformed = |_| Error::malformed(<Self as Value>::NAME, bytes.len());
        bytes.try_into().map_err(malformed)
    }
}

macro_rules! number_values {
    ($($number:ty)*) => {$(
        impl Value for $number {
            const NAME: &'static str = stringify!($number);
            type Input<'v> = $number;
            type Encoded<'v> = [u8; size_of::<$number>()];
            type View<'t> = $number;
            #[inline(always)]
            fn encode<'v>(input: Self::Input<'v>) -> Result<Self::Encoded<'v>> {
                Ok(input.to_le_bytes())
            }
            #[inline(always)]
            fn view(bytes: &[u8]) -> Result<$number> {
                match bytes.try_into() {
                    Ok(bytes) => Ok(<$number>::from_le_bytes(bytes)),
                    Err(_) => Err(Error::malformed(Self::NAME, bytes.len())),
                }
            }
        }
    )*};
}
number_values! { u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 f32 f64 }

/// Plain-old-data structs, read in place without copying. `T` implements zerocopy's traits and needs an alignment of
/// at most 8 bytes.
///
/// ```
/// use braiddb::{Database, Options, Plain, Table};
/// use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// #[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
/// #[repr(C)]
/// struct Account { balance: i64, opened_day: u64 }
///
/// let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
/// let accounts: Table<u64, Plain<Account>> = db.table("accounts")?;
/// let mut worker = db.worker();
/// let balance = worker.run(async |tx| {
///     tx.put(accounts, 7, &Account { balance: 100, opened_day: 20_000 }).await?;
///     Ok(tx.get(accounts, 7).await?.map(|account| account.balance))
/// })?;
/// assert_eq!(balance, Some(100));
/// # Ok::<(), braiddb::Error>(())
/// ```
#[derive(Debug)]
pub struct Plain<T>(PhantomData<T>);

impl<T> Value for Plain<T>
where
    T: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::KnownLayout + zerocopy::Immutable + 'static,
{
    const NAME: &'static str = "plain struct";
    fn type_name() -> String {
        std::any::type_name::<T>().into()
    }
    type Input<'v> = &'v T;
    type Encoded<'v> = &'v [u8];
    type View<'t> = &'t T;
    fn encode<'v>(input: Self::Input<'v>) -> Result<Self::Encoded<'v>> {
        const { assert!(align_of::<T>() <= 8, "values are aligned to eight bytes") }
        Ok(input.as_bytes())
    }
    fn view(bytes: &[u8]) -> Result<&T> {
        T::ref_from_bytes(bytes).map_err(|_| Error::malformed(Self::NAME, bytes.len()))
    }
}

/// Any type that serde supports, as postcard bytes. Copied when it is read. Needs the feature `serde`.
///
/// ```
/// # use braiddb::{Database, Options, Serde, Table};
/// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
/// let tags: Table<u64, Serde<Vec<String>>> = db.table("tags")?;
/// let tx = db.begin()?;
/// tx.put(tags, 1, &vec!["red".to_string(), "round".to_string()])?;
/// assert_eq!(tx.get(tags, 1)?.map(|tags| tags.len()), Some(2));
/// # Ok::<(), braiddb::Error>(())
/// ```
#[cfg(feature = "serde")]
#[derive(Debug)]
pub struct Serde<T>(PhantomData<T>);

#[cfg(feature = "serde")]
impl<T: serde::Serialize + serde::de::DeserializeOwned + 'static> Value for Serde<T> {
    const NAME: &'static str = "serde";
    fn type_name() -> String {
        std::any::type_name::<T>().into()
    }
    type Input<'v> = &'v T;
    type Encoded<'v> = Vec<u8>;
    type View<'t> = T;
    fn encode<'v>(input: Self::Input<'v>) -> Result<Self::Encoded<'v>> {
        postcard::to_allocvec(input).map_err(Error::user)
    }
    fn view(bytes: &[u8]) -> Result<T> {
        postcard::from_bytes(bytes).map_err(|_| Error::malformed(Self::NAME, bytes.len()))
    }
}
