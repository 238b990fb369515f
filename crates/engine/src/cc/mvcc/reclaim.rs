//! Gives back versions that no snapshot can see any more, and records that are deleted for good.
//!
//! Every write that supersedes a version leaves a [`Garbage`] entry with the worker that committed it. The entries
//! are handled in one of two ways:
//!
//! - The usual pass. When an entry's turn comes, there is usually no open transaction that began before the
//!   superseding commit. Everything behind the newest version that all snapshots can see is cut off.
//! - The pass between snapshots. If a snapshot stays open for longer, or if memory grows, chains are pruned between
//!   the snapshots. A version `[created, superseded)` is kept only if an open snapshot lies in that interval, or,
//!   where reads are tracked, in the interval of the version behind it. What such a snapshot holds is put aside under
//!   its timestamp until it closes.
//!
//! The collection is interval-based, as in HANA (Lee et al., SIGMOD 2016) and Steam (Böttcher et al., VLDB 2019).
//!
//! A deleted record goes in the same way, with its key, when no open snapshot sees a value in it. Transactions that
//! began before the deletion and meet the gap learn about the deletion from the index: see
//! [`Departed`](crate::index::departed::Departed), and `departed.rs` for what they do then.
//!
//! A worker's entries lie in a queue that other threads reach, too. A transaction that meets the memory limit works
//! through all queues.
//!
//! Invariants:
//! - Only the holder of a chain's prune latch changes links of committed versions. The newest committed version is
//!   never unlinked.
//! - An unlinked version is retired once, by the thread that unlinked it.

use super::Tracker;
use super::queue::{Garbage, Look, Queue};

use crate::cc::common::registry::Registry;
use crate::cc::common::retire::retire_record;
use crate::cc::{Mistake, Target};
use crate::epoch::Local;
use crate::index::{Index, Key, TableIndex};
use crate::memory::{Memory, Slab};
use crate::record::{RecordId, Slot, Stamp, TICK, Timestamp, Version, VersionKind};
use crate::suspend::prefetch;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, lock, try_lock};
use std::sync::Arc;

/// Entries per visit.
const BATCH: usize = 256;
/// Entries per visit when everything that is due is cleaned up. A chain is walked once for all of its entries in the
/// batch, and may be as long as the batch.
const BATCH_URGENT: usize = 1 << 16;
/// How many entries ahead slots are prefetched.
const AHEAD: usize = 8;
const LATCHES: usize = if cfg!(braid_shuttle) { 4 } else { 256 };

/// The rules by which versions are kept that no snapshot sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// True if a version that a snapshot sees keeps the version that superseded it, and a snapshot that sees none
    /// keeps the first version. A transaction that has read the record will ask when it was overwritten, and by which
    /// transaction.
    keeps_successors: bool,
    /// True only in tests: a snapshot that is opened just after a version was created does not hold the version.
    starts_late: bool,
}

impl Rules {
    pub(super) fn of<T: Tracker>() -> Rules {
        let keeps_successors = T::TRACKS_READS && !T::makes(Mistake::LostSuccessors) && !T::IS_TIMED;
        Rules { keeps_successors, starts_late: T::makes(Mistake::LateIntervals) }
    }
}

/// The shared part.
#[derive(Debug)]
pub(super) struct Reclaimer {
    records: Arc<Slab>,
    latches: Box<[Latch]>,
    /// The queues of the current workers.
    queues: Mutex<Vec<Arc<Mutex<Queue>>>>,
    /// Garbage of workers that are gone. Every worker's pass takes some of it.
    left: Mutex<Queue>,
    /// The length of `left`. Changed with `left` locked; a hint without the lock.
    left_len: AtomicUsize,
    rules: Rules,
    /// The time of the latest deletion among all records that are gone. A read that finds nothing may have met that
    /// deletion.
    newest_removed: AtomicU64,
    /// The newest deletion of a key that left its index although an older snapshot was open.
    newest_departed: AtomicU64,
    /// The number of versions that were looked at.
    #[cfg(test)]
    pub(super) looked_at: AtomicUsize,
}

