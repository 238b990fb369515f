//! Waiting, in calls of an application, for transactions that are open.

use super::Engine;
use crate::cc::ConcurrencyControl;
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

impl<C: ConcurrencyControl> Engine<C> {
    /// Waits until all transactions have ended that began before this call. Returns false if one of them stays open;
    /// [`Error::Closed`] if the database is closed meanwhile.
    pub(crate) fn await_older(&self) -> Result<bool> {
        let now = C::advance(&self.shared);
        for wait in 0..WAITS_MAX {
            if C::oldest(&self.shared) >= now {
                return Ok(true);
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
