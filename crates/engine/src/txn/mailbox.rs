//! A transaction's mailbox: places for its operations in flight and one word that tells the worker
//! what to do before it polls.
//!
//! Invariants:
//! - Bit `i < PLACES` of `todo` is set only if place `i` is taken (bit `i` of `used`) and holds an
//!   operation with steps left.
//! - Bit 0 alone is the common case, and the only one that the hot path knows.
//! - Bit `WAKE` of `todo` is set exactly while there are `wakers`.
//! - Operations are plain data: releasing a place is how one is cancelled.

use super::attempt::Commit;
use super::engine::Context;
use super::fault::Fault;
use super::point::Point;
use super::pool::Pool;
use super::recent::Recent;
use super::row_wait::Blocker;
use super::run::Run;
use super::secondary::Upkeep;
use super::table::TableInner;
use crate::cc::{Abort, ConcurrencyControl, Intent, NotBegun, Ticket};
use crate::error::Result;
use crate::exec::Operations;
use crate::index::Key;
use crate::memory::Arena;
use crate::options::Durability;
use crate::profile::Activity;
use crate::record::RecordId;
use crate::suspend::Suspend;
use crate::sync::Backoff;
use crate::sync::atomic::Ordering;
use crate::wal::Lsn;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::task::{Poll, Waker};

/// Operations in flight per transaction; what is more runs in place.
pub(crate) const PLACES: usize = 8;
const PLACES_MASK: u32 = (1 << PLACES) - 1;
// Bits of `todo` beyond the places:
pub(super) const COMMIT: u32 = 1 << 16;
const STEP_ASIDE: u32 = 1 << 17;
const VACANT: u32 = 1 << 18;
/// Some of the transaction's futures are polled with wakers of their own, which are to be called when nothing is left.
const WAKE: u32 = 1 << 19;
pub(super) const BEGIN: u32 = 1 << 20;
/// A transaction that has more operations is long: about a tenth of a millisecond where all memory is in caches.
const OPERATIONS_SHORT_MAX: u32 = 1024;
/// No place.
pub(crate) const NOWHERE: u8 = u8::MAX;

/// How long an operation in place waits for a commit on another thread: it is that thread's turn to go on, or
/// this one's, if the other transaction is suspended on it. So there is an end to it.
#[derive(Debug, Default)]
pub(super) struct Patience {
    backoff: Backoff,
    waits: u32,
}

impl Patience {
    const WAITS_MAX: u32 = 10_000;

    /// It has been long enough.
    pub(super) fn is_over(&self) -> bool {
        self.waits >= Patience::WAITS_MAX
    }

    /// Waits a little; false: it has been long enough.
    #[cold]
    pub(super) fn wait(&mut self) -> bool {
        self.backoff.wait();
        self.waits += 1;
        self.waits < Patience::WAITS_MAX
    }
}

/// How a transaction's operations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InPlace {
    /// Through the mailbox, stepped by a worker.
    Not,
    /// At once, without prefetching.
    Naive,
    /// At once, with prefetching.
    Prefetching,
}

/// What a place holds.
pub(crate) enum Op<C: ConcurrencyControl> {
    Point(Point<C>),
    /// A point operation that ends where it would visit the record.
    Probe(Point<C>),
    Run(*mut Run<C>),
    Upkeep(*mut Upkeep<C>),
    /// Nothing but the epoch of what the future itself is walking.
    Hold,
}

