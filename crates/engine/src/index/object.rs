//! Bytes of keys that nodes keep out of line: objects of `{ length: u32, bytes }`, which never change once published.

use crate::epoch::Local;
use crate::memory::OutOfMemory;

const LENGTH_BYTES: usize = size_of::<u32>();

/// A new object, not yet published.
pub(in crate::index) fn make(local: &Local, bytes: &[u8]) -> Result<*mut u8, OutOfMemory> {
    let object = local.allocate(LENGTH_BYTES + bytes.len())?;
    // SAFETY: freshly allocated, large and aligned enough for the length.
    unsafe { object.cast::<u32>().write(bytes.len() as u32) };
    // SAFETY: within the allocation.
    let text = unsafe { object.add(LENGTH_BYTES) };
    // SAFETY: freshly allocated, so apart from `bytes`.
    unsafe { text.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(object)
}

/// # Safety
/// From `make`, and alive for `'a`.
#[inline]
pub(in crate::index) unsafe fn bytes<'a>(object: *const u8) -> &'a [u8] {
    // SAFETY: the caller's promise; never written again.
    let len = unsafe { object.cast::<u32>().read() } as usize;
    // SAFETY: the text follows the length.
    unsafe { std::slice::from_raw_parts(object.add(LENGTH_BYTES), len) }
}

/// # Safety
/// From `make`, never published.
pub(in crate::index) unsafe fn free(local: &Local, object: *mut u8) {
    // SAFETY: the caller's promise.
    let len = unsafe { bytes(object) }.len();
    // SAFETY: allocated with this size.
    unsafe { local.free(object, LENGTH_BYTES + len) };
}

/// Gives an object back when nobody can be reading it any more.
///
/// # Safety
/// From `make`, reachable no longer.
pub(in crate::index) unsafe fn retire(local: &Local, object: *mut u8) {
    // SAFETY: the caller's promise.
    let len = unsafe { bytes(object) }.len();
    // SAFETY: unreachable for operations that start from now on.
    unsafe { local.retire(object, (LENGTH_BYTES + len) as u64, reclaim) };
}

/// # Safety
/// `p` is from `local.allocate(bytes)`, and nobody reaches it any more.
pub(in crate::index) unsafe fn reclaim(local: &Local, p: *mut u8, bytes: u64) {
    // SAFETY: the caller's promise.
    unsafe { local.free(p, bytes as usize) };
}
