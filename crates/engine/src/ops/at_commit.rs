//! What a transaction has left for its commit: updates of rows. Each update is a function from the row's value to its
//! new value.

use crate::error::{Error, Result};
use crate::index::Key;
use crate::memory::{Charge, Memory, OutOfMemory};
use crate::table::TableInner;
use std::sync::Arc;

/// Makes a row's new value from its present value, if there is one. Returns false: the row stays as it is.
pub(crate) type RowUpdate = Box<dyn FnOnce(Option<&[u8]>, &mut Vec<u8>) -> Result<bool> + Send>;

/// An update of one row.
pub(crate) struct AtCommit {
    /// Alive as long as the database.
    pub(crate) table: *const TableInner,
    /// The key's bytes stay until the attempt ends.
    pub(crate) key: Key,
    pub(crate) update: RowUpdate,
}
// SAFETY: tables and the bytes of keys are shared between threads; the function is `Send`.
unsafe impl Send for AtCommit {}

/// The updates of one attempt.
pub(crate) struct AtCommits {
    list: Vec<AtCommit>,
    /// The charge for the list's room and for the functions.
    charge: Charge,
    function_bytes: usize,
    /// The error of an update, if that ends the attempt.
    pub(crate) error: Option<Error>,
}

/// The room at first, and the room that is kept, in updates.
const UPDATES_FIRST: usize = 4;
const UPDATES_KEPT: usize = 64;
/// The bytes that an allocator takes beside a function.
const FUNCTION_BYTES: usize = 16;

/// Returns the bytes that the function of an update takes.
fn function_bytes(one: &AtCommit) -> usize {
    size_of_val(&*one.update) + FUNCTION_BYTES
}

impl AtCommits {
    /// Makes an empty list whose room is charged to `memory`.
    pub(crate) fn new(memory: &Arc<Memory>) -> AtCommits {
        AtCommits { list: Vec::new(), charge: Charge::new(memory), function_bytes: 0, error: None }
    }

    /// Adds an update, or fails and adds nothing.
    pub(crate) fn push(&mut self, one: AtCommit) -> Result<(), OutOfMemory> {
        if self.list.len() == self.list.capacity() {
            self.charge.grow(&mut self.list, 1, UPDATES_FIRST)?;
        }
        let bytes = function_bytes(&one);
        self.charge.add(bytes)?;
        self.function_bytes += bytes;
        self.list.push(one);
        Ok(())
    }

    /// Sorts the updates by table and key, so that no two transactions wait for each other's rows. Updates of one row
    /// stay in the order in which they were asked for.
    pub(crate) fn sort(&mut self) {
        self.list.sort_by(|a, b| {
            // SAFETY: tables live as long as their database.
            let [table_a, table_b] = [a, b].map(|one| unsafe { &*one.table }.index.number());
            table_a.cmp(&table_b).then_with(|| a.key.bytes(&mut [0; 8]).cmp(b.key.bytes(&mut [0; 8])))
        });
        self.list.reverse(); // updates are taken from the end
    }

    /// Takes the first update, after `sort`.
    pub(crate) fn pop(&mut self) -> Option<AtCommit> {
        self.list.pop()
    }

    /// Returns the number of updates.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Takes the last update out, if there are more than `len`.
    pub(crate) fn pop_beyond(&mut self, len: usize) -> Option<AtCommit> {
        if self.list.len() <= len {
            return None;
        }
        let last = self.list.pop()?;
        let bytes = function_bytes(&last);
        self.charge.give_back(bytes);
        self.function_bytes -= bytes;
        Some(last)
    }

    /// Forgets all updates.
    pub(crate) fn clear(&mut self) {
        self.error = None;
        self.charge.clear(&mut self.list, UPDATES_KEPT);
        self.charge.give_back(std::mem::take(&mut self.function_bytes));
    }
}
