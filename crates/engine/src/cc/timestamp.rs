//! TIMESTAMP: basic timestamp ordering, serializable. A transaction gets its place in the order when it begins. An
//! access that comes too late for that place is refused.
//!
//! The steps of a transaction:
//! 1. It draws its time, which is also the time of its commit.
//! 2. A read raises the record's read time to the transaction's time. It waits if a transaction with an earlier time
//!    has locked the record, and is refused if the value was committed at a later time.
//! 3. A write locks the record. It waits for a transaction with an earlier time that has the lock. It is refused if a
//!    transaction with a later time has the lock, or has read or written the record.
//! 4. At its commit it looks again at the ranges that it has read. It latches what it writes, and leaves its time at
//!    these ranges and at the keys that it deletes. It aborts if it comes too late to bring a key, or if a key of its
//!    ranges has been removed as of a later time.
//!
//! After Bernstein and Goodman: Concurrency control in distributed database systems, ACM Computing Surveys 1981.
//! Different here:
//!
//! - Writes are kept apart until the commit, and the record is locked meanwhile. So one write is pending at a time,
//!   and a transaction with a later time waits for it, to read or to write. Waits lead from later transactions to
//!   earlier ones, so no cycle closes.
//! - Ranges and absent keys: see `single/range_times.rs`.
//! - `get_for_update` is a read and a pending write.

use super::locking::STEPS_MAX;
use super::single::{
    Access, CommitStage, Content, Held, Policy, Shared, Single, Txn, holder_of_lock, read_committed,
    record_of,
};
use super::{Abort, Declared, Env, Intent, Refused, Waiting};
use crate::memory::OutOfMemory;
use crate::profile::Activity;
use crate::record::{Record, Timestamp};
use crate::suspend::Suspend;
use crate::sync::atomic::{Ordering, fence};

/// Basic timestamp ordering: serializable. A transaction that comes too late is run again, later in the order.
pub type TimestampOrdering = Single<ByTime>;

/// Admits an access only if it fits the transaction's time.
#[derive(Clone, Copy, Debug)]
pub struct ByTime;

type Scope<'e> = Env<'e, TimestampOrdering>;

/// Says when an access can continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Now,
    /// When an earlier transaction has ended.
    Later,
    /// The access comes too late.
    Never,
}

impl Policy for ByTime {
    const INLINES: bool = false;
    const HELD_WHEN_NEW: Held = Held::Alone;
    const HAS_RANGE_TIMES: bool = true;

    fn begun(env: Scope<'_>, txn: &mut Txn, _: Declared) {
        txn.age = env.shared.registry.draw_time().0;
        env.shared.registry.set_age(txn.member.place(), txn.age);
    }

