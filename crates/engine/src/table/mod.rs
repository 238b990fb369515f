//! Tables: the encoding of typed keys and values, tables and their secondary indexes, the columns of indexes that the
//! database keeps, and the handles that an application uses.

#[cfg(feature = "chrono")]
mod chrono_types;
mod columns;
mod definitions;
#[cfg(feature = "derive")]
mod derived;
mod description;
mod fault;
mod field_type;
mod fields;
mod fixed;
mod handle;
mod inner;
#[cfg(feature = "jiff")]
mod jiff_types;
mod key;
mod key_types;
mod kind;
#[cfg(any(feature = "jiff", feature = "chrono"))]
mod moment;
mod number;
mod partition;
mod shape;
#[cfg(feature = "uuid")]
mod uuid_types;
mod value;
mod variants;

pub(crate) use columns::Columns;
pub use definitions::Definitions;
#[cfg(feature = "derive")]
pub use derived::{Decoder, Encoder, is_same};
pub(crate) use description::{Description, TableState};
pub use description::{IndexColumn, IndexInfo};
pub(crate) use fault::Fault;
pub use fields::{Field, OwnedField};
pub use handle::{Index, Table};
pub(crate) use inner::{
    Allowed, BUILDING, DEAD, Extract, Function, INDEXES_MAX, IndexInner, Indexes, ProjectionPart, TableInner,
    split_entry,
};
pub use key::{AsKey, Key, KeyAs, PrefixMatch};
pub(crate) use key::{decode_whole, encode_sought, encode_sought_part, encode_whole, index_key};
pub use kind::TableOptions;
pub(crate) use kind::{TableKind, unlike};
pub use number::{NewValue, Number};
pub use partition::Partition;
pub(crate) use partition::leading;
#[cfg(feature = "serde")]
pub use value::Serde;
pub use value::{Plain, Value};
pub(crate) use variants::joined as joined_types;

/// The length of the longest key, encoded, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;

/// The expected type of a key in tables whose keys have eight bytes, for errors.
pub(crate) const KEY_OF_EIGHT: &str = "key of eight bytes";
