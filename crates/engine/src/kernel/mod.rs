//! What all transactions of a database share (`Engine`), and what each worker has for its own (`Context`).

mod catalog;
mod engine;
mod foreign;
mod inside;
mod log;
mod patience;
mod spares;
mod tables;
mod waiter;

pub(crate) use catalog::{Request, Which, describe_table, open_table, restore_table};
pub(crate) use engine::{Context, Engine};
pub(crate) use foreign::guarded;
pub(crate) use inside::Inside;
pub(crate) use log::Log;
pub(crate) use patience::{WAIT, WAITS_MAX, pause};
pub(crate) use waiter::{Waiter, WaiterStage};
