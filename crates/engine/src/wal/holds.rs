//! What readers of changes hold of the log, which else would be given up.
//!
//! Invariants: what is given up lies before every hold; and a hold is taken only at a position that has not been given up. Both are
//! decided under the lock of the log's state.

use super::Lsn;
use super::buffer::Shared;
use crate::sync::Arc;

/// The holds on a log, and how far it has been given up.
#[derive(Debug)]
pub(super) struct Holds {
    /// Their numbers, and the positions from which on they hold.
    list: Vec<(u64, u64)>,
    next: u64,
    /// Everything before may be gone.
    given_up: u64,
}

impl Holds {
    /// None, on a log whose first segment begins here.
    pub(super) fn new(first_lsn: u64) -> Holds {
        Holds { list: Vec::new(), next: 0, given_up: first_lsn }
    }

    /// Where the log begins for those who come now, if the database needs it from `needed` on.
    pub(super) fn oldest(&self, needed: u64) -> u64 {
        let held = self.list.iter().map(|(_, lsn)| *lsn).min();
        self.given_up.max(needed.min(held.unwrap_or(needed)))
    }

    /// How much is kept for readers alone.
    pub(super) fn bytes(&self, needed: u64) -> u64 {
        needed.saturating_sub(self.oldest(needed))
    }

    /// Takes a hold; an error says where the log begins.
    fn take(&mut self, lsn: u64, needed: u64) -> Result<u64, Lsn> {
        let oldest = self.oldest(needed);
        if lsn < oldest {
            return Err(Lsn(oldest));
        }
        self.next += 1;
        self.list.push((self.next, lsn));
        Ok(self.next)
    }

    /// Gives up what nobody needs or holds, and says where that ends. Holds that keep more than `bytes_max` are cut.
    pub(super) fn give_up(&mut self, needed: u64, bytes_max: u64) -> Lsn {
        self.list.retain(|(_, lsn)| needed.saturating_sub(*lsn) <= bytes_max);
        self.given_up = self.oldest(needed);
        Lsn(self.given_up)
    }

    fn position(&self, id: u64) -> Option<usize> {
        self.list.iter().position(|(other, _)| *other == id)
    }
}

/// A claim of a reader on the log, from a position on, as long as it is there.
pub struct Hold {
    shared: Arc<Shared>,
    id: u64,
    lsn: Lsn,
}

impl Hold {
    /// On the log from `lsn` on. An error says where the log begins by now.
    pub(super) fn take(shared: &Arc<Shared>, lsn: Lsn) -> Result<Hold, Lsn> {
        let mut state = shared.state();
        let needed = state.truncate_before;
        let id = state.holds.take(lsn.0, needed)?;
        drop(state);
        Ok(Hold { shared: Arc::clone(shared), id, lsn })
    }

    /// From where on it holds.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Nothing before `lsn` is held any more. An error says that the hold was cut, and where the log begins.
    pub fn move_to(&mut self, lsn: Lsn) -> Result<(), Lsn> {
        debug_assert!(lsn >= self.lsn, "a reader goes forward");
        let mut state = self.shared.state();
        let needed = state.truncate_before;
        let Some(at) = state.holds.position(self.id) else { return Err(Lsn(state.holds.oldest(needed))) };
        state.holds.list[at].1 = lsn.0;
        if self.lsn.0 < needed {
            state.has_request = true; // there is something to give up
            self.shared.work.notify_one();
        }
        self.lsn = lsn;
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(at) = state.holds.position(self.id) {
            state.holds.list.swap_remove(at);
            state.has_request = true;
            self.shared.work.notify_one();
        }
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("lsn", &self.lsn).finish_non_exhaustive()
    }
}
