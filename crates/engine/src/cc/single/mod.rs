//! Records with one value, which a commit replaces: what the schemes without versions share. A [`Policy`] says how a
//! scheme keeps transactions apart.
//!
//! A transaction keeps its writes apart until it commits, so it has nothing to undo. It notes the records that it has
//! accessed and the ranges of keys that it has gone through. At its commit it checks that these ranges still have the
//! same keys.
//!
//! Invariants:
//! - A record to which a transaction may come back is not used for another key before the transaction ends. The memory
//!   of a removed record is given back when all transactions have ended that were open at its removal.
//! - Between `prepare`, which latches what is written, and `finish` nothing is suspended.

mod accesses;
mod age;
mod claims;
mod committed;
mod deciding;
mod graph;
mod heat;
mod known;
#[cfg(all(test, braid_shuttle))]
mod overwrite_tests;
#[cfg(all(test, braid_shuttle))]
mod partition_tests;
mod partitions;
mod range_times;
#[cfg(all(test, braid_shuttle))]
mod ranges_shuttle_tests;
mod record;
mod removed;
mod rollback;
#[cfg(all(test, braid_shuttle))]
pub(super) mod shuttle_tests;
mod txn;
mod undone;

use super::common::ranges::Noted;
use super::common::registry::Registry;
use super::{
    Abort, Admission, Change, Changed, ConcurrencyControl, Declared, Env, Holder, InTheWay, Intent,
    LabOptions, NotBegun, Reads, Refused, Scanned, Target, Waiting, Waits, Written,
};
use crate::index::Index;
use crate::memory::{Memory, OutOfMemory, Slab};
use crate::metrics::ContentionStatistics;
use crate::record::{Record, RecordId, Tag, Timestamp, Version};
use crate::suspend::Suspend;
pub(super) use accesses::Entry;
pub use accesses::Held;
pub(super) use age::{is_older, oldest_of, shares_of};
pub(super) use claims::{ALL, Look};
pub(super) use committed::read_committed;
use graph::Graph;
pub(super) use graph::{Standing, Wanted};
pub(super) use heat::{Group, Heat, Wants};
use partitions::Partitions;
pub(super) use range_times::RangeTimes;
pub(super) use record::{Content, holder_of_lock, record_of};
use record::{drop_value, new_value};
use removed::{Removals, Removed};
use std::cell::RefMut;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
pub use txn::{Shared, Txn, Worker};

/// Single-version concurrency control.
pub struct Single<P: Policy>(PhantomData<fn() -> P>);

impl<P: Policy> fmt::Debug for Single<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<P>())
    }
}

