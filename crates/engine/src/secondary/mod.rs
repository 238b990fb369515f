//! Secondary indexes: rows by what is in them.
//!
//! An index is a tree of its own whose entries are records, under the same rules as rows: the key is the encoded index
//! key, followed by the row's key where several rows may have the same; the value is the row's record id, followed by
//! the row's key where they may not. Whoever writes a row writes its entries in the same transaction (`ops/index_upkeep.rs`); readers
//! go from the entries that they see to the rows without a second descent (`scan_by`, `get_by`). `build` makes an index of
//! a table in use. Why that is sound is in `docs/design/secondary-indexes.md`.
//!
//! Invariants, of an index that is neither dead nor being built:
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
