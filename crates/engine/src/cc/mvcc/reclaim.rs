//! Gives back versions that no snapshot can see any more, and records that are deleted for good.
//!
//! Every write that supersedes a version leaves a [`Garbage`] entry with the worker that committed
//! it. Usually nothing is open that began before the superseding commit when its turn comes, and
//! everything behind the newest version that all can see is cut off. Where a snapshot stays open
//! for longer, or memory grows, chains are pruned between the snapshots instead: a version `[created, superseded)`
//! is kept only if an open snapshot lies in that interval, or where reads are tracked, in that of the version
//! behind it. What such a snapshot does hold is put
//! aside under its timestamp until it closes. (Interval-based collection as in HANA: Lee et al.,
//! SIGMOD 2016; and Steam: Böttcher et al., VLDB 2019.)
//!
//! A deleted record goes likewise, with its key, when no open snapshot sees a value in it. Transactions that began before the
//! deletion and meet the gap learn of it from the index: see [`Departed`](crate::index::departed::Departed), and `departed.rs` for what they make of it.
//!
//! A worker's entries lie in a queue that others reach, too: a transaction that meets the memory limit works through all of them.
//!
//! Invariants:
//! - Only the holder of a chain's prune latch changes links of committed versions; the newest
//!   committed version is never unlinked.
//! - An unlinked version is retired once: by the thread that unlinked it.

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
/// The same, where all that is due goes: a chain is walked once for all entries of it in the batch, and may be as long as the
/// batch.
const BATCH_URGENT: usize = 1 << 16;
/// Entries ahead whose slots are asked for.
const AHEAD: usize = 8;
const LATCHES: usize = if cfg!(braid_shuttle) { 4 } else { 256 };

/// The rules by which versions are kept that no snapshot sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// A version that a snapshot sees keeps the one that superseded it, and a snapshot that sees none keeps the first one: a
    /// transaction that has read that will ask when, and by whom.
    keeps_successors: bool,
    /// True only in tests: a snapshot opened just after a version was created does not hold it.
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
    /// Of the workers that there are.
    queues: Mutex<Vec<Arc<Mutex<Queue>>>>,
    /// Garbage of workers that are gone. Every worker's pass takes some of it.
    left: Mutex<Queue>,
    /// Its length: changed with `left` locked; without the lock a hint.
    left_len: AtomicUsize,
    rules: Rules,
    /// When the latest of all records was deleted that are gone: a read that finds nothing may have found that.
    newest_removed: AtomicU64,
    /// The newest deletion of a key that has left its index although an older snapshot was open.
    newest_departed: AtomicU64,
    /// Versions that were looked at.
    #[cfg(test)]
    pub(super) looked_at: AtomicUsize,
}

/// One for many chains. What is said of the chain cut last is changed under the latch.
#[derive(Debug, Default)]
struct Latch {
    is_taken: AtomicBool,
    /// The chain cut last, and behind which snapshot: so that of many entries of a chain that others write to meanwhile
    /// only the first walks past what they have written.
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
    /// Whether the chain has been cut since nothing saw any more what was `superseded` then. (Something superseded at
    /// the very moment of the cut may have been covered by a write.)
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

    /// No record that is gone was deleted later.
    pub(super) fn newest_removed(&self) -> u64 {
        self.newest_removed.load(Ordering::Acquire)
    }

