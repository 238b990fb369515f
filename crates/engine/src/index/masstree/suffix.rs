//! Keys beyond eight bytes: the slices of their layers, and the suffixes that borders keep out of
//! line, each an object ([`crate::index::object`]).

use super::node::{KEYS, Node};
use crate::epoch::Local;
use crate::index::atomic::{AtomicPtr, Ordering};
use crate::index::object;
pub(super) use crate::index::object::{bytes, free, make, retire};
use crate::index::{Key, slice_of};
use crate::memory::OutOfMemory;

/// Fourteen pointers, one for each slot of a border.
pub(super) type Block = AtomicPtr<u8>;
const BLOCK_BYTES: usize = KEYS * size_of::<Block>();

/// All bytes of a key longer than eight; none of a shorter one.
#[inline]
pub(super) fn bytes_of(key: &Key) -> &[u8] {
    if key.len <= 8 {
        return &[];
    }
    // SAFETY: Key promises `len` bytes, alive for the operation.
    unsafe { std::slice::from_raw_parts(key.bytes, key.len as usize) }
}

/// What the key has for the layer below `depth` others.
#[inline]
pub(super) fn slice_at(key: &Key, depth: u16) -> u64 {
    match depth {
        0 => key.slice,
        _ => slice_of(bytes_of(key).get(8 * depth as usize..).unwrap_or(&[])),
    }
}

/// The key's bytes beyond the layer below `depth` others.
#[inline]
pub(super) fn rest_of(key: &Key, depth: u16) -> &[u8] {
    bytes_of(key).get(8 * (depth as usize + 1)..).unwrap_or(&[])
}

/// Gives a border's pointers back when nobody can be reading them any more. Null does nothing.
///
/// # Safety
/// From `make_block`, reachable no longer.
pub(super) unsafe fn retire_block(local: &Local, block: *mut Block) {
    if !block.is_null() {
        // SAFETY: unreachable for operations that start from now on.
        unsafe { local.retire(block.cast(), BLOCK_BYTES as u64, object::reclaim) };
    }
}

/// Fourteen null pointers, not yet published.
pub(super) fn make_block(local: &Local) -> Result<*mut Block, OutOfMemory> {
    let block = local.allocate(BLOCK_BYTES)?.cast::<Block>();
    for slot in 0..KEYS {
        // SAFETY: within the allocation.
        unsafe { block.add(slot).write(Block::new(std::ptr::null_mut())) };
    }
    Ok(block)
}

/// # Safety
/// From `make_block`, never published.
pub(super) unsafe fn free_block(local: &Local, block: *mut Block) {
    // SAFETY: the caller's promise.
    unsafe { local.free(block.cast(), BLOCK_BYTES) };
}

/// A border's pointers; null before its first suffix.
#[inline]
pub(super) fn block_of(node: &Node) -> *mut Block {
    // Acquire: pairs with the Release in set_block: the pointers are initialised.
    node.suffixes.load(Ordering::Acquire)
}

pub(super) fn set_block(node: &Node, block: *mut Block) {
    // Release: pairs with the Acquire in block_of.
    node.suffixes.store(block, Ordering::Release);
}

/// The suffix in a border's slot, null where there is none. Not to be read before the border has
/// been validated: the slot may have been used anew.
#[inline]
pub(super) fn get(node: &Node, slot: usize) -> *mut u8 {
    let block = block_of(node);
    if block.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: a published block, which the epoch keeps; slots are below KEYS.
    // Acquire: pairs with the Release in set: the suffix is whole.
    unsafe { (*block.add(slot)).load(Ordering::Acquire) }
}

/// Sets the suffix in a border's slot. Null does nothing where the border has no block.
pub(super) fn set(node: &Node, slot: usize, object: *mut u8) {
    let block = block_of(node);
    if block.is_null() {
        assert!(object.is_null(), "a border has a block before it has a suffix");
        return;
    }
    // SAFETY: the border is latched, so that its block stays; slots are below KEYS.
    // Release: pairs with the Acquire in get.
    unsafe { (*block.add(slot)).store(object, Ordering::Release) };
}
