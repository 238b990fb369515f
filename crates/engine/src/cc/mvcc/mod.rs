//! Version chains read as of a snapshot; the first updater wins. Several schemes share this; a [`Tracker`] says what
//! each adds. The steps of a transaction:
//! 1. It sees what had committed when it began, and its own writes.
//! 2. A write puts an uncommitted version, marked with the transaction's tag, at the head of the chain. The
//!    transaction aborts if another transaction's mark is there, or a version newer than its snapshot.
//!
//! Invariants:
//! - A version is installed before its transaction draws its commit timestamp, so only snapshots opened later see it.
//! - A reader that meets a mark asks the transaction's descriptor. It waits (the operation suspends) if that
//!   transaction is committing and has no timestamp yet, or a timestamp within the snapshot but no outcome. If the
//!   reader skipped one version of that transaction and saw another, the snapshot would be torn.
//!
//! After Berenson et al., SIGMOD 1995, and ERMIA (Kim et al., SIGMOD 2016).

mod chain;
mod dead_ends;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod dead_ends_tests;
mod departed;
mod ending;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod interval_tests;
#[cfg(all(test, braid_loom))]
mod loom_tests;
mod meeting;
mod present;
mod queue;
mod reclaim;
mod restore;
#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
#[cfg(test)]
mod tests;
mod timed;
mod tracker;
mod undone;
mod write;

use super::{
    Abort, Change, Changed, ConcurrencyControl, Copies, Declared, Env, Holder, InTheWay, Intent, LabOptions,
    Mistake, NotBegun, Reads, Refused, Scanned, Target, Waiting, Waits, Written,
};
use crate::cc::common::participant::Participant;
use crate::cc::common::registry::{FIRST, Floor, Registry};
use crate::index::TableIndex;
use crate::memory::{Charge, Memory, OutOfMemory, Slab};
use crate::profile::Activity;
use crate::record::{Record, RecordId, Slot, Stamp, Tag, Timestamp, Version, VersionKind};
use crate::suspend::Suspend;
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{Mutex, lock};
pub(super) use chain::Overwritten;
use chain::{drop_version, new_version, version_of};
pub(super) use departed::has_departed;
use ending::{CHANGES_PER_PASS, collect, publish, undo, unlock};
use meeting::{Lockable, Seen};
use present::Present;
use queue::{Garbage, Queue};
use reclaim::Reclaimer;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
pub use tracker::Tracker;
pub(super) use write::Write;

/// Multi-version concurrency control.
pub struct Mvcc<T: Tracker>(PhantomData<fn() -> T>);

impl<T: Tracker> fmt::Debug for Mvcc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<T>())
    }
}

/// The number of writes for which a transaction has room at first, and for which it keeps room.
const WRITES_FIRST: usize = 16;
const WRITES_KEPT: usize = 1024;

/// The shared part. One per database.
pub struct Shared<T: Tracker> {
    registry: Registry,
    reclaimer: Reclaimer,
    waits: Waits,
    pub(super) tracker: T::Shared,
}

/// A worker's part. One per worker.
pub struct Worker<T: Tracker> {
    floor: Arc<Floor>,
    /// What the worker has superseded since its last pass. The pass adds it to the queue.
    superseded: RefCell<Vec<Garbage>>,
    queue: Arc<Mutex<Queue>>,
    /// Memory for the value of a tombstone that is being made.
    tombstone_value: RefCell<Vec<u8>>,
    changes: Cell<usize>,
    pub(super) tracker: T::Worker,
}

/// A transaction's state. One per slot. The fields that a read touches are first.
#[repr(C)]
pub struct Txn<T: Tracker> {
    member: Participant,
    /// The latest stamp read, until the transaction begins again. Marks of open transactions exceed all times.
    newest_seen: Cell<u64>,
    pub(super) reads: T::Reads,
    writes: Vec<Write>,
    /// The room in `writes`.
    charge: Charge,
    has_locks: bool,
    /// The transaction has aborted, perhaps because of a key that is gone.
    pub(super) has_missed: bool,
    present: Present,
    undone: undone::Undone,
}