/// The inside of [`Txn`](super::Txn).
#[repr(C, align(64))]
pub(crate) struct Desk<C: ConcurrencyControl> {
    pub(super) todo: Cell<u32>,
    pub(super) used: Cell<u32>,
    pub(super) in_place: Cell<InPlace>,
    /// Transactions begin and commit through the mailbox even if they need not: the worker's policy wants to leave them there.
    pub(super) pauses: bool,
    pub(super) recent: Recent<C>,
    pub(super) database: u64,
    pub(super) shared: *const C::Shared,
    /// The scheme's part. Borrowed only within single calls.
    pub(super) state: UnsafeCell<C::Txn>,
    places: [UnsafeCell<MaybeUninit<Op<C>>>; PLACES],
    /// Of the worker, or of the operation that a `Transaction` runs now.
    pub(super) context: Cell<NonNull<Context<C>>>,
    pub(super) doomed: Cell<Option<Fault>>,
    pub(super) read_only: Cell<bool>,
    /// What that is before a transaction says anything.
    read_only_default: bool,
    /// When the present transaction is acknowledged.
    pub(super) durability: Cell<Durability>,
    /// What that is if it does not say.
    pub(super) durability_default: Durability,
    /// Until where the log has to be durable before the output of the transaction that has just ended goes out.
    pub(super) held_until: Cell<u64>,
    /// Where the record of the last commit ends in the log; 0 if it has none.
    pub(super) end_lsn: Cell<Lsn>,
    /// Something may have been read of which the scheme has not been told.
    pub(super) reads_untracked: Cell<bool>,
    /// Operations of this attempt so far; four rows of a scan count as one.
    pub(super) operations: Cell<u32>,
    /// Known to be a long transaction, or found to be.
    is_long: Cell<bool>,
    /// Differs between the desks of a database. (An address would make runs differ, too.)
    pub(super) number: u32,
    /// Of the worker's slots, the one that this is beside.
    pub(super) slot: usize,
    rounds: Cell<u32>,
    /// What the transaction is at while the worker passes by.
    aside: Cell<Activity>,
    pub(super) commit: Cell<Commit<C>>,
    pub(super) committed: Cell<Option<Result<(), Abort>>>,
    pub(super) begun: Cell<Option<Result<(), NotBegun>>>,
    pub(super) arena: UnsafeCell<Arena>,
    pub(super) scratch: Cell<Vec<u8>>,
    /// Of scans.
    pub(super) runs: Pool<Run<C>>,
    /// A person or another program drives the transaction: it may block its thread.
    pub(super) is_interactive: Cell<bool>,
    /// Places in line for rows that it has, those of forgotten operations included.
    pub(super) waits: Cell<u32>,
    /// Its turn for a row that it has had to be run again for: others in line for that wait until this attempt is over.
    pub(super) turn: Cell<Option<Ticket>>,
    /// Of the slot that this is in; null: of a `Transaction`.
    slot_waker: Cell<*const Waker>,
    /// See `pend`.
    wakers: RefCell<Vec<Waker>>,
    /// What the last conflict was about.
    pub(super) blocker: Cell<Option<Blocker>>,
    /// Of writes of tables that have indexes.
    pub(super) upkeeps: Pool<Upkeep<C>>,
    /// Times that it has cleaned up because memory was short.
    pub(super) reliefs: Cell<u32>,
    /// Memory was short, and some is on its way.
    pub(super) is_relieved: Cell<bool>,
    /// The record of the last write under a key that the index did not have.
    pub(super) created: Cell<RecordId>,
}

impl<C: ConcurrencyControl> Desk<C> {
    /// Of slot number `slot` of the worker with this context, or of a `Transaction`.
    pub(crate) fn new(context: NonNull<Context<C>>, slot: usize, in_place: InPlace, pauses: bool) -> Self {
        // SAFETY: a worker's context outlives its slots; a `Transaction`'s is lent for this call.
        let engine = unsafe { &context.as_ref().engine };
        Desk {
            todo: Cell::new(VACANT),
            used: Cell::new(0),
            in_place: Cell::new(in_place),
            pauses,
            recent: Recent::default(),
            database: engine.id,
            shared: &raw const engine.shared,
            state: UnsafeCell::new(C::txn(&engine.shared)),
            places: [const { UnsafeCell::new(MaybeUninit::uninit()) }; PLACES],
            context: Cell::new(context),
            doomed: Cell::new(None),
            read_only: Cell::new(engine.is_read_only()),
            read_only_default: engine.is_read_only(),
            reads_untracked: Cell::new(false),
            durability: Cell::new(engine.options.durability),
            durability_default: engine.options.durability,
            held_until: Cell::new(0),
            end_lsn: Cell::new(Lsn(0)),
            operations: Cell::new(0),
            is_long: Cell::new(false),
            number: engine.desks.fetch_add(1, Ordering::Relaxed), // only difference counts
            slot,
            rounds: Cell::new(0),
            aside: Cell::new(Activity::BackOff),
            commit: Cell::default(),
            committed: Cell::new(None),
            begun: Cell::new(None),
            arena: UnsafeCell::new(Arena::new(&engine.memory)),
            scratch: Cell::default(),
            runs: Pool::default(),
            is_interactive: Cell::new(false),
            waits: Cell::new(0),
            slot_waker: Cell::new(ptr::null()),
            wakers: RefCell::default(),
            turn: Cell::new(None),
            blocker: Cell::new(None),
            upkeeps: Pool::default(),
            reliefs: Cell::new(0),
            is_relieved: Cell::new(false),
            created: Cell::new(RecordId(0)),
        }
    }

    #[inline(always)]
    pub(super) fn context(&self) -> &Context<C> {
        // SAFETY: set by the worker that owns the slot, or for the present operation.
        unsafe { self.context.get().as_ref() }
    }

