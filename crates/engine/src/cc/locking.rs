//! Two-phase locking with one value per record: serializable, because a transaction keeps its locks until it ends.
//! The schemes differ in what a transaction does when it meets another transaction's lock. Each implements
//! [`OnConflict`]: `no_wait.rs`, `wait_die.rs` and `dl_detect.rs`.
//!
//! The steps of a transaction:
//! 1. It shares the lock of each record that it reads, and locks alone each record that it writes. It keeps its
//!    writes apart until it commits.
//! 2. At its commit it looks again at the ranges that it has scanned, because it has not locked them.
//! 3. It latches what it writes, for transactions that read without locks, and draws the time of its commit.
//! 4. It installs its writes and releases its locks.
//!
//! After Bernstein and Goodman, ACM Computing Surveys 1981, as Yu, Bezerra, Pavlo, Devadas, Stonebraker study it:
//! Staring into the abyss, VLDB 2014. Different here: writes are kept apart until the commit, and ranges are looked
//! at again instead of being locked.
//!
//! A waiting transaction is suspended, and looks at the lock again whenever its worker comes by. Only
//! `get_for_update` has a queue that wakes the transaction. Every wait for a lock ends: after [`STEPS_MAX`] looks the
//! transaction aborts, and it sleeps before it is run again.

use super::single::{
    Access, CommitStage, Content, Held, Policy, Single, Txn, Wanted, holder_of_lock, read_committed,
    record_of,
};
use super::{Abort, Declared, Env, Holder, Intent, Refused, Waiting};
use crate::memory::OutOfMemory;
use crate::profile::Activity;
use crate::record::{Record, Timestamp};
use crate::suspend::Suspend;
use std::marker::PhantomData;

/// Two-phase locking. `W` says what a transaction does if it cannot get a lock.
#[derive(Clone, Copy, Debug)]
pub struct Locking<W>(PhantomData<fn() -> W>);

/// Decides what a transaction does when it meets another transaction's lock.
pub trait OnConflict: Sized + Send + Sync + 'static {
    /// Called when the transaction has begun.
    #[inline(always)]
    fn begun(env: Scope<'_, Self>, txn: &mut Txn, declared: Declared) {
        let _ = (env, txn, declared);
    }

    /// Returns true if the transaction may wait for a lock. Asked at each look.
    fn may_wait(env: Scope<'_, Self>, txn: &mut Txn, meeting: &Meeting) -> Result<bool, OutOfMemory>;

    /// Called when the transaction has got a lock for which it has waited, or has got a lock while it waits for
    /// another. Returns false if the transaction has to abort nevertheless.
    fn has_got(env: Scope<'_, Self>, txn: &mut Txn, record: *const Record) -> Result<bool, OutOfMemory> {
        let _ = (env, txn, record);
        Ok(true)
    }

    /// Called when the transaction ends.
    #[inline(always)]
    fn ends(env: Scope<'_, Self>, txn: &mut Txn) {
        let _ = (env, txn);
    }

    /// True if a transaction that wants to share a lock waits behind transactions that sleep until the lock is no
    /// longer shared.
    const LINES_UP: bool = false;
}

/// What a transaction has found at a locked record.
#[derive(Clone, Copy, Debug)]
pub struct Meeting {
    pub(super) wanted: Wanted,
    /// The lock's word.
    pub(super) lock: u64,
    /// The transaction has a share of the lock.
    pub(super) has_share: bool,
    /// The transaction has not waited for this record before.
    pub(super) is_first: bool,
}

/// The number of looks at a lock before a transaction aborts. A holder that is at work has ended by then. For an idle
/// holder the transaction waits asleep when it is run again.
pub(super) const STEPS_MAX: u32 = if cfg!(braid_shuttle) { 1 << 10 } else { 1 << 14 };

/// What a scheme works with in a call.
pub(super) type Scope<'e, W> = Env<'e, Single<Locking<W>>>;

impl<W: OnConflict> Policy for Locking<W> {
    const HELD_WHEN_NEW: Held = Held::Alone;

    #[inline(always)]
    fn begun(env: Scope<'_, W>, txn: &mut Txn, declared: Declared) {
        W::begun(env, txn, declared);
    }

    #[inline(always)]
    fn ends(env: Scope<'_, W>, txn: &mut Txn) {
        W::ends(env, txn);
    }

