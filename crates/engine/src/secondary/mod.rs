//! Secondary indexes: rows by their contents.
//!
//! An index is a tree of its own. Its entries are records, under the same rules as rows. In an index that is not
//! unique, an entry's key is the encoded index key followed by the row's key, and its value is the row's record id.
//! In a unique index, the key is the index key alone, and the value is the record id followed by the row's key.
//!
//! A writer of a row writes the row's entries in the same transaction (`ops/index_upkeep.rs`). Readers go from the
//! entries that they see to the rows without a second descent (`scan_by`, `get_by`). `build` makes an index of a
//! table in use. Why this is sound is in `docs/design/secondary-indexes.md`.
//!
//! Invariants of an index that is neither dead nor being built:
//! - A snapshot sees an entry exactly if it sees a row with that index key, under that key, in that record.
//! - Entries are in no log and no checkpoint: their trees have the number `DERIVED`.

mod build;
mod extract;
mod get_by;
mod scan_by;

pub(crate) use build::{Declared, open_index};
pub(crate) use extract::{column_extractor, extractor};
pub use get_by::GetBy;
pub use scan_by::{IndexRows, NextIndexRow, OwnedIndexRows};
