//! A reader's hold on the log: see [`holds`](super::holds).

use super::Lsn;
use super::buffer::Shared;
use crate::sync::Arc;

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
        if !state.holds.move_to(self.id, lsn.0) {
            return Err(Lsn(state.holds.oldest(needed)));
        }
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
        if state.holds.remove(self.id) {
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