/// A latch for many chains. The fields about the chain cut last are changed under the latch.
#[derive(Debug, Default)]
struct Latch {
    is_taken: AtomicBool,
    /// The chain that was cut last, and the snapshot behind which it was cut. If there are many entries for a chain
    /// to which other transactions write meanwhile, only the first entry walks past what they have written.
    slot: AtomicPtr<Slot>,
    oldest: AtomicU64,
}

/// The right to change a chain's links.
pub(super) struct PruneLatch<'r>(&'r Latch);

impl Drop for PruneLatch<'_> {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release); // pairs with the Acquire in `latch`
    }
}

impl PruneLatch<'_> {
    /// Returns true if the chain has been cut since the version superseded at that time became invisible to all. A
    /// version superseded at the very moment of the cut may have been covered by a write.
    fn is_cut(&self, slot: *const Slot, superseded: Timestamp) -> bool {
        std::ptr::eq(self.0.slot.load(Ordering::Relaxed), slot)
            && superseded.0 < self.0.oldest.load(Ordering::Relaxed)
    }

    fn note_cut(&self, slot: *const Slot, oldest: Timestamp) {
        self.0.slot.store(slot.cast_mut(), Ordering::Relaxed);
        self.0.oldest.store(oldest.0, Ordering::Relaxed);
    }
}

impl Reclaimer {
    pub(super) fn new(records: Arc<Slab>, rules: Rules) -> Reclaimer {
        Reclaimer {
            records,
            latches: (0..LATCHES).map(|_| Latch::default()).collect(),
            queues: Mutex::new(Vec::new()),
            left: Mutex::default(),
            left_len: AtomicUsize::new(0),
            rules,
            newest_removed: AtomicU64::new(0),
            newest_departed: AtomicU64::new(0),
            #[cfg(test)]
            looked_at: AtomicUsize::new(0),
        }
    }

    /// Returns a time: no record that is gone was deleted later.
    pub(super) fn newest_removed(&self) -> u64 {
        self.newest_removed.load(Ordering::Acquire)
    }

    /// Returns the time of the latest deletion among records that went although an older snapshot was open.
    #[inline(always)]
    pub(super) fn newest_departed(&self) -> Timestamp {
        Timestamp(self.newest_departed.load(Ordering::Acquire)) // pairs with the AcqRel in `remove`
    }

    /// Makes a worker's queue.
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

    /// Works through a bounded number of due entries, or, if it `is_urgent`, through all of them. Returns true if
    /// more are due.
    pub(super) fn pass(
        &self,
        registry: &Registry,
        queue: &mut Queue,
        local: &Local,
        is_urgent: bool,
    ) -> bool {
        let more_left = self.pass_left(registry, local, is_urgent);
        self.pass_over(registry, queue, local, is_urgent) || more_left
    }

    /// Makes a pass over the garbage of workers that are gone.
    fn pass_left(&self, registry: &Registry, local: &Local, is_urgent: bool) -> bool {
        if self.left_len() == 0 {
            return false;
        }
        let Some(mut left) = try_lock(&self.left) else { return false };
        left.earn(0);
        let more = self.pass_over(registry, &mut left, local, is_urgent);
        self.left_len.store(left.len(), Ordering::Relaxed);
        more
    }

    fn pass_over(&self, registry: &Registry, queue: &mut Queue, local: &Local, is_urgent: bool) -> bool {
        if queue.is_empty() {
            return false;
        }
        let is_around = is_urgent || queue.is_stuck();
        queue.look(registry, is_urgent);
        let turns = |entries: usize, batch| if is_urgent { entries / batch + 1 } else { 1 };
        let batch = if is_urgent { BATCH_URGENT } else { BATCH };
        let in_order = turns(queue.waiting.len(), BATCH);
        let mut more = (0..in_order).all(|_| self.pass_in_order(queue, local));
        if is_around {
            let around = turns(queue.waiting.len(), batch);
            more = (0..around).all(|_| self.pass_between(queue, batch, local));
        }
        let released = turns(queue.released.len(), batch);
        more |= (0..released).all(|_| self.pass_released(queue, batch, local));
        queue.trim();
        more
    }

