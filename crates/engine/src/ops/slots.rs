//! Posting, stepping and releasing the operations of a transaction.
//!
//! An operation goes through these steps:
//! 1. *Post.* The first poll of its future takes a free slot and writes the step machine there (`post`, `post_point`).
//!    This sets the slot's bit in `used` and in `todo`.
//! 2. *First step.* If the memory that a point operation reads is likely to be in the caches (`Posted::is_cached`), the
//!    future steps the operation at once (`step_at_once`). If the operation is then done, step 5 follows in the same
//!    poll.
//! 3. *Pend.* The future returns `Pending`.
//! 4. *Step.* The worker calls `step` in each of its rounds. A step runs every operation with a bit in `todo` to its
//!    next probable miss, and clears the bits of the operations that are done. When `todo` is 0, the worker polls the
//!    transaction.
//! 5. *Fetch.* The future finds that its operation is done (`is_done`), takes the result out of the slot and releases
//!    the slot (`release`). Releasing also cancels an operation whose future is dropped.
//!
//! In sequential execution, or without a free slot, `post` returns `None`, and the operation runs where it is polled
//! (`inline.rs`). If it then has to wait for another transaction, `post_waiting` gives it a slot or a place beside the
//! slots (`late.rs`), and it goes on with step 3.

use super::bounded_wait::{BoundedWait, WAITS_FOR_COMMIT};
use super::inline::UnderPolicy;
use super::late::SLOTS;
use super::point::Point;
use super::state::{
    BEGIN, COMMIT, LATE, LATE_TAKEN, Op, SLOTS_MASK, STEP_ASIDE, TxnState, VACANT, WAKE, YIELDS,
};
use crate::cc::{Abort, Admission, ConcurrencyControl, Intent};
use crate::exec::{Execution, Operations};
use crate::index::Key;
use crate::profile::Activity;
use crate::suspend::{PrefetchOnly, Suspend};
use crate::table::{Fault, TableInner};
use std::task::Waker;

/// A point operation that has been put into a place.
#[derive(Clone, Copy)]
pub(crate) struct Posted {
    pub(crate) place: u8,
    /// What the operation reads is likely to be in the caches, because its descent is short (see
    /// [`Index::is_short`](crate::index::Index::is_short)) or because the transaction is run again.
    pub(crate) is_cached: bool,
}

/// A taken place whose operation is to be stepped.
struct Place<'t, C: ConcurrencyControl>(&'t TxnState<C>, u8);

impl<C: ConcurrencyControl> UnderPolicy for Place<'_, C> {
    type Output = bool;

    fn call<S: Suspend>(self, s: &mut S) -> bool {
        self.0.step_slot(self.1 as usize, s)
    }
}

impl<C: ConcurrencyControl> TxnState<C> {
    /// Returns a free slot. `None`: the operation runs where it is polled.
    #[inline(always)]
    fn free_slot(&self) -> Option<u8> {
        if self.execution.get() != Execution::Interleaved {
            return None;
        }
        let i = (!self.used.get()).trailing_zeros();
        ((i as usize) < SLOTS).then_some(i as u8)
    }

    /// Puts an operation into a free slot.
    #[inline(always)]
    fn fill_slot(&self, i: u8, op: Op<C>) {
        debug_assert!(self.used.get() >> i & 1 == 0);
        // SAFETY: the slot is free, so nothing reads it.
        unsafe { (*self.slot_at(i as usize)).write(op) };
        self.used.set(self.used.get() | 1 << i);
        self.todo.set(self.todo.get() | 1 << i);
    }

