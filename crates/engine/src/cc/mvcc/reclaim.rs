//! Gives back versions that no snapshot can see any more, and records that are deleted for good.
//!
//! Every write that supersedes a version leaves a [`Garbage`] entry with the worker that committed
//! it. Usually nothing is open that began before the superseding commit when its turn comes, and
//! everything behind the newest version that all can see is cut off. Where a snapshot stays open
//! for long, or memory grows, the chain is pruned between the snapshots instead: a version `[created, superseded)`
//! is kept only if an open snapshot lies in that interval, or where reads are tracked, in that of the version
//! behind it. What such a snapshot does hold is put
//! aside under its timestamp until it closes. (Interval-based collection as in HANA: Lee et al.,
//! SIGMOD 2016; and Steam: Böttcher et al., VLDB 2019.)
//!
//! A worker's entries lie in a queue that others reach, too: a transaction that meets the memory limit works through all of them.
//!
//! Invariants:
//! - Only the holder of a chain's prune latch changes links of committed versions; the newest
//!   committed version is never unlinked.
//! - An unlinked version is retired once: by the thread that unlinked it.

use super::queue::{Garbage, Queue};

use crate::cc::Target;
use crate::cc::common::registry::Registry;
use crate::cc::common::retire::retire_record;
use crate::epoch::Local;
use crate::index::{Index, Key, TableIndex};
use crate::memory::{Memory, Slab};
use crate::record::{RecordId, Slot, Stamp, Timestamp, Version, VersionKind};
use crate::suspend::prefetch;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, lock, try_lock};
use std::sync::Arc;

/// Entries waiting in order before a long-running snapshot is worked around.
const QUEUE_LONG: usize = 4096;
/// Entries per visit.
const BATCH: usize = 256;
/// Entries ahead whose slots are asked for.
const AHEAD: usize = 8;
const LATCHES: usize = if cfg!(braid_shuttle) { 4 } else { 256 };

/// The shared part.
#[derive(Debug)]
pub(super) struct Reclaimer {
    records: Arc<Slab>,
    latches: Box<[AtomicBool]>,
    /// Of the workers that there are.
    queues: Mutex<Vec<Arc<Mutex<Queue>>>>,
    orphans: Mutex<Vec<Garbage>>,
    /// As many; a hint.
    orphans_len: AtomicUsize,
    /// A version that a snapshot sees keeps the one that superseded it: a transaction that has read it will ask when, and
    /// by whom.
    keeps_successors: bool,
    /// When the latest of all records was deleted that are gone: a read that finds nothing may have found that.
    newest_removed: AtomicU64,
}

/// The right to change a chain's links.
pub(super) struct PruneLatch<'r>(&'r AtomicBool);

impl Drop for PruneLatch<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release); // pairs with the Acquire in `latch`
    }
}

impl Reclaimer {
    pub(super) fn new(records: Arc<Slab>, keeps_successors: bool) -> Reclaimer {
        let latches = (0..LATCHES).map(|_| AtomicBool::new(false)).collect();
        Reclaimer {
            records,
            latches,
            queues: Mutex::new(Vec::new()),
            orphans: Mutex::new(Vec::new()),
            orphans_len: AtomicUsize::new(0),
            keeps_successors,
            newest_removed: AtomicU64::new(0),
        }
    }

    /// No record that is gone was deleted later.
    pub(super) fn newest_removed(&self) -> u64 {
        self.newest_removed.load(Ordering::Acquire)
    }

    /// A worker's queue.
    pub(super) fn queue(&self) -> Arc<Mutex<Queue>> {
        let queue = Arc::default();
        lock(&self.queues).push(Arc::clone(&queue));
        queue
    }

    pub(super) fn memory(&self) -> &Arc<Memory> {
        self.records.memory()
    }

    pub(super) fn slot(&self, id: RecordId) -> *const Slot {
        self.records.at(id.0).cast_const().cast()
    }

    /// Works through what is due, a bounded number of entries, or where it `is_urgent` through all of it. Returns true if there
    /// is more that is due.
    pub(super) fn pass(
        &self,
        registry: &Registry,
        queue: &mut Queue,
        local: &Local,
        is_urgent: bool,
    ) -> bool {
        self.adopt(queue);
        if queue.is_empty() {
            return false;
        }
        let is_long = is_urgent || queue.waiting.len() > QUEUE_LONG;
        queue.look(registry, is_long, is_urgent);
        let turns = if is_urgent { queue.waiting.len() / BATCH + 1 } else { 1 };
        let mut more = (0..turns).all(|_| self.pass_in_order(queue, local));
        if is_long {
            more = (0..turns).all(|_| self.pass_between(queue, local));
        }
        queue.trim();
        more
    }