/// The position of an access. When it has ended: the version that the transaction sees. Null: it has not begun.
#[derive(Clone, Copy, Debug)]
pub struct Access<L> {
    at: *const Version,
    looks: L,
}
// SAFETY: plain data of an operation. Its pointers are followed only under the rules of `access`.
unsafe impl<L: Send> Send for Access<L> {}

/// The end of an access that found nothing visible on a chain. `timed.rs` has other ends.
const NOTHING: *const Version = std::ptr::without_provenance(1);

impl<L: Default> Default for Access<L> {
    fn default() -> Self {
        Access { at: std::ptr::null(), looks: L::default() }
    }
}

const _: () = assert!(size_of::<Access<()>>() == size_of::<*const Version>());

const _: () = assert!(cfg!(any(braid_shuttle, braid_loom)) || size_of::<Slot>() == size_of::<Record>());

/// Called when a version has been installed, before a value or not. Before a deletion it brings the key to life.
#[inline(always)]
fn note_life(over_value: bool, target: &Target) {
    if !over_value {
        // SAFETY: indexes live as long as the database.
        unsafe { &*target.index }.revive(&target.key);
    }
}

/// Returns a record's memory as this scheme lays it out.
#[inline(always)]
fn slot_of<'r>(record: *const Record) -> &'r Slot {
    // SAFETY: records are memory of a slab, which is never unmapped while the database lives, and any bytes are a slot.
    unsafe { &*record.cast::<Slot>() }
}

impl<T: Tracker> Shared<T> {
    /// Returns the moment just after the last commit.
    #[inline(always)]
    pub(crate) fn now(&self) -> Timestamp {
        self.registry.now()
    }

    /// Returns the slot of the record with this id.
    pub(super) fn slot(&self, id: RecordId) -> *const Slot {
        self.reclaimer.slot(id)
    }

    /// Draws the transaction's commit timestamp. Other transactions wait for its outcome from now on.
    #[inline(always)]
    pub(super) fn draw(&self, txn: &Txn<T>) -> Timestamp {
        debug_assert!(!txn.writes.is_empty());
        self.registry.draw(txn.member.place())
    }
}

impl<T: Tracker> Txn<T> {
    pub(super) fn begin(&self) -> Timestamp {
        self.member.begin
    }

    pub(super) fn tag(&self) -> Tag {
        self.member.tag
    }

    pub(super) fn writes(&self) -> &[Write] {
        &self.writes
    }

    #[inline(always)]
    fn saw(&self, stamp: Stamp) {
        self.newest_seen.set(self.newest_seen.get().max(stamp.0));
    }

    /// Leaves the transaction's time at a record, under a scheme with times. Returns false if the head has changed.
    #[inline(always)]
    fn notes_head(&self, slot: &Slot, head: *const Version) -> bool {
        !T::IS_TIMED || T::head_of_read(slot, self.member.begin) == head
    }

    /// Returns where an access begins.
    #[inline(always)]
    fn start_at(&self, slot: &Slot, intent: Intent) -> *const Version {
        match intent {
            Intent::Lock if T::IS_TIMED => timed::UNREAD,
            Intent::Read | Intent::ReadToWrite | Intent::Covered if T::IS_TIMED => {
                T::head_of_read(slot, self.member.begin)
            }
            _ => slot.head(),
        }
    }

    /// Returns where an access ends that has reached this version, which the transaction sees.
    #[inline(always)]
    fn end_at(
        &mut self,
        shared: &Shared<T>,
        slot: &Slot,
        version: &Version,
        intent: Intent,
    ) -> *const Version {
        if T::IS_TIMED {
            return timed::end_at(shared, self, slot, version, intent);
        }
        // The snapshot that sees a value keeps it. A tombstone goes as soon as all snapshots see it.
        if version.kind() == VersionKind::Value {
            return version;
        }
        self.saw(version.stamp());
        NOTHING
    }

