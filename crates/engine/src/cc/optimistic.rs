//! Optimistic schemes with one value per record: a transaction reads without locks, notes when what it has read was committed,
//! writes at its end, and commits if what it has read is still the newest then. A [`Validation`] says how that is found out: `silo.rs`,
//! `occ.rs`, `tictoc.rs`.
//!
//! A row that is locked by `get_for_update` can be read, and not be written, by others.

use super::single::{
    Access, CommitStage, Content, Held, Policy, Single, Txn, holder_of_lock, read_committed, record_of,
};
use super::{Abort, Env, Intent, Refused};
use crate::profile::Activity;
use crate::record::{Record, Timestamp};
use crate::suspend::Suspend;
use crate::sync::atomic::{Ordering, fence};
use std::marker::PhantomData;

/// Reads without locks, and validates as `V` says.
#[derive(Clone, Copy, Debug)]
pub struct Optimistic<V>(PhantomData<fn() -> V>);

/// How a transaction finds out whether what it has read is the newest.
pub trait Validation: Sized + Send + Sync + 'static {
    /// Records say until when what they hold has been read, and what a transaction reads is noted with that. (The time
    /// takes the place of short values.)
    const NOTES_READ_TIMES: bool = false;

    /// Whether it may go on with what was committed at `at`.
    fn admits(txn: &Txn, at: u64) -> bool;

    /// When it commits, if what it has read is the newest then. What it writes is latched. `None`: something that it has read is
    /// latched by another one, whose commit is waited for.
    fn validate(env: Scope<'_, Self>, txn: &Txn) -> Option<Result<Timestamp, Abort>>;
}

/// What a call of a scheme with validation `V` works in.
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
            Intent::Write => *access = Access::Absent, // its line is in the cache
            Intent::Lock => *access = Access::Unread,
            Intent::Untracked => {
                // SAFETY: by the caller's promise.
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
                None => Ok(None), // it is free by now
            };
        }
        // Whoever latches it from now on finds the lock, and gives way.
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

/// Asks for what the transaction writes, and latches it. Returns false if the caller is to leave here, and come back.
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
    fence(Ordering::SeqCst); // what is latched is, before it is looked whether others have locked it
    true
}

/// Asks for what is going to be latched, but for what has been locked before. Returns true if the caller is to leave here.
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

/// The time of a commit.
#[inline(always)]
pub(super) fn draw<P: Policy>(env: Env<'_, Single<P>>, txn: &Txn) -> Timestamp {
    match txn.accesses.writes.is_empty() {
        true => env.shared.registry.now(),
        false => env.shared.registry.draw(txn.member.place()),
    }
}

/// Notes that the transaction has read what was committed to the record then.
fn note<V: Validation>(txn: &mut Txn, record: *const Record, at: u64) -> Result<(), Refused> {
    if !V::admits(txn, at) {
        return Err(Refused::Abort(Abort::Unserializable));
    }
    let number = txn.accesses.enter(record)?;
    let entry = &mut txn.accesses.entries[number];
    if entry.seen.is_none() && V::NOTES_READ_TIMES {
        let until = record_of(record).read_until();
        // (Else that may be of a later value.)
        entry.until = if record_of(record).at() == (at, false) { until } else { at };
    }
    match *entry.seen.get_or_insert(at) == at {
        true => Ok(()),
        false => Err(Refused::Abort(Abort::Unserializable)), // it has read something older before
    }
}
