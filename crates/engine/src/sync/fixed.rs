//! A value of its own that stays where it is.

use std::ops::Deref;
use std::ptr::NonNull;

/// Owns a value as a `Box` does, but is not the only way to it: pointers to the value stay valid while this is moved.
/// (Moving a `Box` ends the right of every pointer to its content, since the compiler may assume that there is none.)
#[derive(Debug)]
pub struct Fixed<T>(NonNull<T>);

// SAFETY: owns its value, as a `Box` does.
unsafe impl<T: Send> Send for Fixed<T> {}
// SAFETY: lends its value by `&` only, as a `Box` does.
unsafe impl<T: Sync> Sync for Fixed<T> {}

impl<T> Fixed<T> {
    /// Puts a value where it stays until this is dropped.
    pub fn new(value: T) -> Fixed<T> {
        Fixed(NonNull::from(Box::leak(Box::new(value))))
    }

    /// The value's address, good for as long as this is not dropped.
    #[inline(always)]
    pub fn as_non_null(this: &Fixed<T>) -> NonNull<T> {
        this.0
    }
}

impl<T> Deref for Fixed<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: alive until `drop`, and reached by `&` only.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Fixed<T> {
    fn drop(&mut self) {
        // SAFETY: leaked by `new`, once; copies of the address are not used any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
