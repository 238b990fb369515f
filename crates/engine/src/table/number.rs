//! The types for updates at a commit: a place for the new value, and numbers that can be added to.

use super::value::Value;
use crate::error::Result;
use std::fmt;
use std::marker::PhantomData;

/// The new value of a row, which may be set: see [`Txn::update_at_commit`](crate::Txn::update_at_commit).
pub struct NewValue<'n, V: Value + ?Sized> {
    bytes: &'n mut Vec<u8>,
    is_set: &'n mut bool,
    value: PhantomData<fn(&V)>,
}

impl<V: Value + ?Sized> fmt::Debug for NewValue<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewValue").finish_non_exhaustive()
    }
}

impl<'n, V: Value + ?Sized> NewValue<'n, V> {
    /// Makes a new value that is not set yet.
    pub(crate) fn new(bytes: &'n mut Vec<u8>, is_set: &'n mut bool) -> Self {
        NewValue { bytes, is_set, value: PhantomData }
    }

    /// Sets the new value. If it is not set, the row stays unchanged.
    pub fn set(self, value: V::Input<'_>) -> Result<()> {
        self.bytes.clear();
        self.bytes.extend_from_slice(V::encode(value)?.as_ref());
        *self.is_set = true;
        Ok(())
    }
}

/// A whole number that [`Txn::add`](crate::Txn::add) can add to.
pub trait Number: for<'v> Value<Input<'v> = Self, View<'v> = Self> + Copy + Send {
    /// Returns the sum. `None` if the type cannot hold it.
    fn plus(self, other: Self) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Number for $number {
            fn plus(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
        }
    )*};
}
numbers! { u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 }