    /// Makes room for one more write.
    #[inline(always)]
    fn reserve_write(&mut self) -> Result<(), OutOfMemory> {
        if self.writes.len() < self.writes.capacity() {
            return Ok(());
        }
        self.charge.grow(&mut self.writes, 1, WRITES_FIRST)
    }

    /// Moves the transaction to the present. It has done nothing yet.
    pub(super) fn begin_again(&mut self, shared: &Shared<T>) -> Timestamp {
        debug_assert!(self.writes.is_empty());
        self.member.open_again(&shared.registry)
    }

    #[inline(always)]
    fn end(&mut self, shared: &Shared<T>) {
        debug_assert!(self.writes.is_empty());
        self.charge.clear(&mut self.writes, WRITES_KEPT);
        T::forget(&mut self.reads);
        self.member.close(&shared.registry, &shared.waits);
    }
}

// SAFETY: `value` lends a version's bytes. Either the version is visible to the open snapshot, so neither it nor its
// record is reclaimed before the snapshot closes; or it is the transaction's own, and stays in the chain below later
// ones until the end, or is kept as long when it is undone. Under schemes with times this holds if the read was
// noted: no version of an earlier time is put before the version then. A version read without a note is copied.
unsafe impl<T: Tracker> ConcurrencyControl for Mvcc<T> {
    const IS_DEFAULT: bool = T::IS_DEFAULT;
    const TRACKS_READS: bool = T::TRACKS_READS;
    const KEEPS_UNTRACKED: bool = !T::IS_TIMED;

    type Shared = Shared<T>;
    type Worker = Worker<T>;
    type Txn = Txn<T>;
    type Access = Access<T::Looks>;
    type Prepare = T::Validation;

    #[inline(always)]
    fn makes(mistake: Mistake) -> bool {
        T::makes(mistake)
    }

    fn reads(_: LabOptions) -> Reads {
        if T::IS_TIMED { Reads::Current } else { Reads::Snapshot }
    }

    fn open(records: Arc<Slab>, memory: Arc<Memory>, _: LabOptions) -> Shared<T> {
        Shared {
            registry: Registry::new(&memory),
            waits: Waits::new(memory),
            reclaimer: Reclaimer::new(records, reclaim::Rules::of::<T>()),
            tracker: T::Shared::default(),
        }
    }

    #[inline(always)]
    fn now(shared: &Shared<T>) -> u64 {
        shared.now().0
    }

    fn in_the_way(shared: &Shared<T>, at: u64) -> InTheWay {
        shared.registry.in_the_way(Timestamp(at))
    }

    fn advance(shared: &Shared<T>) -> u64 {
        shared.registry.advance().0
    }

    fn worker(shared: &Shared<T>) -> Worker<T> {
        Worker {
            floor: shared.registry.floor(),
            superseded: RefCell::default(),
            queue: shared.reclaimer.queue(),
            tombstone_value: RefCell::default(),
            // Workers that run few transactions each clean up for each other.
            changes: Cell::new(shared.reclaimer.left_len().min(CHANGES_PER_PASS)),
            tracker: T::worker(&shared.tracker),
        }
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
        collect(env, env.local.has_grown())
    }

    fn relieve(env: Env<'_, Self>) -> bool {
        env.shared.registry.raise(&env.worker.floor);
        collect(env, true);
        env.shared.reclaimer.pass_all(&env.shared.registry, env.local)
    }

    fn retire(shared: &Shared<T>, worker: &mut Worker<T>) {
        T::retire(&shared.tracker, &worker.tracker);
        lock(&worker.queue).append(worker.superseded.get_mut());
        shared.reclaimer.leave(&worker.queue);
        shared.registry.drop_floor(&worker.floor);
    }

    fn garbage(shared: &Shared<T>, worker: &Worker<T>) -> usize {
        worker.superseded.borrow().len() + lock(&worker.queue).len() + shared.reclaimer.left_len()
    }

    fn txn(shared: &Shared<T>) -> Txn<T> {
        let memory = shared.reclaimer.memory();
        Txn {
            member: Participant::new(),
            writes: Vec::new(),
            charge: Charge::new(memory),
            has_locks: false,
            has_missed: false,
            present: Present::new(),
            undone: undone::Undone::new(memory),
            newest_seen: Cell::new(0),
            reads: T::reads(memory),
        }
    }

