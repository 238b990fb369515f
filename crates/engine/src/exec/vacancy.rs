//! A slot on its way from vacant to live.

use crate::exec::contract::Mailbox;
use crate::exec::pending_output::Outbox;
use crate::exec::slot::Slot;
use std::future::Future;
use std::rc::Rc;

/// A vacant slot, to be filled once or not at all.
pub struct Vacancy<'w, M: 'static> {
    slot: &'w Slot<M>,
    mailbox: &'static M,
    outbox: &'w Rc<Outbox>,
}

impl<'w, M: Mailbox> Vacancy<'w, M> {
    pub(crate) fn new(slot: &'static Slot<M>, outbox: &'w Rc<Outbox>) -> Self {
        Vacancy { slot, mailbox: &slot.mailbox, outbox }
    }

    /// The mailbox beside the future. Good as long as the future that fills the vacancy, and to be used by it
    /// only.
    pub(crate) fn mailbox(&self) -> &'static M {
        self.mailbox
    }

    /// Where the future leaves its output if that is to be held.
    pub(crate) fn outbox(&self) -> Rc<Outbox> {
        self.outbox.clone()
    }

    /// Fills the vacancy.
    pub(crate) fn fill(self, future: impl Future<Output = ()> + 'static) {
        // SAFETY: made by `Worker::place` only: the slot is vacant and does not move. The future borrows
        // nothing but the mailbox and what it keeps alive itself.
        unsafe { self.slot.future.put_erased(future) };
        self.slot.occupied();
    }
}