/// How a single-version scheme keeps transactions apart.
pub trait Policy: Sized + Send + Sync + 'static {
    /// Short values lie in their records.
    const INLINES: bool = true;

    /// The scheme needs [`Shared::range_times`].
    const HAS_RANGE_TIMES: bool = false;

    /// The scheme looks at what transactions have read when they end.
    const TRACKS_READS: bool = true;

    /// The scheme needs [`Shared::partitions`], and is asked before anything is looked for.
    const HAS_PARTITIONS: bool = false;

    /// The scheme needs [`Shared::heat`].
    const HAS_HEAT: bool = false;

    /// Called when the transaction has begun.
    #[inline(always)]
    fn begun(env: Env<'_, Single<Self>>, txn: &mut Txn, declared: Declared) {
        let _ = (env, txn, declared);
    }

    /// Called when the transaction ends, before its locks are given back.
    #[inline(always)]
    fn ends(env: Env<'_, Single<Self>>, txn: &mut Txn) {
        let _ = (env, txn);
    }

    /// See [`ConcurrencyControl::may_queue`].
    fn may_queue(
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        record: *const Record,
    ) -> Result<Waiting, OutOfMemory> {
        let _ = (env, txn, record);
        Ok(Waiting::Asleep)
    }

    /// See [`ConcurrencyControl::declare_partitions`], also for the next three.
    fn declare_partitions(shared: &Shared, txn: &mut Txn, partitions: u64) {
        let _ = (shared, txn, partitions);
    }

    /// Decides whether an operation that touches these partitions may begin.
    #[inline(always)]
    fn admit<S: Suspend>(
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        need: u64,
        waits: bool,
        s: &mut S,
    ) -> Admission {
        let _ = (env, txn, need, waits, s);
        Admission::Granted
    }

    /// Returns why the transaction cannot continue.
    #[inline(always)]
    fn refused(txn: &Txn) -> Option<Refused> {
        let _ = txn;
        None
    }

    /// Returns the row for which the transaction waits, or has waited in vain, and the transaction that has the row.
    fn awaited(shared: &Shared, txn: &mut Txn) -> Option<(RecordId, Holder)> {
        let _ = (shared, txn);
        None
    }

    /// Returns the other transaction that has the record alone, or [`Holder::SHARERS`] if others share it.
    ///
    /// # Safety
    /// As [`ConcurrencyControl::holder`].
    unsafe fn holder(shared: &Shared, txn: &Txn, record: *const Record) -> Option<Holder> {
        let lock = record_of(record).lock();
        match holder_of_lock(lock) {
            Some(tag) if tag == txn.member.tag => None,
            Some(tag) => shared.holder(tag),
            None => (shares_of(lock) > txn.shares(record)).then_some(Holder::SHARERS),
        }
    }

    /// Returns true if `txn` has the record alone.
    ///
    /// # Safety
    /// As [`ConcurrencyControl::holds`].
    unsafe fn holds(txn: &Txn, record: *const Record) -> bool {
        txn.member.tag != Tag::NONE && record_of(record).lock() == txn.member.tag.word()
    }

    /// Returns the number of the record's entry among the transaction's accesses.
    #[inline(always)]
    fn find(txn: &Txn, record: *const Record) -> Option<usize> {
        txn.accesses.find(record)
    }

    /// Returns what the transaction itself last wrote to the record: a value, or none. `None`: it wrote nothing.
    #[inline(always)]
    fn own(txn: &Txn, record: *const Record) -> Option<Option<*const [u8]>> {
        if txn.accesses.writes.is_empty() {
            return None;
        }
        txn.own_of(Self::find(txn, record)?)
    }

    /// Returns the same, for a read: the value is lent until the transaction ends.
    #[inline(always)]
    fn read_own(txn: &Txn, record: *const Record) -> Option<Option<*const [u8]>> {
        let own = Self::own(txn, record)?;
        txn.undone.note_read();
        Some(own)
    }

    /// Makes room for one more write, and an entry for it.
    #[inline(always)]
    fn reserve(txn: &mut Txn) -> Result<(), OutOfMemory> {
        txn.accesses.reserve()
    }

    /// Returns the number of the record's entry. Makes the entry if there is none: room has been reserved.
    #[inline(always)]
    fn enter_reserved(txn: &mut Txn, record: *const Record) -> usize {
        txn.accesses.enter_reserved(record)
    }

    /// Acquires a record, or its value, for the transaction. Returns false if suspended.
    ///
    /// # Safety
    /// As [`ConcurrencyControl::access`].
    unsafe fn access<S: Suspend>(
        access: &mut Access,
        record: *const Record,
        intent: Intent,
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        s: &mut S,
    ) -> bool;

    /// Ensures that the transaction may change the record when it commits. If `depends`, the transaction also depends
    /// on whether there is a value. Returns whether there is one; `None`: look for the key again.
    ///
    /// # Safety
    /// As [`ConcurrencyControl::write`].
    unsafe fn will_write(
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        record: *const Record,
        depends: bool,
    ) -> Result<Option<bool>, Refused>;

    /// Locks a record for the transaction alone. Returns whether there is a value; `None`: look for the key again.
    ///
    /// # Safety
    /// As [`ConcurrencyControl::write`].
    unsafe fn lock(
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        record: *const Record,
    ) -> Result<Option<bool>, Refused>;

    /// Called for a record in a range of a transaction of this age, which is about to commit and did not find the
    /// record when it went through the range. Returns true if the record gets its value later in the order, or never.
    fn comes_later(shared: &Shared, age: u64, record: *const Record) -> bool {
        let _ = (shared, age);
        // The maker of a record without a value commits after this transaction, unless it has the latch already.
        // The latch is looked at first. In the other order a commit between the two looks would be missed.
        let is_latched = record_of(record).at().1;
        !is_latched && record_of(record).content() == Content::Nothing
    }

    /// Looks at the transaction's ranges before `decide` is called. Returns false if they have other keys now.
    fn look_at_ranges(shared: &Shared, txn: &mut Txn) -> Result<bool, OutOfMemory> {
        if txn.has_ranges() { txn.look_at_ranges(shared, Self::comes_later) } else { Ok(true) }
    }

    /// Returns true if the transaction's ranges have not changed since `look_at_ranges`. If they have, the caller looks
    /// at them again, and calls `decide` again.
    fn ranges_hold(shared: &Shared, txn: &mut Txn) -> bool {
        txn.ranges_hold(shared, Self::comes_later)
    }

    /// Called when the transaction's ranges have been found unchanged. Returns true if a key was there nevertheless,
    /// and has been removed since.
    fn is_late(env: Env<'_, Single<Self>>, txn: &Txn) -> bool {
        let _ = (env, txn);
        false
    }

    /// How a transaction holds the lock of a record that it makes.
    const HELD_WHEN_NEW: Held;
    /// Returns the lock word of such a record.
    fn lock_of_new(env: Env<'_, Single<Self>>, txn: &mut Txn) -> u64;

    /// Latches what the transaction writes, and validates what it has read of records. Returns the time of the commit.
    /// `None`: suspended, and nothing is latched. Called again, after the latches were given back, if the ranges have
    /// changed meanwhile or the log had no room.
    fn decide<S: Suspend>(
        stage: &mut CommitStage,
        env: Env<'_, Single<Self>>,
        txn: &mut Txn,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>>;
}

/// An access to a record.
#[derive(Clone, Copy, Debug, Default)]
pub enum Access {
    /// The access has not begun.
    #[default]
    New,
    /// The record was locked at this number of consecutive steps.
    Waiting(u32),
    /// The same, in line. `released`: how often the worker's transactions had given locks back at the last look.
    InLine { steps: u32, released: u32 },
    /// The value that was committed at this time is being prefetched.
    Fetching(u64, *const Version),
    /// The access has ended, and has found this value.
    Value(*const [u8]),
    /// The access has found no value.
    Absent,
    /// The value is to be read when the record is locked.
    Unread,
    /// The access was refused.
    Refused(Refused),
}
// SAFETY: plain data of an operation. Its pointers are followed only under the rules of `access`.
unsafe impl Send for Access {}

/// How far a commit has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitStage {
    #[default]
    New,
    /// What the transaction writes has been prefetched.
    Fetched,
}

