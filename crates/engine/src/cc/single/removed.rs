//! Records that are gone, until no transaction is left that may come back to them.

use crate::cc::Target;
use crate::cc::common::registry::Registry;
use crate::cc::common::retire::retire_record;
use crate::epoch::Local;
use crate::index::Key;
use crate::index::TableIndex;
use crate::memory::Slab;
use crate::record::{RecordId, Timestamp};
use crate::sync::{Mutex, lock, try_lock};

/// The number of records looked at in one pass.
const BATCH: usize = 256;

/// A record that no index names any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removed {
    /// Transactions that begin from then on cannot find the record.
    pub(super) since: Timestamp,
    pub(super) index: *const TableIndex,
    pub(super) id: RecordId,
}
// SAFETY: the index lives as long as the database, and is shared.
unsafe impl Send for Removed {}

/// What workers that are gone have left.
#[derive(Debug, Default)]
pub(super) struct Removals(Mutex<Vec<Removed>>);

impl Removals {
    /// Gives back the memory of a bounded number of the records in `removed` to which no open transaction may come
    /// back. `removed` is in the order of times, with few exceptions. Returns true if there is more to do.
    pub(super) fn pass(
        &self,
        removed: &mut Vec<Removed>,
        registry: &Registry,
        records: &Slab,
        local: &Local,
    ) -> bool {
        if let Some(mut orphans) = try_lock(&self.0) {
            removed.append(&mut orphans);
        }
        if removed.is_empty() {
            return false;
        }
        let oldest = registry.oldest();
        let is_due = |removed: &&Removed| removed.since <= oldest;
        let due = removed.iter().take(BATCH).take_while(is_due).count();
        for Removed { index, id, .. } in removed.drain(..due) {
            let target = Target { index, key: Key::from_u64(0), id };
            // SAFETY: all transactions that were open when the record was removed have ended. The database owns slab,
            // indexes and epochs.
            unsafe { retire_record(records, &target, local) };
        }
        removed.first().is_some_and(|first| first.since <= oldest)
    }

    /// Takes what a departing worker leaves behind.
    pub(super) fn orphan(&self, removed: &mut Vec<Removed>) {
        lock(&self.0).append(removed);
    }

    /// Returns the records of workers that are gone, for a new worker to keep. A worker makes a pass when it has many
    /// records, so workers that each run few transactions would make none.
    pub(super) fn adopt(&self) -> Vec<Removed> {
        std::mem::take(&mut *lock(&self.0))
    }

    pub(super) fn orphans(&self) -> usize {
        lock(&self.0).len()
    }
}
