//! Runs the real engine in one thread, under a scheduler that decides everything from a seed: which worker continues,
//! which of its transactions, and whether this transaction suspends at a probable cache miss; when transactions begin,
//! are canceled, or are looked at from outside; and when garbage is collected. The same seed replays exactly.
//!
//! [`script`] runs small transactions whose steps meet in every order, and judges them by brute force.
//!
//! [`crash`] runs a durable database on a disk that crashes, and judges what recovery finds.
//!
//! [`storage`] is a disk that crashes and fails in the ways that the contract of [`braiddb::storage`] allows.
//!
//! A [`Workload`] says what the transactions do and what must hold. A [`Scheme`] names the concurrency control that
//! they run under and its promise. Called by the command `braid-lab sim` and by tests.
//!
//! ```
//! use braid_sim::{SCHEMES, Settings, WorkloadId};
//!
//! let settings = Settings { seed: 7, transactions: 50, ..Settings::default() };
//! for scheme in SCHEMES {
//!     for workload in WorkloadId::all() {
//!         let report = scheme.run(workload, &settings).expect("the engine keeps its promises");
//!         assert!(report.commits > 0);
//!     }
//! }
//! ```
#![forbid(unsafe_code)]

mod attempts;
pub mod crash;
mod isolation;
mod judge;
mod kind;
mod leak;
mod ledger;
mod observer;
mod random;
pub mod record;
mod recording;
mod replay;
mod scheduler;
mod scheme;
pub mod script;
pub mod storage;
mod submitter;
pub mod workload;

pub use isolation::Isolation;
pub use kind::Kind;
pub use ledger::{Ledger, Report};
pub use observer::{Look, Observer};
pub use random::Random;
pub use recording::{Lists, Recording, Rows};
pub use scheduler::{Settings, Violation, run};
pub use scheme::{SCHEMES, Scheme};
pub use submitter::Submitter;
pub use workload::{Entry, Workload, WorkloadId};