    /// Works through what all workers have left, including workers that are gone, because memory is short. Returns
    /// true if there is more.
    #[cold]
    pub(super) fn pass_all(&self, registry: &Registry, local: &Local) -> bool {
        let queues = lock(&self.queues).clone();
        let mut more = self.pass_left(registry, local, true) || self.left_len() > 0;
        for queue in &queues {
            // Another thread may be working through this queue.
            let Some(mut queue) = try_lock(queue) else {
                more = true;
                continue;
            };
            self.pass_over(registry, &mut queue, local, true);
            more |= !queue.is_empty();
        }
        more
    }

    /// Makes the usual pass: no open snapshot is older than what is cut. Returns true if there is more.
    fn pass_in_order(&self, queue: &mut Queue, local: &Local) -> bool {
        let oldest = queue.known().oldest;
        let due = queue.waiting.iter().take(BATCH).take_while(|g| g.superseded <= oldest).count();
        for i in 0..due {
            if let Some(ahead) = queue.waiting.get(AHEAD) {
                prefetch::<1>(ahead.slot.cast());
            }
            let garbage = queue.waiting.pop_front().expect("counted");
            debug_assert!(i < BATCH && garbage.superseded <= oldest);
            match self.latch(garbage.slot) {
                Some(latch) if latch.is_cut(garbage.slot, garbage.superseded) => {}
                Some(latch) => {
                    self.cut(garbage.slot, oldest, local);
                    latch.note_cut(garbage.slot, oldest);
                }
                None => queue.push(garbage),
            }
        }
        queue.waiting.front().is_some_and(|g| g.superseded <= oldest)
    }

    /// Makes the pass around the open snapshots, over `batch` entries at most. Returns true if there is more.
    fn pass_between(&self, queue: &mut Queue, batch: usize, local: &Local) -> bool {
        let floor = queue.known().floor;
        let due = queue.waiting.iter().take(batch).take_while(|g| g.superseded <= floor).count();
        let entries = queue.waiting.drain(..due).collect();
        self.prune_all(entries, queue, local);
        due == batch
    }

    /// Makes a pass over the entries that closed snapshots had held.
    fn pass_released(&self, queue: &mut Queue, batch: usize, local: &Local) -> bool {
        let from = queue.released.len().saturating_sub(batch);
        let entries = queue.released.split_off(from);
        self.prune_all(entries, queue, local);
        !queue.released.is_empty()
    }

    /// Prunes the chains of these entries, each once.
    fn prune_all(&self, mut entries: Vec<Garbage>, queue: &mut Queue, local: &Local) {
        entries.sort_unstable_by_key(|garbage| (garbage.slot, garbage.version));
        let mut held = Vec::new();
        for chain in entries.chunk_by(|a, b| a.slot == b.slot) {
            match self.latch(chain[0].slot) {
                Some(_latch) => self.prune(chain, queue.known(), local, &mut held),
                None => chain.iter().for_each(|&garbage| queue.push(garbage)),
            }
            held.drain(..).for_each(|(holder, garbage)| queue.hold(holder, garbage));
        }
    }

    /// Takes over the garbage of a worker that ends.
    pub(super) fn leave(&self, queue: &Arc<Mutex<Queue>>) {
        lock(&self.queues).retain(|other| !Arc::ptr_eq(other, queue));
        let mut left = lock(&self.left);
        left.absorb(&mut lock(queue));
        self.left_len.store(left.len(), Ordering::Relaxed);
    }

    /// Returns the number of entries of workers that are gone.
    pub(super) fn left_len(&self) -> usize {
        self.left_len.load(Ordering::Relaxed)
    }

