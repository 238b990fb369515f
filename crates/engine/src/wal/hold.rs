//! A reader's hold on the log: see [`holds`](super::holds).

use super::buffer::{Shared, State};
use super::{Lsn, Result};
use crate::sync::Arc;
use std::task::{Poll, Waker};

/// A reader's claim on the log from a position on. It lasts as long as the value exists.
pub struct Hold {
    shared: Arc<Shared>,
    id: u64,
    lsn: Lsn,
}

impl Hold {
    /// Takes a hold on the log from `lsn` on. An error says where the log now begins.
    pub(super) fn take(shared: &Arc<Shared>, lsn: Lsn) -> Result<Hold, Lsn> {
        let mut state = shared.state();
        let needed = state.truncate_before;
        let id = state.holds.take(lsn.0, needed)?;
        drop(state);
        Ok(Hold { shared: Arc::clone(shared), id, lsn })
    }

    /// Returns the position from which on the log is held.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Moves the hold to `lsn`, and releases everything before. An error says that the hold was cut, and where the
    /// log begins.
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

    /// Waits until something at or behind `lsn` is durable: wakes the task when it should ask again. A hold keeps
    /// only the latest waker. This does not hurry the flusher.
    pub fn poll_beyond(&self, lsn: Lsn, waker: &Waker) -> Poll<Result<()>> {
        let waker = waker.clone(); // foreign code: not called under the lock
        let mut state = self.shared.state();
        if state.is_durable(Lsn(lsn.0 + 1))? {
            return Poll::Ready(Ok(()));
        }
        let former = self.take_waker(&mut state);
        state.watchers.push((self.id, waker));
        drop(state);
        drop(former); // as above
        Poll::Pending
    }

    fn take_waker(&self, state: &mut State) -> Option<Waker> {
        let at = state.watchers.iter().position(|(id, _)| *id == self.id)?;
        Some(state.watchers.swap_remove(at).1)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if state.holds.remove(self.id) {
            state.has_request = true;
            self.shared.work.notify_one();
        }
        let waker = self.take_waker(&mut state);
        drop(state);
        drop(waker); // foreign code: not called under the lock
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("lsn", &self.lsn).finish_non_exhaustive()
    }
}
