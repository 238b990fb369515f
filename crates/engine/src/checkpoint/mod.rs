//! The files of checkpoints: which database a directory holds, what is in a checkpoint, and the rows of its tables.
//! Also the mark of a database that was closed in order, [`Closed`].
//!
//! [`Identity`] is the file `database`. A checkpoint is a [`Manifest`], which names files of rows for each table, one
//! for each range of keys. A file may serve several checkpoints.
//!
//! - To write a checkpoint: a [`RowsWriter`] for each range that has changed, then [`publish`], then
//!   [`remove_unneeded`].
//! - To read a checkpoint: [`list`], [`read()`], and a [`RowsReader`] for each file.
//!
//! `docs/design/checkpoint-format.md` defines the formats. Nothing here knows what rows mean, or takes snapshots.
//!
//! Invariants:
//!
//! - A manifest that has its name is whole, and all files that it names are durable under their names, in every state
//!   that a crash can leave.
//! - A file is written once, by one writer, under a name that no earlier file had.
//! - `rows.checkpoint <= manifest.number`, `start_lsn <= end_lsn`.

mod block;
mod catalog;
mod checks;
mod closed;
mod error;
mod files;
mod format;
mod identity;
mod index_entry;
mod manifest;
mod planted;
mod read;
mod rows;
#[cfg(all(test, not(braid_shuttle)))]
mod tests;
mod unneeded;

pub use block::Rows;
pub use catalog::CatalogEntry;
pub use closed::Closed;
pub use error::{Error, Result};
pub use files::number_next;
pub use identity::Identity;
pub use index_entry::IndexEntry;
pub use manifest::{Manifest, RowsFile, RowsRange, TableEntry, claimed_database, list, publish, read};
pub use planted::Planted;
pub use read::{Block, RowsReader};
pub use rows::{RowsOf, RowsWriter};
pub use unneeded::{remove_unneeded, unneeded};

/// The version of the format that is written, and the only version that is read.
const VERSION: u32 = 1;

/// The name of the file [`Identity`].
const IDENTITY_FILE: &str = "database";
/// The name of the file [`Closed`].
const CLOSED_FILE: &str = "closed";
