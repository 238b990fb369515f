//! An owned value that never moves.

use std::ops::Deref;
use std::ptr::NonNull;

/// Owns a value like a `Box`, but is not the only way to reach it: pointers to the value stay valid while this is
/// moved. Moving a `Box` invalidates every pointer to its content, because the compiler may assume that there is none.
#[derive(Debug)]
pub struct Fixed<T>(NonNull<T>);

// SAFETY: this owns its value, as a `Box` does.
unsafe impl<T: Send> Send for Fixed<T> {}
// SAFETY: this lends its value only by `&`, as a `Box` does.
unsafe impl<T: Sync> Sync for Fixed<T> {}

impl<T> Fixed<T> {
    /// Puts a value at an address where it stays until this is dropped.
    pub fn new(value: T) -> Fixed<T> {
        Fixed(NonNull::from(Box::leak(Box::new(value))))
    }

    /// Returns the value's address, which is valid until this is dropped.
    #[inline(always)]
    pub fn as_non_null(this: &Fixed<T>) -> NonNull<T> {
        this.0
    }
}

impl<T> Deref for Fixed<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the value is alive until `drop`, and reached only by `&`.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Fixed<T> {
    fn drop(&mut self) {
        // SAFETY: `new` leaked the value once, and copies of the address are not used any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
