//! Adaptive: serializable. It is optimistic where transactions do not meet, and locks where they do. Transactions
//! that would conflict at a hot record line up there, across workers, instead of undoing each other.
//!
//! The steps of a transaction:
//! 1. It reads as under Silo, but first locks a hot record: alone if transactions that came by the same path went on
//!    to write the record, and otherwise shared if readers have often failed there. If the lock is taken, the
//!    transaction waits, suspended: see `line.rs`.
//! 2. At its commit it latches what it writes, and aborts if another transaction has locked such a record.
//! 3. It validates everything that it has read as under Silo, whatever it has locked.
//!
//! Counters ([`Heat`](super::single::Heat)) say which records are hot. A transaction raises them if its validation
//! fails, or if it finds another transaction's lock or latch.
//!
//! After Wang, Kimura: Mostly-optimistic concurrency control for highly contended dynamic workloads on a thousand
//! cores, VLDB 2016. Different here: whether a read locks alone or shared is learned; a transaction that meets a lock
//! waits whatever the order of locks is, unless the wait might close a cycle; transactions of one worker take turns
//! among themselves for a bounded time before those of another worker.
//!
//! No change of scheme needs a quiescent point, because locks are an addition. Each commit does steps 2 and 3,
//! whether or not its transaction has looked at the heat of records. Transactions that lock everything, some records
//! or none are therefore serializable beside each other.

mod line;
mod rules;
#[cfg(all(test, braid_shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests;

use super::optimistic::{Optimistic, latch_written};
use super::silo::{ByNewest, draw_and_compare};
use super::single::{
    Access, CommitStage, Content, Held, Policy, Single, Txn, Wants, holder_of_lock, record_of, shares_of,
};
use super::{Abort, Declared, Env, Holder, Intent, Refused, Target, Waiting};
use crate::memory::OutOfMemory;
use crate::profile::Activity;
use crate::record::{Record, Timestamp};
use crate::suspend::{PrefetchOnly, Suspend};
use line::{Line, give_back_shares, line_up, lock_alone, may_sleep, publish};
use rules::{ByChance, ByMeetings, Everywhere, Rules};
use std::marker::PhantomData;

/// Optimistic concurrency control with locks on hot records: serializable. A transaction waits for a record at which
/// transactions often conflict. It is run again if other transactions have meanwhile overwritten what it has read.
pub type Adaptive = Single<Heeding<ByMeetings>>;

/// The same scheme for tests: all records are hot.
pub type AllHot = Single<Heeding<Everywhere>>;
/// The same scheme for tests: some records are hot at times.
pub type HotByChance = Single<Heeding<ByChance>>;

/// Silo's reads and validation, and locks on the records that are hot according to `R`.
#[derive(Clone, Copy, Debug)]
pub struct Heeding<R>(PhantomData<fn() -> R>);

/// The scheme without locks.
type Base = Optimistic<ByNewest>;

type Scope<'e, R> = Env<'e, Single<Heeding<R>>>;

