//! Address space from the operating system. The only part of the memory module that knows it.

use std::ptr::NonNull;

/// Bytes of a huge page; regions of at least this size are aligned to it.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// A range of addresses of our own, given back when dropped.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a region is an address range and nothing of the thread that made it.
unsafe impl Send for Region {}
// SAFETY: its methods are calls to the operating system, which synchronizes them.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves addresses that must be committed before use. `bytes` is a multiple of the page size.
    pub(super) fn reserve(bytes: usize) -> Option<Region> {
        let region = system::map(bytes, false).map(|base| Region { base, bytes })?;
        region.prefer_huge_pages();
        Some(region)
    }

    /// Zeroed memory ready for use. `bytes` is a multiple of the page size.
    pub(super) fn map(bytes: usize) -> Option<Region> {
        system::map(bytes, true).map(|base| Region { base, bytes })
    }

    /// Has the system put huge pages there, where it has some: fewer address translation misses. Nothing depends on them.
    pub(super) fn prefer_huge_pages(&self) {
        if self.bytes >= HUGE_PAGE {
            system::prefer_huge_pages(self.base, self.bytes);
        }
    }

    /// Makes `offset..offset + bytes` usable, zeroed. Both are multiples of the page size.
    pub(super) fn commit(&self, offset: usize, bytes: usize) -> bool {
        assert!(offset + bytes <= self.bytes, "commit beyond the reservation");
        // SAFETY: the range lies in this region, which is ours; nothing in it is in use yet.
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
        // SAFETY: the region came from `map` with this size, and its owner says that it is done.
        unsafe { system::unmap(self.base, self.bytes) };
    }
}

/// Bytes of a page: what commits are multiples of.
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
        // Mappings are aligned to a page only: ask for more, and give the ends back.
        let slack = if align > page_bytes() { align } else { 0 };
        let (protection, flags) = if usable {
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        } else {
            (ProtFlags::empty(), MapFlags::PRIVATE | no_reserve())
        };
        // SAFETY: without MAP_FIXED a new mapping disturbs no other.
        let whole = unsafe { mmap_anonymous(null_mut(), bytes.checked_add(slack)?, protection, flags) };
        let whole = whole.ok()?.cast::<u8>();
        let head = whole.align_offset(align);
        debug_assert!(head <= slack, "a mapping is aligned to a page");
        let base = whole.wrapping_add(head);
        // SAFETY: the head of our own mapping; nobody knows of it.
        unsafe { trim(whole, head) };
        // SAFETY: the tail of our own mapping; nobody knows of it.
        unsafe { trim(base.wrapping_add(bytes), slack - head) };
        NonNull::new(base)
    }

    /// # Safety
    /// As [`super::Region::commit`].
    pub(super) unsafe fn commit(base: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the range is reserved, ours and not in use.
        unsafe { mprotect(base.as_ptr().cast(), bytes, MprotectFlags::READ | MprotectFlags::WRITE) }.is_ok()
    }

    /// # Safety
    /// `base` and `bytes` from `map`; nobody uses the range any more.
    pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        // SAFETY: ours, and unused as the caller says.
        unsafe { trim(base.as_ptr(), bytes) };
    }

    /// # Safety
    /// The range is whole pages of a mapping of ours that nobody uses.
    unsafe fn trim(base: *mut u8, bytes: usize) {
        if bytes > 0 {
            // SAFETY: the caller's promise. A failure (too many mappings) only wastes addresses.
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
        // A reservation is given back as a whole or not at all: what was asked for to align it stays, which costs addresses.
        let slack = if align > page_bytes() { align } else { 0 };
        // SAFETY: a new reservation at an address of the system's choice disturbs no other.
        let whole = unsafe { VirtualAlloc(null(), bytes.checked_add(slack)?, MEM_RESERVE, PAGE_NOACCESS) };
        let whole = NonNull::new(whole.cast::<u8>())?;
        let head = whole.as_ptr().align_offset(align);
        debug_assert!(head <= slack, "a reservation is aligned to a page");
        // SAFETY: within the reservation, which has `slack` bytes more than `bytes`.
        let base = unsafe { whole.add(head) };
        // SAFETY: the range was just reserved, and nobody knows of it.
        if usable && !unsafe { commit(base, bytes) } {
            // SAFETY: as above.
            unsafe { unmap(base, bytes) };
            return None;
        }
        Some(base)
    }

    /// # Safety
    /// As [`super::Region::commit`].
    pub(super) unsafe fn commit(base: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the range is reserved, ours and not in use.
        let committed = unsafe { VirtualAlloc(base.as_ptr().cast(), bytes, MEM_COMMIT, PAGE_READWRITE) };
        !committed.is_null()
    }

    /// (A program needs a privilege for them.)
    pub(super) fn prefer_huge_pages(_: NonNull<u8>, _: usize) {}

    /// # Safety
    /// `base` and `bytes` from `map`; nobody uses the range any more.
    pub(super) unsafe fn unmap(base: NonNull<u8>, _: usize) {
        let mut found = MEMORY_BASIC_INFORMATION::default();
        let size = size_of::<MEMORY_BASIC_INFORMATION>();
        // SAFETY: it writes that much to `found` at most.
        let written = unsafe { VirtualQuery(base.as_ptr().cast(), &mut found, size) };
        debug_assert_eq!(written, size, "the system knows its reservations");
        if written == size {
            // SAFETY: the reservation that `base` lies in is ours as a whole, and unused as the caller says. A failure wastes
            // memory and does no other harm.
            let released = unsafe { VirtualFree(found.AllocationBase, 0, MEM_RELEASE) };
            debug_assert!(released != 0, "VirtualFree");
        }
    }
}

/// Plain allocations, committed at once: for an interpreter, which maps nothing.
#[cfg(miri)]
mod system {
    use super::alignment;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    /// A reservation costs memory here: bigger ones are refused, and callers ask for less.
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
        // SAFETY: from `map`, which used the same layout.
        unsafe { dealloc(base.as_ptr(), layout) };
    }
}
