//! Reading a row in order to change it: the row is locked as if it had been written.

use super::fault::Fault;
use super::point_futures::Locate;
use super::value::Value;
use crate::cc::{Abort, Change, ConcurrencyControl, Serializable, Written};
use crate::error::{Error, Result};
use crate::exec::Mailbox;
use crate::profile::Activity;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What to do about a row that another open transaction has locked or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Busy {
    Wait,
    Fail,
    Skip,
}

/// Future of [`Txn::get_for_update`](super::Txn::get_for_update).
#[must_use = "futures do nothing unless awaited"]
pub struct GetForUpdate<'t, V: ?Sized, C: ConcurrencyControl = Serializable> {
    locate: Locate<'t, C>,
    busy: Busy,
    /// Standing aside for the row's holder.
    is_aside: bool,
    waits: u32,
    types: PhantomData<fn(&V)>,
}

/// Times that an operation stands aside for a row's holder: rounds of the worker, or in sequential execution
/// turns of the core.
const WAITS_MAX: u32 = 1 << 20;
const WAITS_IN_PLACE_MAX: u32 = 1000;

impl<V: ?Sized, C: ConcurrencyControl> fmt::Debug for GetForUpdate<'_, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetForUpdate").field("busy", &self.busy).finish_non_exhaustive()
    }
}

impl<'t, V: ?Sized, C: ConcurrencyControl> GetForUpdate<'t, V, C> {
    pub(super) fn new(locate: Locate<'t, C>) -> Self {
        GetForUpdate { locate, busy: Busy::Wait, is_aside: false, waits: 0, types: PhantomData }
    }

    /// Fails with [`Error::RowLocked`] where it would have to wait. The transaction may go on.
    pub fn no_wait(mut self) -> Self {
        self.busy = Busy::Fail;
        self
    }

    /// Answers where it would have to wait as if there were no such row.
    pub fn skip_locked(mut self) -> Self {
        self.busy = Busy::Skip;
        self
    }

    /// The row is another's. `None`: wait for it.
    fn refused(&mut self, may_wait: bool) -> Option<Result<Option<V::View<'t>>>>
    where
        V: Value,
    {
        self.waits += 1;
        let waits_max = if self.locate.txn().is_in_place() { WAITS_IN_PLACE_MAX } else { WAITS_MAX };
        match self.busy {
            Busy::Fail => Some(Err(Error::RowLocked)),
            Busy::Skip => Some(Ok(None)),
            Busy::Wait if may_wait && self.waits < waits_max => None,
            Busy::Wait => Some(Err(self.locate.txn().doom(Fault::Abort(Abort::WriteConflict)).into())),
        }
    }
}

impl<'t, V: Value + ?Sized, C: ConcurrencyControl> Future for GetForUpdate<'t, V, C> {
    type Output = Result<Option<V::View<'t>>>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let me = &mut *self;
        let txn = me.locate.txn();
        if me.is_aside && txn.desk.posted() {
            return Poll::Pending; // woken before its time
        }
        me.is_aside = false;
        loop {
            // First the lock: what is read under it is not overwritten any more.
            let locked = me.locate.poll(|txn, point| {
                let written = txn.change(point, Change::Lock)?;
                let value = match written {
                    Written::Done => txn.found(point, true)?,
                    _ => None,
                };
                Ok((written, value))
            });
            let Poll::Ready(locked) = locked else { return Poll::Pending };
            me.locate.forget();
            let may_wait = match locked {
                Err(fault) => return Poll::Ready(Err(fault.into())),
                Ok((Written::Gone, _)) => continue,
                Ok((Written::Locked { may_wait }, _)) => may_wait,
                Ok((_, value)) => return Poll::Ready(value.map(V::view).transpose()),
            };
            if let Some(result) = me.refused(may_wait) {
                return Poll::Ready(result);
            }
            if txn.is_in_place() && !txn.desk.leave_place() {
                std::thread::yield_now();
                continue;
            }
            txn.desk.post_step_aside(1, Activity::Waiting);
            me.is_aside = true;
            return Poll::Pending;
        }
    }
}
