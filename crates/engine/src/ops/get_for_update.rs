//! Reading a row in order to change it. The row is locked as if it had been written.
//!
//! If another transaction has locked or written the row, the operation waits in the row's queue (`cc/waits/`). On a
//! worker the transaction is parked meanwhile, and the worker sleeps if it has nothing else to do. An interactive
//! transaction blocks its thread, outside of the epoch.

use super::malformed::in_row;
use super::point::Point;
use super::point_lookup::PointLookup;
use super::row_wait::{RowWait, Wait, took};
use super::state::TxnState;
use crate::cc::{Abort, ConcurrencyControl, Holder, Serializable, Written};
use crate::error::Result;
use crate::record::{Record, RecordId};
use crate::table::{Fault, Value};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// The future of [`Txn::get_for_update`](crate::Txn::get_for_update).
#[must_use = "futures do nothing unless awaited"]
pub struct GetForUpdate<'t, V: ?Sized, C: ConcurrencyControl = Serializable> {
    lock: Lock<'t, C>,
    types: PhantomData<fn(&V)>,
}

/// The future of [`GetForUpdate::skip_locked`].
#[must_use = "futures do nothing unless awaited"]
pub struct SkipLocked<'t, V: ?Sized, C: ConcurrencyControl = Serializable> {
    lock: Lock<'t, C>,
    types: PhantomData<fn(&V)>,
}

/// The outcome of [`GetForUpdate::skip_locked`] for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim<T> {
    /// The row's value. This transaction has locked the row.
    Row(T),
    /// There is no such row, and nothing is locked.
    Absent,
    /// Another open transaction has locked or written the row.
    Locked,
}

impl<T> Claim<T> {
    /// Returns the value, if this transaction has locked the row.
    pub fn row(self) -> Option<T> {
        match self {
            Claim::Row(value) => Some(value),
            Claim::Absent | Claim::Locked => None,
        }
    }

    /// Returns true if another open transaction has the row.
    pub fn is_locked(&self) -> bool {
        matches!(self, Claim::Locked)
    }
}

/// The common part of both futures.
struct Lock<'t, C: ConcurrencyControl> {
    locate: PointLookup<'t, C>,
    /// The longest wait for other transactions. `None` for the database's `lock_wait_ms`.
    timeout: Option<Duration>,
    /// The place in the queue and what is known of the holder, while another transaction has the row.
    line: Option<RowWait<'t, C>>,
    /// True while the operation stands aside for a commit that is under way.
    is_aside: bool,
}

/// The outcome of an attempt to lock a row.
enum Tried<'t> {
    Taken(Option<&'t [u8]>),
    Gone,
    Busy(RecordId, *const Record, Option<Holder>),
}

impl<V: ?Sized, C: ConcurrencyControl> fmt::Debug for GetForUpdate<'_, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetForUpdate").field("timeout", &self.lock.timeout).finish_non_exhaustive()
    }
}

impl<V: ?Sized, C: ConcurrencyControl> fmt::Debug for SkipLocked<'_, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkipLocked").finish_non_exhaustive()
    }
}

impl<'t, V: ?Sized, C: ConcurrencyControl> GetForUpdate<'t, V, C> {
    pub(crate) fn new(locate: PointLookup<'t, C>) -> Self {
        let lock = Lock { locate: locate.for_locking(), timeout: None, line: None, is_aside: false };
        GetForUpdate { lock, types: PhantomData }
    }

    /// Sets the longest wait for other transactions, instead of
    /// [`Options::lock_wait_ms`](crate::Options::lock_wait_ms). After it the call fails with
    /// [`Error::LockTimeout`](crate::Error::LockTimeout). With a limit of 0 it fails at once with
    /// [`Error::RowLocked`](crate::Error::RowLocked). The transaction may continue.
    pub fn timeout(mut self, at_most: Duration) -> Self {
        self.lock.timeout = Some(at_most);
        self
    }

    /// Fails with [`Error::RowLocked`](crate::Error::RowLocked) instead of waiting. The transaction may continue.
    pub fn no_wait(self) -> Self {
        self.timeout(Duration::ZERO)
    }

    /// Does not wait, and returns a [`Claim`], which tells a locked row from a missing one.
    pub fn skip_locked(self) -> SkipLocked<'t, V, C> {
        SkipLocked { lock: self.lock, types: PhantomData }
    }
}

