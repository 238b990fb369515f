//! A gate, where a transaction waits for its turn.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A gate. Clones are the same gate. A waiting transaction is parked: it takes no step until the gate is opened.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate(Rc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// How often the gate may still be passed.
    permits: Cell<u32>,
    waker: RefCell<Option<Waker>>,
}

impl Gate {
    /// Lets one transaction pass, now or later.
    pub(super) fn open(&self) {
        self.0.permits.set(self.0.permits.get() + 1);
        if let Some(waker) = self.0.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Waits until the gate is open.
    pub(super) async fn pass(&self) {
        poll_fn(|context| match self.0.permits.get().checked_sub(1) {
            Some(left) => {
                self.0.permits.set(left);
                Poll::Ready(())
            }
            None => {
                *self.0.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await;
    }
}
