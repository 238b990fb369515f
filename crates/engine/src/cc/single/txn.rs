//! What a database, a worker and a transaction of these schemes consist of.

use super::accesses::{Accesses, Held};
use super::claims::Claims;
use super::graph::Graph;
use super::heat::{Group, Heat, number_of};
use super::known::Found;
use super::partitions::Partitions;
use super::range_times::RangeTimes;
use super::record::{Content, INLINE_BYTES_MAX, drop_value, record_of};
use super::removed::{Removals, Removed};
use super::undone::Undone;
use crate::cc::common::participant::Participant;
use crate::cc::common::ranges::{Ranges, Revisit};
use crate::cc::common::registry::{Floor, Registry};
use crate::cc::{Abort, Holder, Target, Waits};
use crate::epoch::Local;
use crate::memory::{Arena, Charge, Memory, OutOfMemory, Slab};
use crate::record::{Record, RecordId, Tag, Version};
use crate::sync::atomic::{Ordering, fence};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Values up to this length are copied side by side.
const SHORT_BYTES_MAX: usize = 1024;
/// Initial room for records without a value, and room that is kept.
const UNSETTLED_FIRST: usize = 8;
const UNSETTLED_KEPT: usize = 512;
/// Initial room for copies of long values.
const LONG_FIRST: usize = 8;

/// The shared part. One per database.
#[derive(Debug)]
pub struct Shared {
    pub(in crate::cc) registry: Registry,
    pub(in crate::cc) waits: Waits,
    pub(super) records: Arc<Slab>,
    pub(super) removals: Removals,
    /// Which transactions wait for which, if the scheme looks for deadlocks.
    pub(in crate::cc) graph: Graph,
    pub(super) times: Option<RangeTimes>,
    pub(super) partitions: Option<Partitions>,
    pub(super) heat: Option<Heat>,
}

/// A worker's part. One per worker.
#[derive(Debug)]
pub struct Worker {
    pub(super) floor: Arc<Floor>,
    pub(super) removed: RefCell<Vec<Removed>>,
    /// A number that differs between the workers of a database, if the scheme asks for that.
    pub(in crate::cc) number: u32,
    /// The number of transactions that the worker has begun, if the scheme counts them.
    pub(in crate::cc) begun: Cell<u32>,
    /// The number of these transactions that have given locks back.
    pub(in crate::cc) released: Cell<u32>,
}

impl Worker {
    pub(super) fn new(shared: &Shared) -> Worker {
        Worker {
            floor: shared.registry.floor(),
            removed: RefCell::new(shared.removals.adopt()),
            number: shared.heat.as_ref().map_or(0, Heat::number_worker),
            begun: Cell::new(0),
            released: Cell::new(0),
        }
    }
}

/// A transaction's state. One per slot.
#[derive(Debug)]
pub struct Txn {
    pub(in crate::cc) member: Participant,
    pub(in crate::cc) accesses: Accesses,
    pub(in crate::cc) ranges: Ranges,
    /// The transaction is committing, and has looked at its ranges.
    has_looked: bool,
    /// Records in the ranges that had no value then.
    unsettled: Vec<RecordId>,
    /// For each range, the records that were found there.
    pub(super) found: Found,
    /// The transaction's age, if the scheme compares ages. Kept when the transaction is run again.
    pub(in crate::cc) age: u64,
    /// The partitions that the transaction has and wants, if the scheme has partitions.
    pub(in crate::cc) claims: Claims,
    /// True if the transaction is in the graph of waiting transactions.
    pub(in crate::cc) is_in_graph: bool,
    /// True if an operation of the transaction may be asleep in the queue of a row: see [`Shared::sleeps_beside`].
    pub(in crate::cc) sleeps: bool,
    /// Why an access that had met a lock was refused: accesses of the same transaction that still wait are refused,
    /// too.
    pub(in crate::cc) gave_up: Option<Abort>,
    /// The transaction looks at how hot records are, if the scheme keeps that.
    pub(in crate::cc) heeds: bool,
    /// The transaction has kept others from sharing a lock for which it waits.
    pub(in crate::cc) keeps_out: bool,
    /// The row that another transaction had locked when this transaction was to be decided: see
    /// [`ConcurrencyControl::obstacle`](crate::cc::ConcurrencyControl::obstacle).
    pub(in crate::cc) obstacle: Option<Target>,
    /// The transaction has read more than there was memory to note.
    pub(super) is_full: bool,
    /// The transaction has undone a write of a record that is gone. Under the record's key, it may have read what
    /// other transactions wrote, in place of its own write.
    pub(super) has_lost_own: bool,
    /// Copies of what the transaction has read, if that may change before the transaction ends: short values, and
    /// long ones.
    copies: Arena,
    long_copies: Vec<Box<[u64]>>,
    /// The room in `long_copies`, in what these copies hold, and in `unsettled`.
    charge: Charge,
    /// The value of the record that is being made.
    pub(super) new: Option<*mut Version>,
    /// The transaction is prepared, and what it writes is latched.
    pub(super) has_latched: bool,
    /// What the transaction has written and undone.
    pub(super) undone: Undone,
}
// SAFETY: the value that is being made is the transaction's own.
unsafe impl Send for Txn {}

