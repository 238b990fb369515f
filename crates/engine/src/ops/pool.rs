//! Machines that are too large for an operation slot. They are boxed, lent to operations, and used again by later
//! operations.

use std::cell::UnsafeCell;
use std::ptr;

/// The boxes of a transaction's slot, including those in use. The operation that takes a box gives it back. A box that
/// a leaked future has taken comes back when its transaction has ended.
pub(crate) struct Pool<T> {
    #[allow(clippy::vec_box, reason = "operations hold their addresses")]
    all: UnsafeCell<Vec<Box<T>>>,
    free: UnsafeCell<Vec<*mut T>>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool { all: UnsafeCell::default(), free: UnsafeCell::default() }
    }
}

impl<T> Pool<T> {
    /// Lends a free box, or makes another. It belongs to the caller alone until it is given back.
    pub(crate) fn take(&self, make: impl FnOnce() -> T) -> *mut T {
        // SAFETY: used within this call only, as everywhere below.
        let free = unsafe { &mut *self.free.get() };
        if let Some(taken) = free.pop() {
            return taken;
        }
        let made = Box::new(make());
        // SAFETY: as above; `make` has returned.
        let all = unsafe { &mut *self.all.get() };
        all.push(made);
        free.reserve(all.len());
        &raw mut **all.last_mut().expect("pushed just now")
    }

    /// Gives back a box that `take` has returned. Called once for each.
    pub(crate) fn give_back(&self, taken: *mut T) {
        // SAFETY: used within this call only.
        unsafe { &mut *self.free.get() }.push(taken);
    }

    /// Returns the boxes that are in use.
    pub(crate) fn lent(&self) -> impl Iterator<Item = *const T> {
        // SAFETY: used until the iterator is dropped. Until then nothing is taken or given back.
        let (all, free) = unsafe { (&*self.all.get(), &*self.free.get()) };
        let is_free = |one: &*const T| free.iter().any(|free| ptr::eq(*one, *free));
        all.iter().map(|one| &raw const **one).filter(move |one| !is_free(one))
    }

    /// Makes all boxes free again. None is in use any more; some may have been leaked.
    pub(crate) fn reclaim(&self) {
        // SAFETY: used within this call only.
        let (all, free) = unsafe { (&mut *self.all.get(), &mut *self.free.get()) };
        if free.len() != all.len() {
            free.clear();
            free.extend(all.iter_mut().map(|one| &raw mut **one));
        }
    }
}
