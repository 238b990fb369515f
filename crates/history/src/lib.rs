//! A checker of the transactional histories of Braid or any other engine.
//!
//! A [`History`] says what each transaction read and wrote. [`check`] builds the direct serialization graph over the
//! versions (Adya, PhD thesis, MIT 1999) and reports the anomalies in it, each with a small cycle that shows it. The
//! order of versions comes from the engine's commit stamps, or from the values alone, as in Elle (Kingsbury and
//! Alvaro, VLDB 2020). The order by values catches an engine that lies. The cost is linear in the number of
//! operations, plus sorting.
//!
//! With [`Order::Values`], the order of some register versions cannot be known. The check may then miss anomalies, but
//! it never invents one. `docs/design/history-format.md` describes the file format and these limits.
//!
//! ```
//! use braid_history::{Class, History, Model, Op, Order, Transaction, check};
//!
//! let mut history = History::new();
//! for (id, read, write) in [(1, 10, 20), (2, 20, 10)] {
//!     let mut transaction = Transaction::new(id, id);
//!     transaction.push(Op::Read { key: read.into(), value: None });
//!     transaction.push(Op::Write { key: write.into(), value: Some(id as i64) });
//!     history.push(transaction);
//! }
//! let verdict = check(&history, Model::Serializable, Order::Values);
//! assert!(verdict.has(Class::WriteSkew));
//! assert!(check(&history, Model::SnapshotIsolation, Order::Values).holds());
//! ```
#![forbid(unsafe_code)]

mod accesses;
mod checker;
mod cycles;
mod edges;
mod facts;
pub mod generate;
mod graph;
mod json;
mod keys;
mod lists;
mod model;
mod registers;
mod verdict;

pub use checker::{Checker, check};
pub use json::{Problem, ReadError};
pub use model::{History, Key, Op, Status, Transaction};
pub use verdict::{Anomaly, Class, Dependency, Model, Order, Step, Verdict};

/// The most transactions in one history. Their numbers, and as many moments, must fit into 32 bits.
pub const TRANSACTIONS_MAX: usize = 1 << 30;
