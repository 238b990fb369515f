//! A transaction that has left its snapshot for the present, to make the updates that it has left for its commit.
//!
//! Each update locks its row and looks at the newest value under the lock. A row that is overwritten next needs no note, as one that
//! is overwritten in the snapshot needs none; a row that the update has left as it is has been read, and is noted when the
//! transaction comes back to its snapshot to be judged.

use super::{Shared, Tracker, Txn, Write};
use crate::record::{Timestamp, VersionKind};

/// In place of a snapshot: it has not been left.
const NOT_LEFT: Timestamp = Timestamp(0);

/// One per transaction, reused.
#[derive(Debug)]
pub(super) struct Present {
    /// The snapshot that it has left, to come back to when it is prepared.
    left: Timestamp,
    /// It has been in the present, and can only be ordered where it commits.
    pub(super) is_late: bool,
}

impl Present {
    /// In the snapshot.
    pub(super) const fn new() -> Present {
        Present { left: NOT_LEFT, is_late: false }
    }

    /// From here on all that has committed is visible; `begin` is the transaction's.
    pub(super) fn enter(&mut self, begin: &mut Timestamp) {
        debug_assert!(self.left == NOT_LEFT && *begin < Timestamp::LAST);
        self.left = std::mem::replace(begin, Timestamp::LAST);
        self.is_late = true;
    }

    /// Comes back to the snapshot, if that was left. Returns true if it was.
    #[inline(always)]
    pub(super) fn leave(&mut self, begin: &mut Timestamp) -> bool {
        let was_left = self.left != NOT_LEFT;
        if was_left {
            *begin = std::mem::replace(&mut self.left, NOT_LEFT);
        }
        was_left
    }
}

impl<T: Tracker> Txn<T> {
    /// It may have changed what was committed after its snapshot.
    pub(in crate::cc) fn is_late(&self) -> bool {
        self.present.is_late
    }

    /// Comes back to the snapshot, if that was left, in order to be judged.
    #[inline(always)]
    pub(super) fn come_back(&mut self, shared: &Shared<T>) {
        if self.present.leave(&mut self.member.begin) {
            self.note_left_rows(shared);
        }
    }

    /// Notes the values of rows that are locked and have not been changed. (Those that were locked by the closure are noted a second
    /// time.)
    #[cold]
    fn note_left_rows(&mut self, shared: &Shared<T>) {
        for Write { slot, old, .. } in self.writes.iter().filter(|write| write.is_idle_lock()) {
            // SAFETY: behind the transaction's lock, which keeps others from overwriting it.
            let committed = shared.committed_at(unsafe { &**old });
            debug_assert!(committed.is_some(), "a lock is put in front of a version that has committed");
            T::read_present(&mut self.reads, *slot, committed.unwrap_or_default());
        }
    }

    /// Notes the value of a row by a change in the present that is undone. Returns false if it is not of the present.
    pub(super) fn note_in_present(&mut self, shared: &Shared<T>, write: &Write) -> bool {
        debug_assert!(!write.old.is_null());
        // SAFETY: behind the transaction's own version: the newest that has committed, or its own too.
        let old = unsafe { &*write.old };
        if !self.present.is_late || old.kind() != VersionKind::Value {
            return false;
        }
        let committed = shared.committed_at(old);
        committed.inspect(|at| T::read_present(&mut self.reads, write.slot, *at)).is_some()
    }
}