    /// Works through what all workers have left, and what is left of those that are gone: memory is short. Returns true if there is
    /// more.
    #[cold]
    pub(super) fn pass_all(&self, registry: &Registry, local: &Local) -> bool {
        let queues = lock(&self.queues).clone();
        let mut more = false;
        for queue in &queues {
            // (Another thread may be at it.)
            let Some(mut queue) = try_lock(queue) else {
                more = true;
                continue;
            };
            self.pass(registry, &mut queue, local, true);
            more |= !queue.is_empty();
        }
        more
    }

    /// The usual pass: nothing open is older than what is cut. Returns true if there is more.
    fn pass_in_order(&self, queue: &mut Queue, local: &Local) -> bool {
        let oldest = queue.oldest();
        let due = queue.waiting.iter().take(BATCH).take_while(|g| g.superseded <= oldest).count();
        for i in 0..due {
            if let Some(ahead) = queue.waiting.get(AHEAD) {
                prefetch::<1>(ahead.slot.cast());
            }
            let garbage = queue.waiting.pop_front().expect("counted");
            debug_assert!(i < BATCH && garbage.superseded <= oldest);
            match self.latch(garbage.slot) {
                Some(_latch) => self.cut(garbage.slot, oldest, local),
                None => queue.push(garbage),
            }
        }
        queue.waiting.front().is_some_and(|g| g.superseded <= oldest)
    }

    /// The pass around long-running snapshots. Returns true if there is more.
    fn pass_between(&self, queue: &mut Queue, local: &Local) -> bool {
        let (oldest, floor) = (queue.oldest(), queue.floor());
        let due = queue.waiting.iter().take(BATCH).take_while(|g| g.superseded <= floor).count();
        for _ in 0..due {
            let garbage = queue.waiting.pop_front().expect("counted");
            let Some(_latch) = self.latch(garbage.slot) else {
                queue.push(garbage);
                continue;
            };
            if let Some(holder) = self.prune(&garbage, queue.snapshots(), floor, oldest, local) {
                queue.hold(holder, garbage);
            }
        }
        due == BATCH
    }

    /// What a departing worker leaves behind.
    pub(super) fn orphan(&self, queue: &Arc<Mutex<Queue>>) {
        lock(&self.queues).retain(|other| !Arc::ptr_eq(other, queue));
        let mut orphans = lock(&self.orphans);
        orphans.extend(lock(queue).take_all());
        // Relaxed, here and below: a hint; the lock orders the entries themselves.
        self.orphans_len.store(orphans.len(), Ordering::Relaxed);
    }

    /// Entries that nobody has taken over yet.
    pub(super) fn orphans(&self) -> usize {
        self.orphans_len.load(Ordering::Relaxed)
    }

    fn adopt(&self, queue: &mut Queue) {
        if self.orphans() == 0 {
            return;
        }
        let Some(mut orphans) = try_lock(&self.orphans) else { return };
        let from = orphans.len().saturating_sub(BATCH);
        for garbage in orphans.drain(from..) {
            queue.push(garbage);
        }
        self.orphans_len.store(from, Ordering::Relaxed);
    }

