//! Interactive transactions that look from outside, again and again, while others run.

use crate::ledger::Ledger;
use crate::record::{Attempts, Outcome};
use crate::recording::Recording;
use crate::workload::Workload;
use braiddb::{ConcurrencyControl, Database, Error, Result, Transaction};
use std::fmt;

/// What a workload has seen through an observer.
pub struct Look {
    /// A hash of it: within one transaction it must not change.
    pub digest: u64,
    /// Called if the transaction commits: for what holds only then.
    pub committed: Option<Box<dyn FnOnce()>>,
}

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Look").field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl From<u64> for Look {
    fn from(digest: u64) -> Look {
        Look { digest, committed: None }
    }
}

/// An open interactive transaction, and what it saw last.
pub struct Observer<C: ConcurrencyControl> {
    transaction: Transaction<C>,
    attempts: Attempts,
    seen: Look,
}

impl<C: ConcurrencyControl> fmt::Debug for Observer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.seen.fmt(f)
    }
}

impl<C: ConcurrencyControl> Observer<C> {
    /// Begins, and looks for the first time. `None`: it was refused.
    pub(crate) fn open(
        database: &Database<C>,
        workload: &dyn Workload<C>,
        session: u32,
        ledger: &Ledger,
    ) -> Option<Self> {
        let transaction = database.begin().expect("few transactions are open");
        let attempts = Attempts::new(ledger, session);
        attempts.begin();
        let mut observer = Observer { transaction, attempts, seen: Look::from(0) };
        observer.seen = observer.look(workload)?;
        Some(observer)
    }

    /// The transaction.
    pub fn transaction(&self) -> &Transaction<C> {
        &self.transaction
    }

    /// Runs a closure in the transaction, with its operations recorded.
    pub fn recorded<R>(&self, f: impl AsyncFnOnce(&Recording<'_, C>) -> Result<R>) -> Result<R> {
        self.transaction.with(async |tx| f(&Recording::new(tx, &self.attempts)).await)
    }

    fn look(&self, workload: &dyn Workload<C>) -> Option<Look> {
        let ledger = self.attempts.ledger();
        match workload.look(self) {
            Ok(look) => {
                ledger.count(|report| report.looks += 1);
                ledger.note(look.digest);
                Some(look)
            }
            Err(error) => {
                self.give_up(&error);
                None
            }
        }
    }

    fn give_up(&self, error: &Error) {
        self.attempts.end(Outcome::Aborted);
        self.attempts.ledger().refused("a look from outside", error);
    }

    /// Looks again, and must see the same. False: it was refused, and is to be dropped.
    pub(crate) fn look_again(&mut self, workload: &dyn Workload<C>) -> bool {
        let Some(look) = self.look(workload) else { return false };
        self.attempts.ledger().check(look.digest == self.seen.digest, || {
            "an interactive transaction's snapshot has changed".into()
        });
        self.seen = look;
        true
    }

    /// Commits.
    pub(crate) fn close(self) {
        match self.transaction.commit() {
            Ok(()) => {
                self.attempts.end(Outcome::Committed);
                if let Some(committed) = self.seen.committed {
                    committed();
                }
            }
            Err(error) => {
                self.attempts.end(Outcome::Aborted);
                self.attempts.ledger().refused("the commit of a reader", &error);
            }
        }
    }
}