    pub(super) fn latch(&self, slot: *const Slot) -> Option<PruneLatch<'_>> {
        let latch = &self.latches[slot.addr() / size_of::<Slot>() % LATCHES];
        // Acquire: pairs with the Release in PruneLatch's drop.
        let free = latch.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // The guard is made only if the latch was free, because dropping a guard releases the latch.
        free.then(|| PruneLatch(latch))
    }

    /// Cuts the chain behind the newest version that is committed as of every open snapshot.
    fn cut(&self, slot: *const Slot, oldest: Timestamp, local: &Local) {
        // SAFETY: slots are never unmapped. A slot that serves another record by now may be cut as well.
        let slot = unsafe { &*slot };
        let mut v = slot.head();
        while !v.is_null() {
            // SAFETY: reached from the head inside an epoch, under the chain's prune latch.
            let version = unsafe { &*v };
            self.note_look();
            if version.stamp().is_committed_by(oldest) {
                self.retire_from(slot, version.next(), version, local);
                if version.kind() == VersionKind::Tombstone {
                    self.remove_or_defer(slot, v, oldest, local);
                }
                return;
            }
            v = version.next();
        }
    }

    /// Unlinks and retires everything from `v` on. `v` is behind `after`.
    fn retire_from(&self, slot: &Slot, v: *const Version, after: &Version, local: &Local) {
        if v.is_null() {
            return;
        }
        after.set_next(std::ptr::null());
        retire_chain(slot, v, local);
    }

    /// Counts a look at a version, for tests.
    #[inline(always)]
    fn note_look(&self) {
        #[cfg(test)]
        self.looked_at.fetch_add(1, Ordering::Relaxed);
    }

    /// Cleans up a chain. `entries` all concern this chain and are sorted by version. If the record is deleted and no
    /// snapshot is left that sees a value in it, the record is removed. Otherwise every version that no snapshot is
    /// left to see is unlinked. Entries that have to stay go to `held`, each with the snapshot that holds it.
    fn prune(&self, entries: &[Garbage], look: &Look, local: &Local, held: &mut Vec<(Timestamp, Garbage)>) {
        // SAFETY: as in `cut`.
        let slot = unsafe { &*entries[0].slot };
        let tombstone = newest_committed(slot).filter(|v| v.kind() == VersionKind::Tombstone);
        let bar = tombstone.and_then(|tombstone| self.bar(tombstone, look));
        if let Some(tombstone) = tombstone
            && bar.is_none()
            && self.remove_or_defer(slot, tombstone, look.oldest, local)
        {
            return;
        }
        self.unlink_between(slot, entries, look, local, held);
        // The last entry answers for the record, at the latest when its own version is gone. If the tombstone is
        // later, it has an entry of its own.
        let last = entries.iter().max_by_key(|garbage| garbage.superseded).expect("a chain has entries");
        if let (Some(tombstone), Some(bar)) = (tombstone, bar)
            && tombstone.stamp().is_committed_by(last.superseded)
            && !held.iter().any(|(_, garbage)| garbage == last)
        {
            held.push((bar, *last));
        }
    }

    /// Returns a snapshot for which a deleted record stays, if there is one. `floor` stands for snapshots to come.
    /// There are three reasons to stay:
    /// - The snapshot sees a value in the record.
    /// - The snapshot's transaction keeps keys.
    /// - The deleting transaction would have to be ordered before the snapshot's transaction began, if the snapshot's
    ///   transaction has seen that there was no value.
    fn bar(&self, tombstone: &Version, look: &Look) -> Option<Timestamp> {
        let deleted = tombstone.stamp().timestamp().expect("committed");
        if deleted > look.floor {
            return Some(look.floor);
        }
        let (mut v, mut superseded) = (std::ptr::from_ref(tombstone), deleted);
        let mut bar = look.keeper_before(deleted);
        while bar.is_none() && !v.is_null() {
            // SAFETY: as in `cut`.
            let version = unsafe { &*v };
            self.note_look();
            let created = version.stamp().timestamp().expect("committed before its successor");
            if version.kind() == VersionKind::Value {
                bar = self.holder_between(look, created, superseded);
            }
            if self.rules.keeps_successors && created.reach() < created {
                bar = bar.or_else(|| look.holder_between(created.reach(), created));
            }
            (v, superseded) = (version.next(), created);
        }
        bar
    }

    /// Unlinks every version that no snapshot is left to see, down to the last version that `entries` concern.
    /// Entries that have to stay go to `held`.
    fn unlink_between(
        &self,
        slot: &Slot,
        entries: &[Garbage],
        look: &Look,
        local: &Local,
        held: &mut Vec<(Timestamp, Garbage)>,
    ) {
        // A version that was superseded before its owner had stamped it may be any version.
        let bottom = entries.iter().map(|garbage| garbage.stamp.timestamp().unwrap_or_default()).min();
        let (mut newer, mut v) = (None::<&Version>, slot.head());
        while !v.is_null() {
            // SAFETY: as in `cut`.
            let version = unsafe { &*v };
            self.note_look();
            let next = version.next();
            let Some(created) = version.stamp().timestamp() else {
                v = next; // uncommitted, or rolled back and soon unlinked by its owner
                continue;
            };
            if Some(created) < bottom {
                return; // what is behind it has entries of its own
            }
            match newer {
                Some(n) => {
                    let superseded = n.stamp().timestamp().expect("committed before its successor");
                    let at = self
                        .holder_between(look, created, superseded)
                        .or_else(|| self.holder_of_read(look, next, created));
                    if let Some(at) = at {
                        held.extend(entries_of(entries, v, version.stamp()).map(|garbage| (at, garbage)));
                        newer = Some(version);
                    } else {
                        n.set_next(next);
                        retire_version(slot, v, local);
                    }
                }
                None => newer = Some(version),
            }
            v = next;
        }
    }

    /// Returns a snapshot that sees a version created and superseded at these times.
    fn holder_between(&self, look: &Look, created: Timestamp, superseded: Timestamp) -> Option<Timestamp> {
        let starts_at = if self.rules.starts_late { Timestamp(created.0 + TICK) } else { created };
        look.holder_between(starts_at, superseded)
    }

    /// Returns a snapshot that sees the version `next`, which was superseded at this time, or that sees nothing if
    /// there is no `next`. Returns `None` unless such a snapshot keeps the successor.
    fn holder_of_read(&self, look: &Look, next: *const Version, superseded: Timestamp) -> Option<Timestamp> {
        if !self.rules.keeps_successors {
            return None;
        }
        // SAFETY: as in `cut`.
        let created = match unsafe { next.as_ref() } {
            Some(next) => next.stamp().timestamp()?,
            None => Timestamp::default(),
        };
        look.holder_between(created, superseded)
    }

    /// Removes a tombstone together with its record, in which no snapshot sees a value. Returns false if a write
    /// covers the tombstone. The rollback of that write makes sure that the tombstone's turn comes again.
    fn remove_or_defer(
        &self,
        slot: &Slot,
        tombstone: *const Version,
        oldest: Timestamp,
        local: &Local,
    ) -> bool {
        while !self.remove(slot, tombstone, oldest, local) {
            // SAFETY: as in `cut`.
            unsafe { &*tombstone }.set_overdue();
            // Pairs with the fence in `take_off`: either the rollback finds the mark, or this thread finds the
            // tombstone uncovered.
            fence(Ordering::SeqCst);
            if !std::ptr::eq(slot.head(), tombstone) {
                return false;
            }
        }
        true
    }

    /// Removes a record in which no snapshot sees a value, and whose newest version is a tombstone. Returns false if
    /// a write covers the tombstone.
    fn remove(&self, slot: &Slot, tombstone: *const Version, oldest: Timestamp, local: &Local) -> bool {
        if !std::ptr::eq(slot.head(), tombstone) {
            return false;
        }
        // SAFETY: as in `cut`.
        let stamp = unsafe { &*tombstone }.stamp();
        let target = TombstoneValue::of(tombstone).target();
        // SAFETY: the index lives as long as the database.
        let index = unsafe { &*target.index };
        // Before any thread can find the record gone. AcqRel: pairs with the Acquire in `newest_removed` and in
        // `newest_departed`.
        self.newest_removed.fetch_max(stamp.0, Ordering::AcqRel);
        if !stamp.is_committed_by(oldest) {
            index.departed().note(&target.key, stamp.0);
            self.newest_departed.fetch_max(stamp.0, Ordering::AcqRel);
        }
        if !slot.install(tombstone, std::ptr::null()) {
            return false;
        }
        // SAFETY: the thread is inside an epoch.
        let removed = unsafe { index.remove(local, &target.key, target.id) };
        debug_assert!(removed, "a record's key is in its index until the record is removed");
        retire_chain(slot, tombstone, local);
        self.retire_slot(slot, &target, local);
        true
    }

    /// Gives a slot back when no operation is left that has found it.
    pub(super) fn retire_slot(&self, slot: &Slot, target: &Target, local: &Local) {
        debug_assert!(slot.head().is_null());
        // SAFETY: the record was not published, or no open snapshot sees a value in it. The database owns slab,
        // indexes and epochs.
        unsafe { retire_record(&self.records, target, local) };
    }
}

