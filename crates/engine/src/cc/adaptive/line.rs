//! The line at a hot record: a transaction locks the record before it reads it, and waits for its turn.
//!
//! # No cycle of waits
//! - A transaction gives its shares back before it waits. Transactions that share a lock therefore do not wait for
//!   locks.
//! - No transaction waits for a waiting transaction that has locked nothing alone.
//! - A transaction that has locked something alone says that it waits before it looks at another transaction's lock.
//!   It waits on if the holder does not wait itself, or is younger. In a cycle all transactions wait and have locked
//!   something alone. Sooner or later each finds that its holder waits, too. One of them is younger than its holder,
//!   and aborts.
//! - A transaction leaves its turn to others for a bounded number of looks.

use super::rules::{Other, Rules, Standing};
use crate::cc::single::{
    Access, Group, Heat, Held, Policy, Single, Txn, Wants, holder_of_lock, record_of, shares_of,
};
use crate::cc::{Abort, Env, Intent, Refused};
use crate::memory::OutOfMemory;
use crate::record::Record;

/// Steps before a transaction aborts. A holder that is at work has ended by then. For an idle holder the transaction
/// waits asleep when it is run again.
const STEPS_MAX: u32 = if cfg!(braid_shuttle) { 1 << 10 } else { 1 << 14 };
/// Steps before a transaction that reads continues without a lock. An idle holder therefore stops no reader.
const STEPS_OF_READS_MAX: u32 = STEPS_MAX / 4;
/// Steps in which a transaction that wants to share a lock lets transactions go first that want it alone.
const POLITE_STEPS_MAX: u32 = if cfg!(braid_shuttle) { 4 } else { 256 };
/// The largest number of steps between two looks at a lock. If the thread does nothing else, the limit is
/// `STEPS_BETWEEN_IN_PLACE` after the first `STEPS_AT_ONCE` steps.
const STEPS_BETWEEN: u32 = 64;
const STEPS_BETWEEN_IN_PLACE: u32 = 4;
const STEPS_AT_ONCE: u32 = 8;

/// The result of a transaction's step in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The transaction has the record's lock.
    Has,
    /// The transaction continues without the lock.
    Passes,
    Waits,
}

/// Takes a record's lock if the record is hot, or waits (`Access::InLine`). `leaves`: the worker steps the access as
/// often as those of its other transactions; otherwise the thread does nothing else.
#[inline(never)]
pub(super) fn line_up<R: Rules, P: Policy>(
    access: &mut Access,
    record: *const Record,
    intent: Intent,
    env: Env<'_, Single<P>>,
    txn: &mut Txn,
    leaves: bool,
) -> Result<Line, Refused> {
    let steps = match *access {
        Access::InLine { steps, released } => {
            let steps = steps + 1;
            if R::LOOKS_RARELY && !is_due(steps, leaves) && released == env.worker.released.get() {
                *access = Access::InLine { steps, released };
                return Ok(Line::Waits);
            }
            steps
        }
        _ => 0,
    };
    let lock = match wanted::<R, P>(record, intent, env, txn)? {
        Held::Alone if txn.sleeps && env.shared.sleeps_beside(txn, record, true) => {
            return Err(Refused::Abort(Abort::WriteConflict));
        }
        // A read needs no lock, and a waiting transaction shares none.
        Held::Shared if txn.sleeps && still_sleeps(record, env, txn) => {
            stop_waiting(steps, env, txn);
            return Ok(Line::Passes);
        }
        Held::Not => {
            stop_waiting(steps, env, txn);
            return Ok(Line::Passes);
        }
        Held::Shared => try_share(record, env, txn, steps)?,
        Held::Alone => try_alone(record, env, txn)?,
    };
    let Err((held, lock)) = lock else {
        stop_waiting(steps, env, txn);
        return Ok(Line::Has);
    };
    // The longer the wait, the hotter the record.
    if lock != 0 && (steps == 0 || steps.is_power_of_two()) {
        note_meeting(record, held, lock, env);
    }
    if held == Held::Alone {
        env.shared.group(record).wait(env.worker.number);
        txn.keep_out(record, lock);
    }
    if !R::KEEPS_SHARES {
        give_back_shares(env, txn);
    }
    match intent {
        // A read does not need the lock.
        Intent::Read if steps >= STEPS_OF_READS_MAX => {
            stop_waiting(steps, env, txn);
            return Ok(Line::Passes);
        }
        _ if steps >= STEPS_MAX => return Err(Refused::Abort(Abort::WaitTimeout)),
        _ => {}
    }
    if !R::may_wait(standing(record, lock, env, txn)) {
        return Err(Refused::Abort(Abort::WriteConflict));
    }
    *access = Access::InLine { steps, released: env.worker.released.get() };
    Ok(Line::Waits)
}

