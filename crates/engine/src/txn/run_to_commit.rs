//! A transaction's whole life as one future: attempts, commit, retries, and abort on drop.

use super::txn::Txn;
use crate::cc::{Abort, ConcurrencyControl, Ticket, once};
use crate::error::{Error, Result};
use crate::events::{event, text};
use crate::ops::{Blocker, Commit, RELIEF_ROUNDS_MAX, RowWait, TxnState, Wait, let_others_leave};
use crate::profile::Activity;
use crate::table::Fault;
use std::future::{Future, poll_fn};
use std::ops::{AsyncFn, AsyncFnMut};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// An open attempt. Dropping it undoes the attempt; a commit forgets it. The futures that borrow from the transaction
/// are declared after this value and therefore dropped before it.
struct Open<'t, C: ConcurrencyControl>(&'t TxnState<C>);

impl<C: ConcurrencyControl> Open<'_, C> {
    #[inline(always)]
    fn committed(self, retries: u32, sample: Option<u64>) {
        let txn = self.0;
        std::mem::forget(self);
        txn.after_commit();
        if retries > 0 {
            txn.leave_turn(); // the slot may be vacated much later
        }
        txn.count_commit(sample);
    }
}

impl<C: ConcurrencyControl> Drop for Open<'_, C> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What an attempt calls. An adapter returns the closure's future instead of wrapping it, because an `async` layer
/// between the worker and the operation costs up to 50 instructions per poll.
pub(crate) trait Body<C: ConcurrencyControl, R> {
    fn call(&mut self, txn: &Txn<C>) -> impl Future<Output = Result<R>>;
}

/// A closure by itself.
pub(crate) struct Closure<F>(pub(crate) F);

impl<C: ConcurrencyControl, R, F: AsyncFnMut(&Txn<C>) -> Result<R>> Body<C, R> for Closure<F> {
    #[inline(always)]
    fn call(&mut self, txn: &Txn<C>) -> impl Future<Output = Result<R>> {
        (self.0)(txn)
    }
}

/// A shared closure and its input.
pub(crate) struct Each<'f, F, I>(pub(crate) &'f F, pub(crate) I);

impl<C: ConcurrencyControl, R, I, F: AsyncFn(&Txn<C>, &I) -> Result<R>> Body<C, R> for Each<'_, F, I> {
    #[inline(always)]
    fn call(&mut self, txn: &Txn<C>) -> impl Future<Output = Result<R>> {
        (self.0)(txn, &self.1)
    }
}

/// Returns the most rounds of its worker that a transaction stands aside after this number of retries. The bound is 1
/// at first and soon about a thousand. If conflicts continue, it grows much further, because the transaction in the way
/// may be off its core.
fn rounds_max(retries: u32) -> u32 {
    const LONG: u32 = 10;
    const PATIENT_FROM: u32 = 64;
    let doublings =
        if retries < PATIENT_FROM { retries.min(LONG) } else { LONG + (retries - PATIENT_FROM) / 16 };
    1 << doublings.min(16)
}

/// Returns how many rounds this transaction stands aside when several have conflicted. The number differs between
/// transactions, so that two of them do not meet again and again.
fn rounds_apart<C: ConcurrencyControl>(txn: &TxnState<C>, retries: u32) -> u32 {
    1 + txn.number.wrapping_mul(0x9e37_79b9).rotate_left(retries) % rounds_max(retries)
}

