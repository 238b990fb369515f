//! Interactive transactions that look from outside, repeatedly, while other transactions run.

use crate::attempts::Attempts;
use crate::ledger::Ledger;
use crate::record::Outcome;
use crate::recording::Recording;
use crate::workload::Workload;
use braiddb::{ConcurrencyControl, Database, Error, Result, Transaction};
use std::cell::Cell;
use std::fmt;

/// The events that a workload has seen through an observer.
pub struct Look {
    /// A hash of what was seen. It must not change within one transaction.
    pub digest: u64,
    /// Called if the transaction commits, to check what holds only then.
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
    first: Cell<Option<u64>>,
}

impl<C: ConcurrencyControl> fmt::Debug for Observer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.seen.fmt(f)
    }
}

impl<C: ConcurrencyControl> Observer<C> {
    /// Begins a transaction and looks for the first time. Returns `None` if it was refused.
    pub(crate) fn open(
        database: &Database<C>,
        workload: &dyn Workload<C>,
        session: u32,
        ledger: &Ledger,
    ) -> Option<Self> {
        let transaction = database.begin().expect("few transactions are open");
        let attempts = Attempts::new(ledger, session);
        attempts.begin();
        let mut observer = Observer { transaction, attempts, seen: Look::from(0), first: Cell::new(None) };
        match observer.look(workload) {
            Ok(look) => observer.seen = look,
            Err(error) => {
                observer.give_up(&error);
                return None;
            }
        }
        Some(observer)
    }

    /// Returns the transaction.
    pub fn transaction(&self) -> &Transaction<C> {
        &self.transaction
    }

    /// Returns the number that the transaction's first look passed here: how much there was to look at.
    pub fn first(&self, number: u64) -> u64 {
        let first = self.first.get().unwrap_or(number);
        self.first.set(Some(first));
        first
    }

    /// Runs a closure in the transaction, with its operations recorded.
    pub fn recorded<R>(&self, f: impl AsyncFnOnce(&Recording<'_, C>) -> Result<R>) -> Result<R> {
        self.transaction.with(async |tx| f(&Recording::new(tx, &self.attempts)).await)
    }

    fn look(&self, workload: &dyn Workload<C>) -> Result<Look> {
        let ledger = self.attempts.ledger();
        let look = workload.look(self)?;
        ledger.count(|report| report.looks += 1);
        ledger.note(look.digest);
        Ok(look)
    }

    /// Looks again. It must see the same. Returns `None` if the transaction was refused.
    pub(crate) fn look_again(mut self, workload: &dyn Workload<C>) -> Option<Self> {
        let ledger = self.attempts.ledger();
        let looked = self.look(workload).and_then(|look| {
            ledger.check_open(look.digest == self.seen.digest, || {
                "an interactive transaction's snapshot has changed".into()
            })?;
            Ok(look)
        });
        match looked {
            Ok(look) => self.seen = look,
            Err(error) => {
                self.give_up(&error);
                return None;
            }
        }
        Some(self)
    }

    /// Ends a transaction that was refused, or that has seen something that must not be. In the second case it must not
    /// commit.
    fn give_up(self, error: &Error) {
        let ledger = self.attempts.ledger();
        let Error::User(seen) = error else {
            self.attempts.end(Outcome::Aborted);
            return ledger.refused("a look from outside", error);
        };
        match self.transaction.commit() {
            Ok(()) => ledger.check(false, || format!("a transaction has committed that saw this: {seen}")),
            Err(error) => ledger.refused("the commit of a reader", &error),
        }
        self.attempts.end(Outcome::Aborted);
    }

    /// Aborts, without waiting for other transactions.
    pub(crate) fn abort(self) {
        self.transaction.abort();
        self.attempts.end(Outcome::Aborted);
    }

    /// Commits the transaction.
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
