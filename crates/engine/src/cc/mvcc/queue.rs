//! A worker's line of what it has superseded, and what it knows of the snapshots that may still see some of it.

use crate::cc::common::registry::Registry;
use crate::record::{Slot, Stamp, Timestamp, Version};
use std::collections::{BTreeMap, VecDeque};

/// A version superseded at `superseded`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Garbage {
    pub(super) slot: *const Slot,
    /// The version, and its stamp when it was superseded: its place may serve another one day.
    pub(super) version: *const Version,
    pub(super) stamp: Stamp,
    pub(super) superseded: Timestamp,
}
// SAFETY: the pointers are followed under the rules above, from any thread.
unsafe impl Send for Garbage {}

/// A worker's part, which others reach as well.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) waiting: VecDeque<Garbage>,
    /// What an open snapshot holds, by snapshot.
    held: BTreeMap<Timestamp, Vec<Garbage>>,
    /// Entries that closed snapshots had held. They are kept apart from `waiting`, so that the many entries of a long snapshot do
    /// not delay newer ones.
    pub(super) released: Vec<Garbage>,
    look: Look,
    /// Looks in a row that have found the same snapshot to be the oldest.
    stuck: u32,
    /// Places that entries and passes have earned since that look: see [`PLACES_PER_ENTRY`].
    credit: usize,
}

/// What was found when the open transactions were looked at. It stays true: others begin later.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// At most every snapshot open then or later.
    pub(super) oldest: Timestamp,
    /// The snapshots that were open when these were asked for last, sorted.
    snapshots: Vec<Timestamp>,
    /// The snapshots of transactions that keep keys, sorted.
    keeping: Vec<Timestamp>,
    /// No snapshot but these is older than this, then or later.
    pub(super) floor: Timestamp,
    /// What it was worth, in places that were looked at.
    cost: usize,
}

impl Look {
    /// A snapshot that sees a version created and superseded at these times; `floor` for those to come. The middle one of
    /// several: whatever order they close in, the version is looked at about as often as the logarithm of their number.
    pub(super) fn holder_between(&self, created: Timestamp, superseded: Timestamp) -> Option<Timestamp> {
        let first = self.snapshots.partition_point(|&s| s < created);
        let those = self.snapshots[first..].partition_point(|&s| s < superseded);
        match those {
            0 => (superseded > self.floor).then_some(self.floor),
            _ => Some(self.snapshots[first + those / 2]),
        }
    }

    /// The snapshot of a transaction that keeps keys, and began before this time.
    pub(super) fn keeper_before(&self, deleted: Timestamp) -> Option<Timestamp> {
        self.keeping.first().filter(|&&at| at < deleted).copied()
    }
}

/// With more entries waiting than this, open snapshots are worked around, whether or not the oldest one stays the same.
const QUEUE_LONG: usize = 4096;
/// A snapshot is worked around if it is still the oldest one after so many looks: by then a worker has superseded a few hundred
/// versions since it was opened.
const STUCK_LOOKS: u32 = 2;
/// What a look may cost, in places: for each entry some percent of the work that has left it; and for a pass that finds no new
/// entry. With many open transactions looks come less often than passes.
const PLACES_PER_ENTRY: usize = 16;
const PLACES_PER_PASS: usize = 512;
/// Copying and sorting snapshots, which lie nearly in order, in looks at a place.
const SORTING: usize = 4;
/// A queue that was this long gives its own memory back when it is empty.
const KEPT_CAPACITY: usize = 8192;

impl Queue {
    /// Puts an entry in line. (A commit that had to wait may come after later ones; then so does this.)
    pub(super) fn push(&mut self, garbage: Garbage) {
        let last = self.waiting.back().map_or(garbage.superseded, |last| last.superseded);
        self.waiting.push_back(Garbage { superseded: last.max(garbage.superseded), ..garbage });
    }

    /// Puts all of these in line, of which each comes after the one before it.
    pub(super) fn append(&mut self, superseded: &mut Vec<Garbage>) {
        debug_assert!(superseded.is_sorted_by_key(|garbage| garbage.superseded));
        if let Some(&Garbage { superseded: last, .. }) = self.waiting.back() {
            let early = superseded.iter_mut().take_while(|garbage| garbage.superseded < last);
            early.for_each(|garbage| garbage.superseded = last);
        }
        self.earn(superseded.len());
        self.waiting.extend(superseded.drain(..));
    }

    /// A pass with this many new entries comes next.
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

    /// The last look at the open snapshots.
    pub(super) fn known(&self) -> &Look {
        &self.look
    }

    /// Returns true if what waits is to be cleaned up around the open snapshots, as the oldest of them stays open.
    pub(super) fn is_stuck(&self) -> bool {
        self.waiting.len() > QUEUE_LONG || (self.stuck >= STUCK_LOOKS && !self.waiting.is_empty())
    }

    /// Looks at the open transactions, if enough has been done since the last look, or it `is_urgent`: which
    /// snapshots there are, if they have to be worked around or something is held for one; else only for the oldest.
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

    /// Gives memory back that a short queue does not need.
    pub(super) fn trim(&mut self) {
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT_CAPACITY {
            self.waiting = VecDeque::new();
        }
        if self.released.is_empty() && self.released.capacity() > KEPT_CAPACITY {
            self.released = Vec::new();
        }
    }
}
