//! NO_WAIT: two-phase locking with one value per record. A transaction locks what it reads and writes, until it ends; one
//! that would have to wait for a lock gives way at once.
//!
//! After Bernstein and Goodman, ACM Computing Surveys 1981, as Yu, Bezerra, Pavlo, Devadas, Stonebraker study it: Staring
//! into the abyss, VLDB 2014. Different here: what a transaction writes is kept apart until it commits; the ranges that it
//! has gone through are not locked, and looked at again when it commits.

use super::single::{
    Access, CommitStage, Content, Held, Policy, Single, Txn, holder_of_lock, read_committed, record_of,
};
use super::{Abort, Env, Intent, Refused};
use crate::record::{Record, Timestamp};
use crate::suspend::Suspend;

/// Two-phase locking without waiting: serializable; a transaction that meets another one's lock is run again.
pub type NoWait = Single<Locking>;

/// Locks, and never waits.
#[derive(Clone, Copy, Debug)]
pub struct Locking;

type Scope<'e> = Env<'e, NoWait>;

impl Policy for Locking {
    const HELD_WHEN_NEW: Held = Held::Alone;

    fn lock_of_new(env: Scope<'_>, txn: &mut Txn) -> u64 {
        txn.member.announce(&env.shared.registry).word()
    }

    #[inline(always)]
    unsafe fn access<S: Suspend>(
        access: &mut Access,
        record: *const Record,
        intent: Intent,
        env: Scope<'_>,
        txn: &mut Txn,
        s: &mut S,
    ) -> bool {
        let locked = match intent {
            // SAFETY: by the caller's promise.
            Intent::Untracked => return unsafe { read_committed(access, record, txn, s, |_, _| Ok(())) },
            Intent::Lock => {
                *access = Access::Unread;
                return true;
            }
            _ if matches!(access, Access::Fetching(..)) => Ok(true), // locked before
            Intent::Read => share(txn, record),
            Intent::Covered | Intent::Write => lock_alone(env, txn, record),
        };
        *access = match locked {
            Err(refused) => Access::Refused(refused),
            Ok(false) => Access::Refused(Refused::Abort(Abort::WriteConflict)),
            Ok(true) if intent == Intent::Write => Access::Absent, // nobody asks for the value
            Ok(true) => match (*access, record_of(record).content()) {
                (Access::New, Content::At(version)) if txn.own(record).is_none() => {
                    *access = Access::Fetching(0, version);
                    if s.miss::<1>(version.cast::<u8>()) {
                        return false;
                    }
                    stable(txn, record)
                }
                _ => stable(txn, record),
            },
        };
        true
    }

    unsafe fn will_write(
        env: Scope<'_>,
        txn: &mut Txn,
        record: *const Record,
        _: bool,
    ) -> Result<Option<bool>, Refused> {
        if !lock_alone(env, txn, record)? {
            return Err(Refused::Abort(Abort::WriteConflict));
        }
        Ok(match record_of(record).content() {
            Content::Gone => None,
            content => Some(content != Content::Nothing),
        })
    }

    unsafe fn lock(env: Scope<'_>, txn: &mut Txn, record: *const Record) -> Result<Option<bool>, Refused> {
        if !lock_alone(env, txn, record)? {
            let holder = holder_of_lock(record_of(record).lock()).and_then(|tag| env.shared.holder(tag));
            return Err(holder.map_or(Refused::Abort(Abort::WriteConflict), Refused::Held));
        }
        Ok(match record_of(record).content() {
            Content::Gone => None,
            content => Some(txn.own(record).map_or(content != Content::Nothing, |own| own.is_some())),
        })
    }

    fn decide<S: Suspend>(
        _: &mut CommitStage,
        env: Scope<'_>,
        txn: &mut Txn,
        _: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        if txn.accesses.writes.is_empty() {
            return Some(Ok(env.shared.registry.now()));
        }
        // For those that read without locks.
        if !txn.try_latch() {
            return None;
        }
        Some(Ok(env.shared.registry.draw(txn.member.place())))
    }
}

/// What the transaction, which holds a lock of the record, finds there.
fn stable(txn: &Txn, record: *const Record) -> Access {
    let value = txn.own(record).unwrap_or_else(|| record_of(record).stable_bytes());
    value.map_or(Access::Absent, Access::Value)
}

/// Locks a record as one of several. Returns false if another transaction has it alone.
#[inline(always)]
fn share(txn: &mut Txn, record: *const Record) -> Result<bool, Refused> {
    let number = txn.accesses.enter(record)?;
    let held = &mut txn.accesses.entries[number].held;
    if *held == Held::Not {
        if !record_of(record).try_share() {
            return Ok(false);
        }
        *held = Held::Shared;
    }
    Ok(true)
}

/// Locks a record alone. Returns false if other transactions have it.
#[inline(always)]
fn lock_alone(env: Scope<'_>, txn: &mut Txn, record: *const Record) -> Result<bool, Refused> {
    let number = txn.accesses.enter(record)?;
    let tag = txn.member.announce(&env.shared.registry);
    let held = &mut txn.accesses.entries[number].held;
    let shares = match *held {
        Held::Alone => return Ok(true),
        Held::Shared => 1,
        Held::Not => 0,
    };
    if !record_of(record).try_lock(tag, shares) {
        return Ok(false);
    }
    *held = Held::Alone;
    Ok(true)
}