    #[inline(always)]
    pub(super) fn shared(&self) -> &C::Shared {
        // SAFETY: the engine is held by the worker or the `Transaction`.
        unsafe { &*self.shared }
    }

    /// What comes next is `activity`, if that is being noted.
    #[inline(always)]
    pub(super) fn enter(&self, activity: Activity) {
        let profile = &self.context().profile;
        if profile.is_timing() {
            profile.enter(activity);
        }
    }

    /// A free place; `None`: operations run in place.
    #[inline(always)]
    fn free_place(&self) -> Option<u8> {
        self.count_operations(1);
        if self.operations.get() > OPERATIONS_SHORT_MAX {
            self.become_long();
        }
        if self.in_place.get() != InPlace::Not {
            return None;
        }
        let i = (!self.used.get()).trailing_zeros();
        ((i as usize) < PLACES).then_some(i as u8)
    }

    /// What a future answers while an operation that it has posted is left.
    ///
    /// The worker polls the transaction when nothing is left, without a call of its waker. A combinator that polls a future
    /// only if that one's waker was called, as `FuturesUnordered` does, polls it with a waker of its own: that is called then.
    #[inline(always)]
    pub(super) fn pend<T>(&self, context: &std::task::Context<'_>) -> Poll<T> {
        if !ptr::eq(context.waker(), self.slot_waker.get()) {
            self.wake_later(context.waker());
        }
        Poll::Pending
    }

    #[cold]
    fn wake_later(&self, waker: &Waker) {
        // SAFETY: null, or the waker of the slot that the mailbox is in.
        let Some(slot_waker) = (unsafe { self.slot_waker.get().as_ref() }) else { return };
        if slot_waker.will_wake(waker) {
            return;
        }
        let mut wakers = self.wakers.borrow_mut();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        self.todo.set(self.todo.get() | WAKE);
    }

    /// Before `todo` is cleared.
    #[inline(always)]
    fn forget_wakers(&self) {
        if self.todo.get() & WAKE != 0 {
            self.drop_wakers();
        }
    }

    #[cold]
    fn drop_wakers(&self) {
        drop(self.wakers.take());
    }

    /// Counts what the attempt does.
    #[inline(always)]
    pub(super) fn count_operations(&self, n: u32) {
        self.operations.set(self.operations.get().saturating_add(n));
    }

    /// It is known to be long, or has turned out to be: others may run between its operations from now on, and it can
    /// be cancelled there.
    #[cold]
    fn become_long(&self) {
        if !self.is_long.get() && self.leave_place() {
            self.is_long.set(true);
            self.context().longs.update(|n| n + 1);
        }
    }

    /// Operations go through the mailbox from now on, for the rest of the transaction. (Those in place have ended: no
    /// poll leaves one behind.) False: the worker does not step it.
    #[cold]
    pub(super) fn leave_place(&self) -> bool {
        let may = self.context().may_leave_place.get();
        if may {
            self.in_place.set(InPlace::Not);
        }
        may
    }

    /// Puts an operation into a free place.
    #[inline(always)]
    fn take_place(&self, i: u8, op: Op<C>) {
        debug_assert!(self.used.get() >> i & 1 == 0);
        // SAFETY: free, so no one looks at it.
        unsafe { (*self.places[i as usize].get()).write(op) };
        self.used.set(self.used.get() | 1 << i);
        self.todo.set(self.todo.get() | 1 << i);
    }

    /// Takes a free place for an operation; `None`: run it in place.
    #[inline(always)]
    pub(super) fn post(&self, op: Op<C>) -> Option<u8> {
        let place = self.free_place()?;
        self.take_place(place, op);
        Some(place)
    }

    /// Has the operation in this taken place, which has come to an end, stepped again.
    pub(super) fn go_on(&self, place: u8) {
        debug_assert!(self.is_done(place));
        self.todo.set(self.todo.get() | 1 << place);
    }

    /// The operation in this taken place needs no step.
    pub(super) fn set_done(&self, place: u8) {
        debug_assert!(!self.is_done(place));
        self.todo.set(self.todo.get() & !(1 << place));
    }

    /// As `post`, for the commonest operation, which is made where it stays: one made elsewhere, in parts, and
    /// copied in wider words than these would have the processor wait.
    #[inline(always)]
    pub(super) fn post_point(&self, table: &TableInner, key: Key, intent: Intent) -> Option<u8> {
        let place = self.free_place()?;
        self.take_place(place, Op::Point(Point::new(table, key, intent)));
        self.point_at(place).prepare();
        Some(place)
    }