    fn may_queue(env: Scope<'_, W>, txn: &mut Txn, record: *const Record) -> Result<Waiting, OutOfMemory> {
        // A transaction without locks keeps no other transaction waiting, so it may sleep. A transaction with locks
        // must not sleep until a lock is no longer shared: an older transaction, or one that waits for the sleeper's
        // locks, may come to share it. If the row is free, the transaction waits for those in the queue. If
        // transactions come to share the row, all in the queue ask again.
        let lock = record_of(record).lock();
        txn.sleeps = lock == 0 || txn.accesses.entries.iter().all(|entry| entry.held == Held::Not);
        if txn.sleeps {
            return Ok(Waiting::Asleep);
        }
        let meeting = Meeting::new(txn, record, true, lock, true);
        if !W::may_wait(env, txn, &meeting)? {
            return Ok(Waiting::Not);
        }
        txn.sleeps = holder_of_lock(lock).is_some();
        Ok(if txn.sleeps { Waiting::Asleep } else { Waiting::Awake })
    }

    fn lock_of_new(env: Scope<'_, W>, txn: &mut Txn) -> u64 {
        txn.member.announce(&env.shared.registry).word()
    }

    #[inline(always)]
    unsafe fn access<S: Suspend>(
        access: &mut Access,
        record: *const Record,
        intent: Intent,
        env: Scope<'_, W>,
        txn: &mut Txn,
        s: &mut S,
    ) -> bool {
        let locked = match intent {
            Intent::Untracked => {
                // SAFETY: the caller has made the promise that `access` asks for, and `read_committed` asks for the
                // same.
                return unsafe { read_committed::<Self, S>(access, record, txn, s, |_, _| Ok(())) };
            }
            Intent::Lock => {
                *access = Access::Unread;
                return true;
            }
            _ if matches!(access, Access::Fetching(..)) => Ok(Lock::Got), // locked before
            Intent::Read => share(env, txn, record),
            Intent::ReadToWrite | Intent::Covered | Intent::Write => lock_alone(env, txn, record),
        };
        let is_simple = matches!(access, Access::Fetching(..) | Access::New) && !txn.is_in_graph;
        if !(is_simple && matches!(locked, Ok(Lock::Got))) {
            if let Err(refused) = go_on_waiting(access, locked, record, intent, env, txn) {
                *access = Access::Refused(refused);
                return true;
            }
            if let Access::Waiting(_) = access {
                s.was(Activity::Waiting);
                return false;
            }
        }
        *access = match (*access, record_of(record).content()) {
            _ if intent == Intent::Write => Access::Absent, // the value is not asked for
            (Access::New, Content::At(version)) if txn.own(record).is_none() => {
                *access = Access::Fetching(0, version);
                if s.miss::<1>(version.cast::<u8>()) {
                    return false;
                }
                stable::<Self>(txn, record)
            }
            _ => stable::<Self>(txn, record),
        };
        true
    }

    unsafe fn will_write(
        env: Scope<'_, W>,
        txn: &mut Txn,
        record: *const Record,
        _: bool,
    ) -> Result<Option<bool>, Refused> {
        if let Lock::Held(_) = lock_alone(env, txn, record)? {
            // The access before this write may have been refused already. If it had waited for too long, this is the
            // reason here, too.
            return Err(Refused::Abort(txn.gave_up.unwrap_or(Abort::WriteConflict)));
        }
        Ok(match record_of(record).content() {
            Content::Gone => None,
            content => Some(content != Content::Nothing),
        })
    }

    unsafe fn lock(env: Scope<'_, W>, txn: &mut Txn, record: *const Record) -> Result<Option<bool>, Refused> {
        if let Lock::Held(lock) = lock_alone(env, txn, record)? {
            let holder = match holder_of_lock(lock) {
                Some(tag) => env.shared.holder(tag),
                None => Some(Holder::SHARERS),
            };
            return Err(holder.map_or(Refused::Abort(Abort::WriteConflict), Refused::Held));
        }
        if txn.is_in_graph && !W::has_got(env, txn, record)? {
            return Err(Refused::Abort(Abort::WriteConflict));
        }
        Ok(match record_of(record).content() {
            Content::Gone => None,
            content => Some(txn.own(record).map_or(content != Content::Nothing, |own| own.is_some())),
        })
    }

    fn decide<S: Suspend>(
        _: &mut CommitStage,
        env: Scope<'_, W>,
        txn: &mut Txn,
        _: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        if txn.accesses.writes.is_empty() {
            return Some(Ok(env.shared.registry.now()));
        }
        // For transactions that read without locks.
        if !txn.try_latch() {
            return None;
        }
        Some(Ok(env.shared.registry.draw(txn.member.place())))
    }
}

