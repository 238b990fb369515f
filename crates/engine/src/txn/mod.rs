//! The transaction: what a closure sees ([`Txn`]), a transaction that its caller drives ([`Transaction`]), and how a
//! closure is run until it commits.

mod composed;
mod empty_table;
mod in_turn;
mod raw_table;
mod run_calls;
mod run_to_commit;
mod savepoint;
mod table_keys;
mod transaction;
#[allow(clippy::module_inception, reason = "the file does what the folder is for")]
mod txn;
mod worker_host;

pub(crate) use empty_table::{clear_table, delete_entries, drop_index, drop_table};
pub(crate) use in_turn::run_in_turn;
pub(crate) use raw_table::for_each_between;
pub use raw_table::{RawRows, RawTable};
pub(crate) use run_calls::run_calls;
pub(crate) use run_to_commit::{Closure, Each, run_to_commit};
pub(crate) use table_keys::TableKeys;
pub use transaction::{OwnedRows, Transaction};
pub use txn::Txn;
pub(crate) use worker_host::WorkerHost;
