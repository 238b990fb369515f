//! Version chains read as of a snapshot; the first updater wins. What several schemes have in common; a
//! [`Tracker`] says what they add.
//!
//! A transaction sees what had committed when it began, and its own writes. A write puts an
//! uncommitted version, marked with the transaction's tag, in front of the chain; a writer that finds another
//! transaction's mark there, or a version newer than its own snapshot, gives way at once.
//!
//! Invariants:
//! - A version is installed before its transaction draws its commit timestamp, so it can become
//!   visible only to snapshots opened after its installation.
//! - A reader that meets a mark asks the transaction's descriptor. Who is committing but has no
//!   timestamp yet, or one within the snapshot but no outcome, is waited for (the operation suspends):
//!   skipping one version of it and seeing another would tear the snapshot.
//!
//! After Berenson et al., SIGMOD 1995, and ERMIA (Kim et al., SIGMOD 2016).

mod chain;
mod ending;
mod journal;
#[cfg(all(test, braid_loom))]
mod loom_tests;
mod queue;
mod reclaim;
mod registry;
mod restore;
#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
#[cfg(test)]
mod tests;
mod tracker;

use super::{
    Abort, Change, Committed, ConcurrencyControl, Env, Holder, NotBegun, Refused, Scanned, Target, Waits,
    Written,
};
use crate::memory::{Charge, Memory, OutOfMemory, Slab};
use crate::profile::Activity;
use crate::record::{RecordId, Slot, Stamp, Tag, Timestamp, Version, VersionKind};
use crate::suspend::Suspend;
use crate::sync::atomic::{AtomicUsize, Ordering, Ordering::Relaxed, fence};
use crate::sync::{Mutex, lock};
use crate::wal::{Changes, Lsn};
pub(super) use chain::Overwritten;
use chain::{drop_version, new_version};
use ending::{collect, publish, undo, unlock};
pub use journal::Commit;
use queue::{Garbage, Queue};
use reclaim::{Grave, Reclaimer};
pub(super) use registry::TXNS_MAX;
use registry::{Floor, Outcome, Registry};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
pub use tracker::Tracker;

/// Multi-version concurrency control.
pub struct Mvcc<T: Tracker>(PhantomData<fn() -> T>);

impl<T: Tracker> fmt::Debug for Mvcc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<T>())
    }
}

/// Writes that a transaction has room for at first, and that room is kept for.
const WRITES_FIRST: usize = 16;
const WRITES_KEPT: usize = 1024;
/// Of a transaction that has no place yet.
const NOWHERE: u32 = u32::MAX;

/// One per database.
pub struct Shared<T: Tracker> {
    registry: Registry,
    reclaimer: Reclaimer,
    /// Workers made so far, which numbers them.
    workers: AtomicUsize,
    waits: Waits,
    pub(super) tracker: T::Shared,
}

/// One per worker.
pub struct Worker<T: Tracker> {
    floor: Arc<Floor>,
    /// What it has superseded since its last pass, which adds that to the queue.
    superseded: RefCell<Vec<Garbage>>,
    queue: Arc<Mutex<Queue>>,
    grave: RefCell<Vec<u8>>,
    changes: Cell<usize>,
    /// What the last commit has appended to the log; its memory is used again.
    changes_logged: RefCell<Changes>,
    pub(super) tracker: T::Worker,
}

/// One per slot.
pub struct Txn<T: Tracker> {
    begin: Timestamp,
    tag: Tag,
    place: u32,
    sequence: u64,
    writes: Vec<Write>,
    /// The room in `writes`.
    charge: Charge,
    has_locks: bool,
    /// The latest stamp of what it has read, until it begins again. (Marks of open transactions are above all times.)
    newest_seen: Cell<u64>,
    pub(super) reads: T::Reads,
}

/// A version that this transaction has installed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) slot: *const Slot,
    new: *const Version,
    /// What it was put in front of; null: nothing, the record is new.
    pub(super) old: *const Version,
    pub(super) target: Target,
    /// It has the value that was there, and is nothing but a lock.
    is_lock: bool,
}
// SAFETY: the pointers lead to the transaction's own uncommitted versions and their slots, and are
// followed by one thread at a time.
unsafe impl Send for Write {}

/// Where a visit has got to. Null: not begun.
#[derive(Clone, Copy, Debug)]
pub struct Visit(*const Version);
// SAFETY: plain data of an operation; followed only under the rules of `visit`.
unsafe impl Send for Visit {}