/// Returns those of `entries`, which are sorted by version, that concern this version. A version that was superseded
/// before its owner had stamped it may have any stamp.
fn entries_of(entries: &[Garbage], v: *const Version, stamp: Stamp) -> impl Iterator<Item = Garbage> {
    let first = entries.partition_point(|garbage| garbage.version < v);
    let same_place = entries[first..].iter().take_while(move |garbage| garbage.version == v);
    same_place.filter(move |garbage| garbage.stamp == stamp || garbage.stamp.tag().is_some()).copied()
}

/// Returns the newest committed version, except for versions that are not stamped yet.
fn newest_committed(slot: &Slot) -> Option<&Version> {
    let mut v = slot.head();
    loop {
        // SAFETY: reached from the head inside an epoch, under the chain's prune latch.
        let version = unsafe { v.as_ref() }?;
        if version.stamp().timestamp().is_some() {
            return Some(version);
        }
        v = version.next();
    }
}

/// Retires `v` and everything behind it, which was unlinked just now.
fn retire_chain(slot: &Slot, mut v: *const Version, local: &Local) {
    while !v.is_null() {
        // SAFETY: the caller has unlinked the version, and it is not retired yet.
        let next = unsafe { &*v }.next();
        retire_version(slot, v, local);
        v = next;
    }
}

