//! TIMESTAMP: basic timestamp ordering. A transaction gets its place in the order when it begins; an access that comes too late for
//! that place is refused.
//!
//! After Bernstein and Goodman: Concurrency control in distributed database systems, ACM Computing Surveys 1981. Different here:
//!
//! - What a transaction writes is kept apart until it commits, and the record is locked meanwhile: one write is pending at a time, and a
//!   transaction that comes later in the order waits for it, to read or to write. So waits lead from later transactions to
//!   earlier ones, and none closes a circle.
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

/// Basic timestamp ordering: serializable; a transaction that comes too late is run again, later in the order.
pub type TimestampOrdering = Single<ByTime>;

/// Each access has to fit the transaction's time.
#[derive(Clone, Copy, Debug)]
pub struct ByTime;

type Scope<'e> = Env<'e, TimestampOrdering>;

/// Whether an access can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Now,
    /// Once an earlier transaction has ended.
    Later,
    /// It comes too late.
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
            record_of(record).raise_read_until(txn.age); // it need not write after all
        }
        match intent {
            Intent::Write => *access = Access::Absent, // nobody asks for the value
            Intent::Untracked => {
                // SAFETY: by the caller's promise.
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
        // SAFETY: by the caller's promise.
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
        fence(Ordering::SeqCst); // of two, one of which has read where the other brings or takes a key, one sees the other
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

    /// (When a record has been brought is not known: its time is that of its newest value.)
    fn comes_later(shared: &Shared, txn: u64, record: *const Record) -> bool {
        let row = record_of(record);
        let is_pending_before = holder_of_lock(row.lock())
            .and_then(|holder| shared.registry.age_of(holder))
            .is_some_and(|holder| holder < txn);
        // (In this order: what was pending before is there now.)
        !is_pending_before && row.content() == Content::Nothing
    }

    fn is_late(env: Scope<'_>, txn: &Txn) -> bool {
        env.shared.range_times().is_late_to_read(&txn.ranges, txn.age)
    }
}

/// What was committed then can be read.
fn admit(txn: &mut Txn, at: u64) -> Result<(), Refused> {
    if at <= txn.age { Ok(()) } else { Err(Refused::Abort(Abort::Unserializable)) }
}

/// Whether a transaction that finds this lock word can go on.
fn turn_behind(shared: &Shared, txn: &Txn, lock: u64) -> Turn {
    match holder_of_lock(lock).filter(|&holder| holder != txn.member.tag) {
        None => Turn::Now,
        Some(holder) => match shared.registry.age_of(holder) {
            Some(age) if age > txn.age => Turn::Never,
            _ => Turn::Later,
        },
    }
}

/// Returns true if the access has made this look in vain because the transaction that has the record sleeps.
fn awaits_sleeper(env: Scope<'_>, record: *const Record, looks: u32) -> bool {
    let holder = holder_of_lock(record_of(record).lock());
    holder.is_some_and(|tag| env.shared.waits.is_asleep(tag.descriptor(), looks))
}

/// Notes that the record is read as of the transaction's time, unless an earlier one is about to write it.
#[inline(always)]
fn turn_to_read(env: Scope<'_>, txn: &mut Txn, record: *const Record) -> Result<Turn, Refused> {
    txn.accesses.enter(record)?;
    let row = record_of(record);
    row.raise_read_until(txn.age);
    fence(Ordering::SeqCst); // of this and a write that locks the record now one sees the other
    Ok(match turn_behind(env.shared, txn, row.lock()) {
        Turn::Later => Turn::Later,
        Turn::Now | Turn::Never => Turn::Now, // what is written later is not read
    })
}

/// Locks the record for the transaction's write, unless others have read or written it as of later.
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
