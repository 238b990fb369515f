//! What a worker's transactions have read, newest last. A transaction that overwrites a record finds out here which
//! readers committed before it.
//!
//! The log is a ring with one writer, its worker, and any number of readers, which take no latch:
//!
//! 1. A transaction enters itself before it draws its commit timestamp.
//! 2. It adds the timestamp to its entry at once afterwards. A transaction that draws a later timestamp therefore
//!    finds the entry.
//! 3. Only a transaction that might have to abort looks, which is rare. To enter costs a few stores.
//!
//! Invariants:
//! - `tail <= next`. Entries `tail..next` are whole. Transactions of entries before `tail` committed at `lost` or
//!   earlier.
//! - Timestamps do not decrease from entry to entry, up to an entry that is not [`OVERTAKING`].

use crate::record::{Slot, Timestamp};
use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The transaction is entered, but is not yet committing at a known time.
const PENDING: u64 = Timestamp::NEVER.0;
/// A bit of an entry's length: the transaction has also read ranges of keys.
const RANGES: u32 = 1 << 31;
/// A bit of an entry's length: an older entry was pending when this one was entered, and may commit later.
const OVERTAKING: u32 = 1 << 30;
/// Stands for the length: too much to be listed.
const EVERYTHING: u32 = OVERTAKING - 1;

/// Returns a record's number in the log. The numbers of all records of a database are distinct.
pub(super) fn id_of(slot: *const Slot) -> u32 {
    (slot.addr() / size_of::<Slot>()) as u32
}

/// One worker's log.
#[derive(Debug)]
pub struct ReaderLog {
    entries: Box<[Entry]>,
    ids: Box<[AtomicU32]>,
    next: CachePadded<AtomicU64>,
    lost: AtomicU64,
    /// The last snapshot of a transaction that is in no log because it will not write; or PENDING.
    untracked: AtomicU64,
    /// The writer's own: the oldest entry that is whole, where the next entry's ids go, and the number of pending
    /// entries.
    tail: AtomicU64,
    at: AtomicU64,
    pending: AtomicU64,
}

#[derive(Debug, Default)]
struct Entry {
    stamp: AtomicU64,
    start: AtomicU64,
    length: AtomicU32,
}

/// What a log says about a set of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    /// The last of the readers asked for committed at this time or a little earlier; 0: there is none.
    Until(Timestamp),
    /// One of the readers is just drawing its timestamp: ask again.
    Wait,
}

impl ReaderLog {
    /// Makes an empty log of `entries_max` entries, with `ids_max` records in all. Both are powers of two.
    pub(super) fn new(entries_max: usize, ids_max: usize) -> ReaderLog {
        assert!(entries_max.is_power_of_two() && ids_max.is_power_of_two());
        ReaderLog {
            entries: (0..entries_max).map(|_| Entry::default()).collect(),
            ids: (0..ids_max).map(|_| AtomicU32::new(0)).collect(),
            next: CachePadded::new(AtomicU64::new(0)),
            lost: AtomicU64::new(0),
            untracked: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            at: AtomicU64::new(0),
            pending: AtomicU64::new(0),
        }
    }

    fn entry(&self, number: u64) -> &Entry {
        &self.entries[number as usize & (self.entries.len() - 1)]
    }

    /// Enters a transaction that has read these records, and perhaps ranges, and perhaps more than can be listed.
    /// Only the worker calls this. Afterwards the transaction's timestamp is drawn with a Release, or read after a
    /// sequentially consistent fence.
    #[inline]
    pub(super) fn enter(
        &self,
        ids: impl ExactSizeIterator<Item = u32>,
        has_ranges: bool,
        is_coarse: bool,
    ) -> u64 {
        // The writer reads relaxed what only the writer changes.
        let (number, start) = (self.next.load(Ordering::Relaxed), self.at.load(Ordering::Relaxed));
        let is_listed = !is_coarse && ids.len() <= self.ids.len() / 2;
        let length = if is_listed { ids.len() } else { 0 };
        self.make_room(number, start, length);
        if is_listed {
            for (i, id) in ids.enumerate() {
                self.ids[(start as usize + i) & (self.ids.len() - 1)].store(id, Ordering::Relaxed);
            }
        }
        let entry = self.entry(number);
        entry.start.store(start, Ordering::Relaxed);
        let pending = self.pending.load(Ordering::Relaxed);
        self.pending.store(pending + 1, Ordering::Relaxed);
        let flags = if has_ranges { RANGES } else { 0 } | if pending > 0 { OVERTAKING } else { 0 };
        let listed = if is_listed { length as u32 } else { EVERYTHING };
        entry.length.store(listed | flags, Ordering::Relaxed);
        entry.stamp.store(PENDING, Ordering::Relaxed);
        self.at.store(start + length as u64, Ordering::Relaxed);
        self.next.store(number + 1, Ordering::Release); // pairs with the Acquire in `readers`
        number
    }

