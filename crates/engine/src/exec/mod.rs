//! Execution: slots, workers, and the way in and out for other threads. Runs any future and does not know
//! what a transaction is, nor why an output may have to be held back; see README.md of this folder. Used
//! by `txn` (the contracts in `op.rs`) and `db`.

mod batch_task;
mod bell;
mod blocking;
mod cell;
mod core;
mod held;
mod inbox;
mod once;
mod op;
mod pin;
mod serve;
mod slot;
mod stream;
mod task;
mod worker;

#[cfg(test)]
mod tests;

pub use batch_task::BatchTask;
pub use core::{Refill, WorkerOptions};
pub use held::Fate;
pub use inbox::Executor;
pub use once::{Handle, Lost};
pub use op::{Host, Mailbox, Pulse, Released};
pub use pin::pin_to_core;
pub use task::Task;
pub use worker::{Step, Worker};