impl Txn {
    /// Makes a state in which no transaction is open. What it keeps is charged to `memory`.
    pub(super) fn new(memory: &Arc<Memory>) -> Txn {
        Txn {
            member: Participant::new(),
            accesses: Accesses::new(memory),
            ranges: Ranges::new(memory),
            has_looked: false,
            unsettled: Vec::new(),
            found: Found::new(memory),
            age: 0,
            claims: Claims::default(),
            is_in_graph: false,
            sleeps: false,
            heeds: false,
            keeps_out: false,
            gave_up: None,
            obstacle: None,
            is_full: false,
            has_lost_own: false,
            copies: Arena::new(memory),
            long_copies: Vec::new(),
            charge: Charge::new(memory),
            new: None,
            has_latched: false,
            undone: Undone::new(),
        }
    }

    /// Returns room for `length` bytes: a copy of a value, which the caller makes and the transaction keeps until it
    /// ends.
    #[inline(always)]
    fn room(&mut self, length: usize) -> Result<*mut u8, OutOfMemory> {
        match length <= SHORT_BYTES_MAX {
            true => self.copies.room_aligned(length),
            false => self.long_room(length),
        }
    }

    #[cold]
    fn long_room(&mut self, length: usize) -> Result<*mut u8, OutOfMemory> {
        if self.long_copies.len() == self.long_copies.capacity() {
            self.charge.grow(&mut self.long_copies, 1, LONG_FIRST)?;
        }
        let words = length.div_ceil(size_of::<u64>());
        self.charge.add(words * size_of::<u64>())?;
        self.long_copies.push(vec![0u64; words].into_boxed_slice());
        let copy = self.long_copies.last_mut().expect("pushed just now");
        Ok(copy.as_mut_bytes().as_mut_ptr())
    }

    /// Copies what a record holds. The caller finds out afterwards whether the record has changed meanwhile.
    ///
    /// # Safety
    /// The content was read in this epoch.
    #[inline(always)]
    pub(super) unsafe fn copy_content(
        &mut self,
        content: Content,
    ) -> Result<Option<*const [u8]>, OutOfMemory> {
        let (copy, length) = match content {
            Content::Nothing | Content::Gone => return Ok(None),
            Content::Inline(bytes, length) => {
                let copy = self.copies.room_aligned(bytes.len())?;
                // SAFETY: there is room for all of the bytes, of which `length` count.
                unsafe { copy.cast::<[u8; INLINE_BYTES_MAX]>().write(bytes) };
                (copy, length)
            }
            Content::At(version) => {
                // SAFETY: the version was found in this epoch.
                let length = unsafe { Version::value(version) }.len();
                let copy = self.room(length)?;
                // SAFETY: as above, and there is room.
                unsafe { Version::copy_to(version, copy) };
                (copy, length)
            }
        };
        Ok(Some(std::ptr::slice_from_raw_parts(copy, length)))
    }

    /// Drops the copy that was made last. It is not looked at any more.
    pub(super) fn drop_copy(&mut self, copy: *const [u8]) {
        if copy.len() <= SHORT_BYTES_MAX {
            return self.copies.release(copy.cast(), copy.len());
        }
        let long = self.long_copies.pop().expect("it was made last");
        debug_assert!(std::ptr::addr_eq(long.as_ptr(), copy));
        self.charge.give_back(size_of_val(&*long));
    }

    /// Returns what the transaction itself has last written to the record: a value, or none. `None`: it has written
    /// nothing.
    pub(in crate::cc) fn own(&self, record: *const Record) -> Option<Option<*const [u8]>> {
        if self.accesses.writes.is_empty() {
            return None;
        }
        self.own_of(self.accesses.find(record)?)
    }