/// Records that a worker removes between two passes over them. A pass can take more, so it keeps up.
const REMOVED_PER_PASS: usize = 128;

/// Removes records from their indexes. All get one time when this is dropped, because all threads share the counter.
struct Removal<'e, P: Policy> {
    env: Env<'e, Single<P>>,
    removed: RefMut<'e, Vec<Removed>>,
    /// The number of records that the worker had removed before.
    before: usize,
}

impl<'e, P: Policy> Removal<'e, P> {
    fn new(env: Env<'e, Single<P>>) -> Self {
        let removed = env.worker.removed.borrow_mut();
        Removal { env, before: removed.len(), removed }
    }

    fn add(&mut self, &Target { index, key, id }: &Target) {
        // SAFETY: the index lives as long as the database; the thread is inside an epoch, and the key alive.
        let was_there = unsafe { (*index).remove(self.env.local, &key, id) };
        debug_assert!(was_there, "a record's key is in its index until the record is removed");
        self.removed.push(Removed { since: Timestamp(0), index, id });
    }
}

impl<P: Policy> Drop for Removal<'_, P> {
    fn drop(&mut self) {
        if self.removed.len() > self.before {
            // A transaction that begins from now on does not find these records.
            let since = self.env.shared.registry.advance();
            self.removed[self.before..].iter_mut().for_each(|removed| removed.since = since);
        }
    }
}