    fn drop_txn(shared: &Shared<T>, txn: &mut Txn<T>) {
        debug_assert!(txn.writes.is_empty() && txn.undone.is_empty());
        txn.member.leave(&shared.registry);
    }

    fn waits(shared: &Shared<T>) -> &Waits {
        &shared.waits
    }

    fn place(txn: &Txn<T>) -> u32 {
        txn.member.place()
    }

    fn set_interactive(shared: &Shared<T>, txn: &Txn<T>, now_ns: u64) {
        shared.registry.set_interactive_since(txn.member.place(), now_ns.max(1));
    }

    fn interactive_since(shared: &Shared<T>, place: u32) -> Option<u64> {
        shared.registry.interactive_since(place)
    }

    fn await_end(shared: &Shared<T>, place: u32) {
        shared.registry.await_end(place);
    }

    fn is_open(shared: &Shared<T>, holder: Holder) -> bool {
        shared.registry.is_open(holder)
    }

    unsafe fn holder(shared: &Shared<T>, txn: &Txn<T>, record: *const Record) -> Option<Holder> {
        // SAFETY: the head of a chain is not reclaimed inside an epoch.
        let head = unsafe { slot_of(record).head().as_ref() }?;
        shared.holder(head, txn)
    }

    unsafe fn holds(txn: &Txn<T>, record: *const Record) -> bool {
        // SAFETY: as in `holder`.
        let head = unsafe { slot_of(record).head().as_ref() };
        txn.member.tag != Tag::NONE && head.is_some_and(|head| head.stamp().0 == txn.member.tag.word())
    }

    #[inline(always)]
    fn begin<S: Suspend>(
        env: Env<'_, Self>,
        txn: &mut Txn<T>,
        _: Declared,
        s: &mut S,
    ) -> Option<Result<(), NotBegun>> {
        if s.pause() {
            return None;
        }
        debug_assert!(txn.writes.is_empty());
        txn.reset(&env.shared.registry);
        if !T::IS_TIMED {
            return Some(txn.member.open(&env.shared.registry, &env.worker.floor));
        }
        let begun = txn.member.open_at_own_time(&env.shared.registry, &env.worker.floor);
        T::began(&mut txn.reads, txn.member.begin);
        Some(begun)
    }

    fn declare_read_only(env: Env<'_, Self>, txn: &mut Txn<T>) {
        T::declare_read_only(env, txn);
    }

    fn reads_freely(txn: &Txn<T>) -> bool {
        T::reads_freely(&txn.reads)
    }

    fn read_copies(txn: &mut Txn<T>, scanned: &Scanned<'_>, copies: Arc<dyn Copies>) -> bool {
        T::read_copies(&mut txn.reads, scanned, copies)
    }

    fn snapshot_timestamp(txn: &Txn<T>) -> u64 {
        txn.member.begin.0
    }

    fn newest_seen(shared: &Shared<T>, txn: &Txn<T>) -> u64 {
        if T::IS_TIMED {
            return shared.now().0; // the log has commits in another order than that of their times
        }
        let newest = txn.newest_seen.get().max(shared.reclaimer.newest_removed());
        Timestamp(newest).after().0 // a commit's stamp also says how far it reaches back
    }

    fn see_newest(txn: &mut Txn<T>) {
        // If transactions have times of their own, a row that was changed later stays closed.
        if !T::IS_TIMED {
            txn.present.enter(&mut txn.member.begin);
        }
    }

    fn savepoint(txn: &Txn<T>) -> usize {
        txn.writes.len()
    }

    fn rollback_to(env: Env<'_, Self>, txn: &mut Txn<T>, at: usize, keeps: bool) -> Result<(), OutOfMemory> {
        undone::rollback_to(env, txn, at, keeps)
    }

    fn forget_undone(env: Env<'_, Self>, txn: &mut Txn<T>) {
        txn.undone.forget(env.local);
    }

