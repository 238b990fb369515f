//! A submitted transaction that waits for its turn, as the worker's other transactions see it.

use crate::sync::Mutex;
use std::task::Waker;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaiterStage {
    Waiting,
    In,
}

/// A waiting transaction's stage, and its waker. Only one thread takes the lock. The lock is needed because contexts,
/// which hold waiters, move between threads.
pub(crate) struct Waiter(pub(crate) Mutex<(WaiterStage, Option<Waker>)>);
