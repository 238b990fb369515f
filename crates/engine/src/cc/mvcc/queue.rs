//! A worker's queue of what it has superseded, and what it knows about the snapshots that may still see some of it.

use crate::cc::common::registry::Registry;
use crate::record::{Slot, Stamp, Timestamp, Version};
use std::collections::{BTreeMap, VecDeque};

/// A version superseded at `superseded`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Garbage {
    pub(super) slot: *const Slot,
    /// The version, and its stamp when it was superseded. Its place may serve another version one day.
    pub(super) version: *const Version,
    pub(super) stamp: Stamp,
    pub(super) superseded: Timestamp,
}
// SAFETY: the pointers may be followed from any thread, under the rules of `reclaim.rs`.
unsafe impl Send for Garbage {}

/// A worker's part, which other threads reach as well.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) waiting: VecDeque<Garbage>,
    /// The entries that open snapshots hold, by snapshot.
    held: BTreeMap<Timestamp, Vec<Garbage>>,
    /// Entries that closed snapshots had held. They are kept apart from `waiting`, so that the many entries of a long
    /// snapshot do not delay newer ones.
    pub(super) released: Vec<Garbage>,
    look: Look,
    /// The number of looks in a row that found the same snapshot to be the oldest.
    stuck: u32,
    /// The places that entries and passes have earned since that look: see [`PLACES_PER_ENTRY`].
    credit: usize,
}

/// What a look at the open transactions has found. It stays true, because other transactions begin later.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// A time that is at most every snapshot open then or later.
    pub(super) oldest: Timestamp,
    /// The snapshots that were open at the last look that asked for them, sorted.
    snapshots: Vec<Timestamp>,
    /// The snapshots of transactions that keep keys, sorted.
    keeping: Vec<Timestamp>,
    /// No snapshot except these is older than this, then or later.
    pub(super) floor: Timestamp,
    /// What the look cost, in places that were looked at.
    cost: usize,
}

impl Look {
    /// Returns a snapshot that sees a version created and superseded at these times, with `floor` for snapshots to
    /// come. Of several snapshots, it returns the middle one. In whatever order they close, the version is then
    /// looked at about as often as the logarithm of their number.
    pub(super) fn holder_between(&self, created: Timestamp, superseded: Timestamp) -> Option<Timestamp> {
        let first = self.snapshots.partition_point(|&s| s < created);
        let those = self.snapshots[first..].partition_point(|&s| s < superseded);
        match those {
            0 => (superseded > self.floor).then_some(self.floor),
            _ => Some(self.snapshots[first + those / 2]),
        }
    }

    /// Returns the snapshot of a transaction that keeps keys and began before this time.
    pub(super) fn keeper_before(&self, deleted: Timestamp) -> Option<Timestamp> {
        self.keeping.first().filter(|&&at| at < deleted).copied()
    }
}

/// If more entries than this wait, open snapshots are worked around, whether or not the oldest one stays the same.
const QUEUE_LONG: usize = 4096;
/// A snapshot is worked around if it is still the oldest one after this many looks. By then a worker has superseded a
/// few hundred versions since the snapshot was opened.
const STUCK_LOOKS: u32 = 2;
/// What a look may cost, in places: for each entry, some percent of the work that has left it; and something for a
/// pass that finds no new entry. With many open transactions, looks are rarer than passes.
const PLACES_PER_ENTRY: usize = 16;
const PLACES_PER_PASS: usize = 512;
/// The cost of copying and sorting a snapshot, in looks at a place. Snapshots lie nearly in order.
const SORTING: usize = 4;
/// A queue that was longer than this gives its own memory back when it is empty.
const KEPT_CAPACITY: usize = 8192;

impl Queue {
    /// Puts an entry in line. The entry of a commit that had to wait may come behind entries of later commits. It then
    /// gets the time of the last of them.
    pub(super) fn push(&mut self, garbage: Garbage) {
        let last = self.waiting.back().map_or(garbage.superseded, |last| last.superseded);
        self.waiting.push_back(Garbage { superseded: last.max(garbage.superseded), ..garbage });
    }

