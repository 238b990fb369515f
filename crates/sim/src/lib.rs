//! The real engine in one thread, under a scheduler that decides everything from a seed: which worker goes on,
//! which of its transactions, whether that one suspends at a probable cache miss, when transactions begin, are
//! cancelled, or are looked at from outside, and when garbage is collected. The same seed replays exactly.
//!
//! A [`Workload`] says what the transactions do and what must hold. Called by the command `braid sim` and by tests.
//!
//! ```
//! let settings = braid_sim::Settings { seed: 7, transactions: 50, ..Default::default() };
//! for make in braid_sim::WORKLOADS {
//!     let report = braid_sim::run(*make, &settings).expect("the engine keeps its promises");
//!     assert!(report.commits > 0);
//! }
//! ```
#![forbid(unsafe_code)]

mod ledger;
mod random;
mod scheduler;
pub mod workload;

pub use ledger::{Ledger, Report};
pub use random::Random;
pub use scheduler::{Settings, Stage, Violation, run};
pub use workload::{MakeWorkload, WORKLOADS, Workload};