/// Gives a version back when no operation is left that may be looking at it.
pub(super) fn retire_version(slot: &Slot, v: *const Version, local: &Local) {
    if slot.is_inline(v) {
        // SAFETY: the caller has unlinked the version, and it is not reclaimed before the epoch passes.
        let stamp = unsafe { &*v }.stamp();
        // SAFETY: the version is unlinked, so operations to come cannot reach it.
        unsafe { local.retire(std::ptr::from_ref(slot).cast_mut().cast(), stamp.0, free_inline) };
    } else {
        // SAFETY: the caller has unlinked the version, and it is not reclaimed before the epoch passes.
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

/// The value of a tombstone: the index and the key that reclamation removes.
#[derive(Debug)]
pub(super) struct TombstoneValue<'v>(&'v [u8]);

/// The first bytes of a tombstone. The bytes of a long key follow.
#[derive(Clone, Copy)]
#[repr(C)]
struct TombstoneHead {
    /// The index. The pointer's bytes are copied as a pointer, because an address alone is not a pointer.
    index: *const TableIndex,
    slice: u64,
    id: u32,
    key_bytes: u32,
}

const TOMBSTONE_HEAD: usize = size_of::<TombstoneHead>();

impl TombstoneValue<'_> {
    /// Writes the bytes of `target`'s tombstone to `out`.
    pub(super) fn write(target: &Target, out: &mut Vec<u8>) {
        let Target { index, key, id } = *target;
        let head = TombstoneHead { index, slice: key.slice, id: id.0, key_bytes: key.len };
        out.clear();
        out.reserve(TOMBSTONE_HEAD);
        // SAFETY: there is room, and the write needs no alignment.
        unsafe { out.as_mut_ptr().cast::<TombstoneHead>().write_unaligned(head) };
        // SAFETY: the bytes were written just now, and the head has no padding.
        unsafe { out.set_len(TOMBSTONE_HEAD) };
        if target.key.len > 8 {
            // SAFETY: the key's bytes live as long as the operation.
            out.extend_from_slice(unsafe { target.key.long_bytes() });
        }
    }

    fn of<'v>(tombstone: *const Version) -> TombstoneValue<'v> {
        // SAFETY: this thread unlinks the tombstone, and it is not reclaimed before the epoch passes.
        TombstoneValue(unsafe { &*Version::value(tombstone) })
    }

    fn target(&self) -> Target {
        let bytes = self.0[TOMBSTONE_HEAD..].as_ptr();
        // SAFETY: `write` wrote the head, and it has been copied byte by byte since.
        let head = unsafe { self.0.as_ptr().cast::<TombstoneHead>().read_unaligned() };
        let key = Key { slice: head.slice, len: head.key_bytes, bytes };
        Target { index: head.index, key, id: RecordId(head.id) }
    }
}
