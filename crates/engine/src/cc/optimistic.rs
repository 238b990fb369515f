//! Optimistic schemes with one value per record, all serializable. A [`Validation`] says how a transaction finds out
//! whether what it has read is the newest: see `silo.rs`, `occ.rs` and `tictoc.rs`.
//!
//! The steps of a transaction:
//! 1. It reads without locks, and notes when what it reads was committed. It keeps its writes apart.
//! 2. At its commit it latches what it writes. It aborts if a record is gone or another transaction has locked it.
//! 3. It validates what it has read.
//! 4. It installs its writes and releases the latches.
//!
//! Other transactions can read a row that is locked by `get_for_update`, but cannot write it.

use super::single::{
    Access, CommitStage, Content, Held, Policy, Single, Txn, holder_of_lock, read_committed, record_of,
};
use super::{Abort, Env, Intent, Refused};
use crate::profile::Activity;
use crate::record::{Record, Timestamp};
use crate::suspend::Suspend;
use crate::sync::atomic::{Ordering, fence};
use std::marker::PhantomData;

/// Optimistic concurrency control with the validation `V`.
#[derive(Clone, Copy, Debug)]
pub struct Optimistic<V>(PhantomData<fn() -> V>);

/// How a transaction finds out whether what it has read is the newest as of its commit.
pub trait Validation: Sized + Send + Sync + 'static {
    /// Records say until when their value has been read, and a transaction notes this time with what it reads. The time
    /// takes the place of short values.
    const NOTES_READ_TIMES: bool = false;

    /// Returns true if the transaction may read what was committed at `at`.
    fn admits(txn: &Txn, at: u64) -> bool;

    /// Returns the time of the commit, if what the transaction has read is the newest as of then. What the
    /// transaction writes is latched. `None`: another transaction has latched what this transaction has read, and its
    /// commit is waited for.
    fn validate(env: Scope<'_, Self>, txn: &Txn) -> Option<Result<Timestamp, Abort>>;
}

/// What a scheme with validation `V` works with in a call.
pub(super) type Scope<'e, V> = Env<'e, Single<Optimistic<V>>>;

impl<V: Validation> Policy for Optimistic<V> {
    const INLINES: bool = !V::NOTES_READ_TIMES;
    const HELD_WHEN_NEW: Held = Held::Not;

    fn lock_of_new(_: Scope<'_, V>, _: &mut Txn) -> u64 {
        0
    }

    #[inline(always)]
    unsafe fn access<S: Suspend>(
        access: &mut Access,
        record: *const Record,
        intent: Intent,
        _: Scope<'_, V>,
        txn: &mut Txn,
        s: &mut S,
    ) -> bool {
        match intent {
            Intent::Write => *access = Access::Absent, // the record's line is in the cache
            Intent::Lock => *access = Access::Unread,
            Intent::Untracked => {
                // SAFETY: the caller has made the promise that `access` asks for, and `read_committed` asks for the
                // same.
                return unsafe { read_committed::<Self, S>(access, record, txn, s, |_, _| Ok(())) };
            }
            Intent::Read | Intent::ReadToWrite | Intent::Covered => {
                // SAFETY: as above.
                return unsafe {
                    read_committed::<Self, S>(access, record, txn, s, |txn, at| note::<V>(txn, record, at))
                };
            }
        }
        true
    }

    unsafe fn will_write(
        _: Scope<'_, V>,
        txn: &mut Txn,
        record: *const Record,
        depends: bool,
    ) -> Result<Option<bool>, Refused> {
        let Some(read) = record_of(record).read() else { return Ok(None) };
        if read.content == Content::Gone {
            return Ok(None);
        }
        if depends {
            note::<V>(txn, record, read.at)?;
        }
        Ok(Some(read.content != Content::Nothing))
    }

