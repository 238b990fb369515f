//! A slot on its way from vacant to live.

use crate::exec::contract::Operations;
use crate::exec::pending_output::OutputQueue;
use crate::exec::slot::Slot;
use std::future::Future;
use std::rc::Rc;

/// A vacant slot, to be filled once or not at all.
pub struct Vacancy<'w, M: 'static> {
    slot: &'w Slot<M>,
    operations: &'static M,
    outputs: &'w Rc<OutputQueue>,
}

impl<'w, M: Operations> Vacancy<'w, M> {
    pub(crate) fn new(slot: &'static Slot<M>, outputs: &'w Rc<OutputQueue>) -> Self {
        Vacancy { slot, operations: &slot.operations, outputs }
    }

    /// Returns the operations beside the future. They are valid as long as the future that fills the vacancy, and
    /// only that future may use them.
    pub(crate) fn operations(&self) -> &'static M {
        self.operations
    }

    /// Returns where the future leaves its output if the output must be held.
    pub(crate) fn outputs(&self) -> Rc<OutputQueue> {
        self.outputs.clone()
    }

    /// Fills the vacancy.
    pub(crate) fn fill(self, future: impl Future<Output = ()> + 'static) {
        // SAFETY: made by `Worker::place` only: the slot is vacant and does not move. The future borrows
        // nothing but the operations and what it keeps alive itself.
        unsafe { self.slot.future.put_erased(future) };
        self.slot.started();
    }
}
