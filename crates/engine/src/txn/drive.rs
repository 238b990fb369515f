//! A transaction's whole life as one future: attempts, commit, retries, and abort on drop.

use super::fault::Fault;
use super::handle::{RELIEF_ROUNDS_MAX, Txn};
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::profile::Activity;
use std::future::{Future, poll_fn};
use std::ops::{AsyncFn, AsyncFnMut};
use std::task::Poll;
use std::time::Duration;

/// An open attempt; dropped, it is undone (a commit forgets it). The futures that borrow from the
/// transaction are declared after it, hence dropped before.
struct Open<'t, C: ConcurrencyControl>(&'t Txn<C>);

impl<C: ConcurrencyControl> Drop for Open<'_, C> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What an attempt calls. (An `async` layer between the worker and the operation costs up to 50
/// instructions per poll: so an adapter returns the closure's future instead of wrapping it.)
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

/// Rounds of its worker that a transaction stands aside at most after so many retries: one at first, soon a thousand, and
/// when it still meets conflicts many more, for whoever is in its way may be off its core.
fn rounds_max(retries: u32) -> u32 {
    const LONG: u32 = 10;
    const PATIENT_FROM: u32 = 64;
    let doublings =
        if retries < PATIENT_FROM { retries.min(LONG) } else { LONG + (retries - PATIENT_FROM) / 16 };
    1 << doublings.min(16)
}

/// Runs `body` until it commits, fails, or has met `retries_max + 1` conflicts; and once more where it met the memory
/// limit and others' garbage was in the way. The closure lives in
/// this future; so the future it returns may borrow from it, and a retry calls the same closure again.
#[inline(always)]
pub(crate) async fn drive<C: ConcurrencyControl, R>(
    txn: &Txn<C>,
    mut body: impl Body<C, R>,
    retries_max: u32,
) -> Result<R> {
    let (mut retries, mut was_relieved) = (0, false);
    let sample = txn.sample_start();
    loop {
        if let Err(error) = txn.begin() {
            txn.count_failure(&error);
            return Err(error);
        }
        let open = Open(txn);
        let got = match body.call(txn).await {
            Ok(result) => match commit(txn).await {
                Ok(()) => {
                    std::mem::forget(open);
                    txn.ended();
                    txn.count_commit(sample);
                    return Ok(result);
                }
                Err(fault) => Err(txn.commit_error(fault)),
            },
            Err(error) => {
                txn.failed(&error);
                Err(error)
            }
        };
        drop(open);
        match got {
            Err(Error::Conflict) if retries < retries_max => {
                txn.count_conflict(true);
                step_aside(txn, retries).await;
                retries += 1;
            }
            Err(Error::OutOfMemory { .. })
                if txn.desk.is_relieved.take() && !was_relieved && retries_max > 0 =>
            {
                was_relieved = true;
                await_memory(txn).await;
            }
            Err(error) => {
                txn.count_failure(&error);
                return Err(error);
            }
            ok => return ok,
        }
    }
}

#[inline(always)]
async fn commit<C: ConcurrencyControl>(txn: &Txn<C>) -> Result<(), Fault> {
    if let Some(result) = txn.commit_or_post() {
        return result;
    }
    poll_fn(|_| match txn.desk.committed.take() {
        Some(result) => Poll::Ready(result.map_err(Fault::Abort)),
        None => Poll::Pending,
    })
    .await
}

/// Waits for the epochs that have to pass before the memory is given back of what has been cleaned up. In turns of one
/// round: standing aside holds the epoch that it began in. Once somebody has waited to the end, no other one of the
/// worker waits before the epoch moves: a participant that does not go on would make each of them do so.
#[cold]
async fn await_memory<C: ConcurrencyControl>(txn: &Txn<C>) {
    let context = txn.desk.context();
    let mut rounds = 0;
    poll_fn(|_| {
        context.local.hurry();
        let epoch = context.local.now();
        if context.local.pending() == 0 || context.awaited_at.get() == Some(epoch) {
            return Poll::Ready(());
        }
        if rounds == RELIEF_ROUNDS_MAX {
            context.awaited_at.set(Some(epoch));
            return Poll::Ready(());
        }
        if rounds > 0 {
            std::thread::yield_now(); // to those who are inside as well
        }
        rounds += 1;
        txn.desk.post_step_aside(1, Activity::BackOff);
        Poll::Pending
    })
    .await;
}

/// Lets other transactions go first: for longer after each conflict, and for a length that differs
/// between transactions, so that two of them do not meet again and again.
#[cold]
async fn step_aside<C: ConcurrencyControl>(txn: &Txn<C>, retries: u32) {
    let rounds = 1 + txn.desk.number.wrapping_mul(0x9e37_79b9).rotate_left(retries) % rounds_max(retries);
    // (The other one may be open on the same worker: so not in place, where there is a choice.)
    if !txn.is_in_place() || txn.desk.leave_place() {
        let mut is_posted = false;
        return poll_fn(|_| {
            if std::mem::replace(&mut is_posted, true) {
                return Poll::Ready(());
            }
            txn.desk.post_step_aside(rounds, Activity::BackOff);
            Poll::Pending
        })
        .await;
    }
    // Sequential execution: the other transaction is on another thread.
    txn.desk.enter(Activity::BackOff);
    for _ in 0..rounds {
        std::hint::spin_loop();
    }
    match retries {
        0..=4 => {}
        5..=16 => std::thread::yield_now(),
        // It is off its core: let it come back before all retries are used up.
        _ => std::thread::sleep(Duration::from_micros(1 << (retries - 16).min(10))),
    }
}