    /// When the latest record was deleted of those that went although an older snapshot was open.
    #[inline(always)]
    pub(super) fn newest_departed(&self) -> Timestamp {
        Timestamp(self.newest_departed.load(Ordering::Acquire)) // pairs with the AcqRel in `remove`
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

    /// Works through what all workers have left, and what is left of those that are gone: memory is short. Returns true if there is
    /// more.
    #[cold]
    pub(super) fn pass_all(&self, registry: &Registry, local: &Local) -> bool {
        let queues = lock(&self.queues).clone();
        let mut more = self.pass_left(registry, local, true) || self.left_len() > 0;
        for queue in &queues {
            // (Another thread may be at it.)
            let Some(mut queue) = try_lock(queue) else {
                more = true;
                continue;
            };
            self.pass_over(registry, &mut queue, local, true);
            more |= !queue.is_empty();
        }
        more
    }

    /// The usual pass: nothing open is older than what is cut. Returns true if there is more.
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

    /// The pass around the open snapshots, over `batch` entries at most. Returns true if there is more.
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

    /// Takes over the garbage of a worker that goes.
    pub(super) fn leave(&self, queue: &Arc<Mutex<Queue>>) {
        lock(&self.queues).retain(|other| !Arc::ptr_eq(other, queue));
        let mut left = lock(&self.left);
        left.absorb(&mut lock(queue));
        self.left_len.store(left.len(), Ordering::Relaxed);
    }

    /// Entries of workers that are gone.
    pub(super) fn left_len(&self) -> usize {
        self.left_len.load(Ordering::Relaxed)
    }

    pub(super) fn latch(&self, slot: *const Slot) -> Option<PruneLatch<'_>> {
        let latch = &self.latches[slot.addr() / size_of::<Slot>() % LATCHES];
        // Acquire: pairs with the Release in PruneLatch's drop.
        let free = latch.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
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

    /// Unlinks and retires everything from `v` on, which is behind `after`.
    fn retire_from(&self, slot: &Slot, v: *const Version, after: &Version, local: &Local) {
        if v.is_null() {
            return;
        }
        after.set_next(std::ptr::null());
        retire_chain(slot, v, local);
    }

    /// For tests.
    #[inline(always)]
    fn note_look(&self) {
        #[cfg(test)]
        self.looked_at.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes the record of `entries`, all of one chain and sorted by version, if it is deleted and no snapshot is left to see
    /// that it was there; else unlinks every version that none is left to see. Those of the entries that have to stay go to `held`,
    /// each with the snapshot that holds it.
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
        // (The last entry answers for the record, at the latest when its own version is gone. If the tombstone is later, that
        // has an entry of its own.)
        let last = entries.iter().max_by_key(|garbage| garbage.superseded).expect("a chain has entries");
        if let (Some(tombstone), Some(bar)) = (tombstone, bar)
            && tombstone.stamp().is_committed_by(last.superseded)
            && !held.iter().any(|(_, garbage)| garbage == last)
        {
            held.push((bar, *last));
        }
    }

    /// Returns the snapshot for which a deleted record stays, if there is one; `floor` stands for those to come. It sees a value in the
    /// record; or its transaction keeps keys; or that would have to be ordered before it began, if it has seen that there was no
    /// value.
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

    /// Unlinks every version that no snapshot is left to see, down to the last one that `entries` are about. Of these, what
    /// has to stay goes to `held`.
    fn unlink_between(
        &self,
        slot: &Slot,
        entries: &[Garbage],
        look: &Look,
        local: &Local,
        held: &mut Vec<(Timestamp, Garbage)>,
    ) {
        // (Superseded before its owner had stamped it: it may be any.)
        let bottom = entries.iter().map(|garbage| garbage.stamp.timestamp().unwrap_or_default()).min();
        let (mut newer, mut v) = (None::<&Version>, slot.head());
        while !v.is_null() {
            // SAFETY: as in `cut`.
            let version = unsafe { &*v };
            self.note_look();
            let next = version.next();
            let Some(created) = version.stamp().timestamp() else {
                v = next; // uncommitted, or rolled back and about to be unlinked by its owner
                continue;
            };
            if Some(created) < bottom {
                return; // what is behind has entries of its own
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

    /// Returns a snapshot that sees the version `next`, superseded at this time, or where there is none, nothing; if such a snapshot keeps
    /// the successor.
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

    /// Removes a tombstone with its record, in which no snapshot sees a value. If a write covers it, returns false: the rollback of
    /// that write sees to it that its turn comes again.
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
            // Pairs with the fence in `undo`: either it finds the mark, or the tombstone is found uncovered here.
            fence(Ordering::SeqCst);
            if !std::ptr::eq(slot.head(), tombstone) {
                return false;
            }
        }
        true
    }

    /// Removes a record in which no snapshot sees a value, its newest version a tombstone. Returns false if a write
    /// covers it.
    fn remove(&self, slot: &Slot, tombstone: *const Version, oldest: Timestamp, local: &Local) -> bool {
        if !std::ptr::eq(slot.head(), tombstone) {
            return false;
        }
        // SAFETY: as in `cut`.
        let stamp = unsafe { &*tombstone }.stamp();
        let target = TombstoneValue::of(tombstone).target();
        // SAFETY: the index lives as long as the database.
        let index = unsafe { &*target.index };
        // Before anybody can find it gone. AcqRel: pairs with the Acquire in `newest_removed`, and in `newest_departed`.
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
        // SAFETY: the record was not published, or no open snapshot sees a value in it; the database owns slab,
        // indexes and epochs.
        unsafe { retire_record(&self.records, target, local) };
    }
}

/// Those of `entries`, sorted by version, that are about this one. (Superseded before its owner had stamped it: any stamp may
/// be its.)
fn entries_of(entries: &[Garbage], v: *const Version, stamp: Stamp) -> impl Iterator<Item = Garbage> {
    let first = entries.partition_point(|garbage| garbage.version < v);
    let same_place = entries[first..].iter().take_while(move |garbage| garbage.version == v);
    same_place.filter(move |garbage| garbage.stamp == stamp || garbage.stamp.tag().is_some()).copied()
}

/// The newest version that has committed, apart from those that are not stamped yet.
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

/// Retires `v` and all behind it, which was unlinked just now.
fn retire_chain(slot: &Slot, mut v: *const Version, local: &Local) {
    while !v.is_null() {
        // SAFETY: unlinked by the caller, not retired yet.
        let next = unsafe { &*v }.next();
        retire_version(slot, v, local);
        v = next;
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
pub(super) struct TombstoneValue<'v>(&'v [u8]);

/// The first bytes of a tombstone; those of a long key follow.
#[derive(Clone, Copy)]
#[repr(C)]
struct TombstoneHead {
    /// A pointer's bytes, copied as such: the address alone would be no pointer.
    index: *const TableIndex,
    slice: u64,
    id: u32,
    key_bytes: u32,
}

const TOMBSTONE_HEAD: usize = size_of::<TombstoneHead>();

impl TombstoneValue<'_> {
    /// The bytes of `target`'s tombstone, into `out`.
    pub(super) fn write(target: &Target, out: &mut Vec<u8>) {
        let Target { index, key, id } = *target;
        let head = TombstoneHead { index, slice: key.slice, id: id.0, key_bytes: key.len };
        out.clear();
        out.reserve(TOMBSTONE_HEAD);
        // SAFETY: there is room, and bytes have no alignment.
        unsafe { out.as_mut_ptr().cast::<TombstoneHead>().write_unaligned(head) };
        // SAFETY: written just now; the head has no padding.
        unsafe { out.set_len(TOMBSTONE_HEAD) };
        if target.key.len > 8 {
            // SAFETY: the key's bytes live as long as the operation.
            out.extend_from_slice(unsafe { target.key.long_bytes() });
        }
    }

    fn of<'v>(tombstone: *const Version) -> TombstoneValue<'v> {
        // SAFETY: a tombstone unlinked by us, not reclaimed before the epoch passes.
        TombstoneValue(unsafe { &*Version::value(tombstone) })
    }

    fn target(&self) -> Target {
        let bytes = self.0[TOMBSTONE_HEAD..].as_ptr();
        // SAFETY: written by `write`, and copied byte by byte since.
        let head = unsafe { self.0.as_ptr().cast::<TombstoneHead>().read_unaligned() };
        let key = Key { slice: head.slice, len: head.key_bytes, bytes };
        Target { index: head.index, key, id: RecordId(head.id) }
    }
}
