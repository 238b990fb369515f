//! Where a workload's transactions go: onto a worker, counted, and recorded attempt by attempt.

use crate::ledger::Ledger;
use crate::record::{Attempts, Outcome};
use crate::recording::Recording;
use crate::scheduler::SimulatedWorker;
use braiddb::{ConcurrencyControl, Result, Txn};
use std::fmt;
use std::rc::Rc;

/// A worker that has room for a workload's next transaction.
pub struct Stage<'s, C: ConcurrencyControl> {
    pub(crate) worker: &'s mut SimulatedWorker<C>,
    /// The worker's number.
    pub(crate) at: usize,
    pub(crate) ledger: &'s Ledger,
}

impl<C: ConcurrencyControl> fmt::Debug for Stage<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.worker.fmt(f)
    }
}

/// Goes with the transaction; dropped before its end, the transaction was cancelled.
struct Ending(Rc<Attempts>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl<C: ConcurrencyControl> Stage<'_, C> {
    /// Begins a transaction. `committed` is called when its commit is acknowledged.
    pub fn spawn<R: 'static>(
        &mut self,
        mut body: impl AsyncFnMut(&Txn<C>) -> Result<R> + 'static,
        committed: impl FnOnce(R) + 'static,
    ) {
        self.spawn_recorded(async move |recording: &Recording<'_, C>| body(recording.tx()).await, committed);
    }

    /// As [`spawn`](Self::spawn), with its operations recorded.
    pub fn spawn_recorded<R: 'static>(
        &mut self,
        mut body: impl AsyncFnMut(&Recording<'_, C>) -> Result<R> + 'static,
        committed: impl FnOnce(R) + 'static,
    ) {
        let attempts = Rc::new(Attempts::new(self.ledger, 0));
        let (running, ending) = (attempts.clone(), Ending(attempts.clone()));
        let whole = async move |tx: &Txn<C>| {
            running.begin();
            let result = body(&Recording::new(tx, &running)).await;
            if result.is_ok() {
                running.commits();
            }
            result
        };
        let ledger = self.ledger.clone();
        let slot = self.worker.spawn(whole, move |result| {
            ending.0.end(if result.is_ok() { Outcome::Committed } else { Outcome::Aborted });
            if let Some(value) = ledger.ended(result) {
                committed(value);
            }
        });
        let slot = slot.expect("the scheduler has looked for room");
        attempts.set_session((self.at as u32) << 16 | slot as u32);
        self.ledger.count(|report| report.transactions += 1);
    }
}
