//! How an application's calls wait for open transactions.

use super::{Engine, Inside};
use crate::cc::{ConcurrencyControl, InTheWay};
use crate::error::{Error, Result};
use crate::table::TableInner;
use std::time::Duration;

/// How often a call waits for an obstacle, and how long each time: a minute in all.
pub(crate) const WAITS_MAX: u32 = if cfg!(test) { 100 } else { 60_000 };
pub(crate) const WAIT: Duration = Duration::from_millis(1);

/// Lets other threads run before the caller checks again. `wait` is the number of waits so far.
pub(crate) fn pause(wait: u32) {
    if wait < 10 { std::thread::yield_now() } else { std::thread::sleep(WAIT) }
}

// ---- calls that wait
impl<C: ConcurrencyControl> Engine<C> {
    /// Returns [`Error::WouldDeadlock`] if the thread belongs to a worker that runs a transaction. A long call would
    /// stop the worker's other transactions, and perhaps what the call waits for.
    pub(crate) fn check_outside(&self) -> Result<()> {
        if Inside::is_here(self.id) { Err(Error::WouldDeadlock) } else { Ok(()) }
    }

    /// Checks that a call may wait until open transactions have ended, before it changes anything. Returns
    /// [`Error::WouldDeadlock`] also while the calling thread has such a transaction open.
    pub(crate) fn check_may_wait(&self) -> Result<()> {
        self.check_outside()?;
        match C::in_the_way(&self.shared, C::advance(&self.shared)) {
            InTheWay::Own => Err(Error::WouldDeadlock),
            InTheWay::Nothing | InTheWay::Others => Ok(()),
        }
    }

    /// Takes a lock whose holder may be waiting until open transactions have ended. `free` is the lock if it was free.
    /// Otherwise `lock` waits for it, if the calling thread may wait.
    pub(crate) fn lock_or_refuse<G>(&self, free: Option<G>, lock: impl FnOnce() -> G) -> Result<G> {
        match free {
            Some(guard) => Ok(guard),
            None => self.check_may_wait().map(|()| lock()),
        }
    }

    /// Waits until all transactions that began before this call have ended. Returns false if one of them stays open,
    /// [`Error::WouldDeadlock`] if that transaction is the calling thread's own, and [`Error::Closed`] if the database
    /// is closed meanwhile.
    pub(crate) fn await_older(&self) -> Result<bool> {
        self.check_outside()?;
        let now = C::advance(&self.shared);
        for wait in 0..WAITS_MAX {
            match C::in_the_way(&self.shared, now) {
                InTheWay::Nothing => return Ok(true),
                InTheWay::Own => return Err(Error::WouldDeadlock),
                InTheWay::Others => {}
            }
            self.check_open()?;
            pause(wait);
        }
        Ok(false)
    }

    /// Like [`await_older`](Self::await_older), for a call that changes what can be done with a table. Returns
    /// [`Error::TableInUse`] if a transaction stays open.
    pub(crate) fn await_users(&self, table: &TableInner) -> Result<()> {
        match self.await_older()? {
            true => Ok(()),
            false => Err(Error::TableInUse { table: table.name() }),
        }
    }
}