/// Runs `body` until it commits, fails, or has met `retries_max + 1` conflicts. It runs some further times if it met
/// the memory limit while garbage of others could be freed. The closure lives in this future. Therefore the future that
/// it returns may borrow from it, and a retry calls the same closure again.
#[inline(always)]
pub(crate) async fn run_to_commit<C: ConcurrencyControl, R>(
    txn: &TxnState<C>,
    mut body: impl Body<C, R>,
    retries_max: u32,
) -> Result<R> {
    let (mut retries, mut kept, mut reliefs) = (0, None, 0);
    let sample = txn.sample_start();
    txn.is_retry.set(false);
    loop {
        let open = Open(txn);
        // A begin that usually does not suspend is no future of its own, because a future would be made, moved and
        // polled.
        let begun = txn.begin_or_post();
        if let Err(error) = if let Some(begun) = begun { begun } else { posted_begin(txn).await } {
            drop(open);
            txn.leave_turn();
            txn.count_failure(&error);
            return Err(error);
        }
        let got = match body.call(Txn::of(txn)).await {
            Ok(result) => {
                txn.end_operations();
                let made = txn.commit_or_post();
                match if let Some(made) = made { made } else { posted_commit(txn).await } {
                    Ok(()) => {
                        open.committed(retries, sample);
                        return Ok(result);
                    }
                    Err(fault) => Err(txn.commit_error(fault)),
                }
            }
            Err(error) => {
                let error = validate(txn, error).await;
                txn.after_failure(&error);
                Err(error)
            }
        };
        drop(open);
        match got {
            Err(why @ (Error::Conflict | Error::Deadlock(_))) if retries < retries_max => {
                txn.count_conflict(true);
                if let Err(error) = make_way(txn, why, retries, &mut kept).await {
                    txn.count_given_up(&error, retries);
                    return Err(error);
                }
                retries += 1;
                txn.is_retry.set(true);
            }
            Err(Error::OutOfMemory { .. })
                if txn.is_relieved.take() && retries_max > 0 && txn.may_wait_for_memory(reliefs) =>
            {
                reliefs += 1;
                await_memory(txn, 1 << reliefs).await;
            }
            Err(error) => {
                txn.leave_turn();
                txn.count_given_up(&error, retries);
                return Err(error);
            }
            ok => return ok,
        }
    }
}

/// A future whose code is compiled once: see `once!`.
type Later<'t, R> = Pin<Box<dyn Future<Output = R> + 't>>;

once! {
    /// Applies the updates that the closure has left for the commit, and commits.
    pub(super) fn commit_with_updates<'t>(txn: &'t TxnState<C>) -> Later<'t, Result<(), Fault>>
        = Box::pin(commit_with_updates_here(txn));

    /// Validates what a failing closure has read, and what its changes have told it.
    pub(super) fn validate<'t>(txn: &'t TxnState<C>, error: Error) -> Later<'t, Error>
        = Box::pin(validate_here(txn, error));

    /// Waits until memory may have been given back.
    fn await_memory<'t>(txn: &'t TxnState<C>, rounds_min: u32) -> Later<'t, ()>
        = Box::pin(await_memory_here(txn, rounds_min));

    /// Prepares the next attempt after a conflict.
    fn make_way<'t>(txn: &'t TxnState<C>, why: Error, retries: u32, kept: &'t mut Option<Ticket>) -> Later<'t, Result<()>>
        = Box::pin(make_way_here(txn, why, retries, kept));
}

/// Waits for a begin that has been posted.
#[cold]
async fn posted_begin<C: ConcurrencyControl>(txn: &TxnState<C>) -> Result<()> {
    poll_fn(|_| match txn.begun.take() {
        Some(begun) => Poll::Ready(txn.begun(begun)),
        None => Poll::Pending,
    })
    .await
}

/// Waits for a commit that has been posted, or that must first apply the updates left for the commit.
#[cold]
async fn posted_commit<C: ConcurrencyControl>(txn: &TxnState<C>) -> Result<(), Fault> {
    if txn.has_at_commits() {
        return commit_with_updates(txn).await; // in memory of its own: few transactions do this
    }
    posted_decision(txn).await
}

/// Applies the updates that the closure has left for the commit, and commits.
async fn commit_with_updates_here<C: ConcurrencyControl>(txn: &TxnState<C>) -> Result<(), Fault> {
    if let Some(fault) = txn.doomed.get() {
        return Err(fault);
    }
    if let Err(error) = txn.make_updates().await {
        // The error rests on values that are not in the snapshot.
        let error = validate(txn, error).await;
        txn.after_failure(&error);
        return Err(txn.fail_updates(error));
    }
    match txn.commit_updated() {
        Some(made) => made,
        None => posted_decision(txn).await,
    }
}

/// Validates what a failing closure has read, and what its changes have told it, as if it had committed without its
/// changes. Returns `error` if the error has a place in the serial order, and a conflict otherwise. Snapshots need this
/// too: a snapshot may contain a commit and lack another commit that precedes it in the serial order (Fekete, O'Neil,
/// O'Neil: A read-only transaction anomaly under snapshot isolation, SIGMOD Record 2004).
#[cold]
async fn validate_here<C: ConcurrencyControl>(txn: &TxnState<C>, error: Error) -> Error {
    if matches!(error, Error::Conflict | Error::Deadlock(_) | Error::OutOfMemory { .. }) {
        return error;
    }
    // An operation has failed halfway. The results of later operations may rest on half of its changes.
    use Abort::{Deadlock, Unserializable, WaitTimeout, WriteConflict};
    if let Some(Fault::Abort(WriteConflict | Unserializable | Deadlock | WaitTimeout)) = txn.doomed.get() {
        return Error::Conflict;
    }
    if let Err(full) = txn.undo_failed() {
        return full;
    }
    let made = match txn.decide_or_post(Commit::trial()) {
        Some(made) => made,
        None => posted_decision(txn).await,
    };
    match made {
        Ok(()) => error,
        Err(fault) => txn.commit_error(fault),
    }
}