    #[inline]
    fn make_room(&self, number: u64, start: u64, length: usize) {
        let tail = self.tail.load(Ordering::Relaxed);
        let is_over = |tail: u64| {
            number - tail >= self.entries.len() as u64
                || (tail < number
                    && start + length as u64 - self.entry(tail).start.load(Ordering::Relaxed)
                        > self.ids.len() as u64)
        };
        if !is_over(tail) {
            return;
        }
        let (mut tail, mut lost) = (tail, self.lost.load(Ordering::Relaxed));
        while is_over(tail) {
            let stamp = self.entry(tail).stamp.load(Ordering::Relaxed);
            // A pending transaction will find out that its entry is lost, and aborts.
            lost = if stamp == PENDING { lost } else { lost.max(stamp) };
            tail += 1;
        }
        self.tail.store(tail, Ordering::Relaxed);
        self.lost.store(lost, Ordering::Relaxed);
        // Pairs with the Acquire fence in `readers`: a reader of something overwritten sees it lost.
        fence(Ordering::Release);
    }

    /// Notes that the transaction of this entry commits at `at`, if it does. Returns false if the entry is no longer
    /// kept.
    #[inline]
    pub(super) fn stamp(&self, number: u64, at: Timestamp) -> bool {
        debug_assert!(at.0 < PENDING);
        self.pending.store(self.pending.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        if number + self.entries.len() as u64 >= self.next.load(Ordering::Relaxed) {
            self.entry(number).stamp.store(at.0, Ordering::Release); // pairs with the Acquire in `readers`
        }
        number >= self.tail.load(Ordering::Relaxed)
    }

    /// Notes that the transaction of this entry, which is stamped, has aborted.
    pub(super) fn retract(&self, number: u64) {
        if number >= self.tail.load(Ordering::Relaxed) {
            let length = &self.entry(number).length;
            length.store(length.load(Ordering::Relaxed) & OVERTAKING, Ordering::Relaxed);
        }
    }

    /// Returns the snapshot for a transaction that will be in no log because it does not write. `now` reads the
    /// clock. Only the worker calls this.
    pub(super) fn open_untracked(&self, mut now: impl FnMut() -> Timestamp) -> Timestamp {
        let last = self.untracked.load(Ordering::Relaxed);
        let begin = now();
        if begin.0 == last {
            // Announced before: a transaction that draws a later timestamp finds it.
            return begin;
        }
        self.untracked.store(PENDING, Ordering::Relaxed);
        // Pairs with the fence before `readers`: either the other transaction sees this store, or this thread sees
        // its timestamp.
        fence(Ordering::SeqCst);
        let begin = now();
        self.untracked.store(begin.0, Ordering::Release); // pairs with the Acquire in `readers`
        begin
    }

    /// Returns the last commit among the transactions that have read one of the records that `is_asked` accepts, and
    /// that committed from `since` on and before `until`. The caller has drawn `until`, and then passed a
    /// sequentially consistent fence.
    pub(super) fn readers(
        &self,
        since: Timestamp,
        until: Timestamp,
        is_asked: impl Fn(u32) -> bool,
    ) -> Readers {
        let untracked = self.untracked.load(Ordering::Acquire); // pairs with the Release in `open_untracked`
        let mut last = if untracked >= since.0 { untracked.min(until.0) } else { 0 };
        let next = self.next.load(Ordering::Acquire); // pairs with the Release in `enter`
        for number in (next.saturating_sub(self.entries.len() as u64)..next).rev() {
            let entry = self.entry(number);
            let stamp = entry.stamp.load(Ordering::Acquire); // pairs with the Release in `stamp`
            let length = entry.length.load(Ordering::Relaxed);
            if stamp < since.0 && length & OVERTAKING == 0 {
                break;
            }
            if stamp < since.0 || stamp <= last || stamp != PENDING && stamp >= until.0 {
                continue;
            }
            // A transaction that reads ranges also leaves its timestamp in the index, once it has one.
            if stamp == PENDING && length & RANGES != 0 {
                return Readers::Wait;
            }
            if self.has_any(entry, length & EVERYTHING, &is_asked) {
                if stamp == PENDING {
                    return Readers::Wait;
                }
                last = stamp;
            }
        }
        fence(Ordering::Acquire); // pairs with the Release fence in `make_room`
        let lost = self.lost.load(Ordering::Relaxed);
        Readers::Until(Timestamp(if lost >= since.0 { last.max(lost.min(until.0)) } else { last }))
    }

    fn has_any(&self, entry: &Entry, length: u32, is_asked: impl Fn(u32) -> bool) -> bool {
        if length == EVERYTHING {
            return true;
        }
        let start = entry.start.load(Ordering::Relaxed) as usize;
        let length = (length as usize).min(self.ids.len());
        (start..start.wrapping_add(length))
            .any(|i| is_asked(self.ids[i & (self.ids.len() - 1)].load(Ordering::Relaxed)))
    }

    /// Returns a time, when the worker ends: no transaction that it ran committed later.
    pub(super) fn last(&self) -> Timestamp {
        let next = self.next.load(Ordering::Relaxed);
        let entered =
            (self.tail.load(Ordering::Relaxed)..next).map(|n| self.entry(n).stamp.load(Ordering::Relaxed));
        let last = entered.filter(|&stamp| stamp != PENDING).max().unwrap_or(0);
        let untracked = self.untracked.load(Ordering::Relaxed);
        Timestamp(last.max(self.lost.load(Ordering::Relaxed)).max(if untracked == PENDING {
            0
        } else {
            untracked
        }))
    }
}
