//! The feed of a database's commits, for programs that follow it: transactions with their changes, read from the log
//! while it is written. `db` makes readers. The design is in `docs/design/changes.md`.
//!
//! Invariants:
//! - Transactions that are given out are durable, and come once and in the order of the log.
//! - The log from a reader's place on is not given up as long as the reader's hold is not cut. If it is cut, that is
//!   an error.
//! - Tables are known by number. A change of a table comes after the record that describes the table.

mod change;
mod reader;
mod tables;

pub use change::{Change, ChangeIter, ChangeKind, ChangedTransaction};
pub use reader::Changes;
pub(crate) use reader::{Log, Source, oldest_lsn, open};
pub use tables::ChangedTable;
pub(crate) use tables::Tables;
