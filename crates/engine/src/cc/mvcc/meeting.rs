//! What another transaction's version, or the head of a chain, means for a read, a write or a lock.

use super::{Shared, Tracker, Txn};
use crate::cc::common::registry::Outcome;
use crate::cc::{Abort, Holder, Intent, Mistake};
use crate::record::{Timestamp, Version};

/// What a version that bears another transaction's mark means for an access.
pub(super) enum Seen {
    Visible,
    Invisible,
    Wait,
}

/// The answer to whether a transaction may lock a record.
pub(super) enum Lockable {
    Free,
    /// The transaction has already written or locked the record.
    Own,
    /// The newest version is rolled back, and about to be unlinked.
    RolledBack,
    Held(Holder),
}

impl<T: Tracker> Shared<T> {
    /// Returns what another transaction's version means for an access.
    #[inline(always)]
    pub(super) fn seen(&self, version: &Version, begin: Timestamp, intent: Intent) -> Seen {
        match T::IS_TIMED && intent != Intent::Untracked {
            true => self.resolve_by_time(version, begin),
            false => self.resolve(version, begin),
        }
    }

    #[cold]
    #[inline(never)]
    fn resolve(&self, version: &Version, begin: Timestamp) -> Seen {
        loop {
            let stamp = version.stamp();
            let Some(tag) = stamp.tag() else {
                return if stamp.is_committed_by(begin) { Seen::Visible } else { Seen::Invisible };
            };
            match self.registry.outcome(tag) {
                Outcome::Active => return Seen::Invisible,
                Outcome::Committing | Outcome::Pending(_) if T::makes(Mistake::TornCommits) => {
                    return Seen::Invisible;
                }
                Outcome::Committing => return Seen::Wait,
                Outcome::Pending(at) if at <= begin => return Seen::Wait,
                Outcome::Committed(at) if at <= begin => return Seen::Visible,
                Outcome::Pending(_) | Outcome::Committed(_) => return Seen::Invisible,
                // The transaction stamped its versions before it ended, so the next look finds no mark.
                Outcome::Ended => {}
            }
        }
    }

    /// Returns the time at which the version's transaction committed, even if the version is not stamped yet. `None`:
    /// it has not committed.
    pub(super) fn committed_at(&self, version: &Version) -> Option<Timestamp> {
        loop {
            let stamp = version.stamp();
            let Some(tag) = stamp.tag() else { return stamp.timestamp() };
            match self.registry.outcome(tag) {
                Outcome::Committed(at) => return Some(at),
                Outcome::Active | Outcome::Committing | Outcome::Pending(_) => return None,
                // The transaction stamped its versions before it ended, so the next look finds no mark.
                Outcome::Ended => {}
            }
        }
    }

    /// Returns an error if `txn` may not write over `head`.
    #[inline(always)]
    pub(super) fn may_write(&self, head: &Version, txn: &Txn<T>) -> Result<(), Abort> {
        let stamp = head.stamp();
        if stamp.is_committed_by(txn.member.begin) || stamp.tag() == Some(txn.member.tag) {
            return Ok(());
        }
        // A committing transaction's timestamp is later than this snapshot, or is soon known not to be. To abort is
        // right in the first case and harmless in the second.
        match stamp.tag().is_some()
            && matches!(self.seen(head, txn.member.begin, Intent::Write), Seen::Visible)
        {
            true => Ok(()),
            false => Err(Abort::WriteConflict),
        }
    }

    /// Returns the open transaction whose version `head` is, unless this transaction is `txn`.
    pub(super) fn holder(&self, head: &Version, txn: &Txn<T>) -> Option<Holder> {
        match self.may_lock(head, txn) {
            Lockable::Held(holder) => Some(holder),
            _ => None,
        }
    }

    /// Returns what `head` means for a lock by `txn`.
    pub(super) fn may_lock(&self, head: &Version, txn: &Txn<T>) -> Lockable {
        let stamp = head.stamp();
        let Some(tag) = stamp.tag() else {
            return if stamp.timestamp().is_some() { Lockable::Free } else { Lockable::RolledBack };
        };
        if tag == txn.member.tag {
            return Lockable::Own;
        }
        self.registry.holder(tag).map_or(Lockable::Free, Lockable::Held)
    }
}
