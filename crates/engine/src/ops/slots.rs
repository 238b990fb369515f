//! Posting, stepping and releasing the operations of a transaction.

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
    /// What it reads is likely to be in the caches: its descent is a short one (see [`Index::is_short`](crate::index::Index::is_short)), or
    /// the transaction is run again.
    pub(crate) is_cached: bool,
}

/// A taken place, to be stepped.
struct Place<'t, C: ConcurrencyControl>(&'t TxnState<C>, u8);

impl<C: ConcurrencyControl> UnderPolicy for Place<'_, C> {
    type Output = bool;

    fn call<S: Suspend>(self, s: &mut S) -> bool {
        self.0.step_slot(self.1 as usize, s)
    }
}

impl<C: ConcurrencyControl> TxnState<C> {
    /// A free place; `None`: operations run in place.
    #[inline(always)]
    fn free_slot(&self) -> Option<u8> {
        if self.execution.get() != Execution::Interleaved {
            return None;
        }
        let i = (!self.used.get()).trailing_zeros();
        ((i as usize) < SLOTS).then_some(i as u8)
    }

    /// Puts an operation into a free place.
    #[inline(always)]
    fn fill_slot(&self, i: u8, op: Op<C>) {
        debug_assert!(self.used.get() >> i & 1 == 0);
        // SAFETY: free, so no one looks at it.
        unsafe { (*self.slot_at(i as usize)).write(op) };
        self.used.set(self.used.get() | 1 << i);
        self.todo.set(self.todo.get() | 1 << i);
    }