    unsafe fn may_queue(
        env: Env<'_, Self>,
        txn: &mut Txn<T>,
        record: *const Record,
    ) -> Result<Waiting, OutOfMemory> {
        // SAFETY: the caller has made the promise that `may_queue` asks for, and `is_earlier` asks for the same.
        Ok(Waiting::asleep_if(!T::IS_TIMED || unsafe { env.shared.is_earlier(record, txn.begin()) }))
    }

    #[inline(always)]
    unsafe fn access<S: Suspend>(
        access: &mut Access<T::Looks>,
        record: *const Record,
        intent: Intent,
        env: Env<'_, Self>,
        txn: &mut Txn<T>,
        s: &mut S,
    ) -> bool {
        if access.at.is_null() {
            access.at = txn.start_at(slot_of(record), intent);
            if T::IS_TIMED && intent == Intent::Lock {
                return true;
            }
            if access.at.is_null() {
                access.at = NOTHING; // the record is removed, and no row is found (see `reclaim`)
                return true;
            }
            // Suspends even if the version lies in the slot, which is in the cache. Transactions that suspend equally
            // often stay in step, and the worker's branches are predicted. If some versions lie in slots and others
            // do not, this is worth far more than the suspension costs.
            if s.miss::<1>(access.at.cast()) {
                return false;
            }
        }
        loop {
            // SAFETY: the version was reached from the head in this operation, inside its epoch.
            let version = unsafe { &*access.at };
            let stamp = version.stamp();
            if stamp.is_committed_by(txn.member.begin) {
                access.at = txn.end_at(env.shared, slot_of(record), version, intent);
                return true;
            }
            if let Some(tag) = stamp.tag() {
                if tag == txn.member.tag {
                    return true; // the transaction's writes keep the version
                }
                match env.shared.seen(version, txn.member.begin, intent) {
                    // The version is stamped by now, or will be soon.
                    Seen::Visible => {
                        access.at = txn.end_at(env.shared, slot_of(record), version, intent);
                        return true;
                    }
                    Seen::Wait if T::may_wait(&mut access.looks, &env.shared.waits, tag.descriptor()) => {
                        s.was(Activity::Waiting);
                        return false;
                    }
                    Seen::Wait => {
                        access.at = timed::TIMED_OUT;
                        return true;
                    }
                    Seen::Invisible => {}
                }
            }
            if T::IS_TIMED && matches!(intent, Intent::Write | Intent::Covered) {
                access.at = timed::LATE;
                return true;
            }
            access.at = version.next();
            if access.at.is_null() {
                access.at = NOTHING;
                return true;
            }
            if s.miss::<1>(access.at.cast()) {
                return false;
            }
        }
    }

    #[inline(always)]
    unsafe fn value(
        access: &Access<T::Looks>,
        record: *const Record,
        intent: Intent,
        txn: &mut Txn<T>,
    ) -> Result<Option<*const [u8]>, Refused> {
        debug_assert!(!access.at.is_null());
        let (slot, mut at) = (record.cast(), access.at);
        if T::IS_TIMED {
            if let Some(refused) = timed::refusal(at) {
                return Err(refused);
            }
            if at == timed::UNREAD {
                at = slot_of(record).head(); // the head is now the transaction's own
            }
        }
        if at == NOTHING {
            if T::TRACKS_READS && intent.is_read() {
                T::read(&mut txn.reads, slot, None);
            }
            return Ok(None);
        }
        // SAFETY: the access has ended at a version that the transaction sees.
        let version = unsafe { &*at };
        let stamp = version.stamp();
        txn.saw(stamp);
        if stamp.0 == txn.member.tag.word() {
            // SAFETY: as above.
            return Ok((version.kind() == VersionKind::Value).then(|| unsafe { Version::value(at) }));
        }
        debug_assert_eq!(version.kind(), VersionKind::Value, "a tombstone of others is nothing");
        if T::TRACKS_READS && intent.is_read() {
            T::read(&mut txn.reads, slot, Some(at));
        }
        // SAFETY: as above.
        Ok(Some(unsafe { Version::value(at) }))
    }

