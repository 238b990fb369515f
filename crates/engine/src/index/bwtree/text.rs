//! Keys in three forms: whole, as fences have them ([`Text`]); as they are searched for ([`Sought`]); and without the
//! bytes that all keys of a node have in common ([`Probe`]).

use crate::epoch::Local;
use crate::index::{Key, object, slice_of};
use crate::memory::OutOfMemory;
use std::cmp::Ordering as Order;
use std::ptr::null_mut;

/// The length code of a key of more than eight bytes.
pub(super) const LONG: u8 = 9;

/// Returns the length code of these bytes, which is all that matters beside a slice.
#[inline(always)]
pub(super) fn code_of(bytes: &[u8]) -> u8 {
    bytes.len().min(usize::from(LONG)) as u8
}

/// A whole key. A key of more than eight bytes has all of them in an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub(super) slice: u64,
    pub(super) object: *mut u8,
    /// The number of bytes, or [`LONG`].
    pub(super) len: u8,
}

impl Text {
    /// The least of all keys.
    pub(super) const EMPTY: Text = Text { slice: 0, object: null_mut(), len: 0 };

    pub(super) fn make(local: &Local, bytes: &[u8]) -> Result<Text, OutOfMemory> {
        let object = if bytes.len() > 8 { object::make(local, bytes)? } else { null_mut() };
        Ok(Text { slice: slice_of(bytes), object, len: code_of(bytes) })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns all bytes of the key.
    ///
    /// # Safety
    /// The epoch keeps the key's object.
    pub(super) unsafe fn bytes<'k>(&self, short: &'k mut [u8; 8]) -> &'k [u8] {
        if self.object.is_null() {
            *short = self.slice.to_be_bytes();
            return &short[..usize::from(self.len).min(8)];
        }
        // SAFETY: the caller has promised that the epoch keeps the object.
        unsafe { object::bytes(self.object) }
    }

    /// Compares the key with another. In a tree of eight-byte keys, the slices decide.
    ///
    /// # Safety
    /// The epoch keeps the key's object.
    #[inline(always)]
    pub(super) unsafe fn order(&self, is_fixed8: bool, sought: &Sought<'_>) -> Order {
        if is_fixed8 || self.slice != sought.slice {
            return self.slice.cmp(&sought.slice);
        }
        if self.object.is_null() || sought.bytes.len() <= 8 {
            return self.len.cmp(&code_of(sought.bytes));
        }
        // SAFETY: the caller has promised that the epoch keeps the object.
        let bytes = unsafe { object::bytes(self.object) };
        bytes[8..].cmp(&sought.bytes[8..])
    }

    /// # Safety
    /// The key was never published.
    pub(super) unsafe fn free(self, local: &Local) {
        if !self.object.is_null() {
            // SAFETY: the caller has promised that the key was never published, so its object was not either.
            unsafe { object::free(local, self.object) };
        }
    }

    /// # Safety
    /// No operation that begins from now on reaches the key's object.
    pub(super) unsafe fn retire(self, local: &Local) {
        if !self.object.is_null() {
            // SAFETY: the caller has promised that new operations cannot reach the object.
            unsafe { object::retire(local, self.object) };
        }
    }
}

/// A key to search for.
#[derive(Clone, Copy)]
pub(super) struct Sought<'k> {
    pub(super) slice: u64,
    /// All bytes of the key. They are of no use in a tree of eight-byte keys.
    pub(super) bytes: &'k [u8],
}

impl<'k> Sought<'k> {
    #[inline(always)]
    pub(super) fn new(key: &'k Key, is_fixed8: bool, short: &'k mut [u8; 8]) -> Sought<'k> {
        Sought { slice: key.slice, bytes: if is_fixed8 { &[] } else { key.bytes(short) } }
    }

    /// Makes the key to search for from a text.
    ///
    /// # Safety
    /// The epoch keeps the text's object.
    pub(super) unsafe fn text(text: &Text, short: &'k mut [u8; 8]) -> Sought<'k> {
        // SAFETY: the caller has promised that the epoch keeps the object.
        Sought { slice: text.slice, bytes: unsafe { text.bytes(short) } }
    }
}

/// A key without the bytes that all keys of a node have in common.
#[derive(Clone, Copy)]
pub(super) struct Probe<'k> {
    pub(super) slice: u64,
    pub(super) code: u8,
    pub(super) rest: &'k [u8],
}

/// Returns how many bytes two keys have in common at their beginnings.
pub(super) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