/// Installs what the transaction writes in its latched records, and releases the latches.
fn install_writes<P: Policy>(env: Env<'_, Single<P>>, txn: &mut Txn, at: u64) {
    for (record, write) in txn.accesses.last_writes() {
        record_of(record).install(write.new, Timestamp(at), P::INLINES, env.local);
    }
    let deletes = txn.accesses.last_writes().filter(|(_, write)| write.new.is_none());
    {
        let mut removal = Removal::new(env);
        deletes.for_each(|(_, write)| removal.add(&write.target));
    }
    // SAFETY: the transaction itself has overwritten these values, so they are unpublished, and no longer lent.
    txn.accesses.drain_writes(|new| unsafe { drop_value(new, env.local) });
}

/// Notes that the transaction depends on the absence of a value.
fn note_absent<P: Policy>(txn: &mut Txn, record: *const Record, target: &Target) {
    if P::TRACKS_READS {
        Single::<P>::read_absent(txn, record, target);
    }
}

// SAFETY: `value` lends the transaction's own copy; or what it is going to write, which is kept when it is undone; or a
// value that its lock or partition keeps from being replaced. Records removed while it is open keep their memory.
unsafe impl<P: Policy> ConcurrencyControl for Single<P> {
    const TRACKS_READS: bool = P::TRACKS_READS;

    type Shared = Shared;
    type Worker = Worker;
    type Txn = Txn;
    type Access = Access;
    type Prepare = CommitStage;

    fn reads(_: LabOptions) -> Reads {
        Reads::Current
    }

    fn open(records: Arc<Slab>, memory: Arc<Memory>, options: LabOptions) -> Shared {
        let registry = Registry::new(&memory);
        let graph = Graph::new(&memory);
        let times = P::HAS_RANGE_TIMES.then(RangeTimes::new);
        let partitions = P::HAS_PARTITIONS.then(|| Partitions::new(options.partitions, memory.clone()));
        let heat = P::HAS_HEAT.then(Heat::new);
        let (waits, removals) = (Waits::new(memory), Removals::default());
        Shared { registry, waits, records, removals, graph, times, partitions, heat }
    }

    #[inline(always)]
    fn has_partitions(_: &Shared) -> bool {
        P::HAS_PARTITIONS
    }

    fn now(shared: &Shared) -> u64 {
        shared.registry.now().0
    }

    fn in_the_way(shared: &Shared, at: u64) -> InTheWay {
        shared.registry.in_the_way(Timestamp(at))
    }

    fn advance(shared: &Shared) -> u64 {
        shared.registry.advance().0
    }

    fn worker(shared: &Shared) -> Worker {
        Worker::new(shared)
    }

    fn enter(env: Env<'_, Self>) {
        env.shared.registry.raise(&env.worker.floor);
    }

    fn leave(env: Env<'_, Self>) {
        env.shared.registry.lower(&env.worker.floor);
    }

    fn refresh(env: Env<'_, Self>) {
        env.shared.registry.raise(&env.worker.floor);
    }

    fn maintain(env: Env<'_, Self>) -> bool {
        env.shared.registry.raise(&env.worker.floor);
        let Shared { removals, registry, records, .. } = env.shared;
        removals.pass(&mut env.worker.removed.borrow_mut(), registry, records, env.local)
    }

    fn relieve(env: Env<'_, Self>) -> bool {
        Self::maintain(env)
    }

    fn retire(shared: &Shared, worker: &mut Worker) {
        shared.removals.orphan(worker.removed.get_mut());
        shared.registry.drop_floor(&worker.floor);
    }

    fn garbage(shared: &Shared, worker: &Worker) -> usize {
        worker.removed.borrow().len() + shared.removals.orphans()
    }

    fn txn(shared: &Shared) -> Txn {
        Txn::new(shared.records.memory())
    }

