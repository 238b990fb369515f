//! Execution: slots, workers, and the way in and out for other threads. It runs any future and does not know what a
//! transaction is, or why an output may have to be held back: see README.md of this folder. Used by `txn` (the
//! contracts in `contract.rs`) and `db`.

mod blocking;
mod cell;
mod contract;
mod core;
mod order;
mod panics;
mod pending_output;
mod pin;
mod profiled_round;
mod round;
mod sleep;
mod slot;
mod spawn_queue;
mod spawned;
mod stream;
mod submit;
mod tune;
mod vacancy;
mod wake;
mod worker;

#[cfg(all(test, braid_loom))]
mod loom_tests;
#[cfg(test)]
mod tests;

pub use contract::{Fate, Host, Operations, OutputGate, Released, Stall, Tuning};
pub use core::{Refill, WorkerOptions};
pub use order::hint::Hint;
pub(crate) use order::queue::{ConflictQueue, Ticket};
pub(crate) use panics::quietly;
pub use pin::pin_within_mask;
pub use spawn_queue::{NotSpawned, Spawned};
pub use submit::batch_task::BatchTask;
pub use submit::handle::{Handle, TaskError};
pub use submit::inbox::Executor;
pub use submit::job::Job;
pub use submit::submission::Submission;
pub use submit::task::Task;
pub(crate) use tune::group::SharedLevel;
pub(crate) use tune::level::Known;
pub use tune::level::{BatchSize, Execution, Level};
pub use tune::measure::{Counters, Reading};
pub use wake::event_sleep::{Sleep, WakeFd};
pub use worker::{Step, Worker, WorkerProgress};
