//! Execution: slots, workers, and the way in and out for other threads. Runs any future and does not know
//! what a transaction is, nor why an output may have to be held back; see README.md of this folder. Used
//! by `txn` (the contracts in `op.rs`) and `db`.

mod adapt;
mod batch_task;
mod bell;
mod blocking;
mod cell;
mod core;
mod event;
mod held;
mod hints;
mod inbox;
mod lead;
mod once;
mod op;
mod pin;
mod queue;
mod serve;
mod sleep;
mod slot;
mod source;
mod spawned;
mod stream;
mod task;
mod timed;
mod tune;
mod turns;
mod vacancy;
mod worker;

#[cfg(all(test, braid_loom))]
mod loom_tests;
#[cfg(test)]
mod tests;

pub use adapt::{BatchSize, Level, Style};
pub use batch_task::BatchTask;
pub use core::{Refill, WorkerOptions};
pub use held::{Fate, Stall};
pub use hints::Hint;
pub use inbox::Executor;
pub(crate) use lead::Lead;
pub use once::{Handle, Lost};
pub use op::{Counters, Host, Mailbox, Reading, Released};
pub use pin::pin_to_core;
pub use queue::{NotSpawned, Spawned};
pub use sleep::{Sleep, WakeFd};
pub use task::Task;
pub(crate) use turns::{TurnNumber, Turns};
pub use worker::{Step, Worker, WorkerProgress};
