//! Keys: whole, as fences have them ([`Text`]), as they are searched for ([`Sought`]), and as far as a node's keys differ
//! ([`Probe`]).

use crate::epoch::Local;
use crate::index::{Key, object, slice_of};
use crate::memory::OutOfMemory;
use std::cmp::Ordering as Order;
use std::ptr::null_mut;

/// In place of a length: more than eight bytes.
pub(super) const LONG: u8 = 9;

/// How many bytes there are, as far as that matters beside a slice.
#[inline(always)]
pub(super) fn code_of(bytes: &[u8]) -> u8 {
    bytes.len().min(usize::from(LONG)) as u8
}

/// A whole key. One of more than eight bytes has all of them in an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub(super) slice: u64,
    pub(super) object: *mut u8,
    /// Bytes, or [`LONG`].
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

    /// All its bytes.
    ///
    /// # Safety
    /// The epoch keeps its object.
    pub(super) unsafe fn bytes<'k>(&self, short: &'k mut [u8; 8]) -> &'k [u8] {
        if self.object.is_null() {
            *short = self.slice.to_be_bytes();
            return &short[..usize::from(self.len).min(8)];
        }
        // SAFETY: by the caller's promise.
        unsafe { object::bytes(self.object) }
    }

    /// How it compares with a key. In a tree of eight-byte keys slices tell.
    ///
    /// # Safety
    /// The epoch keeps its object.
    #[inline(always)]
    pub(super) unsafe fn order(&self, is_fixed8: bool, sought: &Sought<'_>) -> Order {
        if is_fixed8 || self.slice != sought.slice {
            return self.slice.cmp(&sought.slice);
        }
        if self.object.is_null() || sought.bytes.len() <= 8 {
            return self.len.cmp(&code_of(sought.bytes));
        }
        // SAFETY: by the caller's promise.
        let bytes = unsafe { object::bytes(self.object) };
        bytes[8..].cmp(&sought.bytes[8..])
    }

    /// # Safety
    /// It was never published.
    pub(super) unsafe fn free(self, local: &Local) {
        if !self.object.is_null() {
            // SAFETY: by the caller's promise.
            unsafe { object::free(local, self.object) };
        }
    }

    /// # Safety
    /// No operation reaches its object that begins from now on.
    pub(super) unsafe fn retire(self, local: &Local) {
        if !self.object.is_null() {
            // SAFETY: by the caller's promise.
            unsafe { object::retire(local, self.object) };
        }
    }
}

/// A key to search for.
#[derive(Clone, Copy)]
pub(super) struct Sought<'k> {
    pub(super) slice: u64,
    /// All its bytes; of no use in a tree of eight-byte keys.
    pub(super) bytes: &'k [u8],
}

impl<'k> Sought<'k> {
    #[inline(always)]
    pub(super) fn new(key: &'k Key, is_fixed8: bool, short: &'k mut [u8; 8]) -> Sought<'k> {
        Sought { slice: key.slice, bytes: if is_fixed8 { &[] } else { key.bytes(short) } }
    }

    /// The key of a text whose object the epoch keeps.
    ///
    /// # Safety
    /// That is so.
    pub(super) unsafe fn text(text: &Text, short: &'k mut [u8; 8]) -> Sought<'k> {
        // SAFETY: by the caller's promise.
        Sought { slice: text.slice, bytes: unsafe { text.bytes(short) } }
    }
}

/// A key behind what all keys of a node have in common.
#[derive(Clone, Copy)]
pub(super) struct Probe<'k> {
    pub(super) slice: u64,
    pub(super) code: u8,
    pub(super) rest: &'k [u8],
}

/// How many bytes two keys begin with in common.
pub(super) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
