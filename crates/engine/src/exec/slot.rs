//! Slots: places for open futures. A slot never moves and is reached by `&` only.
//!
//! Invariants:
//! - `all` owns every slot. Each slot is in exactly one of: `free`, the worker's live list, parked, or in the hands
//!   of the worker on its way between them. (After a panic `Slots::clear` restores this.)
//! - A slot's state is `Vacant` exactly while its cell is empty.
//! - `stamp != NO_STAMP` while an operation is in flight. The stamp is not later than the epoch in which the
//!   operation was posted.

use crate::epoch::Local;
use crate::exec::cell::FutureCell;
use crate::exec::contract::{Host, Operations};
use crate::exec::wake::notifier::{Notifier, SlotWaker, Wakes};
use crate::suspend::Suspend;
use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;

/// The stamp of a slot with nothing in flight: later than every epoch.
pub(crate) const NO_STAMP: u64 = u64::MAX;

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Vacant,
    Live,
    Parked,
}

/// A place for one open future.
pub(crate) struct Slot<M> {
    pub(crate) future: FutureCell, // before `operations`, from which it borrows: fields are dropped in order
    pub(crate) state: Cell<State>,
    /// The waker was called although the future is not parked. The next visit polls the future, whether or not
    /// operations are left.
    pub(crate) woken: Cell<bool>,
    pub(crate) stamp: Cell<u64>,
    pub(crate) waker: Waker,
    pub(crate) index: u32,
    pub(crate) operations: M,
}

impl<M: Operations> Slot<M> {
    /// Records that a future was put in.
    #[inline(always)]
    pub(crate) fn started(&self) {
        debug_assert_eq!(self.state.get(), State::Vacant);
        self.operations.started();
        self.state.set(State::Live);
    }

    /// Steps the slot's operations. Returns true if the worker polls the future next: as soon as no operation is
    /// left, or, under a policy that gathers, in the round after that.
    #[inline(always)]
    pub(crate) fn step<S: Suspend>(&self, policy: &mut S) -> bool {
        if !S::GATHERS {
            return self.operations.step(policy);
        }
        let has_pending = self.operations.has_pending();
        if has_pending {
            self.operations.step(policy);
        }
        !has_pending
    }

    /// Records a poll that returned `Pending`. `early`: operations may have been left when the poll began. Returns
    /// true if the poll has posted something. The stamp is renewed here, after the poll, and only if that poll posted
    /// everything in flight. The poll has used by now what it fetched.
    #[inline(always)]
    pub(crate) fn pended(&self, local: &Local, early: bool) -> bool {
        let has_pending = self.operations.has_pending();
        let has_unfetched = self.operations.has_unfetched();
        let has_older = (early || has_unfetched) && self.stamp.get() != NO_STAMP;
        if !has_older {
            self.stamp.set(if has_pending || has_unfetched { local.now() } else { NO_STAMP });
        }
        has_pending
    }

    /// Drops the future, which is an `F`, and everything it posted.
    ///
    /// # Safety
    /// An `F` is there.
    #[inline(always)]
    pub(crate) unsafe fn vacate_as<F: Future>(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.future.clear_as::<F>() };
        self.ended();
    }

    /// Drops the future and everything it posted.
    pub(crate) fn vacate(&self) {
        struct Vacated<'s, M: Operations>(&'s Slot<M>);
        impl<M: Operations> Drop for Vacated<'_, M> {
            fn drop(&mut self) {
                self.0.ended();
            }
        }
        let _even_if_the_drop_panics = Vacated(self);
        self.future.clear();
    }

    #[inline(always)]
    fn ended(&self) {
        self.operations.ended();
        self.stamp.set(NO_STAMP);
        self.woken.set(false);
        self.state.set(State::Vacant);
    }
}

/// All slots of a worker, and the free ones among them.
pub(crate) struct Slots<M> {
    /// Leaked boxes, because moving a box would end the pointers' right to its content.
    all: Vec<NonNull<Slot<M>>>,
    free: Vec<NonNull<Slot<M>>>,
    slots_max: usize,
    pub(crate) wakes: Arc<Wakes>,
}

impl<M: Operations> Slots<M> {
    /// Makes `slots` slots now, and up to `slots_max` when needed.
    pub(crate) fn new(
        host: &impl Host<Operations = M>,
        slots: usize,
        slots_max: usize,
        notifier: Arc<Notifier>,
    ) -> Self {
        let mut me = Slots {
            all: Vec::with_capacity(slots_max),
            free: Vec::with_capacity(slots_max),
            slots_max,
            wakes: Arc::new(Wakes::new(notifier, slots_max)),
        };
        for _ in 0..slots {
            let slot = me.grow(host);
            me.free.push(slot);
        }
        me.free.reverse(); // the first slot first
        me
    }

    /// Returns a vacant slot, and makes one if necessary. `None` at the limit.
    pub(crate) fn vacant(&mut self, host: &impl Host<Operations = M>) -> Option<NonNull<Slot<M>>> {
        match self.free.pop() {
            None if self.all.len() < self.slots_max => Some(self.grow(host)),
            slot => slot,
        }
    }

    /// Takes a vacant slot back.
    #[inline]
    pub(crate) fn give_back(&mut self, slot: NonNull<Slot<M>>) {
        debug_assert!(self.free.len() < self.slots_max);
        self.free.push(slot);
    }

    /// Returns the number of slots that `vacant` could still hand out.
    pub(crate) fn vacancies(&self) -> usize {
        self.slots_max - self.all.len() + self.free.len()
    }

    /// Returns the limit of slots.
    pub(crate) fn slots_max(&self) -> usize {
        self.slots_max
    }

    /// Returns every slot made so far.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot<M>> {
        // SAFETY: slots live as long as `self`, and are reached by `&` only.
        self.all.iter().map(|p| unsafe { p.as_ref() })
    }

    /// Returns slot number `index`.
    pub(crate) fn at(&self, index: usize) -> Option<NonNull<Slot<M>>> {
        self.all.get(index).copied()
    }

    /// Drops every future, and makes all slots free. A panic of a drop is passed on when all are dropped. It is
    /// ignored if another panic is already under way.
    pub(crate) fn clear(&mut self) {
        let mut panic = None;
        for slot in self.iter().filter(|slot| slot.state.get() != State::Vacant) {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| slot.vacate())) {
                panic.get_or_insert(payload);
            }
        }
        self.free.clear();
        self.free.extend(self.all.iter().rev());
        if let Some(payload) = panic
            && !std::thread::panicking()
        {
            resume_unwind(payload);
        }
    }

    #[cold]
    fn grow(&mut self, host: &impl Host<Operations = M>) -> NonNull<Slot<M>> {
        let index = self.all.len();
        assert!(index < self.slots_max, "slots are limited");
        let slot = Box::new(Slot {
            future: FutureCell::new(),
            state: Cell::new(State::Vacant),
            woken: Cell::new(false),
            stamp: Cell::new(NO_STAMP),
            waker: Waker::from(Arc::new(SlotWaker::new(&self.wakes, index))),
            index: index as u32,
            operations: host.operations(index),
        });
        let slot = Box::leak(slot);
        slot.operations.placed(&slot.waker);
        let slot = NonNull::from(slot);
        self.all.push(slot);
        slot
    }
}

impl<M> Drop for Slots<M> {
    fn drop(&mut self) {
        for slot in self.all.drain(..) {
            // SAFETY: `grow` leaked the slot, once, and no reference to it is left.
            drop(unsafe { Box::from_raw(slot.as_ptr()) });
        }
    }
}
