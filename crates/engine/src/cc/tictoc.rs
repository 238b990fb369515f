//! TICTOC: optimistic, serializable. A transaction computes the time of its commit when it ends. The steps of a
//! transaction:
//!
//! 1. It reads without locks, and notes when the value was committed and until when the value holds. It keeps its
//!    writes apart.
//! 2. At its commit it latches what it writes.
//! 3. It computes its time: no earlier than the writes of what it has read, and later than the reads of what it
//!    overwrites.
//! 4. It ensures that each value that it has read holds until the time of the commit. If a value does not, the
//!    transaction aborts.
//!
//! After Yu, Pavlo, Sanchez, Devadas: TicToc: Time traveling optimistic concurrency control, SIGMOD 2016. Different
//! here:
//!
//! - A commit is no earlier than the clock was when the transaction began, and the clock is no earlier than any
//!   commit, so the order is strict. Two commits may have the same time. Then neither has overwritten what the other
//!   has read or written.
//! - Which keys a range had at an earlier time is not known. A transaction that has gone through a range, or has
//!   found no value under a key, therefore commits no earlier than the clock at its end. A transaction that brings a
//!   key in draws a time of its own. One of the two finds the other: the new key's record is latched before its time
//!   is drawn, and the ranges are checked after the reader's time is known.
//! - The time until which a record's value holds has a word of its own, in the place of short values. A reader raises
//!   the time, and then looks whether the record is latched. A commit latches, and then looks at the time.

use super::Abort;
use super::optimistic::{Optimistic, Scope, Validation};
use super::single::{Content, Single, Txn, record_of};
use crate::record::{Record, TICK, Timestamp};
use crate::sync::atomic::{Ordering, fence};

/// Optimistic concurrency control with read times: serializable. If other transactions have meanwhile overwritten
/// what a transaction has read, it commits as of an earlier time, if it can.
pub type TicToc = Single<Optimistic<ByReadTimes>>;

/// Everything that was read was the newest as of the time of the commit, whether or not it still is.
#[derive(Clone, Copy, Debug)]
pub struct ByReadTimes;

impl Validation for ByReadTimes {
    const NOTES_READ_TIMES: bool = true;

    #[inline(always)]
    fn admits(_: &Txn, _: u64) -> bool {
        true
    }

    fn validate(env: Scope<'_, Self>, txn: &Txn) -> Option<Result<Timestamp, Abort>> {
        let at = time_of(env, txn);
        let is_valid = reads(txn).all(|read| match read.is_written {
            true => record_of(read.record).at().0 == read.seen, // it is latched
            false => read.until >= at.0 || extend(read.record, read.seen, at),
        });
        Some(if is_valid { Ok(at) } else { Err(Abort::Unserializable) })
    }
}

/// Something that a transaction has read.
#[derive(Clone, Copy, Debug)]
pub(super) struct OneRead {
    pub(super) record: *const Record,
    /// The time at which the value was written.
    pub(super) seen: u64,
    /// The record has no newer value of this time or an earlier one.
    pub(super) until: u64,
    /// The transaction also writes the record.
    pub(super) is_written: bool,
}

/// Returns what the transaction has read.
pub(super) fn reads(txn: &Txn) -> impl Iterator<Item = OneRead> {
    let entries = txn.accesses.entries.iter().enumerate();
    entries.filter_map(|(number, entry)| {
        let is_written = txn.accesses.last_write(number).is_some();
        entry.seen.map(|seen| OneRead { record: entry.record, seen, until: entry.until, is_written })
    })
}

/// Returns the time of the commit of a transaction that has latched what it writes.
pub(super) fn time_of<V: Validation>(env: Scope<'_, V>, txn: &Txn) -> Timestamp {
    let registry = &env.shared.registry;
    let read = reads(txn).map(|read| Timestamp(read.seen).tick()).max();
    let mut earliest = txn.member.begin.tick().max(read.unwrap_or_default());
    if !txn.ranges.is_empty() {
        earliest = earliest.max(registry.now().tick());
    }
    if txn.accesses.writes.is_empty() {
        return earliest;
    }
    let mut brings_keys = false;
    for (record, _) in txn.accesses.last_writes() {
        let record = record_of(record);
        brings_keys |= record.content() == Content::Nothing;
        earliest = earliest.max(Timestamp(Timestamp(record.read_until()).tick().0 + TICK));
    }
    registry.commit_at(txn.member.place(), earliest, brings_keys)
}

/// Ensures that the record's value that was written at `seen` is overwritten only later than `at`. Returns false if
/// it is not known to be the newest value as of `at`.
pub(super) fn extend(record: *const Record, seen: u64, at: Timestamp) -> bool {
    let record = record_of(record);
    loop {
        let until = record.read_until(); // of this value or of an earlier value
        let (written, is_latched) = record.at();
        if written != seen {
            return false;
        }
        // A commit under way may replace the value as of the time that is now in `until`.
        if until > at.0 || until == at.0 && !is_latched {
            return true;
        }
        if is_latched {
            return false;
        }
        if record.extend(until, at) {
            fence(Ordering::SeqCst); // either this read or a commit that latches the record now sees the other
            return record.at() == (seen, false);
        }
    }
}