#[inline(always)]
fn base<R: Rules>(env: Scope<'_, R>) -> Env<'_, Single<Base>> {
    Env { shared: env.shared, worker: env.worker, local: env.local }
}

impl<R: Rules> Policy for Heeding<R> {
    const HAS_HEAT: bool = true;
    const HELD_WHEN_NEW: Held = Held::Not;

    fn lock_of_new(_: Scope<'_, R>, _: &mut Txn) -> u64 {
        0
    }

    #[inline(always)]
    fn begun(env: Scope<'_, R>, txn: &mut Txn, declared: Declared) {
        let (heat, begun) = (env.shared.heat(), env.worker.begun.get().wrapping_add(1));
        env.worker.begun.set(begun);
        heat.pass(begun);
        if !declared.is_retry {
            txn.age = txn.member.begin.0;
        }
        txn.heeds = R::heeds(heat);
    }

    #[inline(always)]
    fn ends(env: Scope<'_, R>, txn: &mut Txn) {
        if txn.heeds && txn.accesses.entries.iter().any(|entry| entry.held != Held::Not) {
            env.worker.released.set(env.worker.released.get().wrapping_add(1));
        }
    }

    fn may_queue(env: Scope<'_, R>, txn: &mut Txn, record: *const Record) -> Result<Waiting, OutOfMemory> {
        Ok(Waiting::asleep_if(may_sleep(record, env, txn)))
    }

    #[inline(always)]
    unsafe fn access<S: Suspend>(
        access: &mut Access,
        record: *const Record,
        intent: Intent,
        env: Scope<'_, R>,
        txn: &mut Txn,
        s: &mut S,
    ) -> bool {
        let is_apart = matches!(intent, Intent::Untracked | Intent::Lock);
        if !txn.heeds || is_apart || matches!(access, Access::Fetching(..)) {
            // SAFETY: the caller has made the promise that `access` asks for, and `Base` asks for the same.
            return unsafe { Base::access(access, record, intent, base(env), txn, s) };
        }
        // SAFETY: as above, and `access_in_line` asks for the same.
        unsafe { access_in_line(access, record, intent, env, txn, s) }
    }

    unsafe fn will_write(
        env: Scope<'_, R>,
        txn: &mut Txn,
        record: *const Record,
        depends: bool,
    ) -> Result<Option<bool>, Refused> {
        if txn.heeds {
            claim(env, txn, record)?;
        }
        // SAFETY: the caller has made the promise that `will_write` asks for, and `Base` asks for the same.
        unsafe { Base::will_write(base(env), txn, record, depends) }
    }

    unsafe fn lock(env: Scope<'_, R>, txn: &mut Txn, record: *const Record) -> Result<Option<bool>, Refused> {
        give_back_shares(env, txn);
        publish(env, txn, false);
        // SAFETY: the caller has made the promise that `lock` asks for, and `Base` asks for the same.
        let locked = unsafe { Base::lock(base(env), txn, record) }?;
        let lock = record_of(record).lock();
        if locked.is_none() && holder_of_lock(lock).is_none() && shares_of(lock) != 0 {
            return Err(Refused::Held(Holder::SHARERS));
        }
        Ok(locked)
    }

    fn decide<S: Suspend>(
        stage: &mut CommitStage,
        env: Scope<'_, R>,
        txn: &mut Txn,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        if !latch_written(stage, txn, s) {
            return None;
        }
        if let Some((record, target)) = refused(txn) {
            txn.note_obstacle(record, target);
            env.shared.heat().raise(env.shared.group(record), Wants::Write);
            return Some(Err(Abort::WriteConflict));
        }
        match draw_and_compare(env, txn) {
            Ok(at) => {
                if txn.heeds {
                    learn(env, txn);
                }
                Some(Ok(at))
            }
            Err(stale) => {
                let wants = if txn.accesses.last_write(stale).is_some() { Wants::Write } else { Wants::Read };
                let record = txn.accesses.entries[stale].record;
                env.shared.heat().raise(env.shared.group(record), wants);
                Some(Err(Abort::Unserializable))
            }
        }
    }
}

/// Steps an access of a transaction that heeds how hot records are.
///
/// # Safety
/// As [`Policy::access`].
#[inline(never)]
unsafe fn access_in_line<S: Suspend, R: Rules>(
    access: &mut Access,
    record: *const Record,
    intent: Intent,
    env: Scope<'_, R>,
    txn: &mut Txn,
    s: &mut S,
) -> bool {
    match line_up::<R, _>(access, record, intent, env, txn, S::SUSPENDS) {
        Ok(Line::Waits) => {
            s.was(Activity::Waiting);
            false
        }
        Ok(Line::Passes) => {
            *access = Access::New;
            // SAFETY: the caller has made the promise that `access` asks for, and `Base` asks for the same.
            unsafe { Base::access(access, record, intent, base(env), txn, s) }
        }
        // Other transactions wait for the record, so the access does not suspend at a miss. Misses are rare at a hot
        // record.
        Ok(Line::Has) => {
            *access = Access::New;
            // SAFETY: as above.
            unsafe { Base::access(access, record, intent, base(env), txn, &mut PrefetchOnly) }
        }
        Err(refused) => {
            *access = Access::Refused(refused);
            true
        }
    }
}

/// Locks a hot record that the transaction is going to write, if the lock is free. If it is not, and the transaction
/// has read what the holder is going to overwrite, the transaction aborts.
fn claim<R: Rules>(env: Scope<'_, R>, txn: &mut Txn, record: *const Record) -> Result<(), Refused> {
    let (heat, number) = (env.shared.heat(), env.shared.number_of(record));
    let group = heat.group(number);
    let is_hot = |wants| R::is_hot(heat, group, wants, txn, number);
    if !(is_hot(Wants::Write) || is_hot(Wants::Read)) {
        return Ok(());
    }
    let at = txn.accesses.enter(record)?;
    if lock_alone(record, at, env, txn).is_ok() {
        return Ok(());
    }
    publish(env, txn, false); // the transaction does not wait
    let entry = txn.accesses.entries[at];
    if entry.seen.is_none() {
        return Ok(()); // the record may be free when the transaction commits
    }
    heat.raise(group, Wants::Write);
    if entry.path != 0 {
        heat.learn(entry.path, true);
    }
    Err(Refused::Abort(Abort::WriteConflict))
}

/// Returns a record that the transaction must not write, because it is gone or another transaction has locked it.
#[inline(always)]
fn refused(txn: &Txn) -> Option<(*const Record, Target)> {
    let tag = txn.member.tag;
    let is_refused = |record, own_share| {
        let row = record_of(record);
        let lock = row.lock();
        row.content() == Content::Gone
            || match holder_of_lock(lock) {
                Some(holder) => holder != tag,
                None => shares_of(lock) > own_share,
            }
    };
    let mut writes = txn.accesses.last_writes();
    let found = writes
        .find(|(record, write)| is_refused(*record, u64::from(txn.accesses.held(write) == Held::Shared)));
    found.map(|(record, write)| (record, write.target))
}

/// Notes for each hot record that the committing transaction has read whether it went on to write the record.
fn learn<R: Rules>(env: Scope<'_, R>, txn: &Txn) {
    for (number, entry) in txn.accesses.entries.iter().enumerate() {
        if entry.path != 0 {
            env.shared.heat().learn(entry.path, txn.accesses.last_write(number).is_some());
        }
    }
}
