//! Futures that the worker's own thread puts into it: at once, or when there is a place.

use crate::exec::contract::{Fate, Host, Operations};
use crate::exec::pending_output::{OutputQueue, PendingOutput};
use crate::exec::spawn_queue::{NotSpawned, Spawned};
use crate::exec::vacancy::Vacancy;
use crate::exec::worker::Worker;
use crate::suspend::Suspend;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

impl<H: Host, S: Suspend> Worker<H, S> {
    /// Opens the future that `make` returns. It opens at once if there is a place and no future waits for one.
    /// Otherwise it opens when its turn has come, in a [`step`](Self::step) or [`round`](Self::round), in the order
    /// of spawning.
    ///
    /// Calls `end` with the future's output when the future ends. If the output is held, calls `end` in the first
    /// step, round or [`maintain`](Self::maintain) after the release, or when the worker is dropped, which waits for
    /// that.
    ///
    /// A future that is refused, cancelled, or dropped with the worker ends without `end`. If it waits then, `make`
    /// is not called either. A panic of `make` is passed on by the call that called it, and leaves the other futures
    /// as they are.
    ///
    /// # Safety
    /// Only the future uses the reference given to `make`. It is valid until the future is dropped, at the latest
    /// with the worker.
    pub unsafe fn spawn<P, F, E>(&mut self, make: P, end: E) -> Result<Spawned, NotSpawned>
    where
        P: FnOnce(&'static H::Operations) -> F + 'static,
        F: Future + 'static,
        E: FnOnce(F::Output, Fate) + 'static,
    {
        let fill = move |vacancy: Vacancy<'_, H::Operations>| {
            let (operations, outputs) = (vacancy.operations(), vacancy.outputs());
            vacancy.fill(Then { future: make(operations), end: Some(end), operations, outputs });
        };
        let spawned = self.queue.name();
        if self.queue.is_empty() && !self.is_full() {
            self.place_as(Some(spawned), fill);
        } else {
            self.queue.push(fill, &self.core.host)?;
        }
        self.event_sleep.reconsider(&self.core.slots.wakes.notifier);
        Ok(spawned)
    }

    /// Returns the number of spawned futures that wait for a place.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Drops the spawned future of this name, with the operations it has in flight. Returns false if it has ended, or
    /// cannot be cancelled any more.
    pub fn cancel(&mut self, spawned: Spawned) -> bool {
        if let Some(fill) = self.queue.remove(spawned, &self.core.host) {
            drop(fill);
            return true;
        }
        self.slot_of(spawned).is_some_and(|index| self.cancel_slot(index))
    }
}

/// A future and what to do with its output.
struct Then<M: 'static, F, E> {
    future: F,
    end: Option<E>,
    operations: &'static M,
    outputs: Rc<OutputQueue>,
}

impl<M, F, E> Future for Then<M, F, E>
where
    M: Operations,
    F: Future + 'static,
    E: FnOnce(F::Output, Fate) + 'static,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `future` is pinned with us, `end` never is.
        let me = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let output = ready!(unsafe { Pin::new_unchecked(&mut me.future) }.poll(context));
        let end = me.end.take().expect("a future ends once");
        let until = me.operations.held_until();
        if me.outputs.must_hold(until) {
            me.outputs.push(until, PendingOutput::Spawned(Box::new(move |fate| end(output, fate))));
        } else {
            end(output, Fate::Durable);
        }
        Poll::Ready(())
    }
}
