//! The transaction: what a closure sees (`handle`), how its operations travel through its slot
//! (`mailbox`, `point`, `run`), and its life from begin to commit (`drive`, `owned`).
//!
//! In the order in which a `get` goes: `handle` makes a future (`point_futures`); polled, it posts
//! a step machine (`point`) in the mailbox; the worker steps that through index and version chain;
//! polled again, the future takes the result out.

mod attempt;
mod drive;
mod engine;
mod fault;
mod follow;
mod handle;
mod host;
mod in_place;
mod key;
mod lock;
mod mailbox;
mod many;
mod owned;
mod point;
mod point_futures;
mod point_read;
mod pool;
mod raw_table;
mod recent;
#[cfg(all(test, not(braid_shuttle)))]
mod recent_tests;
mod replay;
mod restore;
#[cfg(all(test, not(braid_shuttle)))]
mod restore_tests;
mod row_wait;
mod rows;
mod run;
mod secondary;
mod table;
mod turn;
mod value;

pub(crate) use drive::{Closure, Each, drive};
pub(crate) use engine::{Context, Engine, Log};
pub use handle::Txn;
pub(crate) use host::WorkerHost;
pub use key::{AsKey, KEY_BYTES_MAX, Key};
pub use lock::{Claim, GetForUpdate, SkipLocked};
pub use many::{GetInto, GetMany};
pub use owned::{OwnedRows, Transaction};
pub use point_futures::{Contains, Delete, Get, Insert, Put, Update};
pub use point_read::Probe;
pub(crate) use point_read::{PointRead, Rounds};
pub use raw_table::{RawRows, RawTable};
pub(crate) use replay::{Feed, for_each_parallel, replay};
pub(crate) use restore::resume;
pub use rows::{NextRow, Rows};
pub(crate) use secondary::{Declared, extractor, open as open_index};
pub use secondary::{GetBy, Index, IndexRows, NextIndexRow, OwnedIndexRows};
pub use table::Table;
pub use table::TableOptions;
pub(crate) use table::{TableInner, TableKind, open as open_table, restore as restore_table};
pub(crate) use turn::drive_in_turn;
#[cfg(feature = "serde")]
pub use value::Serde;
pub use value::{Plain, Value};