    /// Returns the same, for the record of this entry.
    #[inline(always)]
    pub(in crate::cc) fn own_of(&self, entry: usize) -> Option<Option<*const [u8]>> {
        let write = self.accesses.last_write(entry)?;
        // SAFETY: the version is the transaction's own, and not yet committed.
        Some(write.new.map(|new| unsafe { Version::value(new) }))
    }

    /// Drops the value of a record that is not published.
    pub(super) fn drop_new(&mut self, local: &Local) {
        if let Some(new) = self.new.take() {
            // SAFETY: `create` made the value, and it was never published.
            unsafe { drop_value(new, local) };
        }
    }

    pub(super) fn end(&mut self, shared: &Shared) {
        debug_assert!(!self.has_latched);
        self.accesses.clear();
        self.ranges.clear();
        self.charge.clear(&mut self.unsettled, UNSETTLED_KEPT);
        self.found.clear();
        self.copies.reset();
        self.is_full = false;
        self.has_looked = false;
        self.has_lost_own = false;
        self.sleeps = false;
        self.gave_up = None;
        self.undone.end();
        if !self.long_copies.is_empty() {
            let bytes = self.long_copies.iter().map(|copy| size_of_val(&**copy)).sum();
            self.charge.clear(&mut self.long_copies, 0);
            self.charge.give_back(bytes);
        }
        self.member.close(&shared.registry, &shared.waits);
    }

    /// Says that the transaction waits to have the record's lock, whose word is `lock`, alone. Other transactions do
    /// not come to share it meanwhile.
    pub(in crate::cc) fn keep_out(&mut self, record: *const Record, lock: u64) {
        self.keeps_out = true;
        record_of(record).await_shares(lock);
    }

    /// Gives the locks back. `has_drawn`: the transaction has drawn its commit timestamp since it took them. In that
    /// case it sees that it is awaited, or the waiting transaction sees that it commits. A transaction that aborts,
    /// or has only locked rows, has drawn none.
    pub(super) fn release(&mut self, shared: &Shared, has_drawn: bool) {
        if std::mem::take(&mut self.keeps_out) {
            self.let_in(shared);
        }
        for entry in &mut self.accesses.entries {
            match std::mem::replace(&mut entry.held, Held::Not) {
                Held::Not => {}
                Held::Shared => shared.unshare(entry.record),
                Held::Alone => record_of(entry.record).unlock(),
            }
        }
        if !has_drawn && self.member.tag != Tag::NONE {
            fence(Ordering::SeqCst); // pairs with the fence in `Registry::await_end`
        }
    }

    /// Lets others share the locks that the transaction wanted alone and has not got. It no longer keeps others out.
    /// Another transaction that waits for such a lock keeps them out again at its next look.
    #[cold]
    fn let_in(&self, shared: &Shared) {
        for entry in self.accesses.entries.iter().filter(|entry| entry.held != Held::Alone) {
            if record_of(entry.record).let_in() && shared.waits.are_shares_awaited() {
                shared.waits.unshared(RecordId(shared.number_of(entry.record)));
            }
        }
    }

    /// Notes that another transaction has locked this record, for `ConcurrencyControl::obstacle`. A record that is
    /// gone is no obstacle: the key is looked for again.
    #[cold]
    pub(in crate::cc) fn note_obstacle(&mut self, record: *const Record, target: Target) {
        self.obstacle = Some(target).filter(|_| record_of(record).content() != Content::Gone);
    }

    /// Returns the number of shares of the record's lock that belong to the transaction: one or none.
    pub(in crate::cc) fn shares(&self, record: *const Record) -> u64 {
        let entry = self.accesses.find(record);
        entry.map_or(0, |entry| u64::from(self.accesses.entries[entry].held == Held::Shared))
    }

    pub(in crate::cc) fn unlatch(&mut self) {
        if std::mem::take(&mut self.has_latched) {
            self.accesses.last_writes().for_each(|(record, _)| record_of(record).unlatch());
        }
    }

    /// Latches all that is written, or nothing, if another thread has latched one of the records.
    pub(in crate::cc) fn try_latch(&mut self) -> bool {
        debug_assert!(!self.has_latched);
        for (at, (record, _)) in self.accesses.last_writes().enumerate() {
            if !record_of(record).try_latch() {
                self.accesses.last_writes().take(at).for_each(|(record, _)| record_of(record).unlatch());
                return false;
            }
        }
        self.has_latched = true;
        true
    }

