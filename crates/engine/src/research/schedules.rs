//! The other ways in which the CoroBase paper runs the same reads, for comparison. Each is a schedule of the one step
//! machine, not a copy of it.
//!
//! | here | in the paper |
//! |---|---|
//! | `Txn::get_many` in a sequential worker | AMAC-MK |
//! | [`get_many_coroutines`] in a sequential worker | CORO-MK: a flat coroutine per key |
//! | [`get_many_nested`] in a sequential worker | CORO-FN-MK: boxed coroutines, nested |
//! | [`get_nested`] in an interleaving worker | CoroBase-FN |
//!
//! A read that runs to its end within one poll may meet a commit of another transaction that is not finished. The read
//! waits in place, for a bounded time. The other transaction may be suspended on the same thread, and then the wait
//! keeps it from continuing. Therefore the wait ends with [`Error::Conflict`](crate::Error::Conflict), as in
//! [`Txn::get_many`] in a sequential worker, and the transaction is run again.

use super::point_read::{PointRead, Probe, Rounds, hold_epoch, point_reads, probe_of, waited_too_long};
use crate::cc::ConcurrencyControl;
use crate::error::Result;
use crate::profile::Activity;
use crate::table::{AsKey, Key, Table, Value};
use crate::txn::Txn;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Suspends the coroutine once.
async fn leave_once() {
    let mut is_left = false;
    poll_fn(|_| if std::mem::replace(&mut is_left, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Returns true if the index has the key. Reads neither the record nor its visibility.
#[inline(always)]
pub fn probe<K: Key, V: Value + ?Sized, C: ConcurrencyControl>(
    txn: &Txn<C>,
    table: Table<K, V>,
    key: impl AsKey<K>,
) -> Probe<'_, C> {
    probe_of(txn.state(), table, &key)
}

/// Like [`Txn::get_many`], with a flat coroutine per key. The coroutines are polled in turn.
pub async fn get_many_coroutines<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl, const N: usize>(
    txn: &'t Txn<C>,
    table: Table<K, V>,
    keys: &[impl AsKey<K>; N],
) -> Result<[Option<V::View<'t>>; N]> {
    let reads = point_reads(txn.state(), table, keys)?;
    let coroutines = reads.map(|read| async move {
        let mut read = read;
        while !read.step() {
            leave_once().await;
        }
        read
    });
    collect::<V, C, N>(txn, poll_in_turn(coroutines))
}

/// Like [`Txn::get_many`], with nested boxed coroutines that are polled in turn.
pub async fn get_many_nested<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl, const N: usize>(
    txn: &'t Txn<C>,
    table: Table<K, V>,
    keys: &[impl AsKey<K>; N],
) -> Result<[Option<V::View<'t>>; N]> {
    let reads = point_reads(txn.state(), table, keys)?;
    collect::<V, C, N>(txn, poll_in_turn(reads.map(|read| nested(read, || ()))))
}

/// Like [`Txn::get`], with nested boxed coroutines that the worker polls from the top.
pub async fn get_nested<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl>(
    txn: &'t Txn<C>,
    table: Table<K, V>,
    key: impl AsKey<K>,
) -> Result<Option<V::View<'t>>> {
    let held = hold_epoch(txn.state());
    let [mut read] = point_reads(txn.state(), table, &[key])?;
    if !held.is_held() {
        // All operation slots are in use, so the read cannot be suspended.
        let mut rounds = Rounds::default();
        while !read.step() {
            if !rounds.go_on() {
                return Err(waited_too_long(txn.state()));
            }
        }
        return read.value()?.map(V::view).transpose();
    }
    // The transaction waits for nothing outside, so the worker is asked to come back.
    nested(read, || txn.state().post_step_aside(1, Activity::Scheduling))
        .await
        .value()?
        .map(V::view)
        .transpose()
}

/// Makes a coroutine for the read. It contains a coroutine for the descent or the visit of the record, which contains a
/// coroutine for each step.
fn nested<'t, C: ConcurrencyControl>(
    read: PointRead<'t, C>,
    leaving: impl Fn() + Copy + 't,
) -> Pin<Box<dyn Future<Output = PointRead<'t, C>> + 't>> {
    type Boxed<'t, C> = Pin<Box<dyn Future<Output = (PointRead<'t, C>, bool)> + 't>>;
    fn one_step<'t, C: ConcurrencyControl>(
        mut read: PointRead<'t, C>,
        leaving: impl Fn() + Copy + 't,
    ) -> Boxed<'t, C> {
        Box::pin(async move {
            let is_done = read.step();
            if !is_done {
                leaving();
                leave_once().await;
            }
            (read, is_done)
        })
    }
    fn phase<'t, C: ConcurrencyControl>(
        mut read: PointRead<'t, C>,
        leaving: impl Fn() + Copy + 't,
    ) -> Boxed<'t, C> {
        let was_descending = read.is_descending();
        Box::pin(async move {
            loop {
                let is_done;
                (read, is_done) = one_step(read, leaving).await;
                if is_done || read.is_descending() != was_descending {
                    return (read, is_done);
                }
            }
        })
    }
    Box::pin(async move {
        let (mut read, mut is_done) = phase(read, leaving).await;
        while !is_done {
            (read, is_done) = phase(read, leaving).await;
        }
        read
    })
}

/// Polls all futures in turn until all have ended. Returns `None` if one of them still waits after a bounded time.
fn poll_in_turn<F: Future, const N: usize>(futures: [F; N]) -> Option<[F::Output; N]> {
    let mut context = Context::from_waker(Waker::noop());
    let mut futures = futures.map(Some);
    let mut futures = std::pin::pin!(&mut futures);
    let mut outputs = [const { None }; N];
    let mut rounds = Rounds::default();
    while outputs.iter().any(Option::is_none) {
        if !rounds.go_on() {
            return None;
        }
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_some() {
                continue;
            }
            let Some(future) = future else { unreachable!("it has no output yet") };
            // SAFETY: the array is on this stack and is not moved until its futures are dropped.
            if let Poll::Ready(ready) = unsafe { Pin::new_unchecked(future) }.poll(&mut context) {
                *output = Some(ready);
            }
        }
    }
    Some(outputs.map(|output| output.expect("all have ended")))
}

fn collect<'t, V: Value + ?Sized, C: ConcurrencyControl, const N: usize>(
    txn: &Txn<C>,
    reads: Option<[PointRead<'t, C>; N]>,
) -> Result<[Option<V::View<'t>>; N]> {
    let Some(reads) = reads else { return Err(waited_too_long(txn.state())) };
    let mut views = [const { None }; N];
    for (view, read) in views.iter_mut().zip(reads) {
        *view = read.value()?.map(V::view).transpose()?;
    }
    Ok(views)
}
