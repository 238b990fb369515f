//! A transaction that has left its snapshot for the present, to make the updates that it has left for its commit.

use super::{Tracker, Txn};
use crate::record::Timestamp;

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

    /// Comes back to the snapshot, if that was left.
    #[inline(always)]
    pub(super) fn leave(&mut self, begin: &mut Timestamp) {
        if self.left != NOT_LEFT {
            *begin = std::mem::replace(&mut self.left, NOT_LEFT);
        }
    }
}

impl<T: Tracker> Txn<T> {
    /// It may have changed what was committed after its snapshot.
    pub(in crate::cc) fn is_late(&self) -> bool {
        self.present.is_late
    }
}