    #[inline(always)]
    pub(super) fn release(&self, place: u8) {
        debug_assert!(self.used.get() >> place & 1 == 1);
        self.todo.set(self.todo.get() & !(1 << place));
        self.used.set(self.used.get() & !(1 << place));
    }

    /// The transaction will not write. The scheme, which may move it to a later snapshot, is told so only while no
    /// operation is under way in the present one, and none has lent out what that alone keeps alive.
    pub(super) fn declare_read_only(&self) {
        self.read_only.set(true);
        if self.used.get() == 0 && !self.reads_untracked.get() {
            // SAFETY: not borrowed outside of single calls.
            C::declare_read_only(self.context().env(), unsafe { &mut *self.state.get() });
        }
    }

    /// Takes a place for nothing but to hold the epoch of whatever the future itself is walking.
    pub(super) fn hold(&self) -> Option<u8> {
        let place = (!self.used.get()).trailing_zeros();
        if place as usize >= PLACES {
            return None;
        }
        // SAFETY: free, so no one looks at it.
        unsafe { (*self.places[place as usize].get()).write(Op::Hold) };
        self.used.set(self.used.get() | 1 << place);
        Some(place as u8)
    }

    /// An operation on a row that the transaction has read a value of lately, with the record found.
    #[inline(always)]
    pub(super) fn recent_point(
        &self,
        table: *const TableInner,
        key: Key,
        intent: Intent,
    ) -> Option<Point<C>> {
        // SAFETY: not borrowed outside of single calls.
        let record = self.recent.find(table, &key, unsafe { &mut *self.state.get() })?;
        // SAFETY: tables live as long as their database.
        Some(Point::at(unsafe { &*table }, key, record, intent))
    }

    /// Has the operation in this taken place been stepped to its end?
    #[inline(always)]
    pub(super) fn is_done(&self, place: u8) -> bool {
        debug_assert!(self.used.get() >> place & 1 == 1);
        self.todo.get() >> place & 1 == 0
    }

    /// The point operation in a taken place; it stays there until the place is released and taken again.
    #[inline(always)]
    pub(super) fn point(&self, place: u8) -> &Point<C> {
        debug_assert!(self.used.get() >> place & 1 == 1);
        self.point_at(place)
    }

    #[inline(always)]
    fn point_at(&self, place: u8) -> &Point<C> {
        // SAFETY: taken, now or before, so written; not stepped meanwhile.
        match unsafe { (*self.places[place as usize].get()).assume_init_ref() } {
            Op::Point(point) | Op::Probe(point) => point,
            Op::Run(_) | Op::Upkeep(_) | Op::Hold => {
                unreachable!("a point future's place holds a point operation")
            }
        }
    }

    #[inline(always)]
    fn step_place<S: Suspend>(&self, place: usize, s: &mut S) -> bool {
        // SAFETY: bit `place` of `todo` is set, so it is written, and the transaction open.
        let op = unsafe { (*self.places[place].get()).assume_init_mut() };
        // SAFETY: not borrowed outside of single calls.
        let txn = unsafe { &mut *self.state.get() };
        let env = self.context().env();
        match op {
            // SAFETY: inside the epoch of the slot's stamp; tables outlive transactions.
            Op::Point(point) => unsafe { point.step(env, txn, s) },
            // SAFETY: as above.
            Op::Probe(point) => unsafe { point.probe(s) },
            // SAFETY: runs are boxed and live as long as the transaction; else as above.
            Op::Run(run) => unsafe { (**run).step(env, txn, s) },
            // SAFETY: likewise.
            Op::Upkeep(upkeep) => unsafe { (**upkeep).step(env, txn, s) },
            Op::Hold => unreachable!("it has no steps"),
        }
    }

    /// The places that are taken.
    fn taken(&self) -> impl Iterator<Item = usize> {
        let used = self.used.get();
        (0..PLACES).filter(move |place| used >> place & 1 == 1)
    }

    #[inline(never)]
    fn step_rare<S: Suspend>(&self, s: &mut S) -> bool {
        let mut todo = self.todo.get();
        debug_assert!(todo & VACANT == 0);
        let mut left = todo & PLACES_MASK;
        while left != 0 {
            let place = left.trailing_zeros();
            left &= left - 1;
            if self.step_place(place as usize, s) {
                todo &= !(1 << place);
            }
        }
        if todo & BEGIN != 0
            && let Some(begun) = self.step_begin(s)
        {
            self.begun.set(Some(begun));
            todo &= !BEGIN;
        }
        if todo & COMMIT != 0 {
            let mut commit = self.commit.get();
            let result = self.step_commit(&mut commit, s);
            self.commit.set(commit);
            if result.is_some() {
                self.committed.set(result);
                todo &= !COMMIT;
            }
        }
        if todo & STEP_ASIDE != 0 {
            s.was(self.aside.get());
            self.rounds.set(self.rounds.get().saturating_sub(1));
            if self.rounds.get() == 0 {
                todo &= !STEP_ASIDE;
            }
        }
        if todo == WAKE {
            self.todo.set(0);
            self.wakers.take().into_iter().for_each(Waker::wake);
            return true;
        }
        self.todo.set(todo);
        todo == 0
    }

