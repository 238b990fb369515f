//! A submitted transaction that waits for its turn, as the worker's other transactions see it.

use crate::sync::Mutex;
use std::task::Waker;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaiterStage {
    Waiting,
    In,
}

/// Who waits, as the worker's other transactions see it. (Locked by one thread alone; but contexts, which hold
/// these, go from thread to thread.)
pub(crate) struct Waiter(pub(crate) Mutex<(WaiterStage, Option<Waker>)>);
