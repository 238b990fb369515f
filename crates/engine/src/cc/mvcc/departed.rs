//! How a transaction deals with keys that were deleted after it began and have left their index.
//!
//! The transaction sees no value under such a key, and it finds none. But the key's record would have told it more:
//!
//! - *The key was written since the transaction began.* The transaction cannot insert over a tombstone that is later
//!   than its snapshot. It must therefore not insert where such a key has been: see [`Txn::check_created`].
//! - *Which transaction was the first to write the key after its snapshot.* A scheme that tracks reads orders the
//!   transaction before that writer: see [`Shared::has_departed_since`].
//! - *Until when the record was read*, under schemes with times. A transaction of an earlier time than the deletion
//!   cannot insert, as said above. A transaction of a later time finds the times of reads of absent keys in the
//!   index.
//!
//! An index notes the times of deletions by the hashes of the keys, so a transaction may fail because of another key.
//! A long transaction would fail again and again. A transaction that has failed in this way therefore asks, when it
//! is run again, that keys deleted after its snapshot stay in their indexes: see [`Registry::set_keeping`].

use super::{Shared, Tracker, Txn};
use crate::cc::common::registry::Registry;
use crate::cc::{Abort, Mistake, Target};
use crate::index::{Key, TableIndex};
use crate::record::Timestamp;

impl<T: Tracker> Txn<T> {
    /// Prepares the transaction to begin.
    #[inline(always)]
    pub(super) fn reset(&mut self, registry: &Registry) {
        self.newest_seen.set(0);
        self.present.is_late = false;
        if std::mem::take(&mut self.has_missed) {
            self.member.keep_keys(registry);
        }
    }

    /// Checks that the transaction may make this record, whose key is in its index by now.
    #[inline(always)]
    pub(super) fn check_created(&mut self, target: &Target) -> Result<(), Abort> {
        if T::IS_TIMED && T::is_missed_later(target, self.begin()) {
            return Err(Abort::Unserializable);
        }
        // SAFETY: indexes live as long as the database.
        let departed = unsafe { &*target.index }.departed();
        if !T::makes(Mistake::ForgottenDepartures) && departed.is_later(&target.key, self.begin().0) {
            self.has_missed = true;
            return Err(Abort::WriteConflict);
        }
        Ok(())
    }
}

impl<T: Tracker> Shared<T> {
    /// Returns true if a key that was deleted after this snapshot was opened has left its index.
    #[inline(always)]
    pub(in crate::cc) fn has_departed_since(&self, begin: Timestamp) -> bool {
        !T::makes(Mistake::ForgottenDepartures) && self.reclaimer.newest_departed() > begin
    }
}

/// Returns true if a key that was deleted after the snapshot `begin` was opened has left this index. If a `key` is
/// given, only this key counts, and keys that share its place.
pub(in crate::cc) fn has_departed(index: *const TableIndex, key: Option<&[u8]>, begin: Timestamp) -> bool {
    // SAFETY: indexes live as long as the database.
    let departed = unsafe { &*index }.departed();
    match key {
        Some(key) => departed.is_later(&Key::new(key), begin.0),
        None => departed.newest() > begin.0,
    }
}
