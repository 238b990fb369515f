//! A submitted transaction that is hinted at waits for its turn: parked in its slot, until nobody with whom it would
//! conflict is open on its worker. (A stream puts inputs aside instead, before they have a slot.)
//!
//! Invariant: a place is among those that wait in `Context::turns` exactly while its stage is `Waiting`, and its hint
//! is taken there exactly while it is `In`.

use super::drive::{Body, drive};
use super::handle::Txn;
use crate::cc::ConcurrencyControl;
use crate::error::Result;
use crate::exec::{Hint, Operations, Ticket};
use crate::sync::{Mutex, lock};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    In,
}

/// Who waits, as the worker's other transactions see it. (Locked by one thread alone; but contexts, which hold
/// these, go from thread to thread.)
pub(crate) struct Place(Mutex<(Stage, Option<Waker>)>);

/// From the moment that it waits to the end of its transaction, retries included.
struct Turn<'t, C: ConcurrencyControl> {
    txn: &'t Txn<C>,
    hint: Hint,
    place: Arc<Place>,
    /// What it waits by.
    number: Option<Ticket>,
}

impl<'t, C: ConcurrencyControl> Turn<'t, C> {
    /// Gets in line, at once: in the order in which transactions are put into slots.
    fn new(txn: &'t Txn<C>, hint: Hint) -> Self {
        let place = Arc::new(Place(Mutex::new((Stage::Waiting, None))));
        let number = txn.desk.context().turns.borrow_mut().offer(hint, place.clone()).err();
        if number.is_none() {
            lock(&place.0).0 = Stage::In;
        }
        Turn { txn, hint, place, number }
    }
}

impl<C: ConcurrencyControl> Future for &mut Turn<'_, C> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut place = lock(&self.place.0);
        if place.0 == Stage::In {
            return Poll::Ready(());
        }
        place.1 = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<C: ConcurrencyControl> Drop for Turn<'_, C> {
    fn drop(&mut self) {
        let turns = &self.txn.desk.context().turns;
        let stage = lock(&self.place.0).0;
        match self.number.filter(|_| stage == Stage::Waiting) {
            Some(number) => turns.borrow_mut().forget(number),
            None => turns.borrow_mut().leave(self.hint),
        }
        loop {
            let next = turns.borrow_mut().next();
            let Some((_, place)) = next else { break };
            let waker = {
                let mut place = lock(&place.0);
                place.0 = Stage::In;
                place.1.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// As [`drive`], when its turn has come.
pub(crate) fn drive_in_turn<C: ConcurrencyControl, R>(
    txn: &Txn<C>,
    hint: Hint,
    body: impl Body<C, R>,
    retries_max: u32,
) -> impl Future<Output = Result<R>> {
    let mut turn = Turn::new(txn, hint);
    async move {
        (&mut turn).await;
        if hint.is_long() {
            txn.set_long();
        }
        drive(txn, body, retries_max).await
    }
}