    fn drop_txn(shared: &Shared, txn: &mut Txn) {
        debug_assert!(txn.accesses.writes.is_empty() && txn.undone.is_empty());
        txn.member.leave(&shared.registry);
    }

    fn waits(shared: &Shared) -> &Waits {
        &shared.waits
    }

    fn contention(shared: &Shared) -> ContentionStatistics {
        shared.heat.as_ref().map_or_else(ContentionStatistics::default, Heat::contention)
    }

    fn place(txn: &Txn) -> u32 {
        txn.member.place()
    }

    fn set_interactive(shared: &Shared, txn: &Txn, now_ns: u64) {
        shared.registry.set_interactive_since(txn.member.place(), now_ns.max(1));
    }

    fn interactive_since(shared: &Shared, place: u32) -> Option<u64> {
        shared.registry.interactive_since(place)
    }

    fn await_end(shared: &Shared, place: u32) {
        shared.registry.await_end(place);
    }

    fn is_open(shared: &Shared, holder: Holder) -> bool {
        shared.registry.is_open(holder)
    }

    unsafe fn holder(shared: &Shared, txn: &Txn, record: *const Record) -> Option<Holder> {
        // SAFETY: the caller has made the promise that `holder` asks for, and `P` asks for the same.
        unsafe { P::holder(shared, txn, record) }
    }

    unsafe fn holds(txn: &Txn, record: *const Record) -> bool {
        // SAFETY: the caller has made the promise that `holds` asks for, and `P` asks for the same.
        unsafe { P::holds(txn, record) }
    }

    unsafe fn shares(txn: &Txn, record: *const Record) -> bool {
        P::find(txn, record).is_some_and(|entry| txn.accesses.entries[entry].held == Held::Shared)
    }

    fn begin<S: Suspend>(
        env: Env<'_, Self>,
        txn: &mut Txn,
        declared: Declared,
        s: &mut S,
    ) -> Option<Result<(), NotBegun>> {
        if s.pause() {
            return None;
        }
        let begun = txn.member.open(&env.shared.registry, &env.worker.floor);
        if begun.is_ok() {
            P::begun(env, txn, declared);
        }
        Some(begun)
    }

    unsafe fn may_queue(
        env: Env<'_, Self>,
        txn: &mut Txn,
        record: *const Record,
    ) -> Result<Waiting, OutOfMemory> {
        P::may_queue(env, txn, record)
    }

    fn declare_partitions(shared: &Shared, txn: &mut Txn, partitions: u64) {
        P::declare_partitions(shared, txn, partitions);
    }

    #[inline(always)]
    fn admit<S: Suspend>(env: Env<'_, Self>, txn: &mut Txn, need: u64, waits: bool, s: &mut S) -> Admission {
        P::admit(env, txn, need, waits, s)
    }

    #[inline(always)]
    fn refused(txn: &Txn) -> Option<Refused> {
        P::refused(txn)
    }

    fn awaited(shared: &Shared, txn: &mut Txn) -> Option<(RecordId, Holder)> {
        P::awaited(shared, txn)
    }

