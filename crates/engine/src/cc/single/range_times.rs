//! As of when ranges of keys have been read, and keys removed, under timestamp ordering. What a record knows of that is lost with the
//! record, and a key that is not there has none.
//!
//! Times are kept for groups of keys, and for each group of tables as a whole: a time that belongs to another key lets a
//! transaction give way without need, and begin again with a later time.
//!
//! A transaction that has read a range raises the times of reads before it looks whether the same keys are there. One that brings
//! a key, which is in the index by then, looks at them when it commits: so one of the two notices the other. A key that is
//! removed is gone for those, too, that come before in the order, and should find it: its time is raised before it is
//! removed, and they look there when they commit, after they have looked whether the same keys are there.

use crate::cc::Target;
use crate::cc::common::hash::{mix, mix_bytes};
use crate::cc::common::ranges::Ranges;
use crate::index::TableIndex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Groups of keys, and of tables.
const KEYS: usize = if cfg!(braid_shuttle) { 16 } else { 4096 };
const TABLES: usize = if cfg!(braid_shuttle) { 4 } else { 64 };

/// Of one group.
#[derive(Debug, Default)]
struct Times {
    /// The latest transaction that has read which keys there are,
    read: AtomicU64,
    /// and the latest that has removed one.
    deleted: AtomicU64,
}

/// One per database.
#[derive(Debug)]
pub(in crate::cc) struct RangeTimes {
    keys: Box<[Times]>,
    tables: Box<[Times]>,
}

impl RangeTimes {
    /// Nothing has been read or removed.
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

    /// A key is going to be removed as of then.
    pub(in crate::cc) fn delete(&self, target: &Target, at: u64) {
        let mut short = [0; 8];
        for times in [self.table(target.index), self.key(target.index, target.key.bytes(&mut short))] {
            // SeqCst, here and below: a fence follows, and then the other one's times are looked at.
            times.deleted.fetch_max(at, Ordering::SeqCst);
        }
    }

    /// These ranges have been read as of then.
    pub(in crate::cc) fn read(&self, ranges: &Ranges, at: u64) {
        ranges.each(|index, key| {
            let times = key.map_or_else(|| self.table(index), |key| self.key(index, key));
            times.read.fetch_max(at, Ordering::SeqCst);
        });
    }

    /// A key that is brought as of then has been read to be absent, or removed, as of later.
    pub(in crate::cc) fn is_late_to_bring(&self, target: &Target, at: u64) -> bool {
        let mut short = [0; 8];
        let times = self.key(target.index, target.key.bytes(&mut short));
        let latest = [&times.read, &times.deleted, &self.table(target.index).read];
        latest.into_iter().any(|time| time.load(Ordering::SeqCst) > at)
    }

    /// Keys of these ranges have been removed as of later.
    pub(in crate::cc) fn is_late_to_read(&self, ranges: &Ranges, at: u64) -> bool {
        let mut is_late = false;
        ranges.each(|index, key| {
            let times = key.map_or_else(|| self.table(index), |key| self.key(index, key));
            is_late |= times.deleted.load(Ordering::SeqCst) > at;
        });
        is_late
    }
}

/// Of a key of a table, or of a table.
fn hash(index: *const TableIndex, key: &[u8]) -> usize {
    // (Its number: its address would make runs differ.)
    // SAFETY: indexes live as long as their database.
    let number = unsafe { (*index).number() };
    let hash = mix(mix(0, u64::from(number)), key.len() as u64);
    (mix_bytes(hash, key) >> 32) as usize
}