/// Waits for a decision that has been posted.
#[cold]
async fn posted_decision<C: ConcurrencyControl>(txn: &TxnState<C>) -> Result<(), Fault> {
    poll_fn(|_| match txn.committed.take() {
        Some(result) => Poll::Ready(result.map_err(Fault::Abort)),
        None => Poll::Pending,
    })
    .await
}

/// How many rounds of its worker a transaction stands aside for the holder. For a transaction on a thread of its own:
/// how many times it looks. A holder that is running ends within this time and costs no place in a queue. For any other
/// holder, the transaction then waits in the queue.
const ROUNDS_FOR_HOLDER_MAX: u32 = 1000;

/// From this many retries on, others have been faster each time. The transaction then waits at once in the queue for the
/// holder of its row, and afterwards leaves its turn and stands aside for some rounds.
const QUEUES_FROM: u32 = 16;

/// Prepares the next attempt after a conflict.
///
/// - A transaction may have had its turn for a row that was changed since the transaction began. It keeps the turn and
///   continues at once, alone among the transactions in the queue. `kept` is the turn with which the last attempt
///   continued.
/// - A transaction that has aborted because of a cycle waits for the row again, now holding nothing. If it ran at once,
///   it could take its first rows again before the transaction that waits for them is awake, and close the same cycle.
#[cold]
#[inline(never)]
async fn make_way_here<C: ConcurrencyControl>(
    txn: &TxnState<C>,
    why: Error,
    retries: u32,
    kept: &mut Option<Ticket>,
) -> Result<()> {
    event!(
        TRACE,
        TRANSACTION,
        "transaction is run again",
        database = txn.context().engine.id,
        retries = retries + 1,
        error = text(&why)
    );
    let is_deadlock = matches!(why, Error::Deadlock(_));
    let had_turn = kept.is_some() && txn.turn.get() == *kept;
    if is_deadlock || had_turn {
        txn.leave_turn(); // the turn has not helped
    }
    if txn.turn.get().is_none() {
        // A turn that has not helped was lost to a write past the queue. A transaction that comes back at once loses to
        // the same writers again and again.
        let was_awaited = txn.blocker.get().is_some_and(|blocker| blocker.was_awaited);
        let waits_long = was_awaited || retries >= QUEUES_FROM;
        let queues = is_deadlock || waits_long && !had_turn;
        let met_sharers = txn.blocker.get().is_some_and(|blocker| blocker.holder.is_shared());
        if queues || (step_aside(txn, retries).await && !had_turn) {
            wait_aside(txn, retries).await?;
            if met_sharers || retries >= QUEUES_FROM {
                // All transactions that waited for the last share are awake now, or others have been faster for long.
                // Behind a kept turn they would all wait for one attempt, which may fail because of them.
                txn.leave_turn();
                pass_rounds(txn, rounds_apart(txn, retries), false).await;
            }
        }
    }
    *kept = txn.turn.get();
    Ok(())
}

/// Like `step_aside`, after that has not helped for long: the transaction in the way may be idle.
#[cold]
#[inline(never)]
async fn wait_aside<C: ConcurrencyControl>(txn: &TxnState<C>, retries: u32) -> Result<()> {
    let Some(mut line) = blocked_wait(txn) else {
        step_aside(txn, retries).await;
        return Ok(());
    };
    // The transaction holds nothing, so no transaction waits for it, and the wait closes no cycle.
    poll_fn(|context| match line.poll(context) {
        Ok(Wait::On) => Poll::Pending,
        Ok(Wait::Over) => Poll::Ready(Ok(())),
        Err(error) => Poll::Ready(Err(error)),
    })
    .await?;
    line.keep();
    Ok(())
}

