//! Bytes of keys that nodes keep out of line, in objects of `{ length: u32, bytes }`. An object never changes once it
//! is published.

use crate::epoch::Local;
use crate::memory::OutOfMemory;

const LENGTH_BYTES: usize = size_of::<u32>();

/// Makes a new object, not yet published.
pub(in crate::index) fn make(local: &Local, bytes: &[u8]) -> Result<*mut u8, OutOfMemory> {
    let object = local.allocate(LENGTH_BYTES + bytes.len())?;
    // SAFETY: the memory was just allocated, and is large enough and aligned for the length.
    unsafe { object.cast::<u32>().write(bytes.len() as u32) };
    // SAFETY: the result is within the allocation.
    let text = unsafe { object.add(LENGTH_BYTES) };
    // SAFETY: the memory was just allocated with room for the bytes, so it does not overlap `bytes`.
    unsafe { text.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(object)
}

/// # Safety
/// The object is from `make`, and alive for `'a`.
#[inline]
pub(in crate::index) unsafe fn bytes<'a>(object: *const u8) -> &'a [u8] {
    // SAFETY: the caller has promised that the object is from `make` and alive. A published object is never written
    // again.
    let len = unsafe { object.cast::<u32>().read() } as usize;
    // SAFETY: `make` has written `len` bytes of text behind the length.
    unsafe { std::slice::from_raw_parts(object.add(LENGTH_BYTES), len) }
}

/// # Safety
/// The object is from `make`, and was never published.
pub(in crate::index) unsafe fn free(local: &Local, object: *mut u8) {
    // SAFETY: the caller has promised that the object is from `make`, and it was not freed.
    let len = unsafe { bytes(object) }.len();
    // SAFETY: the object was allocated with this size, and was never published.
    unsafe { local.free(object, LENGTH_BYTES + len) };
}

/// Retires an object: it is freed when no operation can be reading it any more.
///
/// # Safety
/// The object is from `make`, and is no longer reachable.
pub(in crate::index) unsafe fn retire(local: &Local, object: *mut u8) {
    // SAFETY: the caller has promised that the object is from `make`, and it was not freed.
    let len = unsafe { bytes(object) }.len();
    // SAFETY: operations that start from now on cannot reach the object, and it was allocated with this size.
    unsafe { local.retire(object, (LENGTH_BYTES + len) as u64, reclaim) };
}

/// # Safety
/// `p` is from `local.allocate(bytes)`, and no operation reaches it any more.
pub(in crate::index) unsafe fn reclaim(local: &Local, p: *mut u8, bytes: u64) {
    // SAFETY: the caller has promised that `p` is from `allocate` with this size and unreachable.
    unsafe { local.free(p, bytes as usize) };
}
