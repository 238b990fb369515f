//! Where a workload's transactions go: onto a worker, counted, and recorded attempt by attempt.

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
    /// Transactions leak reads of rows of this table, by this seed and their number.
    pub(crate) idle: Table<u64, u64>,
    pub(crate) leak_seed: u64,
}

/// Rows of the table of which reads are leaked beside a transaction's own rows. They are there from the beginning to the end.
pub(crate) const IDLE_ROWS: u64 = 8;
/// Such reads after what a transaction does.
const IDLE_READS: u64 = 3;

impl<C: ConcurrencyControl> fmt::Debug for Submitter<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.worker.fmt(f)
    }
}

/// The transactions of a worker, by session: one after the other in each.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Vec<Session>);

#[derive(Debug)]
struct Session {
    spawned: Spawned,
    /// Of its last transaction, which has them as well until it has ended.
    attempts: Rc<Attempts>,
}

impl Sessions {
    /// The transaction that session number `number` has spawned last.
    pub(crate) fn spawned(&self, number: usize) -> Option<Spawned> {
        self.0.get(number).map(|session| session.spawned)
    }

    /// The number of the first session that has none open, perhaps one that is not there yet.
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

/// Goes with the transaction; dropped before its end, the transaction was cancelled.
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

    /// As [`spawn`](Self::spawn), with its operations recorded.
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