/// The end of a chain on which nothing was visible.
const NOTHING: *const Version = std::ptr::without_provenance(1);

impl Default for Visit {
    fn default() -> Self {
        Visit(std::ptr::null())
    }
}

/// Of a version that bears another transaction's mark.
enum Seen {
    Visible,
    Invisible,
    Wait,
}

impl<T: Tracker> Shared<T> {
    /// Just after the last commit.
    #[inline(always)]
    pub(crate) fn now(&self) -> Timestamp {
        self.registry.now()
    }

    /// Where the record of this id is.
    pub(super) fn slot(&self, id: RecordId) -> *const Slot {
        self.reclaimer.slot(id)
    }

    /// Draws the transaction's commit timestamp. Others wait for its outcome from now on.
    #[inline(always)]
    pub(super) fn draw(&self, txn: &Txn<T>) -> Timestamp {
        debug_assert!(!txn.writes.is_empty());
        self.registry.draw(txn.place)
    }

    #[cold]
    #[inline(never)]
    fn resolve(&self, version: &Version, begin: Timestamp) -> Seen {
        loop {
            let stamp = version.stamp();
            let Some(tag) = stamp.tag() else {
                return if stamp.is_committed_by(begin) { Seen::Visible } else { Seen::Invisible };
            };
            match self.registry.outcome(tag) {
                Outcome::Active => return Seen::Invisible,
                Outcome::Committing | Outcome::Pending(_) if T::TEARS_COMMITS => return Seen::Invisible,
                Outcome::Committing => return Seen::Wait,
                Outcome::Pending(at) if at <= begin => return Seen::Wait,
                Outcome::Committed(at) if at <= begin => return Seen::Visible,
                Outcome::Pending(_) | Outcome::Committed(_) => return Seen::Invisible,
                // It stamped its versions before it ended: the next look finds no mark.
                Outcome::Ended => {}
            }
        }
    }

    /// What `head` means for a write of `txn`.
    #[inline(always)]
    fn may_write(&self, head: &Version, txn: &Txn<T>) -> Result<(), Abort> {
        let stamp = head.stamp();
        if stamp.is_committed_by(txn.begin) || stamp.tag() == Some(txn.tag) {
            return Ok(());
        }
        // A committing transaction's timestamp is later than this snapshot's, or soon known not to
        // be; giving way is right in the first case and harmless in the second.
        match stamp.tag().is_some() && matches!(self.resolve(head, txn.begin), Seen::Visible) {
            true => Ok(()),
            false => Err(Abort::WriteConflict),
        }
    }
}

impl<T: Tracker> Shared<T> {
    /// What `head` means for a lock of `txn`: nothing to do, `Done` if it may be had, or what to answer.
    fn may_lock(&self, head: &Version, txn: &Txn<T>) -> Option<Written> {
        let stamp = head.stamp();
        let Some(tag) = stamp.tag() else {
            // (One that is rolled back is about to be unlinked.)
            return Some(if stamp.timestamp().is_some() { Written::Done } else { Written::Gone });
        };
        if tag == txn.tag {
            return None;
        }
        match self.registry.outcome(tag) {
            Outcome::Active => Some(Written::Locked(holder_of(tag, false))),
            Outcome::Committing | Outcome::Pending(_) => Some(Written::Locked(holder_of(tag, true))),
            Outcome::Committed(_) | Outcome::Ended => Some(Written::Done),
        }
    }
}

fn holder_of(tag: Tag, is_ending: bool) -> Holder {
    Holder { id: tag.word() & (u64::MAX >> 1), place: tag.descriptor(), is_ending }
}

impl<T: Tracker> Txn<T> {
    pub(super) fn begin(&self) -> Timestamp {
        self.begin
    }

    pub(super) fn tag(&self) -> Tag {
        self.tag
    }

    pub(super) fn writes(&self) -> &[Write] {
        &self.writes
    }

    #[inline(always)]
    fn saw(&self, stamp: Stamp) {
        self.newest_seen.set(self.newest_seen.get().max(stamp.0));
    }

    /// Makes room for one more write.
    #[inline(always)]
    fn reserve_write(&mut self) -> Result<(), OutOfMemory> {
        if self.writes.len() < self.writes.capacity() {
            return Ok(());
        }
        self.charge.grow(&mut self.writes, 1, WRITES_FIRST)
    }