/// Joins the queue for the row of the last conflict, if an open transaction still holds the row and may be waited for.
pub(super) fn blocked_wait<C: ConcurrencyControl>(txn: &TxnState<C>) -> Option<RowWait<'_, C>> {
    let Blocker { what, row, holder, .. } = txn.blocker.take()?;
    let record = if what.is_partition() { std::ptr::null() } else { txn.context().engine.record(row) };
    let mut line = RowWait::of(txn, what, None, Some(holder)).ok()?;
    let stands_aside = line.wait_for(row, record, Some(holder)).ok()?;
    debug_assert!(!stands_aside, "a transaction that holds nothing sleeps");
    Some(line)
}

/// Waits until the epochs have passed after which the cleaned-up memory can be reused. Waits one round at a time,
/// because standing aside holds the epoch in which it began. After one transaction has waited for the full bound, no
/// other transaction of the worker waits before the epoch moves. Otherwise a participant that makes no progress would
/// make each of them wait. Waits at least `rounds_min` rounds, for superseded versions that open transactions still
/// see.
#[cold]
async fn await_memory_here<C: ConcurrencyControl>(txn: &TxnState<C>, rounds_min: u32) {
    let context = txn.context();
    let moment = context.engine.epochs.moment();
    let mut rounds = 0;
    poll_fn(|_| {
        context.local.hurry();
        let epoch = context.local.now();
        let is_past = context.engine.epochs.is_past(moment) && context.local.pending() == 0;
        let is_over = is_past && rounds >= rounds_min;
        if is_over || context.awaited_at.get() == Some(epoch) {
            return Poll::Ready(());
        }
        if rounds == RELIEF_ROUNDS_MAX {
            context.awaited_at.set(Some(epoch));
            return Poll::Ready(());
        }
        let_others_leave(rounds);
        rounds += 1;
        txn.post_step_aside(1, Activity::BackOff);
        Poll::Pending
    })
    .await;
}

/// Lets other transactions go first. If one transaction was in the way and is still open, waits for it to end, and
/// returns true if it is still open afterwards. Otherwise the wait grows with each conflict, and its length differs
/// between transactions, so that two of them do not meet again and again. Rows that several transactions shared belong
/// to the second case: if all transactions that waited for the last share came back at once, they would share other
/// rows and fail each other.
#[cold]
async fn step_aside<C: ConcurrencyControl>(txn: &TxnState<C>, retries: u32) -> bool {
    let has_holder = txn.is_blocked_by_one();
    let rounds = match has_holder {
        true => ROUNDS_FOR_HOLDER_MAX,
        false => rounds_apart(txn, retries),
    };
    // The other transaction may be open on the same worker. Therefore this does not wait in place if it has a choice,
    // and never while any transaction waits for a row.
    let may_be_here = C::waits(txn.shared()).is_any();
    if !txn.is_inline() || txn.start_interleaving() || may_be_here {
        pass_rounds(txn, rounds, has_holder).await;
    } else {
        spin_aside(txn, rounds, has_holder, retries);
    }
    has_holder && txn.is_blocked()
}

/// Suspends for this number of the worker's rounds, or until the holder has ended.
#[cold]
async fn pass_rounds<C: ConcurrencyControl>(txn: &TxnState<C>, mut rounds: u32, has_holder: bool) {
    poll_fn(|_| {
        if rounds == 0 || has_holder && !txn.is_blocked() {
            return Poll::Ready(());
        }
        let step = if has_holder { 1 } else { rounds };
        rounds -= step;
        txn.post_step_aside(step, Activity::BackOff);
        Poll::Pending
    })
    .await;
}

/// Does the same in sequential execution, where the other transaction is on another thread.
#[cold]
fn spin_aside<C: ConcurrencyControl>(txn: &TxnState<C>, rounds: u32, has_holder: bool, retries: u32) {
    /// Limits how often the holder's memory is read, because more reads would slow the holder down.
    const SPINS_PER_LOOK_MAX: u32 = 64;
    txn.enter(Activity::BackOff);
    let mut looks = 0;
    while looks < rounds && (!has_holder || txn.is_blocked()) {
        let spins = if has_holder { looks.min(SPINS_PER_LOOK_MAX) } else { 0 };
        (0..=spins).for_each(|_| std::hint::spin_loop());
        looks += 1;
    }
    if has_holder && looks < rounds {
        return;
    }
    match retries {
        0..=4 => {}
        5..=16 => std::thread::yield_now(),
        // The holder is off its core. This lets it come back before all retries are used up.
        _ => std::thread::sleep(Duration::from_micros(1 << (retries - 16).min(10))),
    }
}
