//! The operations of transactions: step machines, the slots that hold them while they are in flight, and the futures
//! that wait for them.
//!
//! A `get` takes three steps:
//! 1. The first poll of its future (`point_futures`) posts a step machine (`point`) into a slot of the transaction's
//!    state (`point_lookup`, `slots`).
//! 2. The worker steps the machine through the index and the record.
//! 3. The next poll takes the value out (`change`).
//!
//! The functions that the body of a transaction calls are compiled into it at each `await`. This is fast and makes much
//! code. With debug assertions they are called out of line (`cfg_attr(not(debug_assertions), inline(always))`), so
//! programs and tests are built in less than half the time.

mod at_commit;
mod attempt;
mod blocker;
mod bounded_wait;
mod change;
mod commit;
mod commit_updates;
mod declare_partitions;
mod encode;
mod entry_rows;
mod get_for_update;
mod get_many;
mod index_upkeep;
mod indexed_write;
mod inline;
mod last_insert;
mod late;
mod lifecycle;
mod malformed;
mod point;
mod point_futures;
mod point_lookup;
mod pool;
mod recent_reads;
#[cfg(all(test, not(braid_shuttle)))]
mod recent_reads_tests;
mod relief;
mod rollback;
#[cfg(feature = "stream")]
mod row_stream;
mod row_wait;
mod savepoints;
mod scan;
mod scan_batch;
mod slots;
mod state;

pub(crate) use blocker::Blocker;
pub use bounded_wait::SpinningWaits;
pub(crate) use bounded_wait::WorkerHere;
pub(crate) use commit::Commit;
pub use declare_partitions::DeclarePartitions;
pub use get_for_update::{Claim, GetForUpdate, SkipLocked};
pub use get_many::{GetInto, GetMany};
pub(crate) use malformed::{in_row, in_row_as};
pub(crate) use point::{Point, ROUNDS_BUSY, run_all};
pub use point_futures::{Contains, Delete, Get, Insert, Put, Update};
pub(crate) use point_lookup::PointLookup;
pub(crate) use relief::{RELIEF_ROUNDS_MAX, let_others_leave};
#[cfg(feature = "stream")]
pub use row_stream::RowStream;
pub(crate) use row_wait::{RowWait, Wait};
pub use savepoints::Savepoint;
pub use scan::{NextRow, Rows};
pub(crate) use state::{Op, TxnState};

/// Stands for the number of an operation slot: no slot.
pub(crate) const NO_SLOT: u8 = u8::MAX;
