//! A transaction is rolled back to a savepoint.
//!
//! What is undone may still be borrowed, as values are that the transaction has been given: the scheme keeps it
//! ([`ConcurrencyControl::rollback_to`]). But nothing that goes on may know of a record or a version that is undone: so there is no
//! rollback while an operation is in flight, while a write or a multi-get is calling foreign code in the middle, or while a scan has rows
//! left of those that it has found since. What is remembered of rows that were read or inserted last is forgotten.

use super::savepoints::{Position, Savepoint};
use super::state::{SAVEPOINTS, TxnState, UPDATES};
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};

/// What an interactive transaction leaves retired from one rollback to the next.
const RETIRED_MAX: usize = 64;

impl<C: ConcurrencyControl> TxnState<C> {
    /// Changes made so far.
    pub(crate) fn changes(&self) -> usize {
        // SAFETY: not borrowed outside of single calls.
        C::savepoint(unsafe { &*self.scheme.get() })
    }

    fn position(&self) -> Position {
        Position { changes: self.changes(), updates: self.at_commits.borrow().len() }
    }

    /// See [`Txn::savepoint`](crate::Txn::savepoint).
    pub(crate) fn savepoint(&self) -> Savepoint {
        self.mark(SAVEPOINTS);
        let number = self.savepoints.borrow_mut().next();
        Savepoint { database: self.database, state: self.number, number, at: self.position() }
    }

    /// See [`Txn::rollback_to`](crate::Txn::rollback_to).
    pub(crate) fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        let Savepoint { database, state, number, at } = *savepoint;
        let is_own = database == self.database && state == self.number;
        if !is_own || !self.savepoints.borrow().has(number, at) {
            return Err(Error::NoSavepoint);
        }
        if let Some(fault) = self.doomed.get() {
            return Err(fault.into());
        }
        if self.knows_beyond(at.changes) {
            return Err(Error::OperationsInFlight);
        }
        if self.position() == at {
            return Ok(());
        }
        let reserved = self.savepoints.borrow_mut().reserve();
        reserved.map_err(|full| self.refuse(full.into()))?;
        self.undo_changes(at.changes, true)?;
        self.savepoints.borrow_mut().cut(at);
        self.forget_updates(at.updates);
        Ok(())
    }

    /// Undoes all changes of an attempt whose closure has failed, and keeps what they have told it among what it has read. Its
    /// futures are gone, or leaked and never polled again.
    #[cold]
    pub(crate) fn undo_failed(&self) -> Result<()> {
        self.cancel_operations();
        self.undo_changes(0, false)
    }

    /// Undoes the changes beyond the first so many, whose values may be `lent`.
    fn undo_changes(&self, changes: usize, lent: bool) -> Result<()> {
        if self.changes() == changes {
            return Ok(());
        }
        self.recent.clear();
        self.last_insert.clear();
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *self.scheme.get() };
        let undone = C::rollback_to(self.context().env(), txn, changes, lent);
        undone.map_err(|full| self.refuse(full.into()))?;
        debug_assert!(self.changes() == changes);
        // Those that wait for rows which it has given up look again, and wait on for the others.
        C::waits(self.shared()).ended(self.place());
        // On a worker that is done between rounds. (Nothing of an interactive transaction is in flight, as has been seen.)
        let local = &self.context().local;
        if self.is_interactive.get() && local.pending() >= RETIRED_MAX {
            local.refresh(None);
        }
        Ok(())
    }

    /// Forgets the updates that were left for the commit beyond the first so many.
    fn forget_updates(&self, updates: usize) {
        loop {
            let last = self.at_commits.borrow_mut().pop_beyond(updates);
            // (Dropping a function is foreign code, which may come back to the transaction.)
            let Some(_) = last else { break };
        }
        if self.at_commits.borrow().len() == 0 {
            self.unmark(UPDATES);
        }
    }

    /// Something that goes on knows of a change beyond the first so many: an operation in flight, a write that has called foreign
    /// code, a scan that has rows left of those that it has found; or the commit.
    fn knows_beyond(&self, changes: usize) -> bool {
        self.used.get() != 0
            || self.is_at_end.get()
            || self.upkeeps.lent().next().is_some()
            // SAFETY: none of them is in an operation slot, so they are not stepped.
            || self.runs.lent().any(|run| unsafe { &*run }.changes > changes)
    }
}
