//! The places of a table's removed records, kept for new records of the same table.

use super::RecordId;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

/// The kept places of one table. Keeping is on as soon as something outside the table's own index notes ids of the
/// table's records. Such notes are the entries of secondary indexes. A noted id, however old, then leads to a record of
/// the same table or to no record. Notes follow from answers of a caller's code, which need not be the same each time.
#[derive(Debug)]
pub struct Kept {
    is_on: AtomicBool,
    free: Mutex<Vec<u32>>,
    /// The length of `free`. It changes under the lock of `free`; without the lock it is a hint.
    free_len: AtomicUsize,
}

impl Kept {
    /// Makes an empty set of places, with keeping switched off.
    pub fn new() -> Kept {
        Kept { is_on: AtomicBool::new(false), free: Mutex::new(Vec::new()), free_len: AtomicUsize::new(0) }
    }

    /// Starts to keep places. The caller calls this before the first note of an id can be made.
    pub fn switch_on(&self) {
        self.is_on.store(true, Ordering::Release); // pairs with the Acquire in `is_on`
    }

    /// Stops keeping places and returns the kept ones, which may then serve any table. The caller drops the table, and
    /// no transaction is left that may follow a note.
    pub fn switch_off(&self) -> Vec<RecordId> {
        self.is_on.store(false, Ordering::Release); // as in `switch_on`
        let free = std::mem::take(&mut *lock(&self.free));
        self.free_len.store(0, Ordering::Relaxed); // a hint, as in `take`
        free.into_iter().map(RecordId).collect()
    }

    /// Returns whether the places of removed records belong here.
    pub fn is_on(&self) -> bool {
        // Acquire: pairs with the Release in `switch_on`. A thread that removes a noted record has seen what the writer
        // of the note did, and the writer had seen the switch.
        self.is_on.load(Ordering::Acquire)
    }

    /// Takes a place for a new record, if there is one.
    pub fn take(&self) -> Option<RecordId> {
        // Relaxed: a hint; the lock orders the record's contents.
        if self.free_len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut free = lock(&self.free);
        let id = free.pop();
        self.free_len.store(free.len(), Ordering::Relaxed); // a hint, as above
        id.map(RecordId)
    }

    /// Returns the number of places without a record.
    pub fn len(&self) -> u64 {
        self.free_len.load(Ordering::Relaxed) as u64
    }

    /// Keeps the place of a record that only notes can still name.
    pub fn give(&self, id: RecordId) {
        debug_assert_ne!(id, RecordId(0));
        let mut free = lock(&self.free);
        free.push(id.0);
        self.free_len.store(free.len(), Ordering::Relaxed); // a hint, as in `take`
    }
}