    /// Takes a free place for an operation; `None`: run it in place.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn post(&self, op: Op<C>) -> Option<u8> {
        self.count_operation();
        let place = self.free_slot()?;
        self.fill_slot(place, op);
        Some(place)
    }

    /// Gives a place to an operation that was run where it was polled and has to wait for another transaction: from now on the worker
    /// steps it, whatever its policy is. It does not wait in place, because the other transaction may be the same worker's to go on with.
    /// Fails in an interactive transaction, which has waited already, and where the transaction has as many operations as
    /// can be told apart.
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

    /// Puts an operation, with steps left or without, into a slot, or where none is free, beside them. `None`: there are too many.
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

    /// After something has changed in the places beside the slots.
    #[cold]
    fn note_late(&self) {
        let is_left = if self.late.has_any_steps() { LATE } else { 0 };
        self.todo.set(self.todo.get() & !LATE | is_left);
    }

    /// Called when a posted operation waits for another transaction. In sequential execution the worker has little else to do, and the
    /// other transaction's thread may need the core: so the worker gives its core away between two looks.
    #[cold]
    pub(crate) fn give_core_away(&self) {
        if self.execution.get() != Execution::Interleaved && self.todo.get() & YIELDS == 0 {
            self.patience.set(BoundedWait::default());
            self.todo.set(self.todo.get() | YIELDS);
        }
    }

    /// Has the operation in this taken place, which has come to an end, stepped again.
    pub(crate) fn go_on(&self, place: u8) {
        debug_assert!(self.is_done(place));
        if place as usize >= SLOTS {
            self.late.go_on(place);
            return self.note_late();
        }
        self.todo.set(self.todo.get() | 1 << place);
    }

    /// The operation in this slot needs no step.
    pub(crate) fn set_done(&self, place: u8) {
        debug_assert!(!self.is_done(place));
        self.todo.set(self.todo.get() & !(1 << place));
    }

    /// As `post`, for the commonest operation, which is made where it stays: one made elsewhere, in parts, and
    /// copied in wider words than these would have the processor wait.
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

    /// As `post_point`, where other operations are under way. (The key in parts: where its address is taken, it is copied.)
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
        // SAFETY: filled just now, and nobody else looks at it yet.
        let is_short = match unsafe { (*self.slot_at(place as usize)).assume_init_mut() } {
            Op::Point(point) => point.begin(table),
            _ => unreachable!("filled just now"),
        };
        // (What a retry reads is in the caches since it was read in vain, and the sooner it ends the fewer others meet it.)
        Posted { place, is_cached: is_short | self.is_retry.get() }
    }

    /// Steps a point operation that was posted just now, and reads what is in the caches: leaving it would take longer than what it
    /// reads. Returns true if it has come to its end. Not in a long transaction, which others have to come in between; and not
    /// where the worker's policy is to say where operations are left.
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

    /// Takes a place for nothing but to hold the epoch of whatever the future itself is walking. `None`: there are too many.
    pub(crate) fn hold(&self) -> Option<u8> {
        self.fill_any(Op::Hold, false)
    }

    /// Returns true if one more operation can be posted to a slot.
    pub(crate) fn has_free_slot(&self) -> bool {
        self.used.get() & SLOTS_MASK != SLOTS_MASK
    }

    /// An operation on a row that the transaction has read a value of lately, with the record found.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn recent_point(
        &self,
        table: *const TableInner,
        key: Key,
        intent: Intent,
    ) -> Option<Point<C>> {
        if !C::KEEPS_UNTRACKED && self.reads_untracked.get() {
            return None; // the record may be another key's by now
        }
        // SAFETY: not borrowed outside of single calls.
        let record = self.recent.find(table, &key, unsafe { &mut *self.scheme.get() })?;
        // SAFETY: tables live as long as their database.
        Some(Point::at(unsafe { &*table }, key, record, intent))
    }

    /// A write under a key that belongs where the transaction has inserted last, done but for the change.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn point_behind_insert(&self, table: &TableInner, key: Key) -> Option<Point<C>> {
        let cursor = self.last_insert.cursor_for(table, &key, self.context())?;
        let mut point = Point { cursor, ..Point::unbegun(table, key, Intent::Write) };
        self.count_operations(1);
        self.step_point(&mut point, &mut PrefetchOnly).then_some(point)
    }

    /// Has the operation in this taken place been stepped to its end?
    #[inline(always)]
    pub(crate) fn is_done(&self, place: u8) -> bool {
        if place as usize >= SLOTS {
            return !self.late.has_steps(place);
        }
        debug_assert!(self.used.get() >> place & 1 == 1);
        self.todo.get() >> place & 1 == 0
    }

    /// The point operation in a taken place; it stays there until the place is released and taken again.
    #[inline(always)]
    pub(crate) fn point(&self, place: u8) -> &Point<C> {
        debug_assert!(place as usize >= SLOTS || self.used.get() >> place & 1 == 1);
        self.point_at(place)
    }

    #[inline(always)]
    fn point_at(&self, place: u8) -> &Point<C> {
        // SAFETY: taken, now or before, so written; not stepped meanwhile.
        match unsafe { (*self.slot_at(place as usize)).assume_init_ref() } {
            Op::Point(point) | Op::Probe(point) => point,
            Op::ScanBatch(_) | Op::IndexedWrite(_) | Op::Admission(_) | Op::Hold => {
                unreachable!("a point future's place holds a point operation")
            }
        }
    }

    #[inline(always)]
    fn step_slot<S: Suspend>(&self, place: usize, s: &mut S) -> bool {
        // SAFETY: bit `place` of `todo` is set, so it is written, and the transaction open.
        self.step_op(unsafe { (*self.slot_at(place)).assume_init_mut() }, s)
    }

    #[inline(always)]
    fn step_op<S: Suspend>(&self, op: &mut Op<C>, s: &mut S) -> bool {
        match op {
            Op::Point(point) => {
                // SAFETY: not borrowed outside of single calls.
                let txn = unsafe { &mut *self.scheme.get() };
                // SAFETY: inside the epoch of the slot's stamp; tables outlive transactions.
                unsafe { point.step(self.context(), txn, s) }
            }
            other => self.step_other(other, s),
        }
    }

    /// Steps what takes more memory at a time than one record: apart, so that the loop over transactions stays short.
    #[inline(never)]
    fn step_other<S: Suspend>(&self, op: &mut Op<C>, s: &mut S) -> bool {
        // SAFETY: not borrowed outside of single calls.
        let (txn, context) = (unsafe { &mut *self.scheme.get() }, self.context());
        match op {
            // SAFETY: as in `step_slot`.
            Op::Probe(point) => unsafe { point.probe(s) },
            // SAFETY: batches are boxed and live as long as the transaction; else as above.
            Op::ScanBatch(batch) => unsafe { (**batch).step(context, txn, s) },
            // SAFETY: likewise.
            Op::IndexedWrite(write) => unsafe { (**write).step(context, txn, s) },
            Op::Admission(need) => C::admit(context.env(), txn, *need, true, s) != Admission::Suspended,
            Op::Point(_) | Op::Hold => unreachable!("stepped by the caller, or without steps"),
        }
    }

    /// Steps the operations in the places beside the slots. Returns true if none of them has steps left.
    #[cold]
    #[inline(never)]
    fn step_late<S: Suspend>(&self, s: &mut S) -> bool {
        // SAFETY: taken, so written, and reached by nothing else while it has steps left.
        self.late.step_each(|op| self.step_op(unsafe { &mut *op }, s))
    }

    /// The places that are taken.
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

    /// Between two looks at what is left, in sequential execution. Asleep, where a commit is taken to wait for room in the log.
    #[cold]
    fn let_other_threads_go(&self, commits: bool) {
        let (mut patience, engine) = (self.patience.take(), &self.context().engine);
        let wants_room = commits && patience.waits() >= WAITS_FOR_COMMIT;
        if !(wants_room && engine.await_flush()) {
            patience.pass();
        }
        self.patience.set(patience);
    }

    /// Lets the worker pass by for some rounds, in which the transaction is at `activity`.
    pub(crate) fn post_step_aside(&self, rounds: u32, activity: Activity) {
        self.rounds.set(rounds);
        self.aside.set(activity);
        self.todo.set(self.todo.get() | STEP_ASIDE);
    }

    /// Returns true while the worker passes by. (Whether other operations are left does not tell: when these are cancelled, the worker
    /// parks the transaction, and nothing wakes it.)
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

    /// The first of what is left, by the bits of `todo`; of a point operation, whether it has found its record.
    fn next_kind(&self) -> u32 {
        let first = self.todo.get().trailing_zeros();
        if first as usize >= SLOTS {
            return first;
        }
        // SAFETY: taken, so written; not stepped meanwhile.
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

    /// Searches for one key can: what is known of them lies in their places. (A commit needs no epoch from one step to
    /// the next.)
    fn can_restart(&self) -> bool {
        // SAFETY: taken, so written; not stepped meanwhile.
        let op = |place: usize| unsafe { (*self.slot_at(place)).assume_init_ref() };
        self.taken().all(|place| matches!(op(place), Op::Point(_) | Op::Probe(_) | Op::Admission(_)))
    }

    fn restart(&self) {
        for place in self.taken() {
            // SAFETY: taken, so written; not stepped meanwhile.
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