    fn may_queue(env: Scope<'_>, txn: &mut Txn, record: *const Record) -> Result<Waiting, OutOfMemory> {
        Ok(Waiting::asleep_if(turn_behind(env.shared, txn, record_of(record).lock()) != Turn::Never))
    }

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
        let turn = match intent {
            Intent::Untracked => Ok(Turn::Now),
            Intent::Lock => {
                *access = Access::Unread;
                return true;
            }
            _ if matches!(access, Access::Fetching(..)) => Ok(Turn::Now),
            Intent::Read => turn_to_read(env, txn, record),
            Intent::ReadToWrite | Intent::Covered | Intent::Write => turn_to_write(env, txn, record),
        };
        let steps = if let Access::Waiting(steps) = *access { steps } else { 0 };
        match turn {
            Ok(Turn::Now) => {}
            Ok(Turn::Later) if steps < STEPS_MAX && !awaits_sleeper(env, record, steps + 1) => {
                *access = Access::Waiting(steps + 1);
                s.was(Activity::Waiting);
                return false;
            }
            Ok(Turn::Later) => *access = Access::Refused(Refused::Abort(Abort::WaitTimeout)),
            Ok(Turn::Never) => *access = Access::Refused(Refused::Abort(Abort::WriteConflict)),
            Err(refused) => *access = Access::Refused(refused),
        }
        if let Access::Refused(_) = access {
            return true;
        }
        if let Access::Waiting(_) = access {
            *access = Access::New;
        }
        if intent == Intent::ReadToWrite {
            record_of(record).raise_read_until(txn.age); // the transaction may not write after all
        }
        match intent {
            Intent::Write => *access = Access::Absent, // the value is not asked for
            Intent::Untracked => {
                // SAFETY: the caller has made the promise that `access` asks for, and `read_committed` asks for the
                // same.
                return unsafe { read_committed::<Self, S>(access, record, txn, s, |_, _| Ok(())) };
            }
            // SAFETY: as above.
            _ => return unsafe { read_committed::<Self, S>(access, record, txn, s, admit) },
        }
        true
    }

    unsafe fn will_write(
        env: Scope<'_>,
        txn: &mut Txn,
        record: *const Record,
        depends: bool,
    ) -> Result<Option<bool>, Refused> {
        if turn_to_write(env, txn, record)? != Turn::Now {
            return Err(Refused::Abort(Abort::WriteConflict));
        }
        let row = record_of(record);
        if depends {
            row.raise_read_until(txn.age);
        }
        Ok(match row.content() {
            Content::Gone => None,
            content => Some(content != Content::Nothing),
        })
    }

    unsafe fn lock(env: Scope<'_>, txn: &mut Txn, record: *const Record) -> Result<Option<bool>, Refused> {
        let lock = record_of(record).lock();
        if turn_to_write(env, txn, record)? != Turn::Now {
            let holder = holder_of_lock(lock).and_then(|tag| env.shared.holder(tag));
            return Err(holder.map_or(Refused::Abort(Abort::WriteConflict), Refused::Held));
        }
        // SAFETY: the caller has made the promise that `lock` asks for, and `will_write` asks for the same.
        let is_there = unsafe { Self::will_write(env, txn, record, true) }?;
        Ok(is_there.map(|is_there| txn.own(record).map_or(is_there, |own| own.is_some())))
    }

    fn decide<S: Suspend>(
        _: &mut CommitStage,
        env: Scope<'_>,
        txn: &mut Txn,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        if !txn.try_latch() {
            s.was(Activity::Waiting);
            return None;
        }
        let times = env.shared.range_times();
        for (_, write) in txn.accesses.last_writes().filter(|(_, write)| write.new.is_none()) {
            times.delete(&write.target, txn.age);
        }
        times.read(&txn.ranges, txn.age);
        fence(Ordering::SeqCst); // if one transaction reads where another brings or removes a key, one sees the other
        let brings = |record| record_of(record).content() == Content::Nothing;
        let mut brought = txn.accesses.last_writes().filter(|(record, _)| brings(*record));
        if brought.any(|(_, write)| times.is_late_to_bring(&write.target, txn.age)) {
            return Some(Err(Abort::Unserializable));
        }
        let at = Timestamp(txn.age);
        Some(Ok(match txn.accesses.writes.is_empty() {
            true => at,
            false => env.shared.registry.commit_at(txn.member.place(), at, false),
        }))
    }

    /// The time at which a record was brought is not known: the record has only the time of its newest value.
    fn comes_later(shared: &Shared, txn: u64, record: *const Record) -> bool {
        let row = record_of(record);
        let is_pending_before = holder_of_lock(row.lock())
            .and_then(|holder| shared.registry.age_of(holder))
            .is_some_and(|holder| holder < txn);
        // Looked at in this order: what was pending before is there now.
        !is_pending_before && row.content() == Content::Nothing
    }

    fn is_late(env: Scope<'_>, txn: &Txn) -> bool {
        env.shared.range_times().is_late_to_read(&txn.ranges, txn.age)
    }
}

/// Refuses to read what was committed after the transaction's time.
fn admit(txn: &mut Txn, at: u64) -> Result<(), Refused> {
    if at <= txn.age { Ok(()) } else { Err(Refused::Abort(Abort::Unserializable)) }
}

/// Says when a transaction that finds this lock word can continue.
fn turn_behind(shared: &Shared, txn: &Txn, lock: u64) -> Turn {
    match holder_of_lock(lock).filter(|&holder| holder != txn.member.tag) {
        None => Turn::Now,
        Some(holder) => match shared.registry.age_of(holder) {
            Some(age) if age > txn.age => Turn::Never,
            _ => Turn::Later,
        },
    }
}

/// Returns true if this look of the access was in vain because the transaction that has the record sleeps.
fn awaits_sleeper(env: Scope<'_>, record: *const Record, looks: u32) -> bool {
    let holder = holder_of_lock(record_of(record).lock());
    holder.is_some_and(|tag| env.shared.waits.is_asleep(tag.descriptor(), looks))
}

/// Notes that the record is read as of the transaction's time, unless an earlier transaction is about to write it.
#[inline(always)]
fn turn_to_read(env: Scope<'_>, txn: &mut Txn, record: *const Record) -> Result<Turn, Refused> {
    txn.accesses.enter(record)?;
    let row = record_of(record);
    row.raise_read_until(txn.age);
    fence(Ordering::SeqCst); // either this read or a write that locks the record now sees the other
    Ok(match turn_behind(env.shared, txn, row.lock()) {
        Turn::Later => Turn::Later,
        Turn::Now | Turn::Never => Turn::Now, // what is written later is not read
    })
}

/// Locks the record for the transaction's write, unless other transactions have read or written it as of a later time.
#[inline(always)]
fn turn_to_write(env: Scope<'_>, txn: &mut Txn, record: *const Record) -> Result<Turn, Refused> {
    let number = txn.accesses.enter(record)?;
    let tag = txn.member.announce(&env.shared.registry);
    let row = record_of(record);
    if txn.accesses.entries[number].held == Held::Alone {
        return Ok(Turn::Now);
    }
    if let Err(lock) = row.try_lock(tag, false) {
        return Ok(match turn_behind(env.shared, txn, lock) {
            Turn::Never => Turn::Never,
            Turn::Now | Turn::Later => Turn::Later,
        });
    }
    fence(Ordering::SeqCst); // as in `turn_to_read`
    if row.at().0 > txn.age || row.read_until() > txn.age {
        row.unlock();
        return Ok(Turn::Never);
    }
    txn.accesses.entries[number].held = Held::Alone;
    Ok(Turn::Now)
}