    /// Does nothing: a read-only transaction is tracked like any other.
    fn declare_read_only(_: Env<'_, Self>, _: &mut Txn) {}

    fn snapshot_timestamp(txn: &Txn) -> u64 {
        txn.member.begin.0
    }

    fn newest_seen(shared: &Shared, _: &Txn) -> u64 {
        shared.registry.now().0
    }

    fn savepoint(txn: &Txn) -> usize {
        txn.accesses.writes.len()
    }

    fn rollback_to(env: Env<'_, Self>, txn: &mut Txn, at: usize, keeps: bool) -> Result<(), OutOfMemory> {
        rollback::rollback_to(env, txn, at, keeps);
        Ok(())
    }

    fn forget_undone(env: Env<'_, Self>, txn: &mut Txn) {
        txn.undone.forget(env.local);
    }

    #[inline(always)]
    unsafe fn access<S: Suspend>(
        access: &mut Access,
        record: *const Record,
        intent: Intent,
        env: Env<'_, Self>,
        txn: &mut Txn,
        s: &mut S,
    ) -> bool {
        // SAFETY: the caller has made the promise that `access` asks for, and `P` asks for the same.
        unsafe { P::access(access, record, intent, env, txn, s) }
    }

    #[inline(always)]
    unsafe fn value(
        access: &Access,
        record: *const Record,
        _: Intent,
        txn: &mut Txn,
    ) -> Result<Option<*const [u8]>, Refused> {
        match *access {
            Access::Value(value) => Ok(Some(value)),
            Access::Absent => Ok(None),
            Access::Refused(refused) => Err(refused),
            Access::Unread => Ok(match P::read_own(txn, record) {
                Some(own) => own,
                None => record_of(record).stable_bytes(), // the record is locked
            }),
            Access::New | Access::Waiting(_) | Access::InLine { .. } | Access::Fetching(..) => {
                unreachable!("the access has ended")
            }
        }
    }

    fn read_range(txn: &mut Txn, scanned: &Scanned<'_>) -> bool {
        let Txn { ranges, found, .. } = txn;
        let noted = found.reserve().and_then(|()| ranges.note(scanned, || true));
        match noted {
            Ok(Noted::Before { .. }) => txn.found.is_listing = false,
            Ok(Noted::WithMarks | Noted::WithoutMarks) => txn.found.push(scanned.known),
            Err(OutOfMemory) => txn.is_full = true,
        }
        true // the records have been noted when they were accessed
    }

    fn read_in_range(txn: &mut Txn, record: *const Record) {
        let Some(entry) = P::find(txn, record) else { return };
        if !txn.is_full && txn.found.list(entry).is_err() {
            txn.is_full = true;
        }
    }

    #[inline(always)]
    fn accessed(txn: &Txn) -> usize {
        txn.accesses.entries.len()
    }

    fn read_absent(txn: &mut Txn, record: *const Record, target: &Target) {
        Self::read_range(txn, &Scanned::of_key(target, &mut [0; 8]));
        // The transaction finds nothing because of its own deletion.
        if P::own(txn, record).is_some() {
            Self::read_in_range(txn, record);
        }
    }

    unsafe fn write(
        env: Env<'_, Self>,
        txn: &mut Txn,
        record: *const Record,
        target: &Target,
        change: Change<'_>,
    ) -> Result<Written, Refused> {
        if change == Change::Lock {
            // SAFETY: the caller has made the promise that `write` asks for, and `P::lock` asks for the same.
            return Ok(match unsafe { P::lock(env, txn, record) }? {
                None => Written::Gone,
                Some(true) => Written::Done,
                Some(false) => {
                    note_absent::<P>(txn, record, target);
                    Written::Absent
                }
            });
        }
        P::reserve(txn)?;
        let depends = !matches!(change, Change::Put(_));
        // SAFETY: the caller has made the promise that `write` asks for, and `P::will_write` asks for the same.
        let is_there = unsafe { P::will_write(env, txn, record, depends) }?;
        let Some(is_there) = is_there else {
            return Ok(Written::Gone);
        };
        let is_there = P::own(txn, record).map_or(is_there, |own| own.is_some());
        let new = match change {
            Change::Update(_) | Change::Delete if !is_there => {
                note_absent::<P>(txn, record, target);
                return Ok(Written::Absent);
            }
            Change::Insert(_) if is_there => return Ok(Written::Exists),
            Change::Put(value) | Change::Update(value) | Change::Insert(value) => {
                Some(new_value(env.local, value)?)
            }
            Change::Delete | Change::Lock => None,
        };
        let entry = P::enter_reserved(txn, record);
        txn.accesses.push(entry, new, target, false);
        Ok(Written::Done)
    }

    unsafe fn create(
        env: Env<'_, Self>,
        txn: &mut Txn,
        record: *mut Record,
        value: &[u8],
    ) -> Result<(), OutOfMemory> {
        P::reserve(txn)?;
        let new = new_value(env.local, value)?;
        txn.drop_new(env.local);
        txn.new = Some(new);
        record_of(record).reset(P::lock_of_new(env, txn));
        Ok(())
    }

    unsafe fn created(txn: &mut Txn, record: *const Record, target: &Target) -> Result<(), Abort> {
        let entry = P::enter_reserved(txn, record);
        let made = &mut txn.accesses.entries[entry];
        (made.seen, made.held) = (Some(0), P::HELD_WHEN_NEW);
        let new = txn.new.take();
        debug_assert!(new.is_some(), "`create` has been called");
        txn.accesses.push(entry, new, target, true);
        Ok(())
    }

    unsafe fn discard(env: Env<'_, Self>, record: *const Record, target: &Target) {
        let gone = record_of(record);
        gone.latch();
        gone.install(None, env.shared.registry.now(), P::INLINES, env.local);
        // A transaction that begins from now on does not find the record, whether or not the index named it before.
        let since = env.shared.registry.advance();
        env.worker.removed.borrow_mut().push(Removed { since, index: target.index, id: target.id });
    }

    unsafe fn restore(
        env: Env<'_, Self>,
        record: *mut Record,
        value: &[u8],
        at: u64,
    ) -> Result<(), OutOfMemory> {
        let new = new_value(env.local, value)?;
        let record = record_of(record);
        record.reset(0);
        record.latch();
        record.install(Some(new), Timestamp(at), P::INLINES, env.local);
        Ok(())
    }

    unsafe fn restore_over(
        env: Env<'_, Self>,
        record: *const Record,
        value: &[u8],
        at: u64,
    ) -> Result<(), OutOfMemory> {
        let new = new_value(env.local, value)?;
        let record = record_of(record);
        record.latch();
        record.install(Some(new), Timestamp(at), P::INLINES, env.local);
        Ok(())
    }

    fn resume(shared: &Shared, at: u64) {
        shared.registry.resume(Timestamp(at));
    }

    fn prepare<S: Suspend>(
        stage: &mut CommitStage,
        env: Env<'_, Self>,
        txn: &mut Txn,
        s: &mut S,
    ) -> Option<Result<u64, Abort>> {
        if s.pause() {
            return None;
        }
        txn.obstacle = None;
        if txn.has_lost_own {
            return Some(Err(Abort::WriteConflict));
        }
        deciding::decide::<P, S>(stage, env, txn, s)
    }

    fn obstacle(txn: &Txn) -> Option<Target> {
        txn.obstacle
    }

    fn unprepare(_: Env<'_, Self>, txn: &mut Txn, stage: &mut CommitStage) -> bool {
        txn.unlatch();
        *stage = CommitStage::New;
        true
    }

    fn has_changes(txn: &Txn) -> bool {
        !txn.accesses.writes.is_empty()
    }

    unsafe fn changes(txn: &Txn, mut note: impl FnMut(Changed<'_>)) {
        for (_, write) in txn.accesses.last_writes() {
            // SAFETY: the version is the transaction's own, and not yet committed.
            let value = write.new.map(|new| unsafe { &*Version::value(new) });
            note(Changed { target: &write.target, value });
        }
    }

    fn finish(env: Env<'_, Self>, txn: &mut Txn, at: u64) {
        debug_assert!(txn.has_latched || txn.accesses.writes.is_empty());
        txn.has_latched = false;
        let has_drawn = !txn.accesses.writes.is_empty();
        if has_drawn {
            install_writes(env, txn, at);
        }
        txn.drop_new(env.local);
        P::ends(env, txn);
        txn.release(env.shared, has_drawn);
        txn.end(env.shared);
        if env.worker.removed.borrow().len() >= REMOVED_PER_PASS {
            Self::maintain(env);
        }
    }

    fn abort(env: Env<'_, Self>, txn: &mut Txn) {
        if !txn.member.has_place() {
            return; // the transaction has not begun
        }
        txn.unlatch();
        rollback::undo_all(env, txn);
        txn.drop_new(env.local);
        P::ends(env, txn);
        txn.release(env.shared, false);
        txn.end(env.shared);
    }
}