    unsafe fn lock(env: Scope<'_, V>, txn: &mut Txn, record: *const Record) -> Result<Option<bool>, Refused> {
        let number = txn.accesses.enter(record)?;
        let tag = txn.member.announce(&env.shared.registry);
        let row = record_of(record);
        let is_own = txn.accesses.entries[number].held == Held::Alone;
        if !is_own && row.try_lock(tag, false).is_err() {
            return match holder_of_lock(row.lock()).and_then(|holder| env.shared.holder(holder)) {
                Some(holder) => Err(Refused::Held(holder)),
                None => Ok(None), // it is free now
            };
        }
        // A transaction that latches the record from now on finds the lock, and aborts.
        let Some(read) = row.read() else {
            if !is_own {
                row.unlock();
                env.shared.tell_waiters(&txn.member);
            }
            return Ok(None);
        };
        txn.accesses.entries[number].held = Held::Alone;
        if read.content == Content::Gone {
            return Ok(None);
        }
        note::<V>(txn, record, read.at)?;
        let is_there = txn.own(record).map_or(read.content != Content::Nothing, |own| own.is_some());
        Ok(Some(is_there))
    }

    fn decide<S: Suspend>(
        stage: &mut CommitStage,
        env: Scope<'_, V>,
        txn: &mut Txn,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        if !latch_written(stage, txn, s) {
            return None;
        }
        let tag = txn.member.tag;
        let is_refused = |record| {
            let row = record_of(record);
            row.content() == Content::Gone || holder_of_lock(row.lock()).is_some_and(|holder| holder != tag)
        };
        let refused = txn.accesses.last_writes().find(|(record, _)| is_refused(*record));
        if let Some((record, target)) = refused.map(|(record, write)| (record, write.target)) {
            txn.note_obstacle(record, target);
            return Some(Err(Abort::WriteConflict));
        }
        let validated = V::validate(env, txn);
        if validated.is_none() {
            txn.unlatch();
            s.was(Activity::Waiting);
        }
        validated
    }
}

/// Prefetches what the transaction writes, and latches it. Returns false if the caller must suspend here and call
/// again.
#[inline(always)]
pub(super) fn latch_written<S: Suspend>(stage: &mut CommitStage, txn: &mut Txn, s: &mut S) -> bool {
    if *stage == CommitStage::New {
        *stage = CommitStage::Fetched;
        if fetch_written(txn, s) {
            return false;
        }
    }
    if !txn.try_latch() {
        s.was(Activity::Waiting);
        return false;
    }
    fence(Ordering::SeqCst); // the latches are there before locks of other transactions are looked for
    true
}

/// Prefetches the records that are going to be latched, except those that were locked before. Returns true if the
/// caller must suspend here.
#[inline(always)]
fn fetch_written<S: Suspend>(txn: &Txn, s: &mut S) -> bool {
    let mut leaves = false;
    for (record, write) in txn.accesses.last_writes() {
        if txn.accesses.held(write) == Held::Not {
            leaves |= s.miss::<1>(record.cast());
        }
    }
    leaves
}

/// Returns the time of a commit.
#[inline(always)]
pub(super) fn draw<P: Policy>(env: Env<'_, Single<P>>, txn: &Txn) -> Timestamp {
    match txn.accesses.writes.is_empty() {
        true => env.shared.registry.now(),
        false => env.shared.registry.draw(txn.member.place()),
    }
}

/// Notes that the transaction has read what was committed to the record at `at`.
fn note<V: Validation>(txn: &mut Txn, record: *const Record, at: u64) -> Result<(), Refused> {
    if !V::admits(txn, at) {
        return Err(Refused::Abort(Abort::Unserializable));
    }
    let number = txn.accesses.enter(record)?;
    let entry = &mut txn.accesses.entries[number];
    if entry.seen.is_none() && V::NOTES_READ_TIMES {
        let until = record_of(record).read_until();
        // If the record has changed, `until` may belong to a later value.
        entry.until = if record_of(record).at() == (at, false) { until } else { at };
    }
    match *entry.seen.get_or_insert(at) == at {
        true => Ok(()),
        false => Err(Refused::Abort(Abort::Unserializable)), // the transaction has read an older value before
    }
}