    /// Latches all that is written, when no other thread may latch it.
    pub(in crate::cc) fn latch_alone(&mut self) {
        debug_assert!(!self.has_latched);
        self.accesses.last_writes().for_each(|(record, _)| record_of(record).latch_alone());
        self.has_latched = true;
    }

    /// Returns true if the transaction has read ranges or absent keys.
    #[inline(always)]
    pub(super) fn has_ranges(&self) -> bool {
        !self.ranges.is_empty() || self.is_full
    }

    /// Returns true if the ranges that the transaction has gone through now have the same keys, apart from its own.
    /// The ranges are looked at one after the other. If `ranges_hold` returns true later, all of them have had these
    /// keys at every moment between the two calls. `comes_later`: see `Policy`.
    pub(super) fn look_at_ranges(
        &mut self,
        shared: &Shared,
        comes_later: ComesLater,
    ) -> Result<bool, OutOfMemory> {
        if self.is_full {
            return Err(OutOfMemory);
        }
        if self.has_looked {
            return Ok(true); // and has waited since
        }
        let Txn { accesses, found, age, ranges, unsettled, charge, .. } = self;
        unsettled.clear();
        let mut known = Known {
            accesses,
            found,
            range: 0,
            pending: None,
            shared,
            age: *age,
            comes_later,
            unsettled,
            charge,
        };
        // SAFETY: a commit is stepped inside an epoch.
        let is_known = unsafe { ranges.go_through(&mut known) }?;
        if let Some((at, id)) = known.pending.filter(|_| !is_known) {
            let (index, key) = ranges.met(known.range, at);
            self.obstacle = Some(Target { index, key, id });
        }
        self.has_looked = is_known;
        Ok(is_known)
    }

    /// Makes `look_at_ranges` look again at its next call, for tests.
    #[cfg(all(test, braid_shuttle))]
    pub(super) fn forget_look(&mut self) {
        self.has_looked = false;
    }

    /// Returns true if no key has come into the ranges or left them since `look_at_ranges` was called.
    pub(super) fn ranges_hold(&mut self, shared: &Shared, comes_later: ComesLater) -> bool {
        debug_assert!(self.has_looked);
        let Txn { accesses, ranges, unsettled, .. } = self;
        let has_no_value = |&id: &RecordId| {
            let record = shared.record(id);
            gives_first_value(accesses, record) || comes_later(shared, self.age, record)
        };
        self.has_looked = ranges.is_as_it_was() && unsettled.iter().all(has_no_value);
        self.has_looked
    }
}

/// See `Policy::comes_later`.
type ComesLater = fn(&Shared, u64, *const Record) -> bool;

/// Returns true if the transaction writes this record, which has no value yet.
fn gives_first_value(accesses: &Accesses, record: *const Record) -> bool {
    record_of(record).content() == Content::Nothing
        && accesses.find(record).is_some_and(|entry| accesses.last_write(entry).is_some())
}

/// Accepts records that were in a range when the transaction went through it. What it has read of them is validated,
/// or locked. A record that it has come upon only later may have got its value meanwhile.
struct Known<'t> {
    accesses: &'t Accesses,
    found: &'t Found,
    /// The range that is gone through.
    range: usize,
    /// A record that is not accepted and has no value yet: its number among the records found together, and its id.
    pending: Option<(usize, RecordId)>,
    shared: &'t Shared,
    age: u64,
    comes_later: ComesLater,
    /// Records that have no value yet.
    unsettled: &'t mut Vec<RecordId>,
    charge: &'t mut Charge,
}

impl Known<'_> {
    /// Handles a record that was not found in the range before. Returns true if it is none of the keys that exist
    /// now.
    #[cold]
    fn is_nothing(&mut self, id: RecordId, entry: Option<usize>) -> Result<bool, OutOfMemory> {
        let record = self.shared.record(id);
        if record_of(record).content() == Content::Gone {
            return Ok(true);
        }
        // The record is not latched yet, so another transaction may give it a value before this one commits.
        let is_own = entry.is_some() && gives_first_value(self.accesses, record);
        if !is_own && !(self.comes_later)(self.shared, self.age, record) {
            return Ok(false);
        }
        if self.unsettled.len() == self.unsettled.capacity() {
            self.charge.grow(self.unsettled, 1, UNSETTLED_FIRST)?;
        }
        self.unsettled.push(id);
        Ok(true)
    }
}

