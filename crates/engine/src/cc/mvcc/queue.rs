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
    look: Look,
    /// What passes have earned since that look.
    credit: usize,
}

/// What was found when the open transactions were looked at. It stays true: others begin later.
#[derive(Debug, Default)]
struct Look {
    /// At most every snapshot open then or later.
    oldest: Timestamp,
    /// The snapshots open when these were asked for last, sorted; all others are this old at most.
    snapshots: Vec<Timestamp>,
    floor: Timestamp,
    /// What it was worth, in places that were looked at.
    cost: usize,
}

/// What a pass may spend on a look: some percent of the work whose garbage it collects. With more open transactions
/// than this, looks come less often than passes.
const PLACES_PER_PASS: usize = 2048;
/// Copying and sorting snapshots, in looks at a place.
const SORTING: usize = 8;
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
        self.waiting.extend(superseded.drain(..));
    }

    /// Puts aside what a snapshot holds.
    pub(super) fn hold(&mut self, holder: Timestamp, garbage: Garbage) {
        self.held.entry(holder).or_default().push(garbage);
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.held.values().map(Vec::len).sum::<usize>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.held.is_empty()
    }

    /// At most every snapshot open now or later.
    pub(super) fn oldest(&self) -> Timestamp {
        self.look.oldest
    }

    /// No snapshot is older than this but for `snapshots`.
    pub(super) fn floor(&self) -> Timestamp {
        self.look.floor
    }

    pub(super) fn snapshots(&self) -> &[Timestamp] {
        &self.look.snapshots
    }

    /// Looks at the open transactions, if enough has been done since the last look, or it `is_urgent`: which
    /// snapshots there are, if they are asked for or something is held for one; else only for the oldest.
    pub(super) fn look(&mut self, registry: &Registry, wants_snapshots: bool, is_urgent: bool) {
        self.credit += PLACES_PER_PASS;
        if self.credit < self.look.cost && !is_urgent {
            return;
        }
        self.credit = 0;
        if !wants_snapshots && self.held.is_empty() {
            (self.look.oldest, self.look.cost) = registry.oldest_and_looks();
            return;
        }
        let snapshots = &mut self.look.snapshots;
        self.look.floor = registry.snapshots(snapshots);
        self.look.cost = snapshots.len() * SORTING;
        snapshots.sort_unstable();
        snapshots.dedup();
        self.look.oldest = snapshots.first().map_or(self.look.floor, |&first| first.min(self.look.floor));
        self.release_held();
    }

    /// Puts what closed snapshots held in line again.
    fn release_held(&mut self) {
        let snapshots = &self.look.snapshots;
        let closed = self.held.extract_if(.., |at, _| snapshots.binary_search(at).is_err());
        let released: Vec<Garbage> = closed.flat_map(|(_, entries)| entries).collect();
        for garbage in released {
            self.push(garbage);
        }
    }

    /// Everything, in no order.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Garbage> {
        let held = std::mem::take(&mut self.held).into_values().flatten();
        std::mem::take(&mut self.waiting).into_iter().chain(held)
    }

    /// Gives memory back that a short queue does not need.
    pub(super) fn trim(&mut self) {
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT_CAPACITY {
            self.waiting = VecDeque::new();
        }
    }
}
