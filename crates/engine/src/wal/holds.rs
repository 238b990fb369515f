//! Holds: what readers of changes keep of the log that would otherwise be given up.
//!
//! Invariants:
//!
//! - What is given up lies before every hold.
//! - A hold is taken only at a position that has not been given up.
//!
//! Both are decided under the lock of the log's state.

use super::Lsn;

/// The holds on a log, and the position up to which the log has been given up.
#[derive(Debug)]
pub(super) struct Holds {
    /// The holds' numbers, and the positions from which on they hold the log.
    list: Vec<(u64, u64)>,
    next: u64,
    /// Everything before this position may be gone.
    given_up: u64,
}

impl Holds {
    /// No holds, on a log whose first segment begins at `first_lsn`.
    pub(super) fn new(first_lsn: u64) -> Holds {
        Holds { list: Vec::new(), next: 0, given_up: first_lsn }
    }

    /// Returns where the log begins for readers that start now, if the database needs it from `needed` on.
    pub(super) fn oldest(&self, needed: u64) -> u64 {
        let held = self.list.iter().map(|(_, lsn)| *lsn).min();
        self.given_up.max(needed.min(held.unwrap_or(needed)))
    }

    /// Returns how many bytes are kept only for readers.
    pub(super) fn bytes(&self, needed: u64) -> u64 {
        needed.saturating_sub(self.oldest(needed))
    }

    /// Takes a hold and returns its number. An error says where the log begins.
    pub(super) fn take(&mut self, lsn: u64, needed: u64) -> Result<u64, Lsn> {
        let oldest = self.oldest(needed);
        if lsn < oldest {
            return Err(Lsn(oldest));
        }
        self.next += 1;
        self.list.push((self.next, lsn));
        Ok(self.next)
    }

    /// Gives up what is neither needed nor held, and returns where that ends. Holds that keep more than `bytes_max`
    /// are cut.
    pub(super) fn give_up(&mut self, needed: u64, bytes_max: u64) -> Lsn {
        self.list.retain(|(_, lsn)| needed.saturating_sub(*lsn) <= bytes_max);
        self.given_up = self.oldest(needed);
        Lsn(self.given_up)
    }

    /// Moves a hold forward. Returns false if it was cut.
    pub(super) fn move_to(&mut self, id: u64, lsn: u64) -> bool {
        let found = self.list.iter_mut().find(|(other, _)| *other == id);
        found.map(|(_, at)| *at = lsn).is_some()
    }

    /// Removes a hold. Returns false if it was cut.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        let found = self.list.iter().position(|(other, _)| *other == id);
        found.map(|at| self.list.swap_remove(at)).is_some()
    }
}
