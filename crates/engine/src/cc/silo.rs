//! Silo: optimistic, with one value per record. A transaction notes when what it reads was committed, writes at its end,
//! and commits if what it has read is still the newest then.
//!
//! After Tu, Zheng, Kohler, Liskov, Madden: Speedy transactions in multicore in-memory databases, SOSP 2013. Different
//! here: commit times are drawn from the database's clock; ranges are gone through again, where their nodes have changed,
//! rather than refused; a row that is locked by `get_for_update` can be read, and not be written, by others.

use super::single::{Access, CommitStage, Content, Held, Policy, Single, Txn, holder_of_lock, record_of};
use super::{Abort, Env, Intent, Refused};
use crate::profile::Activity;
use crate::record::{Record, Timestamp};
use crate::suspend::Suspend;
use crate::sync::atomic::{Ordering, fence};

/// Optimistic concurrency control after Silo: serializable; a transaction that has read what others have overwritten
/// meanwhile is run again.
pub type Silo = Single<Optimistic>;

/// Reads without locks, and validates.
#[derive(Clone, Copy, Debug)]
pub struct Optimistic;

type Scope<'e> = Env<'e, Silo>;

impl Policy for Optimistic {
    const HELD_WHEN_NEW: Held = Held::Not;

    fn lock_of_new(_: Scope<'_>, _: &mut Txn) -> u64 {
        0
    }

    #[inline(always)]
    unsafe fn access<S: Suspend>(
        access: &mut Access,
        record: *const Record,
        intent: Intent,
        _: Scope<'_>,
        txn: &mut Txn,
        s: &mut S,
    ) -> bool {
        match intent {
            Intent::Write => *access = Access::Absent, // its line is in the cache
            Intent::Lock => *access = Access::Unread,
            // SAFETY: by the caller's promise.
            Intent::Untracked => return unsafe { read_committed(access, record, txn, s, |_, _| Ok(())) },
            Intent::Read | Intent::Covered => {
                // SAFETY: as above.
                return unsafe { read_committed(access, record, txn, s, |txn, at| note(txn, record, at)) };
            }
        }
        true
    }

    unsafe fn will_write(
        _: Scope<'_>,
        txn: &mut Txn,
        record: *const Record,
        depends: bool,
    ) -> Result<Option<bool>, Refused> {
        let Some(read) = record_of(record).read() else { return Ok(None) };
        if read.content == Content::Gone {
            return Ok(None);
        }
        if depends {
            note(txn, record, read.at)?;
        }
        Ok(Some(read.content != Content::Nothing))
    }

    unsafe fn lock(env: Scope<'_>, txn: &mut Txn, record: *const Record) -> Result<Option<bool>, Refused> {
        let number = txn.accesses.enter(record)?;
        let tag = txn.member.announce(&env.shared.registry);
        let row = record_of(record);
        let is_own = txn.accesses.entries[number].held == Held::Alone;
        if !is_own && !row.try_lock(tag, 0) {
            return match holder_of_lock(row.lock()).and_then(|holder| env.shared.holder(holder)) {
                Some(holder) => Err(Refused::Held(holder)),
                None => Ok(None), // it is free by now
            };
        }
        // Whoever latches it from now on finds the lock, and gives way.
        let Some(read) = row.read() else {
            if !is_own {
                row.unlock();
            }
            return Ok(None);
        };
        txn.accesses.entries[number].held = Held::Alone;
        if read.content == Content::Gone {
            return Ok(None);
        }
        note(txn, record, read.at)?;
        let is_there = txn.own(record).map_or(read.content != Content::Nothing, |own| own.is_some());
        Ok(Some(is_there))
    }

    fn decide<S: Suspend>(
        stage: &mut CommitStage,
        env: Scope<'_>,
        txn: &mut Txn,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        if *stage == CommitStage::New {
            *stage = CommitStage::Fetched;
            let mut leaves = false;
            txn.accesses.last_writes().for_each(|(record, _)| leaves |= s.miss::<1>(record.cast()));
            if leaves {
                return None;
            }
        }
        if !txn.try_latch() {
            s.was(Activity::Waiting);
            return None;
        }
        fence(Ordering::SeqCst); // what is latched is, before it is looked whether others have locked it
        let tag = txn.member.tag;
        let is_refused = |record| {
            let row = record_of(record);
            row.content() == Content::Gone || holder_of_lock(row.lock()).is_some_and(|holder| holder != tag)
        };
        if txn.accesses.last_writes().any(|(record, _)| is_refused(record)) {
            return Some(Err(Abort::WriteConflict));
        }
        let at = match txn.accesses.writes.is_empty() {
            true => env.shared.registry.now(),
            false => env.shared.registry.draw(txn.member.place()),
        };
        fence(Ordering::SeqCst); // of two that overwrite what the other has read one finds the other's latch
        let is_valid = |(number, entry): (usize, &super::single::Entry)| {
            let Some(seen) = entry.seen else { return true };
            let (at, is_latched) = record_of(entry.record).at();
            at == seen && (!is_latched || txn.accesses.last_write(number).is_some())
        };
        let is_valid = txn.accesses.entries.iter().enumerate().all(is_valid);
        Some(if is_valid { Ok(at) } else { Err(Abort::Unserializable) })
    }
}

/// Notes that the transaction has read what was committed to the record then.
fn note(txn: &mut Txn, record: *const Record, at: u64) -> Result<(), Refused> {
    let number = txn.accesses.enter(record)?;
    let seen = &mut txn.accesses.entries[number].seen;
    match *seen.get_or_insert(at) == at {
        true => Ok(()),
        false => Err(Refused::Abort(Abort::Unserializable)), // it has read something older before
    }
}

/// Reads what is committed, or what the transaction itself has written; `note` is told when it was committed.
///
/// # Safety
/// As [`ConcurrencyControl::access`](super::ConcurrencyControl::access).
#[inline(always)]
pub(super) unsafe fn read_committed<S: Suspend>(
    access: &mut Access,
    record: *const Record,
    txn: &mut Txn,
    s: &mut S,
    note: impl FnOnce(&mut Txn, u64) -> Result<(), Refused>,
) -> bool {
    if let Access::New = *access
        && let Some(own) = txn.own(record)
    {
        *access = own.map_or(Access::Absent, Access::Value);
        return true;
    }
    let (at, content) = match *access {
        // (It does not change, whatever has become of the record since.)
        Access::Fetching(at, version) => (at, Content::At(version)),
        _ => match record_of(record).read() {
            Some(read) => (read.at, read.content),
            None => {
                s.was(Activity::Waiting);
                return false; // it is being changed
            }
        },
    };
    if let (Access::New, Content::At(version)) = (*access, content) {
        *access = Access::Fetching(at, version);
        if s.miss::<1>(version.cast::<u8>()) {
            return false;
        }
    }
    // SAFETY: read in this operation, inside its epoch.
    let copied = note(txn, at).and_then(|()| unsafe { txn.copy_content(content) }.map_err(Refused::from));
    *access = match copied {
        Ok(Some(value)) => Access::Value(value),
        Ok(None) => Access::Absent,
        Err(refused) => Access::Refused(refused),
    };
    true
}