    fn read_range(txn: &mut Txn<T>, scanned: &Scanned<'_>) -> bool {
        T::read_range(&mut txn.reads, scanned)
    }

    #[inline(always)]
    fn lists_records(txn: &Txn<T>) -> bool {
        T::lists_records(&txn.reads)
    }

    fn read_in_range(txn: &mut Txn<T>, record: *const Record) {
        T::read_in_range(&mut txn.reads, record.cast());
    }

    #[inline(always)]
    fn skips_dead_as_of(txn: &Txn<T>) -> u64 {
        if T::IS_TIMED { 0 } else { txn.begin().0 }
    }

    fn note_dead_end(env: Env<'_, Self>, index: &TableIndex, is_reverse: bool) {
        if !T::IS_TIMED {
            dead_ends::note(env, index, is_reverse);
        }
    }

    fn read_absent(txn: &mut Txn<T>, record: *const Record, target: &Target) {
        T::read_absent(&mut txn.reads, record.cast(), target);
    }

    unsafe fn write(
        env: Env<'_, Self>,
        txn: &mut Txn<T>,
        record: *const Record,
        target: &Target,
        change: Change<'_>,
    ) -> Result<Written, Refused> {
        let (slot, s) = (record.cast::<Slot>(), slot_of(record));
        let old = s.head();
        if old.is_null() {
            return Ok(Written::Gone);
        }
        // SAFETY: the head, inside an epoch.
        let head = unsafe { &*old };
        if change == Change::Lock {
            match env.shared.may_lock(head, txn) {
                Lockable::Free => {}
                Lockable::Own => return Ok(Written::Done),
                Lockable::RolledBack => return Ok(Written::Gone),
                Lockable::Held(holder) => return Err(Refused::Held(holder)),
            }
        }
        env.shared.may_write(head, txn).map_err(Refused::Abort)?;
        txn.reserve_write()?;
        let exists = head.kind() == VersionKind::Value;
        let tag = txn.member.announce(&env.shared.registry);
        let is_first = head.stamp().tag() != Some(tag);
        let new = match change {
            Change::Update(_) | Change::Delete | Change::Lock if !exists => {
                if !txn.notes_head(s, old) {
                    return Ok(Written::Gone);
                }
                Self::read_absent(txn, record, target);
                return Ok(Written::Absent);
            }
            Change::Insert(_) if exists => {
                let is_noted = txn.notes_head(s, old);
                if is_noted && is_first {
                    T::read(&mut txn.reads, slot, Some(old));
                }
                return Ok(if is_noted { Written::Exists } else { Written::Gone });
            }
            _ if T::IS_TIMED && is_first && T::is_read_later(s, txn.begin(), false) => {
                return Err(Refused::Abort(Abort::WriteConflict));
            }
            _ => version_of(env, tag, s, old, target, change)?,
        };
        if !s.install(old, new) {
            // SAFETY: the version was not installed, so no other thread has found it.
            unsafe { drop_version(s, env.local, new) };
            return match change {
                _ if s.head().is_null() => Ok(Written::Gone), // the head was a tombstone, which has been removed
                Change::Lock => Ok(Written::Gone), // another version was installed first: look again
                _ => Err(Refused::Abort(Abort::WriteConflict)),
            };
        }
        note_life(exists, target);
        let is_lock = change == Change::Lock;
        let write = Write { slot, new, old, target: *target, is_lock };
        if T::IS_TIMED && is_first {
            timed::undo_if_late(env, txn, &write).map_err(Refused::Abort)?;
        }
        if T::IS_TIMED && is_lock {
            T::locked(s, txn.begin()); // its read stays noted when it unlocks the record
        }
        txn.has_locks |= is_lock;
        txn.writes.push(write);
        Ok(Written::Done)
    }

