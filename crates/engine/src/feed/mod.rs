//! What a database has committed, for programs that follow it: transactions with their changes, read from the log while it is
//! written. `db` makes readers; the design is in `docs/design/changes.md`.
//!
//! Invariants:
//! - What is given out is durable, and comes once and in the order of the log.
//! - What the log has from a reader's place on is not given up, as long as its hold is not cut; and if it is, that is an error.
//! - Tables are known by number: a change of a table comes behind what says what the table is.

mod change;
mod reader;
mod tables;

pub use change::{Change, ChangeIter, ChangeKind, ChangedTransaction};
pub use reader::Changes;
pub(crate) use reader::{Log, Source, oldest_lsn, open};
pub use tables::ChangedTable;
pub(crate) use tables::Tables;
