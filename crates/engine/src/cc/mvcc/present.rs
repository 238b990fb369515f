//! A transaction that has left its snapshot for the present, in order to make the updates that it has deferred to its
//! commit.
//!
//! Each update locks its row and looks at the newest value under the lock. A row that is overwritten next needs no
//! note, just as a row that is overwritten in the snapshot needs none. A row that the update leaves as it is has been
//! read. It is noted when the transaction returns to its snapshot to be validated.

use super::{Shared, Tracker, Txn, Write};
use crate::record::{Timestamp, VersionKind};

/// Stands for a snapshot: the transaction has not left it.
const NOT_LEFT: Timestamp = Timestamp(0);

/// The state of leaving the snapshot. One per transaction, reused.
#[derive(Debug)]
pub(super) struct Present {
    /// The snapshot that the transaction has left. It returns to it when it is prepared.
    left: Timestamp,
    /// True if the transaction has been in the present. It can then only be ordered where it commits.
    pub(super) is_late: bool,
}

impl Present {
    /// Makes the state of a transaction that is in its snapshot.
    pub(super) const fn new() -> Present {
        Present { left: NOT_LEFT, is_late: false }
    }

    /// Makes all that has committed visible from here on. `begin` is the transaction's.
    pub(super) fn enter(&mut self, begin: &mut Timestamp) {
        debug_assert!(self.left == NOT_LEFT && *begin < Timestamp::LAST);
        self.left = std::mem::replace(begin, Timestamp::LAST);
        self.is_late = true;
    }

    /// Returns to the snapshot, if the transaction had left it. The result is true if it had.
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
    /// Returns true if the transaction may have changed what was committed after its snapshot.
    pub(in crate::cc) fn is_late(&self) -> bool {
        self.present.is_late
    }

    /// Returns to the snapshot, if the transaction had left it, in order to be validated.
    #[inline(always)]
    pub(super) fn come_back(&mut self, shared: &Shared<T>) {
        if self.present.leave(&mut self.member.begin) {
            self.note_left_rows(shared);
        }
    }

    /// Notes the values of rows that are locked and have not been changed. Rows that the closure had locked are noted
    /// a second time.
    #[cold]
    fn note_left_rows(&mut self, shared: &Shared<T>) {
        for Write { slot, old, .. } in self.writes.iter().filter(|write| write.is_idle_lock()) {
            // SAFETY: the version is behind the transaction's lock, which keeps others from overwriting it.
            let committed = shared.committed_at(unsafe { &**old });
            debug_assert!(committed.is_some(), "a lock is put in front of a version that has committed");
            T::read_present(&mut self.reads, *slot, committed.unwrap_or_default());
        }
    }

    /// Notes the value of a row whose change in the present is undone. Returns false if the change is not of the
    /// present.
    pub(super) fn note_in_present(&mut self, shared: &Shared<T>, write: &Write) -> bool {
        debug_assert!(!write.old.is_null());
        // SAFETY: the version is behind the transaction's own version. It is the newest committed version, or the
        // transaction's own too.
        let old = unsafe { &*write.old };
        if !self.present.is_late || old.kind() != VersionKind::Value {
            return false;
        }
        let committed = shared.committed_at(old);
        committed.inspect(|at| T::read_present(&mut self.reads, write.slot, *at)).is_some()
    }
}