/// Returns what the transaction finds in the record, of which it holds a lock.
fn stable<P: Policy>(txn: &Txn, record: *const Record) -> Access {
    let value = P::read_own(txn, record).unwrap_or_else(|| record_of(record).stable_bytes());
    value.map_or(Access::Absent, Access::Value)
}

/// The result of trying to lock a record.
#[derive(Clone, Copy, Debug)]
enum Lock {
    Got,
    /// Other transactions have the lock: the lock's word.
    Held(u64),
}

impl From<Result<(), u64>> for Lock {
    #[inline(always)]
    fn from(tried: Result<(), u64>) -> Lock {
        tried.map_or_else(Lock::Held, |()| Lock::Got)
    }
}

impl Meeting {
    fn new(txn: &Txn, record: *const Record, alone: bool, lock: u64, is_first: bool) -> Meeting {
        let entry = txn.accesses.find(record);
        let has_share = entry.is_some_and(|entry| txn.accesses.entries[entry].held == Held::Shared);
        Meeting { wanted: Wanted { record, alone }, lock, has_share, is_first }
    }
}

/// Continues an access that has met a lock, now or at an earlier step. The access goes on waiting
/// (`Access::Waiting`), has the lock (`Access::New`), or is refused.
#[cold]
fn go_on_waiting<W: OnConflict>(
    access: &mut Access,
    locked: Result<Lock, Refused>,
    record: *const Record,
    intent: Intent,
    env: Scope<'_, W>,
    txn: &mut Txn,
) -> Result<(), Refused> {
    let steps = if let Access::Waiting(steps) = *access { Some(steps) } else { None };
    let lock = match locked? {
        Lock::Got if matches!(access, Access::Fetching(..)) => return Ok(()), // got at an earlier step
        Lock::Got => {
            *access = Access::New;
            let goes_on = W::has_got(env, txn, record)?;
            return if goes_on { Ok(()) } else { Err(give_up(txn, Abort::WriteConflict)) };
        }
        Lock::Held(lock) => lock,
    };
    if let Some(why) = txn.gave_up {
        return Err(Refused::Abort(why));
    }
    if steps == Some(STEPS_MAX) {
        return Err(give_up(txn, Abort::WaitTimeout));
    }
    let meeting = Meeting::new(txn, record, intent != Intent::Read, lock, steps.is_none());
    if !W::may_wait(env, txn, &meeting)? {
        return Err(give_up(txn, Abort::WriteConflict));
    }
    *access = Access::Waiting(steps.map_or(0, |steps| steps + 1));
    Ok(())
}

/// Refuses an access. The transaction can no longer commit. Its other accesses therefore stop waiting, too: while
/// they wait they would keep its locks, and the graph of waits may no longer know them.
fn give_up(txn: &mut Txn, why: Abort) -> Refused {
    txn.gave_up = Some(why);
    Refused::Abort(why)
}

/// Shares the lock of a record, unless another transaction has it alone.
#[inline(always)]
fn share<W: OnConflict>(env: Scope<'_, W>, txn: &mut Txn, record: *const Record) -> Result<Lock, Refused> {
    let number = txn.accesses.enter(record)?;
    if txn.accesses.entries[number].held != Held::Not {
        return Ok(Lock::Got);
    }
    if txn.sleeps && env.shared.sleeps_beside(txn, record, false) {
        return Err(Refused::Abort(Abort::WriteConflict));
    }
    if W::LINES_UP && env.shared.leaves_to_sleepers(record) {
        return Ok(Lock::Held(record_of(record).lock()));
    }
    let tried = Lock::from(record_of(record).try_share(txn.age));
    if let Lock::Got = tried {
        txn.accesses.entries[number].held = Held::Shared;
    }
    Ok(tried)
}

/// Locks a record alone, unless other transactions have its lock.
#[inline(always)]
fn lock_alone<W: OnConflict>(
    env: Scope<'_, W>,
    txn: &mut Txn,
    record: *const Record,
) -> Result<Lock, Refused> {
    let number = txn.accesses.enter(record)?;
    let tag = txn.member.announce(&env.shared.registry);
    let held = txn.accesses.entries[number].held;
    if held == Held::Alone {
        return Ok(Lock::Got);
    }
    if txn.sleeps && env.shared.sleeps_beside(txn, record, true) {
        return Err(Refused::Abort(Abort::WriteConflict));
    }
    let tried = Lock::from(env.shared.lock_alone(record, tag, held == Held::Shared));
    if let Lock::Got = tried {
        txn.accesses.entries[number].held = Held::Alone;
    }
    Ok(tried)
}
