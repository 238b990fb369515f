//! The places of a table's removed records, where they serve no other table.

use super::RecordId;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

/// Of one table. On from the moment that something outside of the table's own index notes ids of its records, which are
/// the entries of secondary indexes: whatever such a note says, and however old it is, its id then leads to a record of
/// the same table, or to none. Notes are made by what a caller's code answers, which may not be the same each time.
#[derive(Debug)]
pub struct Kept {
    is_on: AtomicBool,
    free: Mutex<Vec<u32>>,
    /// Length of `free`, changed under its lock; a hint without the lock.
    free_len: AtomicUsize,
}

impl Kept {
    /// None, and off.
    pub fn new() -> Kept {
        Kept { is_on: AtomicBool::new(false), free: Mutex::new(Vec::new()), free_len: AtomicUsize::new(0) }
    }

    /// From now on places are kept. To be called before the first note of an id can be made.
    pub fn switch_on(&self) {
        self.is_on.store(true, Ordering::Release); // pairs with the Acquire in `is_on`
    }

    /// From now on places serve all tables; returns those that were kept. For a table that is dropped, once no transaction is left that
    /// may follow a note.
    pub fn switch_off(&self) -> Vec<RecordId> {
        self.is_on.store(false, Ordering::Release); // as in `switch_on`
        let free = std::mem::take(&mut *lock(&self.free));
        self.free_len.store(0, Ordering::Relaxed); // a hint, as in `take`
        free.into_iter().map(RecordId).collect()
    }

    /// Whether places of records that go are to be given here.
    pub fn is_on(&self) -> bool {
        // Acquire: pairs with the Release in `switch_on`. Who removes a record that has been noted has seen what the
        // writer of the note did, which had seen the switch.
        self.is_on.load(Ordering::Acquire)
    }

    /// A place for a new record, if there is one.
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

    /// How many places there are that no record has.
    pub fn len(&self) -> u64 {
        self.free_len.load(Ordering::Relaxed) as u64
    }

    /// The place of a record that nobody reaches any more but by notes.
    pub fn give(&self, id: RecordId) {
        debug_assert_ne!(id, RecordId(0));
        let mut free = lock(&self.free);
        free.push(id.0);
        self.free_len.store(free.len(), Ordering::Relaxed); // a hint, as in `take`
    }
}
