//! Memory for one future of any type. A future that fits is stored in place, others in a buffer, which is kept for
//! the next future. A future's type is erased only here.
//!
//! Invariants:
//! - `vtable` is set exactly while a future is there, and is that future's.
//! - The cell does not move while it holds a future.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};

/// The bytes of a future that are kept in the slot.
pub(crate) const INLINE_BYTES: usize = 512;
/// A larger buffer is freed with its future, so that one huge future does not hold memory forever.
const KEPT_BYTES_MAX: usize = 64 << 10;

#[repr(C, align(64))]
struct Inline(MaybeUninit<[u8; INLINE_BYTES]>);

pub(crate) struct FutureCell {
    vtable: Cell<Option<&'static VTable>>,
    inline: UnsafeCell<Inline>,
    heap: Cell<Option<(NonNull<u8>, Layout)>>,
    _pin: PhantomPinned,
}

struct VTable {
    poll: unsafe fn(&FutureCell, &mut Context<'_>) -> Poll<()>,
    drop: unsafe fn(&FutureCell),
}

const fn fits<F>() -> bool {
    size_of::<F>() <= INLINE_BYTES && align_of::<F>() <= align_of::<Inline>()
}

/// The vtables of `F`. A vtable holds only functions, so `F` need not be `'static`.
struct Of<F>(F);

impl<F: Future> Of<F> {
    const TYPED: VTable = VTable {
        poll: |_, _| unreachable!("a typed future is polled by its type"),
        // SAFETY: the vtable is stored with an `F` only.
        drop: |cell| unsafe { cell.drop_as::<F>() },
    };
}

impl<F: Future<Output = ()>> Of<F> {
    const ERASED: VTable = VTable {
        // SAFETY: the vtable is stored with an `F` only.
        poll: |cell, context| unsafe { cell.poll_as::<F>(context) },
        // SAFETY: as above.
        drop: |cell| unsafe { cell.drop_as::<F>() },
    };
}

impl FutureCell {
    pub(crate) const fn new() -> Self {
        FutureCell {
            vtable: Cell::new(None),
            inline: UnsafeCell::new(Inline(MaybeUninit::uninit())),
            heap: Cell::new(None),
            _pin: PhantomPinned,
        }
    }

    /// Puts a future in, to be polled by `poll_as`.
    ///
    /// # Safety
    /// The cell is empty and does not move. It is cleared before anything that `future` borrows ends.
    #[inline(always)]
    pub(crate) unsafe fn put<F: Future>(&self, future: F) {
        // SAFETY: as the caller promises.
        unsafe { self.put_with(future, &Of::<F>::TYPED) }
    }

    /// Puts a future in, to be polled by `poll`.
    ///
    /// # Safety
    /// As for `put`.
    pub(crate) unsafe fn put_erased<F: Future<Output = ()>>(&self, future: F) {
        // SAFETY: as the caller promises.
        unsafe { self.put_with(future, &Of::<F>::ERASED) }
    }

    #[inline(always)]
    unsafe fn put_with<F>(&self, future: F, vtable: &'static VTable) {
        debug_assert!(self.vtable.get().is_none(), "the cell holds a future already");
        if !fits::<F>() {
            self.reserve(Layout::new::<F>());
        }
        // SAFETY: the place is empty, large enough and aligned.
        unsafe { self.at::<F>().write(future) };
        self.vtable.set(Some(vtable));
    }

    /// Polls the `F` in the cell.
    ///
    /// # Safety
    /// An `F` is there, and no other poll of it is under way.
    #[inline(always)]
    pub(crate) unsafe fn poll_as<F: Future>(&self, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: an `F` is there, reached by this call only.
        let future = unsafe { &mut *self.at::<F>() };
        // SAFETY: it stays where it is until it is dropped.
        unsafe { Pin::new_unchecked(future) }.poll(context)
    }

    /// Polls the future in the cell.
    ///
    /// # Safety
    /// The future was put in by `put_erased`, and no other poll of it is under way.
    #[inline(always)]
    pub(crate) unsafe fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let vtable = self.vtable.get().expect("a future is there");
        // SAFETY: the vtable is that of the future which is there.
        unsafe { (vtable.poll)(self, context) }
    }

    /// Drops the `F` in the cell.
    ///
    /// # Safety
    /// An `F` is there.
    #[inline(always)]
    pub(crate) unsafe fn clear_as<F>(&self) {
        self.vtable.set(None); // first: if the drop panics, there is none to be dropped again
        // SAFETY: as the caller promises.
        unsafe { self.drop_as::<F>() }
    }

    /// Drops the future, if there is one.
    pub(crate) fn clear(&self) {
        if let Some(vtable) = self.vtable.take() {
            // SAFETY: the vtable was that of the future which is there.
            unsafe { (vtable.drop)(self) }
        }
    }

    #[inline(always)]
    fn at<F>(&self) -> *mut F {
        if fits::<F>() {
            self.inline.get().cast()
        } else {
            self.heap.get().map_or(ptr::null_mut(), |(p, _)| p.as_ptr().cast())
        }
    }

    #[inline(always)]
    unsafe fn drop_as<F>(&self) {
        // SAFETY: an `F` is there, and no longer claimed by a vtable.
        unsafe { self.at::<F>().drop_in_place() };
        if !fits::<F>() && self.heap.get().is_some_and(|(_, layout)| layout.size() > KEPT_BYTES_MAX) {
            self.release();
        }
    }

    /// Makes sure that there is a buffer that holds `layout`.
    #[cold]
    fn reserve(&self, layout: Layout) {
        if self
            .heap
            .get()
            .is_some_and(|(_, have)| have.size() >= layout.size() && have.align() >= layout.align())
        {
            return;
        }
        self.release();
        let layout = Layout::from_size_align(layout.size().max(1), layout.align()).expect("a type's layout");
        // SAFETY: the size is at least 1.
        let p = unsafe { alloc(layout) };
        let Some(p) = NonNull::new(p) else { handle_alloc_error(layout) };
        self.heap.set(Some((p, layout)));
    }

    fn release(&self) {
        if let Some((p, layout)) = self.heap.take() {
            // SAFETY: from `alloc` with this layout; no future is in it.
            unsafe { dealloc(p.as_ptr(), layout) };
        }
    }
}

impl Drop for FutureCell {
    fn drop(&mut self) {
        self.clear();
        self.release();
    }
}
