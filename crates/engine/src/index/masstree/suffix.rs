//! Keys longer than eight bytes: the slices of their layers, and the suffixes that borders keep out of line. Each
//! suffix is an object ([`crate::index::object`]).

use super::node::{KEYS, Node};
use crate::epoch::Local;
use crate::index::atomic::{AtomicPtr, Ordering};
use crate::index::object;
pub(super) use crate::index::object::{bytes, free, make, retire};
use crate::index::{Key, slice_of};
use crate::memory::OutOfMemory;

/// A block of fourteen pointers, one for each slot of a border.
pub(super) type Block = AtomicPtr<u8>;
const BLOCK_BYTES: usize = KEYS * size_of::<Block>();

/// Returns all bytes of a key longer than eight, and none of a shorter key.
#[inline]
pub(super) fn bytes_of(key: &Key) -> &[u8] {
    if key.len <= 8 {
        return &[];
    }
    // SAFETY: a key longer than eight has `len` bytes at `bytes`, which are alive during the operation.
    unsafe { std::slice::from_raw_parts(key.bytes, key.len as usize) }
}

/// Returns the slice of the key in the layer below `depth` others.
#[inline]
pub(super) fn slice_at(key: &Key, depth: u16) -> u64 {
    match depth {
        0 => key.slice,
        _ => slice_of(bytes_of(key).get(8 * depth as usize..).unwrap_or(&[])),
    }
}

/// Returns the key's bytes beyond the layer below `depth` others.
#[inline]
pub(super) fn rest_of(key: &Key, depth: u16) -> &[u8] {
    bytes_of(key).get(8 * (depth as usize + 1)..).unwrap_or(&[])
}

/// Retires a border's pointers: they are freed when no operation can be reading them any more. Does nothing for null.
///
/// # Safety
/// The block is from `make_block`, and is no longer reachable.
pub(super) unsafe fn retire_block(local: &Local, block: *mut Block) {
    if !block.is_null() {
        // SAFETY: operations that start from now on cannot reach the block, and it was allocated with this size.
        unsafe { local.retire(block.cast(), BLOCK_BYTES as u64, object::reclaim) };
    }
}

/// Makes a block of fourteen null pointers, not yet published.
pub(super) fn make_block(local: &Local) -> Result<*mut Block, OutOfMemory> {
    let block = local.allocate(BLOCK_BYTES)?.cast::<Block>();
    for slot in 0..KEYS {
        // SAFETY: the slot is within the allocation.
        unsafe { block.add(slot).write(Block::new(std::ptr::null_mut())) };
    }
    Ok(block)
}

/// # Safety
/// The block is from `make_block`, and was never published.
pub(super) unsafe fn free_block(local: &Local, block: *mut Block) {
    // SAFETY: the caller has promised that the block is from `make_block`, which allocates this size, and unpublished.
    unsafe { local.free(block.cast(), BLOCK_BYTES) };
}

/// Returns a border's pointers, or null before its first suffix.
#[inline]
pub(super) fn block_of(node: &Node) -> *mut Block {
    // Acquire: pairs with the Release in `set_block`: the pointers are initialized.
    node.suffixes.load(Ordering::Acquire)
}

pub(super) fn set_block(node: &Node, block: *mut Block) {
    // Release: pairs with the Acquire in `block_of`.
    node.suffixes.store(block, Ordering::Release);
}

/// Returns the suffix in a border's slot, or null if there is none. The suffix must not be read before the border has
/// been validated, because the slot may have been used anew.
#[inline]
pub(super) fn get(node: &Node, slot: usize) -> *mut u8 {
    let block = block_of(node);
    if block.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the block is published, so the epoch keeps it, and slots are below KEYS. Acquire: pairs with the Release
    // in `set`: the suffix is whole.
    unsafe { (*block.add(slot)).load(Ordering::Acquire) }
}

/// Sets the suffix in a border's slot. Null does nothing if the border has no block.
pub(super) fn set(node: &Node, slot: usize, object: *mut u8) {
    let block = block_of(node);
    if block.is_null() {
        assert!(object.is_null(), "a border has a block before it has a suffix");
        return;
    }
    // SAFETY: the border is latched, so its block stays, and slots are below KEYS. Release: pairs with the Acquire in
    // `get`.
    unsafe { (*block.add(slot)).store(object, Ordering::Release) };
}