    /// Lets the worker pass by for some rounds, in which the transaction is at `activity`.
    pub(super) fn post_step_aside(&self, rounds: u32, activity: Activity) {
        self.rounds.set(rounds);
        self.aside.set(activity);
        self.todo.set(self.todo.get() | STEP_ASIDE);
    }

    /// Lets the next one in line have the turn that was kept, if one was.
    #[inline(always)]
    pub(super) fn leave_turn(&self) {
        if let Some(ticket) = self.turn.take() {
            C::waits(self.shared()).leave(ticket);
        }
    }

    /// Forgets whatever is posted or lent; operations' futures may have been leaked.
    pub(super) fn clear(&self) {
        self.forget_wakers();
        self.todo.set(0);
        self.used.set(0);
        self.recent.clear();
        self.doomed.set(None);
        self.read_only.set(self.read_only_default);
        self.reads_untracked.set(false);
        self.durability.set(self.durability_default);
        self.committed.set(None);
        if self.waits.take() != 0 {
            // SAFETY: not borrowed outside of single calls.
            C::waits(self.shared()).leave_all(C::place(unsafe { &*self.state.get() }));
            self.turn.set(None); // it was one of them
        }
        // SAFETY: the attempt is over: nothing that it copied is used any more.
        unsafe { (*self.arena.get()).reset() };
    }
}

impl<C: ConcurrencyControl> Operations for Desk<C> {
    #[inline(always)]
    fn step<S: Suspend>(&self, s: &mut S) -> bool {
        if self.todo.get() != 1 {
            return self.todo.get() == 0 || self.step_rare(s);
        }
        let done = self.step_place(0, s);
        if done {
            self.todo.set(0);
        }
        done
    }

    #[inline(always)]
    fn has_pending(&self) -> bool {
        self.todo.get() != 0
    }

    #[inline(always)]
    fn has_unfetched(&self) -> bool {
        self.used.get() & !self.todo.get() != 0
    }

    fn must_finish(&self) -> bool {
        self.todo.get() & COMMIT != 0 || self.committed.get().is_some()
    }

    /// Searches for one key can: what is known of them lies in their places. (A commit needs no epoch from one step to
    /// the next.)
    fn can_restart(&self) -> bool {
        // SAFETY: taken, so written; not stepped meanwhile.
        let op = |place: usize| unsafe { (*self.places[place].get()).assume_init_ref() };
        self.taken().all(|place| matches!(op(place), Op::Point(_) | Op::Probe(_)))
    }

    fn restart(&self) {
        for place in self.taken() {
            // SAFETY: taken, so written; not stepped meanwhile.
            match unsafe { (*self.places[place].get()).assume_init_mut() } {
                Op::Point(point) | Op::Probe(point) => {
                    // SAFETY: tables live as long as their database.
                    let table = unsafe { &*point.table };
                    *point = Point::new(table, point.key, point.intent);
                }
                Op::Run(_) | Op::Upkeep(_) | Op::Hold => unreachable!("asked before"),
            }
            self.todo.set(self.todo.get() | 1 << place);
        }
    }

    fn work_under_way(&self) -> u64 {
        if self.todo.get() & VACANT == 0 { u64::from(self.operations.get()) } else { 0 }
    }

    fn started(&self) {
        self.todo.set(0);
        self.used.set(0);
        self.operations.set(0);
        self.in_place.set(self.context().in_place.get());
    }

    fn set_long(&self) {
        self.become_long();
    }

    fn placed(&self, slot_waker: &Waker) {
        self.slot_waker.set(slot_waker);
    }

    fn ended(&self) {
        self.leave_turn();
        self.forget_wakers();
        self.todo.set(VACANT);
        self.used.set(0);
        if self.is_long.take() {
            self.context().longs.update(|n| n - 1);
        }
        // No operation is left; those leaked have given nothing back.
        self.runs.reclaim();
        self.upkeeps.reclaim();
    }
}

impl<C: ConcurrencyControl> Drop for Desk<C> {
    fn drop(&mut self) {
        // SAFETY: the engine is held by the worker or `Transaction` that this is a part of.
        C::drop_txn(unsafe { &*self.shared }, self.state.get_mut());
    }
}
