//! Address space from the operating system. No other part of the memory module calls the system.

use std::ptr::NonNull;

/// The bytes of a huge page. Regions of at least this size are aligned to it.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// A range of addresses that its owner has to itself. It is given back when dropped.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a region is an address range, and holds nothing of the thread that made it.
unsafe impl Send for Region {}
// SAFETY: the methods are calls to the operating system, which synchronizes them.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves addresses, which must be committed before use. `bytes` is a multiple of the page size.
    pub(super) fn reserve(bytes: usize) -> Option<Region> {
        let region = system::map(bytes, false).map(|base| Region { base, bytes })?;
        region.prefer_huge_pages();
        Some(region)
    }

    /// Maps zeroed memory that is ready for use. `bytes` is a multiple of the page size.
    pub(super) fn map(bytes: usize) -> Option<Region> {
        system::map(bytes, true).map(|base| Region { base, bytes })
    }

    /// Asks the system to use huge pages here, if it has some, because they cause fewer misses of the address
    /// translation. Nothing depends on them.
    pub(super) fn prefer_huge_pages(&self) {
        if self.bytes >= HUGE_PAGE {
            system::prefer_huge_pages(self.base, self.bytes);
        }
    }

    /// Makes `offset..offset + bytes` usable and zeroed. Both are multiples of the page size.
    pub(super) fn commit(&self, offset: usize, bytes: usize) -> bool {
        assert!(offset + bytes <= self.bytes, "commit beyond the reservation");
        // SAFETY: the range lies in this region, as asserted above, and nothing in it is in use yet.
        unsafe { system::commit(self.base.add(offset), bytes) }
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region came from `map` with this size, and its owner drops it, so no one uses it any more.
        unsafe { system::unmap(self.base, self.bytes) };
    }
}

/// Returns the bytes of a page. Commits are multiples of it.
pub(super) fn page_bytes() -> usize {
    system::page_bytes()
}

fn alignment(bytes: usize) -> usize {
    if bytes >= HUGE_PAGE { HUGE_PAGE } else { page_bytes() }
}

#[cfg(all(unix, not(miri)))]
mod system {
    use super::alignment;
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
    use std::ptr::{NonNull, null_mut};

    pub(super) fn page_bytes() -> usize {
        rustix::param::page_size()
    }

    pub(super) fn map(bytes: usize, usable: bool) -> Option<NonNull<u8>> {
        let align = alignment(bytes);
        // Mappings are aligned only to a page. Map more than requested, and give the ends back.
        let slack = if align > page_bytes() { align } else { 0 };
        let (protection, flags) = if usable {
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        } else {
            (ProtFlags::empty(), MapFlags::PRIVATE | no_reserve())
        };
        // SAFETY: without MAP_FIXED, a new mapping disturbs no other.
        let whole = unsafe { mmap_anonymous(null_mut(), bytes.checked_add(slack)?, protection, flags) };
        let whole = whole.ok()?.cast::<u8>();
        let head = whole.align_offset(align);
        debug_assert!(head <= slack, "a mapping is aligned to a page");
        let base = whole.wrapping_add(head);
        // SAFETY: this is the head of the mapping just made, of which no one else knows.
        unsafe { trim(whole, head) };
        // SAFETY: this is the tail of the mapping just made, of which no one else knows.
        unsafe { trim(base.wrapping_add(bytes), slack - head) };
        NonNull::new(base)
    }

    /// # Safety
    /// The range is one that [`super::Region::commit`] commits: it lies in a region that the caller owns, and nothing
    /// in it is in use yet.
    pub(super) unsafe fn commit(base: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller has promised that the range is reserved, its own, and not in use.
        unsafe { mprotect(base.as_ptr().cast(), bytes, MprotectFlags::READ | MprotectFlags::WRITE) }.is_ok()
    }

    /// # Safety
    /// `base` and `bytes` are from `map`, and no one uses the range any more.
    pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        // SAFETY: the range is the caller's whole mapping, and the caller has promised that no one uses it.
        unsafe { trim(base.as_ptr(), bytes) };
    }

    /// # Safety
    /// The range is whole pages of a mapping that the caller owns, and no one uses it.
    unsafe fn trim(base: *mut u8, bytes: usize) {
        if bytes > 0 {
            // SAFETY: the caller has promised that the range is its own and unused. A failure (too many mappings) only
            // wastes addresses.
            let unmapped = unsafe { munmap(base.cast(), bytes) };
            debug_assert!(unmapped.is_ok(), "munmap: {unmapped:?}");
        }
    }

    pub(super) fn prefer_huge_pages(base: NonNull<u8>, bytes: usize) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            use rustix::mm::{Advice, madvise};
            // SAFETY: this advice changes no contents.
            let _ = unsafe { madvise(base.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let _ = (base, bytes);
    }

    fn no_reserve() -> MapFlags {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        return MapFlags::NORESERVE;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        MapFlags::empty()
    }
}