    /// Takes a place, which is kept as long as there is the slot for transactions.
    #[cold]
    fn take_place(&mut self, shared: &Shared<T>) -> Result<(), NotBegun> {
        self.place = shared.registry.join()?;
        self.sequence = shared.registry.last_sequence(self.place);
        Ok(())
    }

    /// Moves the transaction, which has done nothing yet, to the present.
    pub(super) fn begin_again(&mut self, shared: &Shared<T>) -> Timestamp {
        debug_assert!(self.writes.is_empty());
        self.begin = shared.registry.open(self.place);
        self.begin
    }

    /// The tag, made known at the first write.
    #[inline(always)]
    fn announce(&mut self, shared: &Shared<T>) -> Tag {
        if self.tag == Tag::NONE {
            self.sequence += 1;
            self.tag = Tag::new(self.place, self.sequence);
            shared.registry.announce(self.place, self.tag);
        }
        self.tag
    }

    #[inline(always)]
    fn end(&mut self, shared: &Shared<T>) {
        debug_assert!(self.writes.is_empty());
        let has_held = self.tag != Tag::NONE;
        self.tag = Tag::NONE;
        self.charge.clear(&mut self.writes, WRITES_KEPT);
        T::forget(&mut self.reads);
        shared.registry.close(self.place);
        if has_held && shared.registry.is_awaited(self.place) {
            self.tell(shared);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell(&self, shared: &Shared<T>) {
        shared.registry.clear_awaited(self.place);
        shared.waits.ended(self.place);
    }
}

// SAFETY: `read` lends a version's bytes. The version is visible to the open snapshot, so it is not
// reclaimed before that closes; or it is the transaction's own, which stays in the chain below its
// later ones until the end.
unsafe impl<T: Tracker> ConcurrencyControl for Mvcc<T> {
    // The value read is visible to the open snapshot, so no tombstone over it is older than all snapshots.
    const READ_PINS_RECORD: bool = true;

    const TRACKS_READS: bool = T::TRACKS_READS;
    const LOSES_STAMPS: bool = T::LOSES_STAMPS;

    type Shared = Shared<T>;
    type Worker = Worker<T>;
    type Txn = Txn<T>;
    type Visit = Visit;
    type Commit = Commit<T::Decision>;

    fn open(records: Arc<Slab>, memory: Arc<Memory>) -> Shared<T> {
        Shared {
            registry: Registry::new(&memory),
            waits: Waits::new(memory),
            reclaimer: Reclaimer::new(records, T::TRACKS_READS && !T::FORGETS_SUCCESSORS),
            workers: AtomicUsize::new(0),
            tracker: T::Shared::default(),
        }
    }

    #[inline(always)]
    fn now(shared: &Shared<T>) -> u64 {
        shared.now().0
    }

    fn oldest(shared: &Shared<T>) -> u64 {
        shared.registry.oldest().0
    }

    fn advance(shared: &Shared<T>) -> u64 {
        shared.registry.advance().0
    }

    fn worker(shared: &Shared<T>) -> Worker<T> {
        Worker {
            floor: shared.registry.floor(),
            superseded: RefCell::default(),
            queue: shared.reclaimer.queue(),
            grave: RefCell::default(),
            changes: Cell::new(0),
            changes_logged: RefCell::new(Changes::of_appender(shared.workers.fetch_add(1, Relaxed))),
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

    fn tend(env: Env<'_, Self>) -> bool {
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
        shared.reclaimer.orphan(&worker.queue);
        shared.registry.drop_floor(&worker.floor);
    }

    fn garbage(shared: &Shared<T>, worker: &Worker<T>) -> usize {
        worker.superseded.borrow().len() + lock(&worker.queue).len() + shared.reclaimer.orphans()
    }

    fn txn(shared: &Shared<T>) -> Txn<T> {
        let memory = shared.reclaimer.memory();
        Txn {
            begin: Timestamp(0),
            tag: Tag::NONE,
            place: NOWHERE,
            sequence: 0,
            writes: Vec::new(),
            charge: Charge::new(memory),
            has_locks: false,
            newest_seen: Cell::new(0),
            reads: T::reads(memory),
        }
    }

    fn drop_txn(shared: &Shared<T>, txn: &mut Txn<T>) {
        debug_assert!(txn.writes.is_empty());
        if txn.place != NOWHERE {
            shared.registry.part(txn.place);
        }
    }

    fn waits(shared: &Shared<T>) -> &Waits {
        &shared.waits
    }

    fn place(txn: &Txn<T>) -> u32 {
        txn.place
    }

    fn set_interactive(shared: &Shared<T>, txn: &Txn<T>, now_ns: u64) {
        shared.registry.set_interactive_since(txn.place, now_ns.max(1));
    }

    fn interactive_since(shared: &Shared<T>, place: u32) -> Option<u64> {
        shared.registry.interactive_since(place)
    }

    fn await_end(shared: &Shared<T>, place: u32) {
        shared.registry.await_end(place);
    }

    unsafe fn holder(shared: &Shared<T>, txn: &Txn<T>, slot: *const Slot) -> Option<Holder> {
        // SAFETY: slots are never unmapped; a head is the head inside an epoch.
        let head = unsafe { (*slot).head().as_ref() }?;
        match shared.may_lock(head, txn)? {
            Written::Locked(holder) => Some(holder),
            _ => None,
        }
    }

    unsafe fn holds(txn: &Txn<T>, slot: *const Slot) -> bool {
        // SAFETY: as in `holder`.
        let head = unsafe { (*slot).head().as_ref() };
        txn.tag != Tag::NONE && head.is_some_and(|head| head.stamp().0 == txn.tag.word())
    }

    #[inline(always)]
    fn begin(env: Env<'_, Self>, txn: &mut Txn<T>) -> Result<(), NotBegun> {
        debug_assert!(txn.writes.is_empty() && txn.tag == Tag::NONE);
        debug_assert!(!Registry::is_lowered(&env.worker.floor), "a snapshot begins above its worker's floor");
        if txn.place == NOWHERE {
            txn.take_place(env.shared)?;
        }
        txn.begin = env.shared.registry.open(txn.place);
        txn.newest_seen.set(0);
        Ok(())
    }

    fn declare_read_only(env: Env<'_, Self>, txn: &mut Txn<T>) {
        T::declare_read_only(env, txn);
    }

    fn snapshot_timestamp(txn: &Txn<T>) -> u64 {
        txn.begin.0
    }

    fn newest_seen(shared: &Shared<T>, txn: &Txn<T>) -> u64 {
        let newest = txn.newest_seen.get().max(shared.reclaimer.newest_removed());
        Timestamp(newest).after().0 // (a stamp says of a commit how far it reaches back, too)
    }

    fn savepoint(txn: &Txn<T>) -> usize {
        txn.writes.len()
    }

    fn rollback_to(env: Env<'_, Self>, txn: &mut Txn<T>, at: usize) {
        debug_assert!(at <= txn.writes.len());
        while txn.writes.len() > at {
            let write = txn.writes.pop().expect("longer than `at`");
            undo(env, txn.tag, &write);
        }
    }

    #[inline(always)]
    unsafe fn visit<S: Suspend>(
        visit: &mut Visit,
        slot: *const Slot,
        shared: &Shared<T>,
        txn: &Txn<T>,
        s: &mut S,
    ) -> bool {
        if visit.0.is_null() {
            // SAFETY: slots are never unmapped.
            let slot = unsafe { &*slot };
            visit.0 = slot.head();
            if visit.0.is_null() {
                visit.0 = NOTHING; // removed: a reader of that finds no row (see `reclaim`)
                return true;
            }
            // Also if it lies in the slot, which is at hand: transactions that are left equally often stay in
            // step, and the worker's branches are predicted; where some records' versions lie inside and
            // others' outside, that is worth far more than the visit.
            if s.miss::<1>(visit.0.cast()) {
                return false;
            }
        }
        loop {
            // SAFETY: reached from the head in this operation, inside its epoch.
            let version = unsafe { &*visit.0 };
            let stamp = version.stamp();
            if stamp.is_committed_by(txn.begin) || stamp.0 == txn.tag.word() {
                return true;
            }
            if stamp.tag().is_some() {
                match shared.resolve(version, txn.begin) {
                    Seen::Visible => return true,
                    Seen::Wait => {
                        s.was(Activity::Waiting);
                        return false;
                    }
                    Seen::Invisible => {}
                }
            }
            visit.0 = version.next();
            if visit.0.is_null() {
                visit.0 = NOTHING;
                return true;
            }
            if s.miss::<1>(visit.0.cast()) {
                return false;
            }
        }
    }

    #[inline(always)]
    unsafe fn visit_at_hand(visit: &mut Visit, slot: *const Slot, txn: &Txn<T>) -> bool {
        debug_assert!(visit.0.is_null());
        // SAFETY: slots are never unmapped.
        let slot = unsafe { &*slot };
        let head = slot.head();
        if !slot.is_inline(head) {
            return false;
        }
        // SAFETY: in the slot.
        let version = unsafe { &*head };
        if !version.stamp().is_committed_by(txn.begin) || version.kind() != VersionKind::Value {
            return false;
        }
        visit.0 = head;
        true
    }

    #[inline(always)]
    unsafe fn outlast(visit: &mut Visit, txn: &Txn<T>) {
        debug_assert!(!visit.0.is_null());
        if visit.0 == NOTHING {
            return;
        }
        // SAFETY: the visit has ended there in this epoch.
        let version = unsafe { &*visit.0 };
        // A value is kept by the snapshot that sees it, what the transaction has written by its writes; but a
        // tombstone goes as soon as everybody sees it.
        if version.kind() != VersionKind::Value && version.stamp().0 != txn.tag.word() {
            txn.saw(version.stamp());
            visit.0 = NOTHING;
        }
    }

    #[inline(always)]
    unsafe fn read(
        visit: &Visit,
        slot: *const Slot,
        txn: &mut Txn<T>,
        tracked: bool,
    ) -> Result<Option<*const [u8]>, Abort> {
        debug_assert!(!visit.0.is_null());
        if visit.0 == NOTHING {
            if T::TRACKS_READS && tracked {
                T::read(&mut txn.reads, slot, None);
            }
            return Ok(None);
        }
        // SAFETY: the visit has ended at a version that the transaction sees.
        let version = unsafe { &*visit.0 };
        txn.saw(version.stamp());
        let is_value = version.kind() == VersionKind::Value;
        if T::TRACKS_READS && tracked && version.stamp().0 != txn.tag.word() {
            T::read(&mut txn.reads, slot, is_value.then_some(visit.0));
        }
        // SAFETY: as above.
        Ok(is_value.then(|| unsafe { Version::value(visit.0) }))
    }

    fn read_range(txn: &mut Txn<T>, scanned: &Scanned<'_>) -> bool {
        T::read_range(&mut txn.reads, scanned)
    }

    unsafe fn write(
        env: Env<'_, Self>,
        txn: &mut Txn<T>,
        slot: *const Slot,
        target: &Target,
        change: Change<'_>,
    ) -> Result<Written, Refused> {
        // SAFETY: slots are never unmapped.
        let s = unsafe { &*slot };
        let old = s.head();
        if old.is_null() {
            return Ok(Written::Gone);
        }
        // SAFETY: the head, inside an epoch.
        let head = unsafe { &*old };
        if change == Change::Lock {
            match env.shared.may_lock(head, txn) {
                None => return Ok(Written::Done),
                Some(Written::Done) => {}
                Some(locked) => return Ok(locked),
            }
        }
        env.shared.may_write(head, txn).map_err(Refused::Abort)?;
        txn.reserve_write()?;
        let exists = head.kind() == VersionKind::Value;
        let tag = txn.announce(env.shared);
        let new = match change {
            Change::Update(_) | Change::Delete | Change::Lock if !exists => {
                Self::read_absent(txn, target);
                return Ok(Written::Absent);
            }
            Change::Insert(_) if exists => {
                if head.stamp().tag() != Some(tag) {
                    T::read(&mut txn.reads, slot, Some(old));
                }
                return Ok(Written::Exists);
            }
            Change::Put(value) | Change::Update(value) | Change::Insert(value) => {
                new_version(s, env.local, tag.stamp(), old, VersionKind::Value, value)?
            }
            Change::Lock => {
                // SAFETY: the head, inside an epoch; its value does not change.
                let value = unsafe { &*Version::value(old) };
                new_version(s, env.local, tag.stamp(), old, VersionKind::Value, value)?
            }
            Change::Delete => {
                let mut grave = env.worker.grave.borrow_mut();
                Grave::write(target, &mut grave);
                new_version(s, env.local, tag.stamp(), old, VersionKind::Tombstone, &grave)?
            }
        };
        if !s.install(old, new) {
            // SAFETY: not installed.
            unsafe { drop_version(s, env.local, new) };
            if s.head().is_null() {
                return Ok(Written::Gone); // it was a tombstone, and its time had come
            }
            return match change {
                Change::Lock => Ok(Written::Gone), // look again at who has got there first
                _ => Err(Refused::Abort(Abort::WriteConflict)),
            };
        }
        let is_lock = change == Change::Lock;
        txn.has_locks |= is_lock;
        txn.writes.push(Write { slot, new, old, target: *target, is_lock });
        Ok(Written::Done)
    }

    unsafe fn create(
        env: Env<'_, Self>,
        txn: &mut Txn<T>,
        slot: *mut Slot,
        value: &[u8],
    ) -> Result<(), OutOfMemory> {
        txn.reserve_write()?;
        // SAFETY: the slot is the caller's alone.
        unsafe { Slot::reset(slot) };
        // SAFETY: as above.
        let s = unsafe { &*slot };
        let tag = txn.announce(env.shared);
        let new = new_version(s, env.local, tag.stamp(), std::ptr::null(), VersionKind::Value, value)?;
        let installed = s.install(std::ptr::null(), new);
        debug_assert!(installed);
        Ok(())
    }

    unsafe fn created(txn: &mut Txn<T>, slot: *const Slot, target: &Target) {
        // SAFETY: the slot of a record that this transaction has just made.
        let new = unsafe { &*slot }.head();
        debug_assert!(!new.is_null() && txn.writes.len() < txn.writes.capacity());
        txn.writes.push(Write { slot, new, old: std::ptr::null(), target: *target, is_lock: false });
    }

    unsafe fn discard(env: Env<'_, Self>, slot: *const Slot, target: &Target) {
        // SAFETY: slots are never unmapped.
        let slot = unsafe { &*slot };
        let new = slot.head();
        let removed = slot.install(new, std::ptr::null());
        debug_assert!(removed, "no index names the record");
        // Not at once: who cleans up after the slot's former record may be looking at it.
        reclaim::retire_version(slot, new, env.local);
        env.shared.reclaimer.retire_slot(slot, target, env.local);
    }

    unsafe fn restore(env: Env<'_, Self>, slot: *mut Slot, value: &[u8], at: u64) -> Result<(), OutOfMemory> {
        // SAFETY: the slot is the caller's alone.
        unsafe { Slot::reset(slot) };
        // SAFETY: as above.
        unsafe { restore::put(&*slot, env.local, value, at) }
    }

    unsafe fn restore_over(
        env: Env<'_, Self>,
        slot: *const Slot,
        value: &[u8],
        at: u64,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: slots are never unmapped; nobody reads the record.
        unsafe { restore::put_over(&*slot, env.local, value, at) }
    }

    fn resume(shared: &Shared<T>, at: u64) {
        shared.registry.resume(Timestamp(at));
    }

    #[inline(always)]
    fn commit<S: Suspend>(
        commit: &mut Commit<T::Decision>,
        env: Env<'_, Self>,
        txn: &mut Txn<T>,
        s: &mut S,
    ) -> Option<Result<Committed, Abort>> {
        let at = match commit.at {
            Some(at) => at,
            None => match T::decide(&mut commit.decision, env, txn, s)? {
                Ok(at) => at,
                Err(abort) => return Some(Err(abort)),
            },
        };
        s.enter(Activity::Commit);
        unlock(env, txn);
        let mut end_lsn = Lsn(0);
        if !txn.writes.is_empty() {
            if let Some(log) = env.log {
                commit.at = Some(at);
                end_lsn = match journal::append(env, txn, at, log)? {
                    Ok(end_lsn) => end_lsn,
                    Err(abort) => return Some(Err(abort)),
                };
            }
            publish(env, txn, at);
        }
        txn.end(env.shared);
        Some(Ok(Committed { at: at.0, end_lsn }))
    }

    fn abort(env: Env<'_, Self>, txn: &mut Txn<T>) {
        T::abandon(env, txn);
        txn.has_locks = false;
        Self::rollback_to(env, txn, 0);
        if txn.tag != Tag::NONE {
            fence(Ordering::SeqCst); // pairs with the one in `Registry::await_end`
        }
        txn.end(env.shared);
    }
}