/// Says that the transaction no longer waits, after `steps` steps in line.
fn stop_waiting<P: Policy>(steps: u32, env: Env<'_, Single<P>>, txn: &Txn) {
    if steps != 0 {
        publish(env, txn, false);
    }
}

/// Returns true if a transaction in line looks at the lock at this step. Each look takes the lock's cache line from its
/// holder.
fn is_due(steps: u32, leaves: bool) -> bool {
    match leaves {
        true => steps.is_power_of_two() || steps.is_multiple_of(STEPS_BETWEEN),
        // The time between these steps grows by itself.
        false => steps < STEPS_AT_ONCE || steps.is_multiple_of(STEPS_BETWEEN_IN_PLACE),
    }
}

/// Returns how the transaction locks the record.
#[inline(always)]
fn wanted<R: Rules, P: Policy>(
    record: *const Record,
    intent: Intent,
    env: Env<'_, Single<P>>,
    txn: &mut Txn,
) -> Result<Held, OutOfMemory> {
    let (heat, number) = (env.shared.heat(), env.shared.number_of(record));
    let group = heat.group(number);
    let shares = R::is_hot(heat, group, Wants::Read, txn, number);
    if !(shares || R::is_hot(heat, group, Wants::Write, txn, number)) {
        return Ok(Held::Not);
    }
    let at = txn.accesses.enter(record)?;
    let written = txn.accesses.writes.len();
    let entry = &mut txn.accesses.entries[at];
    if intent != Intent::Read {
        return Ok(Held::Alone);
    }
    if entry.path == 0 {
        entry.path = Heat::path(number, at, written);
    }
    Ok(match (heat.guesses_write(entry.path), shares) {
        (true, _) => Held::Alone,
        (false, true) => Held::Shared,
        (false, false) => Held::Not,
    })
}

/// Fails with the lock that could not be taken, and the lock's word.
type Tried = Result<(), (Held, u64)>;

/// Tries to share the lock of the record.
fn try_share<P: Policy>(
    record: *const Record,
    env: Env<'_, Single<P>>,
    txn: &mut Txn,
    steps: u32,
) -> Result<Tried, OutOfMemory> {
    let at = txn.accesses.enter(record)?;
    let row = record_of(record);
    if txn.accesses.entries[at].held != Held::Not {
        return Ok(Ok(()));
    }
    let group = env.shared.group(record);
    let is_polite = row.lock() == 0 && group.is_awaited();
    let overtakes = (is_polite || row.is_awaited()) && keeps_others_waiting(env, txn);
    if is_polite && !overtakes {
        if steps < POLITE_STEPS_MAX {
            return Ok(Err((Held::Shared, 0)));
        }
        group.forget_waits();
    }
    Ok(match row.try_share_in_line(overtakes) {
        Ok(()) => {
            txn.accesses.entries[at].held = Held::Shared;
            Ok(())
        }
        Err(lock) => Err((Held::Shared, lock)),
    })
}

/// Tries to lock the record alone, if it is the transaction's turn.
fn try_alone<P: Policy>(
    record: *const Record,
    env: Env<'_, Single<P>>,
    txn: &mut Txn,
) -> Result<Tried, OutOfMemory> {
    let at = txn.accesses.enter(record)?;
    let is_alone = txn.accesses.entries[at].held == Held::Alone;
    if !is_alone
        && record_of(record).lock() == 0
        && env.shared.group(record).leaves_to_others(env.worker.number)
    {
        return Ok(Err((Held::Alone, 0)));
    }
    Ok(lock_alone(record, at, env, txn).map_err(|lock| (Held::Alone, lock)))
}

/// Locks the record of entry number `at` alone, unless other transactions have its lock.
pub(super) fn lock_alone<P: Policy>(
    record: *const Record,
    at: usize,
    env: Env<'_, Single<P>>,
    txn: &mut Txn,
) -> Result<(), u64> {
    let tag = txn.member.announce(&env.shared.registry);
    let has_share = match txn.accesses.entries[at].held {
        Held::Alone => return Ok(()),
        Held::Shared => true,
        Held::Not => false,
    };
    publish(env, txn, true); // it may be about to wait, and must not seem to run between two looks
    env.shared.lock_alone(record, tag, has_share)?;
    publish(env, txn, false);
    txn.accesses.entries[at].held = Held::Alone;
    env.shared.group(record).take(env.worker.number);
    Ok(())
}

