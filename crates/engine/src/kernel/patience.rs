//! Waiting, in calls of an application, for transactions that are open.

use super::{Engine, Inside};
use crate::cc::{ConcurrencyControl, InTheWay};
use crate::error::{Error, Result};
use crate::table::TableInner;
use std::time::Duration;

/// How often something in the way is waited for, and how long each time: a minute in all.
pub(crate) const WAITS_MAX: u32 = if cfg!(test) { 100 } else { 60_000 };
pub(crate) const WAIT: Duration = Duration::from_millis(1);

/// Lets others go on, before the caller looks again; it has waited so often.
pub(crate) fn pause(wait: u32) {
    if wait < 10 { std::thread::yield_now() } else { std::thread::sleep(WAIT) }
}

// ---- calls that wait
impl<C: ConcurrencyControl> Engine<C> {
    /// For a call that takes its time: [`Error::WouldDeadlock`] on the thread of a worker that runs a transaction, whose other
    /// transactions, and perhaps what is waited for, would stand still meanwhile.
    pub(crate) fn check_outside(&self) -> Result<()> {
        if Inside::is_here(self.id) { Err(Error::WouldDeadlock) } else { Ok(()) }
    }

    /// For a call that waits until open transactions have ended, before it changes anything: [`Error::WouldDeadlock`] also while one of
    /// these is the calling thread's.
    pub(crate) fn check_may_wait(&self) -> Result<()> {
        self.check_outside()?;
        match C::in_the_way(&self.shared, C::advance(&self.shared)) {
            InTheWay::Own => Err(Error::WouldDeadlock),
            InTheWay::Nothing | InTheWay::Others => Ok(()),
        }
    }

    /// Takes a lock whose holder may be waiting until open transactions have ended: `free` is the lock if it was free; otherwise `lock`
    /// waits for it, if the calling thread may wait.
    pub(crate) fn lock_or_refuse<G>(&self, free: Option<G>, lock: impl FnOnce() -> G) -> Result<G> {
        match free {
            Some(guard) => Ok(guard),
            None => self.check_may_wait().map(|()| lock()),
        }
    }

    /// Waits until all transactions have ended that began before this call. Returns false if one of them stays open;
    /// [`Error::WouldDeadlock`] if that is the calling thread's; [`Error::Closed`] if the database is closed meanwhile.
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

    /// The same, for a call that changes what can be done with a table: [`Error::TableInUse`] if one stays open.
    pub(crate) fn await_users(&self, table: &TableInner) -> Result<()> {
        match self.await_older()? {
            true => Ok(()),
            false => Err(Error::TableInUse { table: table.name() }),
        }
    }
}