#[cfg(all(windows, not(miri)))]
mod system {
    use super::alignment;
    use std::ptr::{NonNull, null};
    use windows_sys::Win32::System::Memory::{
        MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, MEMORY_BASIC_INFORMATION, PAGE_NOACCESS, PAGE_READWRITE,
        VirtualAlloc, VirtualFree, VirtualQuery,
    };

    pub(super) fn page_bytes() -> usize {
        4096 // on every processor that it runs on
    }

    pub(super) fn map(bytes: usize, usable: bool) -> Option<NonNull<u8>> {
        let align = alignment(bytes);
        // A reservation is given back as a whole or not at all. The surplus requested for alignment stays, which costs
        // addresses.
        let slack = if align > page_bytes() { align } else { 0 };
        // SAFETY: a new reservation at an address of the system's choice disturbs no other.
        let whole = unsafe { VirtualAlloc(null(), bytes.checked_add(slack)?, MEM_RESERVE, PAGE_NOACCESS) };
        let whole = NonNull::new(whole.cast::<u8>())?;
        let head = whole.as_ptr().align_offset(align);
        debug_assert!(head <= slack, "a reservation is aligned to a page");
        // SAFETY: the result is within the reservation, which has `slack` bytes more than `bytes`.
        let base = unsafe { whole.add(head) };
        // SAFETY: the range was just reserved, and no one else knows of it.
        if usable && !unsafe { commit(base, bytes) } {
            // SAFETY: the range was just reserved, and no one else knows of it.
            unsafe { unmap(base, bytes) };
            return None;
        }
        Some(base)
    }

    /// # Safety
    /// The range is one that [`super::Region::commit`] commits: it lies in a region that the caller owns, and nothing
    /// in it is in use yet.
    pub(super) unsafe fn commit(base: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller has promised that the range is reserved, its own, and not in use.
        let committed = unsafe { VirtualAlloc(base.as_ptr().cast(), bytes, MEM_COMMIT, PAGE_READWRITE) };
        !committed.is_null()
    }

    /// Does nothing: a program needs a privilege for huge pages here.
    pub(super) fn prefer_huge_pages(_: NonNull<u8>, _: usize) {}

    /// # Safety
    /// `base` and `bytes` are from `map`, and no one uses the range any more.
    pub(super) unsafe fn unmap(base: NonNull<u8>, _: usize) {
        let mut found = MEMORY_BASIC_INFORMATION::default();
        let size = size_of::<MEMORY_BASIC_INFORMATION>();
        // SAFETY: the call writes at most `size` bytes to `found`.
        let written = unsafe { VirtualQuery(base.as_ptr().cast(), &mut found, size) };
        debug_assert_eq!(written, size, "the system knows its reservations");
        if written == size {
            // SAFETY: the caller owns the whole reservation that `base` lies in, and has promised that it is unused. A
            // failure wastes memory and does no other harm.
            let released = unsafe { VirtualFree(found.AllocationBase, 0, MEM_RELEASE) };
            debug_assert!(released != 0, "VirtualFree");
        }
    }
}

/// Plain allocations, committed at once, for an interpreter that maps nothing.
#[cfg(miri)]
mod system {
    use super::alignment;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    /// The limit of a reservation. It costs memory here, so bigger ones are refused, and callers ask for less.
    const RESERVATION_BYTES_MAX: usize = 64 << 20;

    pub(super) fn page_bytes() -> usize {
        4096
    }

    pub(super) fn map(bytes: usize, _: bool) -> Option<NonNull<u8>> {
        if bytes > RESERVATION_BYTES_MAX {
            return None;
        }
        let layout = Layout::from_size_align(bytes, alignment(bytes)).ok()?;
        // SAFETY: callers ask for at least a page.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    pub(super) unsafe fn commit(_: NonNull<u8>, _: usize) -> bool {
        true
    }

    pub(super) fn prefer_huge_pages(_: NonNull<u8>, _: usize) {}

    pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        let layout = Layout::from_size_align(bytes, alignment(bytes)).expect("was valid when mapped");
        // SAFETY: the memory is from `map`, which used the same layout.
        unsafe { dealloc(base.as_ptr(), layout) };
    }
}
