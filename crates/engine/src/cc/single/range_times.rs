//! The times at which ranges of keys have been read and keys removed, under timestamp ordering. A record's own times
//! are lost with the record, and an absent key has no record.
//!
//! Times are kept for groups of keys, and for each group of tables as a whole. A time that belongs to another key can
//! make a transaction abort without need. It then begins again with a later time.
//!
//! - A transaction that has read a range raises the times of reads before it checks whether the same keys are there.
//!   A transaction that brings a key, which is in the index by then, looks at these times when it commits. So one of
//!   the two notices the other.
//! - A removed key is also gone for transactions that are earlier in the order and should find it. Its time is raised
//!   before it is removed. Such transactions look at this time when they commit, after they have checked whether the
//!   same keys are there.

use crate::cc::Target;
use crate::cc::common::hash::{mix, mix_bytes};
use crate::cc::common::ranges::Ranges;
use crate::index::TableIndex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The number of groups of keys, and of tables.
const KEYS: usize = if cfg!(braid_shuttle) { 16 } else { 4096 };
const TABLES: usize = if cfg!(braid_shuttle) { 4 } else { 64 };

/// The times of one group.
#[derive(Debug, Default)]
struct Times {
    /// The latest transaction that has read which keys there are.
    read: AtomicU64,
    /// The latest transaction that has removed a key.
    deleted: AtomicU64,
}

/// The times of all groups. One per database.
#[derive(Debug)]
pub(in crate::cc) struct RangeTimes {
    keys: Box<[Times]>,
    tables: Box<[Times]>,
}

impl RangeTimes {
    /// Makes times that say that nothing has been read or removed.
    pub(super) fn new() -> RangeTimes {
        let times = |count| (0..count).map(|_| Times::default()).collect();
        RangeTimes { keys: times(KEYS), tables: times(TABLES) }
    }

    fn table(&self, index: *const TableIndex) -> &Times {
        &self.tables[hash(index, &[]) % TABLES]
    }

    fn key(&self, index: *const TableIndex, key: &[u8]) -> &Times {
        &self.keys[hash(index, key) % KEYS]
    }

    /// Notes that a key is about to be removed as of `at`.
    pub(in crate::cc) fn delete(&self, target: &Target, at: u64) {
        let mut short = [0; 8];
        for times in [self.table(target.index), self.key(target.index, target.key.bytes(&mut short))] {
            // SeqCst, here and below: a fence follows, and then the other transaction's times are looked at.
            times.deleted.fetch_max(at, Ordering::SeqCst);
        }
    }

    /// Notes that these ranges have been read as of `at`.
    pub(in crate::cc) fn read(&self, ranges: &Ranges, at: u64) {
        ranges.each(|index, key| {
            let times = key.map_or_else(|| self.table(index), |key| self.key(index, key));
            times.read.fetch_max(at, Ordering::SeqCst);
        });
    }

    /// Returns true if a key brought as of `at` has been read as absent, or removed, as of a later time.
    pub(in crate::cc) fn is_late_to_bring(&self, target: &Target, at: u64) -> bool {
        let mut short = [0; 8];
        let times = self.key(target.index, target.key.bytes(&mut short));
        let latest = [&times.read, &times.deleted, &self.table(target.index).read];
        latest.into_iter().any(|time| time.load(Ordering::SeqCst) > at)
    }

    /// Returns true if keys of these ranges have been removed as of a later time.
    pub(in crate::cc) fn is_late_to_read(&self, ranges: &Ranges, at: u64) -> bool {
        let mut is_late = false;
        ranges.each(|index, key| {
            let times = key.map_or_else(|| self.table(index), |key| self.key(index, key));
            is_late |= times.deleted.load(Ordering::SeqCst) > at;
        });
        is_late
    }
}

/// Hashes a key of a table, or a table.
fn hash(index: *const TableIndex, key: &[u8]) -> usize {
    // The table's number, because its address would make runs differ.
    // SAFETY: indexes live as long as their database.
    let number = unsafe { (*index).number() };
    let hash = mix(mix(0, u64::from(number)), key.len() as u64);
    (mix_bytes(hash, key) >> 32) as usize
}