    /// Puts all of these in line. They are in ascending order.
    pub(super) fn append(&mut self, superseded: &mut Vec<Garbage>) {
        debug_assert!(superseded.is_sorted_by_key(|garbage| garbage.superseded));
        if let Some(&Garbage { superseded: last, .. }) = self.waiting.back() {
            let early = superseded.iter_mut().take_while(|garbage| garbage.superseded < last);
            early.for_each(|garbage| garbage.superseded = last);
        }
        self.earn(superseded.len());
        self.waiting.extend(superseded.drain(..));
    }

    /// Counts a pass that comes next, with this many new entries.
    pub(super) fn earn(&mut self, entries: usize) {
        self.credit += if entries == 0 { PLACES_PER_PASS } else { entries * PLACES_PER_ENTRY };
    }

    /// Puts aside what a snapshot holds.
    pub(super) fn hold(&mut self, holder: Timestamp, garbage: Garbage) {
        self.held.entry(holder).or_default().push(garbage);
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.released.len() + self.held.values().map(Vec::len).sum::<usize>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.released.is_empty() && self.held.is_empty()
    }

    /// Returns the last look at the open snapshots.
    pub(super) fn known(&self) -> &Look {
        &self.look
    }

    /// Returns true if what waits must be cleaned up around the open snapshots, because the oldest of them stays
    /// open.
    pub(super) fn is_stuck(&self) -> bool {
        self.waiting.len() > QUEUE_LONG || (self.stuck >= STUCK_LOOKS && !self.waiting.is_empty())
    }

    /// Looks at the open transactions, if enough has been done since the last look or if it `is_urgent`. Collects the
    /// snapshots if they have to be worked around or if entries are held for one. Otherwise looks only for the
    /// oldest.
    pub(super) fn look(&mut self, registry: &Registry, is_urgent: bool) {
        if self.credit < self.look.cost && !is_urgent {
            return;
        }
        self.credit = 0;
        let before = self.look.oldest;
        if is_urgent || self.is_stuck() || !self.held.is_empty() {
            self.look_at_all(registry);
        } else {
            (self.look.oldest, self.look.cost) = registry.oldest_and_looks();
        }
        self.stuck = if self.look.oldest == before { self.stuck.saturating_add(1) } else { 0 };
    }

    fn look_at_all(&mut self, registry: &Registry) {
        let Look { oldest, snapshots, keeping, floor, cost } = &mut self.look;
        *floor = registry.snapshots(snapshots, keeping);
        *cost = snapshots.len() * SORTING;
        snapshots.sort_unstable();
        snapshots.dedup();
        keeping.sort_unstable();
        *oldest = snapshots.first().map_or(*floor, |&first| first.min(*floor));
        self.release_held();
    }

    /// Releases what closed snapshots held.
    fn release_held(&mut self) {
        let mut open = self.look.snapshots.iter().peekable();
        let closed = self.held.extract_if(.., |at, _| {
            while open.next_if(|&open| open < at).is_some() {}
            open.peek() != Some(&at)
        });
        closed.for_each(|(_, mut entries)| self.released.append(&mut entries));
    }

    /// Takes everything out of `other`.
    pub(super) fn absorb(&mut self, other: &mut Queue) {
        other.waiting.drain(..).for_each(|garbage| self.push(garbage));
        self.released.append(&mut other.released);
        for (at, mut entries) in std::mem::take(&mut other.held) {
            self.held.entry(at).or_default().append(&mut entries);
        }
    }

    /// Gives back memory that a short queue does not need.
    pub(super) fn trim(&mut self) {
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT_CAPACITY {
            self.waiting = VecDeque::new();
        }
        if self.released.is_empty() && self.released.capacity() > KEPT_CAPACITY {
            self.released = Vec::new();
        }
    }
}
