//! Snapshot isolation over version chains; the first updater wins.
//!
//! A transaction sees what had committed when it began, and its own writes. A write puts an
//! uncommitted version, marked with the transaction's tag, in front of the chain; who finds another
//! transaction's mark there, or a version newer than its own snapshot, gives way at once.
//!
//! Invariants:
//! - A version is installed before its transaction draws its commit timestamp, so it can become
//!   visible only to snapshots opened after its installation.
//! - A reader that meets a mark asks the transaction's descriptor. Who is committing but has no
//!   timestamp yet is waited for (the operation suspends): skipping one version of it and seeing
//!   another would tear the snapshot.
//!
//! After Berenson et al., SIGMOD 1995, and ERMIA (Kim et al., SIGMOD 2016).

mod reclaim;
mod registry;
#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
#[cfg(test)]
mod tests;

use super::{Abort, Change, ConcurrencyControl, Env, Refused, Target, Written};
use crate::epoch::Local;
use crate::index::Index;
use crate::memory::{OutOfMemory, Slab};
use crate::record::{RecordId, Slot, Stamp, Tag, Timestamp, Version, VersionKind};
use crate::suspend::Suspend;
use reclaim::{Garbage, Grave, Queue, Reclaimer};
pub(super) use registry::TXNS_MAX;
use registry::{Floor, Outcome, Registry};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Multi-version snapshot isolation.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot;

/// Versions superseded between two passes of a worker's garbage collection: fewer than a pass can take, so that
/// it keeps up with transactions of any length.
const CHANGES_PER_PASS: usize = 128;

/// One per database.
#[derive(Debug)]
pub struct Shared {
    registry: Registry,
    reclaimer: Reclaimer,
}

/// One per worker.
#[derive(Debug)]
pub struct Worker {
    floor: Arc<Floor>,
    queue: RefCell<Queue>,
    grave: RefCell<Vec<u8>>,
    changes: Cell<usize>,
}

/// One per slot.
#[derive(Debug)]
pub struct Txn {
    begin: Timestamp,
    tag: Tag,
    place: u32,
    sequence: u64,
    writes: Vec<Write>,
}