    pub(super) fn latch(&self, slot: *const Slot) -> Option<PruneLatch<'_>> {
        let latch = &self.latches[slot.addr() / size_of::<Slot>() % LATCHES];
        // Acquire: pairs with the Release in PruneLatch's drop.
        let free = latch.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // (Made only if it was free: dropping one gives the latch back.)
        free.then(|| PruneLatch(latch))
    }

    /// Cuts the chain behind the newest version that every open snapshot can see or is behind of.
    fn cut(&self, slot: *const Slot, oldest: Timestamp, local: &Local) {
        // SAFETY: slots are never unmapped; one that serves another record now may be cut as well.
        let slot = unsafe { &*slot };
        let mut v = slot.head();
        while !v.is_null() {
            // SAFETY: reached from the head inside an epoch, under the chain's prune latch.
            let version = unsafe { &*v };
            if version.stamp().is_committed_by(oldest) {
                self.retire_from(slot, version.next(), version, local);
                if version.kind() == VersionKind::Tombstone {
                    self.remove_or_defer(slot, v, local);
                }
                return;
            }
            v = version.next();
        }
    }

    /// Unlinks and retires everything from `v` on, which is behind `after`.
    fn retire_from(&self, slot: &Slot, mut v: *const Version, after: &Version, local: &Local) {
        if v.is_null() {
            return;
        }
        after.set_next(std::ptr::null());
        while !v.is_null() {
            // SAFETY: unlinked by us just now, not retired yet.
            let next = unsafe { &*v }.next();
            retire_version(slot, v, local);
            v = next;
        }
    }

    /// Unlinks every version that no snapshot is left to see. If that of `garbage` has to stay (or
    /// its tombstone's record), the snapshot that holds it.
    fn prune(
        &self,
        garbage: &Garbage,
        snapshots: &[Timestamp],
        floor: Timestamp,
        oldest: Timestamp,
        local: &Local,
    ) -> Option<Timestamp> {
        // SAFETY: as in `cut`.
        let slot = unsafe { &*garbage.slot };
        let (mut newer, mut v, mut holder) = (None::<&Version>, slot.head(), None);
        while !v.is_null() {
            // SAFETY: as in `cut`.
            let version = unsafe { &*v };
            let next = version.next();
            let Some(created) = version.stamp().timestamp() else {
                v = next; // uncommitted, or rolled back and about to be unlinked by its owner
                continue;
            };
            match newer {
                Some(n) => {
                    let superseded = n.stamp().timestamp().expect("committed before its successor");
                    let at = holder_between(snapshots, floor, created, superseded)
                        .or_else(|| self.holder_of_read(snapshots, floor, next, created));
                    if at.is_none() {
                        n.set_next(next);
                        retire_version(slot, v, local);
                    } else {
                        // (Superseded before its owner had stamped it: any stamp may be its.)
                        let same = version.stamp() == garbage.stamp || garbage.stamp.tag().is_some();
                        if std::ptr::eq(v, garbage.version) && same {
                            holder = at;
                        }
                        newer = Some(version);
                    }
                }
                None => newer = Some(version),
            }
            v = next;
        }
        holder.or_else(|| self.try_remove(slot, garbage.superseded, oldest, local))
    }

    /// A snapshot that sees the version `next`, superseded at this time, if that is to keep its successor.
    fn holder_of_read(
        &self,
        snapshots: &[Timestamp],
        floor: Timestamp,
        next: *const Version,
        superseded: Timestamp,
    ) -> Option<Timestamp> {
        if !self.keeps_successors || next.is_null() {
            return None;
        }
        // SAFETY: as in `cut`.
        let created = unsafe { &*next }.stamp().timestamp()?;
        holder_between(snapshots, floor, created, superseded)
    }

    /// Removes a record of which only its tombstone is left, or tells the snapshot that forbids it.
    fn try_remove(
        &self,
        slot: &Slot,
        superseded: Timestamp,
        oldest: Timestamp,
        local: &Local,
    ) -> Option<Timestamp> {
        let mut v = slot.head();
        let version = loop {
            // SAFETY: as in `cut`.
            let version = unsafe { v.as_ref() }?;
            if version.stamp().timestamp().is_some() {
                break version;
            }
            v = version.next();
        };
        if version.kind() != VersionKind::Tombstone {
            return None;
        }
        if !version.next().is_null() || !version.stamp().is_committed_by(oldest) {
            // The entries from the tombstone's own on answer for the record; earlier ones are done with.
            let is_its_own = version.stamp().timestamp().is_some_and(|deleted| deleted <= superseded);
            return is_its_own.then_some(oldest);
        }
        self.remove_or_defer(slot, v, local);
        None
    }

    /// The turn of a tombstone that is older than every snapshot has come: it goes with its record; or if a write
    /// covers it, the rollback of that write sees to it that its turn comes again.
    fn remove_or_defer(&self, slot: &Slot, tombstone: *const Version, local: &Local) {
        if !std::ptr::eq(slot.head(), tombstone) {
            // SAFETY: as in `cut`.
            unsafe { &*tombstone }.set_overdue();
            // Pairs with the fence in `undo`: either it finds the mark, or the tombstone is found uncovered here.
            fence(Ordering::SeqCst);
        }
        if std::ptr::eq(slot.head(), tombstone) {
            self.remove(slot, tombstone, local);
        }
    }

    /// Removes a record that nothing but a tombstone is left of, older than every snapshot, unless
    /// somebody puts a new version on it first.
    fn remove(&self, slot: &Slot, tombstone: *const Version, local: &Local) {
        // SAFETY: as in `cut`. Before anybody can find it gone. AcqRel: pairs with the Acquire in `newest_removed`.
        self.newest_removed.fetch_max(unsafe { &*tombstone }.stamp().0, Ordering::AcqRel);
        if !slot.install(tombstone, std::ptr::null()) {
            return;
        }
        let grave = Grave::of(tombstone);
        let target = grave.target();
        // SAFETY: the index lives as long as the database; the thread is inside an epoch.
        let removed = unsafe { (*target.index).remove(local, &target.key, target.id) };
        debug_assert!(removed, "a record's key is in its index until the record is removed");
        retire_version(slot, tombstone, local);
        self.retire_slot(slot, &target, local);
    }

    /// Gives a slot back when no operation is left that has found it.
    pub(super) fn retire_slot(&self, slot: &Slot, target: &Target, local: &Local) {
        debug_assert!(slot.head().is_null());
        // SAFETY: the record was not published, or its tombstone is older than every snapshot; the database owns slab,
        // indexes and epochs.
        unsafe { retire_record(&self.records, target, local) };
    }
}