    /// Puts an operation into a free slot. `None`: the caller runs it in place.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn post(&self, op: Op<C>) -> Option<u8> {
        self.count_operation();
        let place = self.free_slot()?;
        self.fill_slot(place, op);
        Some(place)
    }

    /// Gives a place to an operation that was run where it was polled and has to wait for another transaction. From now
    /// on the worker steps the operation, whatever its policy is. The operation does not wait in place, because the
    /// other transaction may be on the same worker, which has to step it.
    ///
    /// Fails in an interactive transaction, which has already waited, and if the transaction has as many operations as
    /// places can be numbered.
    #[cold]
    pub(crate) fn post_waiting(&self, op: Op<C>) -> Result<u8, Fault> {
        let is_stepped = !self.is_interactive.get();
        match is_stepped.then(|| self.fill_any(op, true)).flatten() {
            Some(place) => {
                self.give_core_away();
                Ok(place)
            }
            None => Err(self.doom(Fault::Abort(Abort::WaitTimeout))),
        }
    }

    /// Puts an operation, with or without steps left, into a slot, or beside the slots if none is free. `None`: there
    /// are too many.
    fn fill_any(&self, op: Op<C>, has_steps: bool) -> Option<u8> {
        let slot = (!self.used.get()).trailing_zeros() as usize;
        if slot < SLOTS {
            self.fill_slot(slot as u8, op);
            if !has_steps {
                self.set_done(slot as u8);
            }
            return Some(slot as u8);
        }
        let place = self.late.put(op, has_steps)?;
        self.used.set(self.used.get() | LATE_TAKEN);
        self.note_late();
        Some(place)
    }

    /// Updates `LATE` after a change in the places beside the slots.
    #[cold]
    fn note_late(&self) {
        let is_left = if self.late.has_any_steps() { LATE } else { 0 };
        self.todo.set(self.todo.get() & !LATE | is_left);
    }

    /// Makes the worker give its core away between two looks at a posted operation that waits for another transaction.
    /// Does this only in sequential execution: the worker has little else to do, and the other transaction's thread may
    /// need the core.
    #[cold]
    pub(crate) fn give_core_away(&self) {
        if self.execution.get() != Execution::Interleaved && self.todo.get() & YIELDS == 0 {
            self.patience.set(BoundedWait::default());
            self.todo.set(self.todo.get() | YIELDS);
        }
    }

    /// Has the operation in this taken place, which was done, stepped again.
    pub(crate) fn go_on(&self, place: u8) {
        debug_assert!(self.is_done(place));
        if place as usize >= SLOTS {
            self.late.go_on(place);
            return self.note_late();
        }
        self.todo.set(self.todo.get() | 1 << place);
    }

    /// Notes that the operation in this slot needs no further step.
    pub(crate) fn set_done(&self, place: u8) {
        debug_assert!(!self.is_done(place));
        self.todo.set(self.todo.get() & !(1 << place));
    }

    /// Posts a point operation, the commonest operation, like `post`. The operation is made where it stays. If it were
    /// made elsewhere in parts, and then copied in words wider than these parts, the processor would have to wait.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn post_point(&self, table: &TableInner, key: Key, intent: Intent) -> Option<Posted> {
        self.count_operation();
        if self.execution.get() != Execution::Interleaved {
            return None;
        }
        if self.used.get() != 0 {
            return self.post_point_beside(table, key.slice, key.bytes, key.len, intent);
        }
        Some(self.post_point_at(0, table, key, intent))
    }

    /// Posts like `post_point` while other operations are in flight. Takes the key in parts, because a key whose
    /// address is taken is copied.
    #[inline(never)]
    fn post_point_beside(
        &self,
        table: &TableInner,
        slice: u64,
        bytes: *const u8,
        len: u32,
        intent: Intent,
    ) -> Option<Posted> {
        let place = self.free_slot()?;
        Some(self.post_point_at(place, table, Key { slice, len, bytes }, intent))
    }

    #[inline(always)]
    fn post_point_at(&self, place: u8, table: &TableInner, key: Key, intent: Intent) -> Posted {
        self.fill_slot(place, Op::Point(Point::unbegun(table, key, intent)));
        // SAFETY: the slot was filled just now, and nothing else reads it yet.
        let is_short = match unsafe { (*self.slot_at(place as usize)).assume_init_mut() } {
            Op::Point(point) => point.begin(table),
            _ => unreachable!("filled just now"),
        };
        // What a retry reads is in the caches, because the failed attempt has read it. The sooner a retry ends, the
        // fewer transactions meet it.
        Posted { place, is_cached: is_short | self.is_retry.get() }
    }

    /// Steps a point operation that was posted just now and reads what is in the caches. Leaving it would take longer
    /// than these reads. Returns true if the operation is done.
    ///
    /// Does nothing in a long transaction, because other transactions have to run between its operations. Does nothing
    /// if the worker's policy decides where operations are left.
    pub(crate) fn step_at_once(&self, place: u8) -> bool {
        debug_assert!(!self.is_done(place));
        if self.pauses || self.is_long.get() {
            return false;
        }
        let is_done = self.with_policy(&mut PrefetchOnly, Activity::Useful, Place(self, place));
        if is_done {
            self.set_done(place);
        }
        is_done
    }

    #[inline(always)]
    pub(crate) fn release(&self, place: u8) {
        if place as usize >= SLOTS {
            return self.release_late(place);
        }
        debug_assert!(self.used.get() >> place & 1 == 1);
        self.todo.set(self.todo.get() & !(1 << place));
        self.used.set(self.used.get() & !(1 << place));
    }

    #[cold]
    fn release_late(&self, place: u8) {
        self.late.release(place);
        if !self.late.is_any_taken() {
            self.used.set(self.used.get() & !LATE_TAKEN);
        }
        self.note_late();
    }

    /// Takes a place that only holds the epoch of what the future itself walks. `None`: there are too many operations.
    pub(crate) fn hold(&self) -> Option<u8> {
        self.fill_any(Op::Hold, false)
    }

    /// Returns true if one more operation can be posted to a slot.
    pub(crate) fn has_free_slot(&self) -> bool {
        self.used.get() & SLOTS_MASK != SLOTS_MASK
    }

    /// Returns an operation on a row of which the transaction has lately read a value. The operation has already found
    /// its record.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn recent_point(
        &self,
        table: *const TableInner,
        key: Key,
        intent: Intent,
    ) -> Option<Point<C>> {
        if !C::KEEPS_UNTRACKED && self.reads_untracked.get() {
            return None; // the record may belong to another key by now
        }
        // SAFETY: not borrowed outside of single calls.
        let record = self.recent.find(table, &key, unsafe { &mut *self.scheme.get() })?;
        // SAFETY: tables live as long as their database.
        Some(Point::at(unsafe { &*table }, key, record, intent))
    }

    /// Returns a write under a key that belongs where the transaction has inserted last. Only the change is left to be
    /// made.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn point_behind_insert(&self, table: &TableInner, key: Key) -> Option<Point<C>> {
        let cursor = self.last_insert.cursor_for(table, &key, self.context())?;
        let mut point = Point { cursor, ..Point::unbegun(table, key, Intent::Write) };
        self.count_operations(1);
        self.step_point(&mut point, &mut PrefetchOnly).then_some(point)
    }

    /// Returns true if the operation in this taken place is done.
    #[inline(always)]
    pub(crate) fn is_done(&self, place: u8) -> bool {
        if place as usize >= SLOTS {
            return !self.late.has_steps(place);
        }
        debug_assert!(self.used.get() >> place & 1 == 1);
        self.todo.get() >> place & 1 == 0
    }

    /// Returns the point operation in a taken place. It stays there until the place is released and taken again.
    #[inline(always)]
    pub(crate) fn point(&self, place: u8) -> &Point<C> {
        debug_assert!(place as usize >= SLOTS || self.used.get() >> place & 1 == 1);
        self.point_at(place)
    }

    #[inline(always)]
    fn point_at(&self, place: u8) -> &Point<C> {
        // SAFETY: the place is or was taken, so it is written. It is not stepped meanwhile.
        match unsafe { (*self.slot_at(place as usize)).assume_init_ref() } {
            Op::Point(point) | Op::Probe(point) => point,
            Op::ScanBatch(_) | Op::IndexedWrite(_) | Op::Admission(_) | Op::Hold => {
                unreachable!("a point future's place holds a point operation")
            }
        }
    }

    #[inline(always)]
    fn step_slot<S: Suspend>(&self, place: usize, s: &mut S) -> bool {
        // SAFETY: bit `place` of `todo` is set, so the slot is written and the transaction is open.
        self.step_op(unsafe { (*self.slot_at(place)).assume_init_mut() }, s)
    }

    #[inline(always)]
    fn step_op<S: Suspend>(&self, op: &mut Op<C>, s: &mut S) -> bool {
        match op {
            Op::Point(point) => {
                // SAFETY: not borrowed outside of single calls.
                let txn = unsafe { &mut *self.scheme.get() };
                // SAFETY: the thread is inside the epoch of the slot's stamp; tables outlive transactions.
                unsafe { point.step(self.context(), txn, s) }
            }
            other => self.step_other(other, s),
        }
    }

    /// Steps an operation that reads more memory at a time than one record. It is a function of its own so that the
    /// loop over transactions stays short.
    #[inline(never)]
    fn step_other<S: Suspend>(&self, op: &mut Op<C>, s: &mut S) -> bool {
        // SAFETY: not borrowed outside of single calls.
        let (txn, context) = (unsafe { &mut *self.scheme.get() }, self.context());
        match op {
            // SAFETY: as in `step_slot`.
            Op::Probe(point) => unsafe { point.probe(s) },
            // SAFETY: batches are boxed and live as long as the transaction; the rest as in `step_slot`.
            Op::ScanBatch(batch) => unsafe { (**batch).step(context, txn, s) },
            // SAFETY: as for a batch.
            Op::IndexedWrite(write) => unsafe { (**write).step(context, txn, s) },
            Op::Admission(need) => C::admit(context.env(), txn, *need, true, s) != Admission::Suspended,
            Op::Point(_) | Op::Hold => unreachable!("stepped by the caller, or without steps"),
        }
    }

    /// Steps the operations in the places beside the slots. Returns true if none of them has steps left.
    #[cold]
    #[inline(never)]
    fn step_late<S: Suspend>(&self, s: &mut S) -> bool {
        // SAFETY: the place is taken, so it is written. Nothing else reaches it while it has steps left.
        self.late.step_each(|op| self.step_op(unsafe { &mut *op }, s))
    }

    /// Returns the places that are taken.
    fn taken(&self) -> impl Iterator<Item = usize> {
        let used = self.used.get();
        let late = if used & LATE_TAKEN == 0 { Vec::new() } else { self.late.taken() };
        (0..SLOTS).filter(move |place| used >> place & 1 == 1).chain(late)
    }

    #[inline(never)]
    fn step_slow_path<S: Suspend>(&self, s: &mut S) -> bool {
        let mut todo = self.todo.get();
        debug_assert!(todo & VACANT == 0);
        debug_assert!(todo & COMMIT == 0 || todo & (SLOTS_MASK | LATE) == 0, "the closure has ended");
        let mut left = todo & SLOTS_MASK;
        while left != 0 {
            let place = left.trailing_zeros();
            left &= left - 1;
            if self.step_slot(place as usize, s) {
                todo &= !(1 << place);
            }
        }
        if todo & LATE != 0 && self.step_late(s) {
            todo &= !LATE;
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
        if todo & YIELDS != 0 {
            match todo & !(YIELDS | WAKE) {
                0 => todo &= !YIELDS,
                left => self.let_other_threads_go(left & COMMIT != 0),
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

    /// Lets other threads run between two looks at what is left, in sequential execution. If a commit seems to wait for
    /// room in the log, sleeps until a flush.
    #[cold]
    fn let_other_threads_go(&self, commits: bool) {
        let (mut patience, engine) = (self.patience.take(), &self.context().engine);
        let wants_room = commits && patience.waits() >= WAITS_FOR_COMMIT;
        if !(wants_room && engine.await_flush()) {
            patience.pass();
        }
        self.patience.set(patience);
    }

    /// Lets the worker pass by for some rounds, during which the transaction is at `activity`.
    pub(crate) fn post_step_aside(&self, rounds: u32, activity: Activity) {
        self.rounds.set(rounds);
        self.aside.set(activity);
        self.todo.set(self.todo.get() | STEP_ASIDE);
    }

    /// Returns true while the worker passes by. A caller must not infer this from other operations that are left. If
    /// these are cancelled, the worker parks the transaction, and nothing wakes it.
    pub(crate) fn stands_aside(&self) -> bool {
        self.todo.get() & STEP_ASIDE != 0
    }
}

impl<C: ConcurrencyControl> Operations for TxnState<C> {
    #[inline(always)]
    fn step<S: Suspend>(&self, s: &mut S) -> bool {
        if self.todo.get() != 1 {
            return self.todo.get() == 0 || self.step_slow_path(s);
        }
        let done = self.step_slot(0, s);
        if done {
            self.todo.set(0);
        }
        done
    }

    /// Returns the kind of what is left first. If a slot has steps left, this is the kind of the operation in the first
    /// such slot, and the kind of a point operation tells whether it has found its record. Otherwise it is the number
    /// of the first bit in `todo`.
    fn next_kind(&self) -> u32 {
        let first = self.todo.get().trailing_zeros();
        if first as usize >= SLOTS {
            return first;
        }
        // SAFETY: the place is taken, so it is written. It is not stepped meanwhile.
        match unsafe { (*self.slot_at(first as usize)).assume_init_ref() } {
            Op::Point(point) if point.record.is_null() => 0,
            Op::Point(_) => 1,
            Op::Probe(_) => 2,
            Op::ScanBatch(_) => 3,
            Op::IndexedWrite(_) => 4,
            Op::Admission(_) | Op::Hold => 5,
        }
    }

    #[inline(always)]
    fn has_pending(&self) -> bool {
        self.todo.get() != 0
    }

    #[inline(always)]
    fn has_unfetched(&self) -> bool {
        self.used.get() & !self.todo.get() != 0
    }

    #[inline(always)]
    fn held_until(&self) -> u64 {
        self.held_until.take()
    }

    fn must_finish(&self) -> bool {
        self.todo.get() & COMMIT != 0 || self.committed.get().is_some()
    }

    /// Returns true if all that is in flight are searches for single keys and admissions, because their places hold
    /// everything that is known of them. A commit needs no epoch from one step to the next.
    fn can_restart(&self) -> bool {
        // SAFETY: the place is taken, so it is written. It is not stepped meanwhile.
        let op = |place: usize| unsafe { (*self.slot_at(place)).assume_init_ref() };
        self.taken().all(|place| matches!(op(place), Op::Point(_) | Op::Probe(_) | Op::Admission(_)))
    }

    fn restart(&self) {
        for place in self.taken() {
            // SAFETY: the place is taken, so it is written. It is not stepped meanwhile.
            match unsafe { (*self.slot_at(place)).assume_init_mut() } {
                Op::Point(point) | Op::Probe(point) => {
                    // SAFETY: tables live as long as their database.
                    let table = unsafe { &*point.table };
                    *point = Point::new(table, point.key, point.intent);
                }
                Op::Admission(_) => {}
                Op::ScanBatch(_) | Op::IndexedWrite(_) | Op::Hold => unreachable!("asked before"),
            }
            if place < SLOTS {
                self.todo.set(self.todo.get() | 1 << place);
            } else {
                self.late.go_on(place as u8);
                self.note_late();
            }
        }
    }

    fn work_under_way(&self) -> u64 {
        if self.todo.get() & VACANT == 0 { u64::from(self.operations.get()) } else { 0 }
    }

    fn started(&self) {
        self.todo.set(0);
        self.forget_places();
        self.operations.set(0);
        self.execution.set(self.context().execution.get());
    }

    fn set_long(&self) {
        self.become_long();
    }

    fn placed(&self, slot_waker: &Waker) {
        self.slot_waker.set(slot_waker);
    }

    #[inline]
    fn ended(&self) {
        self.leave_turn();
        self.forget_wakers();
        self.todo.set(VACANT);
        self.forget_places();
        if self.is_long.take() {
            self.context().longs.update(|n| n - 1);
        }
        self.reclaim_leaked();
    }
}