impl Revisit for Known<'_> {
    fn begin(&mut self, range: usize) {
        self.range = range;
    }

    fn begin_again(&mut self) {}

    fn found(&mut self, ids: &[RecordId]) -> Result<bool, OutOfMemory> {
        for (at, &id) in ids.iter().enumerate() {
            let entry = self.accesses.find(self.shared.record(id));
            let is_known = entry.is_some_and(|entry| self.found.has(self.range, entry));
            if !is_known && !self.is_nothing(id, entry)? {
                if record_of(self.shared.record(id)).content() == Content::Nothing {
                    self.pending = Some((at, id));
                }
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Shared {
    /// Returns the times of ranges, for a scheme that has asked for them.
    pub(in crate::cc) fn range_times(&self) -> &RangeTimes {
        self.times.as_ref().expect("the scheme has them")
    }

    /// Returns the partitions, for a scheme that has asked for them.
    #[inline(always)]
    pub(in crate::cc) fn partitions(&self) -> &Partitions {
        self.partitions.as_ref().expect("the scheme has them")
    }

    /// Returns the heat of records, for a scheme that has asked for it.
    #[inline(always)]
    pub(in crate::cc) fn heat(&self) -> &Heat {
        self.heat.as_ref().expect("the scheme has it")
    }

    /// Returns the number of a record. Its address would make runs differ.
    #[inline(always)]
    pub(in crate::cc) fn number_of(&self, record: *const Record) -> u32 {
        number_of(record, self.records.at(0))
    }

    /// Returns the record's group, for a scheme that has asked for heat.
    #[inline(always)]
    pub(in crate::cc) fn group(&self, record: *const Record) -> &Group {
        self.heat().group(self.number_of(record))
    }

    /// Gives a share of the record's lock back, and tells the transactions that sleep until the lock is free.
    #[inline(always)]
    pub(in crate::cc) fn unshare(&self, record: *const Record) {
        let others = record_of(record).unshare();
        // A waiting transaction may itself have a share.
        if others <= 1 && self.waits.are_shares_awaited() {
            self.waits.unshared(RecordId(self.number_of(record)));
        }
    }

    /// Takes the record's lock alone for `tag`, which may already have a share of it. Returns the lock word if others
    /// have the lock.
    #[inline(always)]
    pub(in crate::cc) fn lock_alone(
        &self,
        record: *const Record,
        tag: Tag,
        has_share: bool,
    ) -> Result<(), u64> {
        record_of(record).try_lock(tag, has_share)?;
        // The share is gone. Transactions that sleep until the record is no longer shared have to learn which
        // transaction has the lock now.
        if has_share && self.waits.are_shares_awaited() {
            self.waits.unshared(RecordId(self.number_of(record)));
        }
        Ok(())
    }

    /// Tells the transactions that have found this one as a holder, because it has given a lock back before its end.
    /// It is no longer the holder, and may come to wait behind them.
    #[cold]
    pub(in crate::cc) fn tell_waiters(&self, member: &Participant) {
        fence(Ordering::SeqCst); // pairs with the fence in `Registry::await_end`
        if self.registry.is_awaited(member.place()) {
            self.waits.ended(member.place());
        }
    }

    /// Called before the transaction takes a lock, `alone` or as one of several. Returns true if another of its
    /// operations sleeps until a shared row is free: then the transaction must fail instead. One of the transactions
    /// that share that row may come to wait for the new lock. That would close a cycle of waits. No search finds it,
    /// because the queue does not know which transactions share the row.
    #[cold]
    pub(in crate::cc) fn sleeps_beside(&self, txn: &mut Txn, record: *const Record, alone: bool) -> bool {
        let place = txn.member.place();
        let row = RecordId(self.number_of(record));
        // If the transaction takes the lock for which it has slept, that wait is over.
        let sleeps = self.waits.awaits_sharers(place, alone.then_some(row));
        txn.sleeps = sleeps || self.waits.is_waiting(place);
        sleeps
    }

    /// Returns true if a transaction sleeps until the record is no longer shared. A transaction that would share it
    /// waits behind the sleeper.
    #[inline(always)]
    pub(in crate::cc) fn leaves_to_sleepers(&self, record: *const Record) -> bool {
        self.waits.are_shares_awaited() && self.waits.has_queue(RecordId(self.number_of(record)))
    }

    fn record(&self, id: RecordId) -> *const Record {
        self.records.at(id.0).cast_const().cast()
    }

    /// Returns the transaction of this tag, if it is open.
    pub(in crate::cc) fn holder(&self, tag: Tag) -> Option<Holder> {
        self.registry.holder(tag)
    }
}