/// A snapshot that sees a version created and superseded at these times; `floor` for those to come.
fn holder_between(
    snapshots: &[Timestamp],
    floor: Timestamp,
    created: Timestamp,
    superseded: Timestamp,
) -> Option<Timestamp> {
    let first = snapshots.partition_point(|&s| s < created);
    match snapshots.get(first) {
        Some(&s) if s < superseded => Some(s),
        _ => (superseded > floor).then_some(floor),
    }
}

/// Gives a version back when no operation is left that may be looking at it.
pub(super) fn retire_version(slot: &Slot, v: *const Version, local: &Local) {
    if slot.is_inline(v) {
        // SAFETY: unlinked by the caller, not reclaimed before the epoch passes.
        let stamp = unsafe { &*v }.stamp();
        // SAFETY: unlinked, so unreachable for operations to come.
        unsafe { local.retire(std::ptr::from_ref(slot).cast_mut().cast(), stamp.0, free_inline) };
    } else {
        // SAFETY: unlinked by the caller, not reclaimed before the epoch passes.
        let bytes = unsafe { Version::bytes_total(v) };
        // SAFETY: as above.
        unsafe { local.retire_version(v.cast_mut().cast(), bytes as u64) };
    }
}

/// # Safety
/// Called by `Local` with what `retire_version` gave it.
unsafe fn free_inline(_: &Local, slot: *mut u8, stamp: u64) {
    // SAFETY: slots are never unmapped.
    unsafe { &*slot.cast::<Slot>() }.free_inline(Stamp(stamp));
}

/// What a tombstone carries: the index and the key that reclamation removes.
#[derive(Debug)]
pub(super) struct Grave<'v>(&'v [u8]);

/// The first bytes of a tombstone; those of a long key follow.
#[derive(Clone, Copy)]
#[repr(C)]
struct GraveHead {
    /// A pointer's bytes, copied as such: the address alone would be no pointer.
    index: *const TableIndex,
    slice: u64,
    id: u32,
    key_bytes: u32,
}

const GRAVE_HEAD: usize = size_of::<GraveHead>();

impl Grave<'_> {
    /// The bytes of `target`'s tombstone, into `out`.
    pub(super) fn write(target: &Target, out: &mut Vec<u8>) {
        let Target { index, key, id } = *target;
        let head = GraveHead { index, slice: key.slice, id: id.0, key_bytes: key.len };
        out.clear();
        out.reserve(GRAVE_HEAD);
        // SAFETY: there is room, and bytes have no alignment.
        unsafe { out.as_mut_ptr().cast::<GraveHead>().write_unaligned(head) };
        // SAFETY: written just now; the head has no padding.
        unsafe { out.set_len(GRAVE_HEAD) };
        if target.key.len > 8 {
            // SAFETY: the key's bytes live as long as the operation.
            out.extend_from_slice(unsafe { target.key.long_bytes() });
        }
    }

    fn of<'v>(tombstone: *const Version) -> Grave<'v> {
        // SAFETY: a tombstone unlinked by us, not reclaimed before the epoch passes.
        Grave(unsafe { &*Version::value(tombstone) })
    }

    fn target(&self) -> Target {
        let bytes = self.0[GRAVE_HEAD..].as_ptr();
        // SAFETY: written by `write`, and copied byte by byte since.
        let head = unsafe { self.0.as_ptr().cast::<GraveHead>().read_unaligned() };
        let key = Key { slice: head.slice, len: head.key_bytes, bytes };
        Target { index: head.index, key, id: RecordId(head.id) }
    }
}
