//! Rolling a transaction back to a savepoint.
//!
//! What is undone may still be borrowed, because the transaction was given the values. The scheme therefore keeps it
//! ([`ConcurrencyControl::rollback_to`]). But nothing that goes on may know a record or a version that is undone. A
//! rollback is therefore refused
//!
//! - while an operation is in flight,
//! - while a write or a multi-get is calling foreign code half-way,
//! - while a scan has rows left that it has found since the savepoint.
//!
//! A rollback forgets which rows were read or inserted last.

use super::savepoints::{Position, Savepoint};
use super::state::{SAVEPOINTS, TxnState, UPDATES};
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};

/// The most retired objects that an interactive transaction leaves from one rollback to the next.
const RETIRED_MAX: usize = 64;

impl<C: ConcurrencyControl> TxnState<C> {
    /// Returns the number of changes made so far.
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

    /// Undoes all changes of an attempt whose closure has failed. What these changes have told the attempt stays among
    /// its reads. Its futures are gone, or leaked and never polled again.
    #[cold]
    pub(crate) fn undo_failed(&self) -> Result<()> {
        self.cancel_operations();
        self.undo_changes(0, false)
    }

    /// Undoes all changes but the first `changes`. With `lent`, the closure may have been given their values.
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
        // Transactions that wait for rows that were given up here look again. The others wait on.
        C::waits(self.shared()).ended(self.place());
        // A worker reclaims between rounds. An interactive transaction does so here: nothing of it is in flight, which
        // was checked before.
        let local = &self.context().local;
        if self.is_interactive.get() && local.pending() >= RETIRED_MAX {
            local.refresh(None);
        }
        Ok(())
    }

    /// Forgets all updates left for the commit but the first `updates`.
    fn forget_updates(&self, updates: usize) {
        loop {
            let last = self.at_commits.borrow_mut().pop_beyond(updates);
            // Dropping a function is foreign code, which may use the transaction.
            let Some(_) = last else { break };
        }
        if self.at_commits.borrow().len() == 0 {
            self.unmark(UPDATES);
        }
    }

    /// Returns true if something that goes on knows of a change beyond the first `changes`: an operation in flight, a
    /// write that has called foreign code, a scan that has found rows which it has not returned, or the commit.
    fn knows_beyond(&self, changes: usize) -> bool {
        self.used.get() != 0
            || self.is_at_end.get()
            || self.upkeeps.lent().next().is_some()
            // SAFETY: none of the runs is in an operation slot, so they are not stepped.
            || self.runs.lent().any(|run| unsafe { &*run }.changes > changes)
    }
}
