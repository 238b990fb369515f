//! Turns of submitted transactions with hints. Such a transaction is parked in its slot until no transaction that would
//! conflict with it is open on its worker. A stream instead puts inputs aside before they have a slot.
//!
//! Invariant: a place waits in `Context::turns` exactly while its stage is `Waiting`, and its hint is taken there
//! exactly while its stage is `In`.

use super::run_to_commit::{Body, run_to_commit};
use crate::cc::ConcurrencyControl;
use crate::error::Result;
use crate::exec::{Hint, Operations, Ticket};
use crate::kernel::{Waiter, WaiterStage};
use crate::ops::TxnState;
use crate::sync::{Mutex, lock};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Exists from the moment that the transaction starts to wait until it ends, retries included.
struct InTurn<'t, C: ConcurrencyControl> {
    txn: &'t TxnState<C>,
    hint: Hint,
    place: Arc<Waiter>,
    /// The ticket under which it waits.
    number: Option<Ticket>,
}

impl<'t, C: ConcurrencyControl> InTurn<'t, C> {
    /// Joins the line at once. Therefore the order is the order in which transactions are put into slots.
    fn new(txn: &'t TxnState<C>, hint: Hint) -> Self {
        let place = Arc::new(Waiter(Mutex::new((WaiterStage::Waiting, None))));
        let number = txn.context().turns.borrow_mut().offer(hint, place.clone()).err();
        if number.is_none() {
            lock(&place.0).0 = WaiterStage::In;
        }
        InTurn { txn, hint, place, number }
    }
}

impl<C: ConcurrencyControl> Future for &mut InTurn<'_, C> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut place = lock(&self.place.0);
        if place.0 == WaiterStage::In {
            return Poll::Ready(());
        }
        place.1 = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<C: ConcurrencyControl> Drop for InTurn<'_, C> {
    fn drop(&mut self) {
        let turns = &self.txn.context().turns;
        let stage = lock(&self.place.0).0;
        match self.number.filter(|_| stage == WaiterStage::Waiting) {
            Some(number) => turns.borrow_mut().forget(number),
            None => turns.borrow_mut().leave(self.hint),
        }
        loop {
            let next = turns.borrow_mut().next();
            let Some((_, place)) = next else { break };
            let waker = {
                let mut place = lock(&place.0);
                place.0 = WaiterStage::In;
                place.1.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// Like [`run_to_commit`], but starts when the transaction's turn has come.
pub(crate) fn run_in_turn<C: ConcurrencyControl, R>(
    txn: &TxnState<C>,
    hint: Hint,
    body: impl Body<C, R>,
    retries_max: u32,
) -> impl Future<Output = Result<R>> {
    let mut turn = InTurn::new(txn, hint);
    async move {
        (&mut turn).await;
        if hint.is_long() {
            txn.set_long();
        }
        run_to_commit(txn, body, retries_max).await
    }
}
