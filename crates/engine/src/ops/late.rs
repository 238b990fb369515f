//! Places for operations that were run where they were polled, have to wait for another transaction, and have found no
//! slot free.
//!
//! The other transaction may be open on the same worker, which has to step it. An operation on a worker therefore does
//! not wait in place. It gets a place here, beside the transaction's slots, and the worker steps it like the operations
//! in the slots.
//!
//! A transaction has few slots, because more operations that are stepped one after the other gain nothing. Here it has
//! as many places as its futures can number, because an operation without a place could only block its worker.
//!
//! Invariants:
//! - A place is taken from `put` to `release`, and has steps left only while it is taken.
//! - `LATE` of `todo` is set while a place has steps left, `LATE_TAKEN` of `used` while a place is taken. `LATE_TAKEN`
//!   is never a bit of `todo`, so the worker holds the epoch of what has been found here until it is fetched.

use super::NO_SLOT;
use std::cell::{RefCell, UnsafeCell};

/// The number of operations in flight per transaction. Further operations run in place until they have to wait.
pub(crate) const SLOTS: usize = 8;
/// The most places beside the slots: the numbers of places that futures have, less the slots and two numbers with
/// another meaning.
const PLACES_MAX: usize = NO_SLOT as usize - 1 - SLOTS;

/// The places of a transaction beside its slots. They are freed when it ends, so a transaction that needed many does
/// not make the next one in its slot larger.
pub(crate) struct LatePlaces<O>(RefCell<Vec<LatePlace<O>>>);

struct LatePlace<O> {
    /// Boxed, because its future reads it while other places are made.
    op: Box<UnsafeCell<O>>,
    is_taken: bool,
    has_steps: bool,
}

impl<O> Default for LatePlaces<O> {
    fn default() -> Self {
        LatePlaces(RefCell::default())
    }
}

impl<O> LatePlaces<O> {
    /// Puts an operation into a place. `None`: there are too many.
    pub(crate) fn put(&self, op: O, has_steps: bool) -> Option<u8> {
        let mut list = self.0.borrow_mut();
        let free = list.iter().position(|one| !one.is_taken);
        if free.is_none() && list.len() == PLACES_MAX {
            return None;
        }
        let at = free.unwrap_or(list.len());
        let taken = LatePlace { op: Box::new(UnsafeCell::new(op)), is_taken: true, has_steps };
        match list.get_mut(at) {
            Some(one) => *one = taken,
            None => list.push(taken),
        }
        Some((SLOTS + at) as u8)
    }

    /// Returns the operation in a place that is or was taken. It stays there until another operation is put there.
    #[cold]
    pub(crate) fn op(&self, place: usize) -> *mut O {
        self.0.borrow()[place - SLOTS].op.get()
    }

    /// Returns true if the operation in this taken place has steps left.
    #[cold]
    pub(crate) fn has_steps(&self, place: u8) -> bool {
        let one = &self.0.borrow()[place as usize - SLOTS];
        debug_assert!(one.is_taken);
        one.has_steps
    }

    /// Has the operation in this taken place stepped again.
    pub(crate) fn go_on(&self, place: u8) {
        let one = &mut self.0.borrow_mut()[place as usize - SLOTS];
        debug_assert!(one.is_taken);
        one.has_steps = true;
    }

    /// Gives a place back.
    pub(crate) fn release(&self, place: u8) {
        let one = &mut self.0.borrow_mut()[place as usize - SLOTS];
        debug_assert!(one.is_taken);
        (one.is_taken, one.has_steps) = (false, false);
    }

    pub(crate) fn is_any_taken(&self) -> bool {
        self.0.borrow().iter().any(|one| one.is_taken)
    }

    pub(crate) fn has_any_steps(&self) -> bool {
        self.0.borrow().iter().any(|one| one.has_steps)
    }

    /// Returns the places that are taken.
    pub(crate) fn taken(&self) -> Vec<usize> {
        let list = self.0.borrow();
        (0..list.len()).filter(|&at| list[at].is_taken).map(|at| SLOTS + at).collect()
    }

    /// Calls `step` for each operation that has steps left. `step` returns true if the operation is done. Returns true
    /// if no operation has steps left.
    pub(crate) fn step_each(&self, mut step: impl FnMut(*mut O) -> bool) -> bool {
        let mut is_done = true;
        for one in self.0.borrow_mut().iter_mut().filter(|one| one.has_steps) {
            one.has_steps = !step(one.op.get());
            is_done &= !one.has_steps;
        }
        is_done
    }

    /// Cancels all operations.
    #[cold]
    #[inline(never)]
    pub(crate) fn clear(&self) {
        self.0.take();
    }
}