/// Notes that the transaction has found the record locked by another transaction. Without locks one of the two would
/// have failed.
#[cold]
fn note_meeting<P: Policy>(record: *const Record, wanted: Held, lock: u64, env: Env<'_, Single<P>>) {
    let (heat, group) = (env.shared.heat(), env.shared.group(record));
    if wanted == Held::Alone {
        heat.raise(group, Wants::Write);
    }
    if wanted == Held::Shared || shares_of(lock) != 0 && holder_of_lock(lock).is_none() {
        heat.raise(group, Wants::Read);
    }
}

/// Gives the transaction's shares back. What it has read in these records is validated in any case.
pub(super) fn give_back_shares<P: Policy>(env: Env<'_, Single<P>>, txn: &mut Txn) {
    for entry in &mut txn.accesses.entries {
        if entry.held == Held::Shared {
            entry.held = Held::Not;
            env.shared.unshare(entry.record);
            env.worker.released.set(env.worker.released.get().wrapping_add(1));
        }
    }
}

/// Says that the transaction is going to wait, and returns how it stands to the holder of a lock. Called at each look.
fn standing<P: Policy>(record: *const Record, lock: u64, env: Env<'_, Single<P>>, txn: &mut Txn) -> Standing {
    publish(env, txn, true);
    let has_alone = has_alone(txn);
    let holder = if has_alone { holder(lock, env, txn) } else { None };
    let keeps_more_waiting = holder.is_some() && keeps_more_waiting(env.shared.group(record), env, txn);
    Standing { has_alone, holder, keeps_more_waiting }
}

/// Returns the open transaction that has this lock alone.
fn holder<P: Policy>(lock: u64, env: Env<'_, Single<P>>, txn: &Txn) -> Option<Other> {
    let holder = holder_of_lock(lock)?;
    let age = env.shared.registry.age_of(holder)?;
    let is_younger = (txn.age, txn.member.place()) < (age >> 1, holder.descriptor()); // at a tie places decide
    Some(Other { waits: age & 1 != 0, is_younger })
}

/// Returns true if the transaction may sleep until the holder of this record's lock ends. It does not look again
/// meanwhile.
pub(super) fn may_sleep<P: Policy>(record: *const Record, env: Env<'_, Single<P>>, txn: &mut Txn) -> bool {
    give_back_shares(env, txn);
    publish(env, txn, true);
    txn.sleeps =
        !has_alone(txn) || holder(record_of(record).lock(), env, txn).is_none_or(|holder| holder.is_younger);
    txn.sleeps
}

/// Returns true if another operation of the transaction sleeps in the queue of a row.
#[cold]
fn still_sleeps<P: Policy>(record: *const Record, env: Env<'_, Single<P>>, txn: &mut Txn) -> bool {
    env.shared.sleeps_beside(txn, record, false);
    txn.sleeps
}

fn has_alone(txn: &Txn) -> bool {
    txn.accesses.entries.iter().any(|entry| entry.held == Held::Alone)
}

/// Returns true if other transactions wait for what the transaction has locked. It then does not let transactions go
/// first that want the next record alone, because some of them may also want what it has locked.
fn keeps_others_waiting<P: Policy>(env: Env<'_, Single<P>>, txn: &Txn) -> bool {
    let mut alone = txn.accesses.entries.iter().filter(|entry| entry.held == Held::Alone);
    alone.any(|entry| env.shared.group(entry.record).is_awaited())
}

/// Returns true if other transactions wait for a record that the transaction has locked, and that record is much hotter
/// than the group of the wanted record. If the transaction waited, all of them would wait, too.
fn keeps_more_waiting<P: Policy>(wanted: &Group, env: Env<'_, Single<P>>, txn: &Txn) -> bool {
    let heat = env.shared.heat();
    let limit = 2 * heat.heat_of(wanted, Wants::Write);
    txn.accesses.entries.iter().filter(|entry| entry.held == Held::Alone).any(|entry| {
        let group = env.shared.group(entry.record);
        group.is_awaited() && heat.heat_of(group, Wants::Write) > limit
    })
}

/// Tells other transactions how old the transaction is, and whether it waits.
pub(super) fn publish<P: Policy>(env: Env<'_, Single<P>>, txn: &Txn, waits: bool) {
    debug_assert!(txn.age >> (u64::BITS - 1) == 0, "ages are times");
    env.shared.registry.set_age(txn.member.place(), txn.age << 1 | u64::from(waits));
}