/// A version that this transaction has installed.
#[derive(Clone, Copy, Debug)]
struct Write {
    slot: *const Slot,
    new: *const Version,
    /// What it was put in front of; null: nothing, the record is new.
    old: *const Version,
    target: Target,
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

impl Shared {
    /// The last commit's time.
    #[inline(always)]
    pub(crate) fn now(&self) -> Timestamp {
        self.registry.now()
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
                Outcome::Committing => return Seen::Wait,
                Outcome::Committed(at) if at <= begin => return Seen::Visible,
                Outcome::Committed(_) => return Seen::Invisible,
                // It stamped its versions before it ended: the next look finds no mark.
                Outcome::Ended => {}
            }
        }
    }

    /// What `head` means for a write of `txn`.
    #[inline(always)]
    fn may_write(&self, head: &Version, txn: &Txn) -> Result<(), Abort> {
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

impl Txn {
    /// The tag, made known at the first write.
    #[inline(always)]
    fn tag(&mut self, shared: &Shared) -> Tag {
        if self.tag == Tag::NONE {
            self.sequence += 1;
            self.tag = Tag::new(self.place, self.sequence);
            shared.registry.announce(self.place, self.tag);
        }
        self.tag
    }

    fn end(&mut self, shared: &Shared) {
        debug_assert!(self.writes.is_empty());
        self.tag = Tag::NONE;
        shared.registry.close(self.place);
    }
}

/// Writes an uncommitted version: into the slot if it fits and the place is free, else into memory.
#[inline(always)]
fn new_version(
    slot: &Slot,
    local: &Local,
    tag: Tag,
    next: *const Version,
    kind: VersionKind,
    value: &[u8],
) -> Result<*mut Version, OutOfMemory> {
    let inline = slot.write_inline(tag, next, kind, value);
    if !inline.is_null() {
        return Ok(inline);
    }
    let bytes = Version::bytes_for(value.len());
    let at: *mut Version = match kind {
        VersionKind::Value => local.allocate(bytes)?.cast(),
        // A full database can be emptied.
        VersionKind::Tombstone => local.allocate_from_reserve(bytes)?.cast(),
    };
    // SAFETY: allocated with that size.
    unsafe { Version::write(at, tag.word(), next, kind, value) };
    Ok(at)
}

/// Gives back a version that was never published.
///
/// # Safety
/// `v` is from `new_version` for `slot`, and nobody has seen it.
unsafe fn drop_version(slot: &Slot, local: &Local, v: *mut Version) {
    if slot.is_inline(v) {
        // SAFETY: as above.
        slot.free_inline(unsafe { &*v }.stamp());
    } else {
        // SAFETY: from `allocate` with this size, by the caller's promise.
        unsafe { local.free(v.cast(), (*v).bytes_total()) };
    }
}

// SAFETY: `read` lends a version's bytes. The version is visible to the open snapshot, so it is not
// reclaimed before that closes; or it is the transaction's own, which stays in the chain below its
// later ones until the end.
unsafe impl ConcurrencyControl for Snapshot {
    // The value read is visible to the open snapshot, so no tombstone over it is older than all snapshots.
    const READ_PINS_RECORD: bool = true;

    type Shared = Shared;
    type Worker = Worker;
    type Txn = Txn;
    type Visit = Visit;
    type Commit = ();

    fn open(records: Arc<Slab>) -> Shared {
        Shared { registry: Registry::new(), reclaimer: Reclaimer::new(records) }
    }

    fn worker(shared: &Shared) -> Worker {
        Worker {
            floor: shared.registry.floor(),
            queue: RefCell::default(),
            grave: RefCell::default(),
            changes: Cell::new(0),
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
        env.shared.reclaimer.pass(&env.shared.registry, &mut env.worker.queue.borrow_mut(), env.local)
    }

    fn retire(shared: &Shared, worker: &mut Worker) {
        shared.reclaimer.orphan(worker.queue.get_mut());
        shared.registry.drop_floor(&worker.floor);
    }

    fn garbage(shared: &Shared, worker: &Worker) -> usize {
        worker.queue.borrow().len() + shared.reclaimer.orphans()
    }

    fn txn(shared: &Shared) -> Option<Txn> {
        let place = shared.registry.join()?;
        let sequence = shared.registry.last_sequence(place);
        Some(Txn { begin: Timestamp(0), tag: Tag::NONE, place, sequence, writes: Vec::new() })
    }

    fn drop_txn(shared: &Shared, txn: &mut Txn) {
        debug_assert!(txn.writes.is_empty());
        shared.registry.part(txn.place);
    }

    #[inline(always)]
    fn begin(env: Env<'_, Self>, txn: &mut Txn) {
        debug_assert!(txn.writes.is_empty() && txn.tag == Tag::NONE);
        txn.begin = env.shared.registry.open(txn.place);
    }

    fn savepoint(txn: &Txn) -> usize {
        txn.writes.len()
    }

    fn rollback_to(env: Env<'_, Self>, txn: &mut Txn, at: usize) {
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
        shared: &Shared,
        txn: &Txn,
        s: &mut S,
    ) -> bool {
        if visit.0.is_null() {
            // SAFETY: slots are never unmapped.
            let slot = unsafe { &*slot };
            visit.0 = slot.head();
            if visit.0.is_null() {
                visit.0 = NOTHING; // removed; whoever sees that sees nothing (see `reclaim`)
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
                    Seen::Wait => return false,
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
    unsafe fn read(visit: &Visit, _: &mut Txn) -> Result<Option<*const [u8]>, Abort> {
        debug_assert!(!visit.0.is_null());
        if visit.0 == NOTHING {
            return Ok(None);
        }
        // SAFETY: the visit has ended at a version that the transaction sees.
        match unsafe { &*visit.0 }.kind() {
            // SAFETY: as above.
            VersionKind::Value => Ok(Some(unsafe { Version::value(visit.0) })),
            VersionKind::Tombstone => Ok(None),
        }
    }

    unsafe fn write(
        env: Env<'_, Self>,
        txn: &mut Txn,
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
        env.shared.may_write(head, txn).map_err(Refused::Abort)?;
        let exists = head.kind() == VersionKind::Value;
        let tag = txn.tag(env.shared);
        let new = match change {
            Change::Update(_) | Change::Delete if !exists => return Ok(Written::Absent),
            Change::Insert(_) if exists => return Ok(Written::Exists),
            Change::Put(value) | Change::Update(value) | Change::Insert(value) => {
                new_version(s, env.local, tag, old, VersionKind::Value, value)?
            }
            Change::Delete => {
                let mut grave = env.worker.grave.borrow_mut();
                Grave::write(target, &mut grave);
                new_version(s, env.local, tag, old, VersionKind::Tombstone, &grave)?
            }
        };
        if !s.install(old, new) {
            // SAFETY: not installed.
            unsafe { drop_version(s, env.local, new) };
            if s.head().is_null() {
                return Ok(Written::Gone); // it was a tombstone, and its time had come
            }
            return Err(Refused::Abort(Abort::WriteConflict));
        }
        txn.writes.push(Write { slot, new, old, target: *target });
        Ok(Written::Done)
    }

    unsafe fn create(
        env: Env<'_, Self>,
        txn: &mut Txn,
        slot: *mut Slot,
        value: &[u8],
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the slot is the caller's alone.
        unsafe { Slot::reset(slot) };
        // SAFETY: as above.
        let s = unsafe { &*slot };
        let tag = txn.tag(env.shared);
        let new = new_version(s, env.local, tag, std::ptr::null(), VersionKind::Value, value)?;
        let installed = s.install(std::ptr::null(), new);
        debug_assert!(installed);
        Ok(())
    }

    unsafe fn created(txn: &mut Txn, slot: *const Slot, target: &Target) {
        // SAFETY: the slot of a record that this transaction has just made.
        let new = unsafe { &*slot }.head();
        debug_assert!(!new.is_null());
        txn.writes.push(Write { slot, new, old: std::ptr::null(), target: *target });
    }

    unsafe fn discard(env: Env<'_, Self>, slot: *const Slot, id: RecordId) {
        // SAFETY: slots are never unmapped.
        let slot = unsafe { &*slot };
        let new = slot.head();
        let removed = slot.install(new, std::ptr::null());
        debug_assert!(removed, "no index names the record");
        // Not at once: who cleans up after the slot's former record may be looking at it.
        reclaim::retire_version(slot, new, env.local);
        env.shared.reclaimer.retire_slot(slot, id, env.local);
    }

    #[inline(always)]
    fn commits_at_once(_: &Txn) -> bool {
        true // there is nothing to validate, hence nothing to wait for
    }

    #[inline(always)]
    fn commit<S: Suspend>(
        _: &mut (),
        env: Env<'_, Self>,
        txn: &mut Txn,
        _: &mut S,
    ) -> Option<Result<(), Abort>> {
        if !txn.writes.is_empty() {
            publish(env, txn);
        }
        txn.end(env.shared);
        Some(Ok(()))
    }

    fn abort(env: Env<'_, Self>, txn: &mut Txn) {
        Snapshot::rollback_to(env, txn, 0);
        txn.end(env.shared);
    }
}

/// Commits the writes: one timestamp for all, known from the descriptor before any version has it.
fn publish(env: Env<'_, Snapshot>, txn: &mut Txn) {
    let at = env.shared.registry.draw(txn.place);
    debug_assert!(at > txn.begin);
    let mut queue = env.worker.queue.borrow_mut();
    let mut superseded = 0;
    for write in txn.writes.drain(..) {
        // SAFETY: ours, and in its chain.
        unsafe { &*write.new }.set_committed(at);
        if !write.old.is_null() {
            // SAFETY: superseded by ours just now, so not reclaimed yet.
            let stamp = unsafe { &*write.old }.stamp();
            queue.push(Garbage { slot: write.slot, version: write.old, stamp, superseded: at });
            superseded += 1;
        }
    }
    drop(queue);
    env.worker.changes.set(env.worker.changes.get() + superseded);
    while env.worker.changes.get() >= CHANGES_PER_PASS {
        env.worker.changes.set(env.worker.changes.get() - CHANGES_PER_PASS);
        Snapshot::tend(env);
    }
}

/// Takes one write back. It is the head of its chain: everybody else gives way to it.
fn undo(env: Env<'_, Snapshot>, tag: Tag, write: &Write) {
    // SAFETY: slots are never unmapped.
    let slot = unsafe { &*write.slot };
    // SAFETY: ours, and in its chain.
    unsafe { &*write.new }.set_stamp(Stamp::aborted(tag));
    if !write.old.is_null() {
        // SAFETY: behind ours, the newest that has committed or ours too: not reclaimed.
        let old = unsafe { &*write.old };
        if old.kind() == VersionKind::Tombstone && old.stamp().tag() != Some(tag) {
            // Its turn may have come while it was covered: then nobody else would remove the record.
            let (version, stamp, superseded) = (write.old, old.stamp(), env.shared.now());
            env.worker.queue.borrow_mut().push(Garbage { slot, version, stamp, superseded });
        }
    }
    let removed = slot.install(write.new, write.old);
    debug_assert!(removed, "an uncommitted version is the head until its transaction ends");
    if write.old.is_null() {
        let Target { index, key, id } = write.target;
        // SAFETY: the index lives as long as the database; the thread is inside an epoch.
        let removed = unsafe { (*index).remove(env.local, &key, id) };
        debug_assert!(removed, "a record's key is in its index until the record is removed");
        env.shared.reclaimer.retire_slot(slot, id, env.local);
    }
    reclaim::retire_version(slot, write.new, env.local);
}