impl<'t, C: ConcurrencyControl> Lock<'t, C> {
    /// Looks for the row and tries to lock it. `waits`: transactions already in the row's queue go first.
    fn poll_try(&mut self, context: &Context<'_>, waits: bool) -> Poll<Result<Tried<'t>, Fault>> {
        let is_queued = self.line.as_ref().is_some_and(RowWait::is_queued);
        // An update at the commit holds its row only for a moment, like the other updates that it meets.
        let is_patient = || self.line.as_ref().is_none_or(RowWait::is_patient);
        let is_newcomer = waits && !is_queued && !(self.locate.txn().is_at_end.get() && is_patient());
        let tried = self.locate.poll(context, |txn, point| try_lock(txn, point, is_newcomer));
        if tried.is_ready() {
            self.locate.forget();
        }
        tried
    }

    /// Decodes the row's bytes.
    fn view<V: Value + ?Sized>(&self, bytes: &'t [u8]) -> Result<V::View<'t>> {
        V::view(bytes).map_err(|error| in_row(error, self.locate.table, self.locate.key()))
    }

    /// Polls for the row's value, once this transaction has locked the row.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<&'t [u8]>>> {
        let txn = self.locate.txn();
        if std::mem::take(&mut self.is_aside) && txn.stands_aside() {
            self.is_aside = true;
            return txn.pend(context); // woken before its time
        }
        loop {
            if let Some(line) = &mut self.line
                && let Wait::On = line.poll(context)?
            {
                return Poll::Pending;
            }
            if let Some(fault) = txn.doomed.get()
                && self.line.is_some()
            {
                return Poll::Ready(Err(fault.into())); // another operation has failed meanwhile
            }
            // Lock first: what is read under the lock is not overwritten any more.
            let Poll::Ready(tried) = self.poll_try(context, true) else { return Poll::Pending };
            let (row, record, holder) = match tried {
                Err(fault) => {
                    if matches!(fault, Fault::Abort(Abort::WriteConflict | Abort::Unserializable))
                        && let Some(line) = self.line.take()
                    {
                        line.keep();
                    }
                    return Poll::Ready(Err(fault.into()));
                }
                Ok(Tried::Gone) => continue,
                Ok(Tried::Taken(value)) => {
                    if let Some(line) = self.line.take()
                        && value.is_some()
                    {
                        line.took();
                    }
                    return Poll::Ready(Ok(value));
                }
                Ok(Tried::Busy(row, record, holder)) => (row, record, holder),
            };
            if let Some(fault) = txn.doomed.get() {
                return Poll::Ready(Err(fault.into())); // a wait would keep its locks from others, and it aborts anyway
            }
            let timeout = self.timeout;
            let line = match &mut self.line {
                Some(line) => line,
                none => {
                    none.insert(RowWait::new(txn, self.locate.table, self.locate.key(), timeout, holder)?)
                }
            };
            // An update at the commit holds its row only for a moment. Transactions that share the row may wait for a
            // share of this transaction. The scheme decides about them.
            if let Some(holder) = holder
                && (holder.is_ending || txn.is_at_end.get() && line.is_patient() && !holder.is_shared())
            {
                if line.stand_aside(holder)? {
                    self.is_aside = true;
                    return txn.pend(context);
                }
                continue;
            }
            if line.wait_for(row, record, holder)? {
                self.is_aside = true;
                return txn.pend(context);
            }
        }
    }
}

/// Locks the row of a finished operation, and reads it.
fn try_lock<'t, C: ConcurrencyControl>(
    txn: &'t TxnState<C>,
    point: &Point<C>,
    is_newcomer: bool,
) -> Result<Tried<'t>, Fault> {
    let waits = C::waits(txn.shared());
    if C::has_partitions(txn.shared()) && point.is_unsought() {
        // No transaction has the row itself.
        // SAFETY: not borrowed outside of single calls.
        let awaited = C::awaited(txn.shared(), unsafe { &mut *txn.scheme.get() });
        return Ok(match awaited {
            Some((row, holder)) => Tried::Busy(row, point.record, Some(holder)),
            None => Tried::Gone, // no transaction is in the way any more
        });
    }
    let turn = txn.turn.get().filter(|turn| turn.row() == point.id);
    if is_newcomer && turn.is_none() && waits.is_any() && !point.record.is_null() && waits.has_queue(point.id)
    {
        // SAFETY: not borrowed outside of single calls.
        let state = unsafe { &*txn.scheme.get() };
        // SAFETY: the operation has just found the record, in its epoch.
        let (is_own, shares, holder) = unsafe {
            let record = point.record;
            (C::holds(state, record), C::shares(state, record), C::holder(txn.shared(), state, record))
        };
        // The transactions in the queue wait for the only transaction that shares the row's lock.
        if !(is_own || shares && holder.is_none()) {
            return Ok(Tried::Busy(point.id, point.record, holder));
        }
    }
    Ok(match txn.lock(point)? {
        Err(holder) => Tried::Busy(point.id, point.record, Some(holder)),
        Ok(Written::Done) => {
            if let Some(ticket) = turn {
                txn.turn.set(None);
                took(txn, ticket);
            }
            Tried::Taken(if txn.is_at_end.get() { read_locked(txn, point)? } else { txn.found(point)? })
        }
        Ok(Written::Gone) => Tried::Gone,
        Ok(_) => Tried::Taken(None),
    })
}

/// Reads a locked row as it is now. What the operation found earlier may have been overwritten since.
#[cold]
fn read_locked<'t, C: ConcurrencyControl>(
    txn: &'t TxnState<C>,
    point: &Point<C>,
) -> Result<Option<&'t [u8]>, Fault> {
    let mut again = Point { access: C::Access::default(), ..*point };
    if !txn.run_point(&mut again) {
        return Err(txn.doom(Fault::Abort(Abort::WaitTimeout)));
    }
    let found = txn.found(&again)?;
    if found.is_some() {
        txn.recent.note(&again); // what is written next is written here, without a suspension
    }
    Ok(found)
}

impl<'t, V: Value + ?Sized, C: ConcurrencyControl> Future for GetForUpdate<'t, V, C> {
    type Output = Result<Option<V::View<'t>>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(value) = self.lock.poll(context) else { return Poll::Pending };
        self.lock.line = None;
        Poll::Ready(value.and_then(|value| value.map(|value| self.lock.view::<V>(value)).transpose()))
    }
}

impl<'t, V: Value + ?Sized, C: ConcurrencyControl> Future for SkipLocked<'t, V, C> {
    type Output = Result<Claim<V::View<'t>>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let Poll::Ready(tried) = self.lock.poll_try(context, false) else { return Poll::Pending };
            return Poll::Ready(match tried? {
                Tried::Gone => continue,
                Tried::Busy(..) => Ok(Claim::Locked),
                Tried::Taken(None) => Ok(Claim::Absent),
                Tried::Taken(Some(value)) => self.lock.view::<V>(value).map(Claim::Row),
            });
        }
    }
}
