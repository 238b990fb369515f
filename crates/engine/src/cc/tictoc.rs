//! TICTOC: optimistic; a transaction works out at its end as of when it has read and written, from the times at which what it has
//! read was written, and until when what it overwrites was read.
//!
//! After Yu, Pavlo, Sanchez, Devadas: TicToc: Time traveling optimistic concurrency control, SIGMOD 2016. Different here:
//!
//! - A commit is no earlier than the clock was when the transaction began, and the clock is no earlier than any commit: so the
//!   order is strict. (Two commits may have one time; then neither has overwritten what the other has read or written.)
//! - Which keys there are in a range is not known as of an earlier time. So a transaction that has gone through one, or has
//!   found no value under a key, commits no earlier than the clock is at its end; and one that brings a key in draws a time
//!   of its own. Of the two one finds the other: what comes is latched before its time is drawn, and whether
//!   ranges are as they were is found out after theirs is known.
//! - The time until which a record's value holds lies in a word of its own, in the place of short values. It is raised first, and
//!   then it is looked whether the record is latched; a commit latches first, and then looks at that time.

use super::Abort;
use super::optimistic::{Optimistic, Scope, Validation};
use super::single::{Content, Single, Txn, record_of};
use crate::record::{Record, TICK, Timestamp};
use crate::sync::atomic::{Ordering, fence};

/// Optimistic concurrency control with read times: serializable; a transaction that has read what others have overwritten
/// meanwhile commits as of before that, if it can.
pub type TicToc = Single<Optimistic<ByReadTimes>>;

/// What was read was the newest value as of the time of the commit, whether or not it still is.
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
    /// When it was written.
    pub(super) seen: u64,
    /// No other value is of that time or an earlier one.
    pub(super) until: u64,
    /// The transaction writes it as well.
    pub(super) is_written: bool,
}

/// What the transaction has read.
pub(super) fn reads(txn: &Txn) -> impl Iterator<Item = OneRead> {
    let entries = txn.accesses.entries.iter().enumerate();
    entries.filter_map(|(number, entry)| {
        let is_written = txn.accesses.last_write(number).is_some();
        entry.seen.map(|seen| OneRead { record: entry.record, seen, until: entry.until, is_written })
    })
}

/// The time of the commit of a transaction, which has latched what it writes.
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

/// Sees to it that what was read of a record, of that time, is overwritten only later than `at`. Returns false if it is not known to
/// be the newest value as of then.
pub(super) fn extend(record: *const Record, seen: u64, at: Timestamp) -> bool {
    let record = record_of(record);
    loop {
        let until = record.read_until(); // of this value or of an earlier one
        let (written, is_latched) = record.at();
        if written != seen {
            return false;
        }
        // (That which a commit under way puts in its place may be of the time that is here by now.)
        if until > at.0 || until == at.0 && !is_latched {
            return true;
        }
        if is_latched {
            return false;
        }
        if record.extend(until, at) {
            fence(Ordering::SeqCst); // of this and a commit that latches the record now one sees the other
            return record.at() == (seen, false);
        }
    }
}