    unsafe fn create(
        env: Env<'_, Self>,
        txn: &mut Txn<T>,
        record: *mut Record,
        value: &[u8],
    ) -> Result<(), OutOfMemory> {
        txn.reserve_write()?;
        // SAFETY: the record is the caller's alone.
        unsafe { Slot::reset(record.cast(), T::IS_TIMED) };
        let s = slot_of(record);
        if T::IS_TIMED {
            s.raise_read_until(txn.begin());
        }
        let tag = txn.member.announce(&env.shared.registry);
        let new = new_version(s, env.local, tag.stamp(), std::ptr::null(), VersionKind::Value, value)?;
        let installed = s.install(std::ptr::null(), new);
        debug_assert!(installed);
        Ok(())
    }

    unsafe fn created(txn: &mut Txn<T>, record: *const Record, target: &Target) -> Result<(), Abort> {
        let (slot, new) = (record.cast(), slot_of(record).head());
        debug_assert!(!new.is_null() && txn.writes.len() < txn.writes.capacity());
        txn.writes.push(Write { slot, new, old: std::ptr::null(), target: *target, is_lock: false });
        txn.check_created(target)
    }

    unsafe fn discard(env: Env<'_, Self>, record: *const Record, target: &Target) {
        let slot = slot_of(record);
        let new = slot.head();
        let removed = slot.install(new, std::ptr::null());
        debug_assert!(removed, "no index names the record");
        // Retired, not freed at once: a cleaner of the slot's former record may be looking at the version.
        reclaim::retire_version(slot, new, env.local);
        env.shared.reclaimer.retire_slot(slot, target, env.local);
    }

    unsafe fn restore(
        env: Env<'_, Self>,
        record: *mut Record,
        value: &[u8],
        at: u64,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the record is the caller's alone.
        unsafe { Slot::reset(record.cast(), T::IS_TIMED) };
        if T::IS_TIMED {
            slot_of(record).raise_read_until(restore::stamp_of(at).timestamp().unwrap_or(FIRST));
        }
        // SAFETY: as above.
        unsafe { restore::put(slot_of(record), env.local, value, at) }
    }

    unsafe fn restore_over(
        env: Env<'_, Self>,
        record: *const Record,
        value: &[u8],
        at: u64,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the caller has promised that no thread reads the record's value until this call returns.
        unsafe { restore::put_over(slot_of(record), env.local, value, at) }
    }

    fn resume(shared: &Shared<T>, at: u64) {
        shared.registry.resume(Timestamp(at));
    }

    #[inline(always)]
    fn prepare<S: Suspend>(
        validation: &mut T::Validation,
        env: Env<'_, Self>,
        txn: &mut Txn<T>,
        s: &mut S,
    ) -> Option<Result<u64, Abort>> {
        txn.come_back(env.shared);
        let decided = T::decide(validation, env, txn, s)?;
        s.enter(Activity::Commit);
        if decided.is_ok() {
            unlock(env, txn);
        }
        Some(decided.map(|at| at.0))
    }

    fn obstacle(txn: &Txn<T>) -> Option<Target> {
        T::obstacle(&txn.reads)
    }

    #[inline(always)]
    fn has_changes(txn: &Txn<T>) -> bool {
        !txn.writes.is_empty()
    }

    unsafe fn changes(txn: &Txn<T>, mut note: impl FnMut(Changed<'_>)) {
        ending::each_change(&txn.writes, &mut note);
    }

    #[inline(always)]
    fn finish(env: Env<'_, Self>, txn: &mut Txn<T>, at: u64) {
        if !txn.writes.is_empty() {
            publish(env, txn, Timestamp(at));
        }
        txn.end(env.shared);
    }

    fn abort(env: Env<'_, Self>, txn: &mut Txn<T>) {
        if !txn.member.has_place() {
            return; // the transaction has not begun
        }
        txn.present.leave(&mut txn.member.begin);
        T::abandon(env, txn);
        txn.has_locks = false;
        while let Some(write) = txn.writes.pop() {
            undo(env, txn.member.tag, &write);
        }
        if txn.member.tag != Tag::NONE {
            fence(Ordering::SeqCst); // pairs with the fence in `Registry::await_end`
        }
        txn.end(env.shared);
    }
}
