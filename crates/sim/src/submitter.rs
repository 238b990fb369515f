//! Submits a workload's transactions to a worker, counts them, and records each attempt.

use crate::attempts::Attempts;
use crate::leak::Leaks;
use crate::ledger::Ledger;
use crate::record::Outcome;
use crate::recording::Recording;
use braiddb::suspend::Seeded;
use braiddb::worker::{Spawned, Worker};
use braiddb::{ConcurrencyControl, Error, Result, Table, Txn};
use std::fmt;
use std::rc::Rc;

pub(crate) type SimulatedWorker<C> = Worker<C, Seeded>;

/// A worker that has room for a workload's next transaction.
pub struct Submitter<'s, C: ConcurrencyControl> {
    pub(crate) worker: &'s mut SimulatedWorker<C>,
    /// The worker's number.
    pub(crate) at: usize,
    pub(crate) sessions: &'s mut Sessions,
    pub(crate) ledger: &'s Ledger,
    /// The table from which transactions leak reads, by `leak_seed` and the transaction's number.
    pub(crate) idle: Table<u64, u64>,
    pub(crate) leak_seed: u64,
}

/// Rows of the table from which reads are leaked in addition to a transaction's own rows. They never change.
pub(crate) const IDLE_ROWS: u64 = 8;
/// Leaked reads after the transaction's own work.
const IDLE_READS: u64 = 3;

impl<C: ConcurrencyControl> fmt::Debug for Submitter<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.worker.fmt(f)
    }
}

/// The transactions of a worker, by session. In each session they run one after another.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Vec<Session>);

#[derive(Debug)]
struct Session {
    spawned: Spawned,
    /// The attempts of its last transaction, which shares them until it has ended.
    attempts: Rc<Attempts>,
}

impl Sessions {
    /// Returns the transaction that session `number` has spawned last.
    pub(crate) fn spawned(&self, number: usize) -> Option<Spawned> {
        self.0.get(number).map(|session| session.spawned)
    }

    /// Returns the number of the first session without an open transaction. This session may not exist yet.
    fn free(&self) -> usize {
        let is_free = |session: &Session| Rc::strong_count(&session.attempts) == 1;
        self.0.iter().position(is_free).unwrap_or(self.0.len())
    }

    fn set(&mut self, number: usize, session: Session) {
        match self.0.get_mut(number) {
            Some(place) => *place = session,
            None => self.0.push(session),
        }
    }
}

/// Travels with the transaction. If it is dropped before the transaction has ended, the transaction was canceled.
struct Ending(Rc<Attempts>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl<C: ConcurrencyControl> Submitter<'_, C> {
    /// Begins a transaction. `committed` is called when its commit is acknowledged.
    pub fn spawn<R: 'static>(
        &mut self,
        mut body: impl AsyncFnMut(&Txn<C>) -> Result<R> + 'static,
        committed: impl FnOnce(R) + 'static,
    ) {
        self.spawn_recorded(async move |recording: &Recording<'_, C>| body(recording.tx()).await, committed);
    }

    /// Like [`spawn`](Self::spawn), with its operations recorded.
    pub fn spawn_recorded<R: 'static>(
        &mut self,
        mut body: impl AsyncFnMut(&Recording<'_, C>) -> Result<R> + 'static,
        committed: impl FnOnce(R) + 'static,
    ) {
        let number = self.sessions.free();
        let session = (self.at as u32) << 16 | number as u32;
        let attempts = Rc::new(Attempts::new(self.ledger, session));
        let (running, ending) = (attempts.clone(), Ending(attempts.clone()));
        let (leaks, idle) = (Leaks::seeded(self.leak_seed ^ self.ledger.report().transactions), self.idle);
        let whole = async move |tx: &Txn<C>| {
            running.begin();
            if let Some(leaks) = &leaks {
                leaks.read(tx, idle, 0).await;
            }
            let result = body(&Recording::new(tx, &running).leaking(leaks.as_ref())).await;
            if let Some(leaks) = &leaks {
                for key in 0..IDLE_READS {
                    leaks.read(tx, idle, key).await;
                }
            }
            if result.is_ok() {
                running.commits();
            }
            result
        };
        let ledger = self.ledger.clone();
        let spawned = self.worker.spawn(whole, move |result| {
            ending.0.end(match &result {
                Ok(_) => Outcome::Committed,
                Err(Error::User(_)) => Outcome::GaveUp,
                Err(_) => Outcome::Aborted,
            });
            if let Some(value) = ledger.ended(result) {
                committed(value);
            }
        });
        let spawned = spawned.expect("the scheduler has looked for room");
        self.sessions.set(number, Session { spawned, attempts });
        self.ledger.count(|report| report.transactions += 1);
    }
}
