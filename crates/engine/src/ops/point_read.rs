//! A point read whose steps the caller takes: what `variants` is made of.

use super::NO_SLOT;
use super::bounded_wait::BoundedWait;
use super::point::{Point, ROUNDS_BUSY};
use super::state::{Op, TxnState};
use crate::cc::{Abort, ConcurrencyControl, Intent};
use crate::error::{Error, Result};
use crate::profile::Activity;
use crate::record::RecordId;
use crate::suspend::OnMiss;
use crate::table::{AsKey, Fault, Key, Table, Value};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A read of one key, to be stepped to its end within the poll that made it, or where the caller
/// has the worker come back for it.
pub(crate) struct PointRead<'t, C: ConcurrencyControl> {
    txn: &'t TxnState<C>,
    point: Point<C>,
}

impl<'t, C: ConcurrencyControl> PointRead<'t, C> {
    /// Goes on to the next probable miss; true: done.
    #[inline(always)]
    pub(crate) fn step(&mut self) -> bool {
        self.txn.step_point(&mut self.point, &mut OnMiss)
    }

    /// It is still looking for the record, not yet at its versions.
    pub(crate) fn is_descending(&self) -> bool {
        self.point.record.is_null()
    }

    /// What it has found, when done.
    #[inline(always)]
    pub(crate) fn value(&self) -> Result<Option<&'t [u8]>> {
        Ok(self.txn.found(&self.point)?)
    }
}

/// Rounds over reads that are stepped within one poll: as many as it takes while they get on, and then, where one
/// waits for another transaction's commit, as many as operations in place wait.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    rounds: u32,
    patience: BoundedWait,
}

impl Rounds {
    /// Another round. False: it has been long enough.
    pub(crate) fn go_on(&mut self) -> bool {
        self.rounds = self.rounds.saturating_add(1);
        self.rounds <= ROUNDS_BUSY || self.patience.wait()
    }
}

/// Future of [`variants::probe`](crate::variants::probe).
#[must_use = "futures do nothing unless awaited"]
pub struct Probe<'t, C: ConcurrencyControl> {
    read: Result<PointRead<'t, C>, Fault>,
    place: u8,
}

impl<C: ConcurrencyControl> fmt::Debug for Probe<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").finish_non_exhaustive()
    }
}

// Nothing in it is ever pinned.
impl<C: ConcurrencyControl> Unpin for Probe<'_, C> {}

impl<C: ConcurrencyControl> Future for Probe<'_, C> {
    type Output = Result<bool>;
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<bool>> {
        let me = &mut *self;
        let read = match &mut me.read {
            Ok(read) => read,
            Err(fault) => return Poll::Ready(Err((*fault).into())),
        };
        let txn = read.txn;
        if me.place != NO_SLOT {
            if !txn.is_done(me.place) {
                return txn.pend(context);
            }
            read.point = *txn.point(me.place);
            txn.release(me.place);
            me.place = NO_SLOT;
        } else if let Some(place) = txn.post(Op::Probe(read.point)) {
            me.place = place;
            return txn.pend(context);
        } else {
            txn.probe_now(&mut read.point);
        }
        Poll::Ready(Ok(read.point.id != RecordId(0)))
    }
}

impl<C: ConcurrencyControl> Drop for Probe<'_, C> {
    fn drop(&mut self) {
        if let (Ok(read), true) = (&self.read, self.place != NO_SLOT) {
            read.txn.release(self.place);
        }
    }
}

impl<C: ConcurrencyControl> TxnState<C> {
    /// A search of the index alone.
    #[inline(always)]
    pub(crate) fn probe<K: Key, V: Value + ?Sized>(
        &self,
        table: Table<K, V>,
        key: &impl AsKey<K>,
    ) -> Probe<'_, C> {
        let read = table.inner(self.database).and_then(|table| {
            Ok(PointRead { txn: self, point: Point::new(table, self.index_key(key)?, Intent::Read) })
        });
        Probe { read: read.map_err(|fault| self.doom(fault)), place: NO_SLOT }
    }

    /// Reads of these keys, not begun.
    #[inline(always)]
    pub(crate) fn point_reads<K: Key, V: Value + ?Sized, const N: usize>(
        &self,
        table: Table<K, V>,
        keys: &[impl AsKey<K>; N],
    ) -> Result<[PointRead<'_, C>; N]> {
        let table = table.inner(self.database).map_err(|fault| self.doom(fault))?;
        let mut fault = None;
        let reads = std::array::from_fn(|i| {
            let key = self.index_key(&keys[i]).unwrap_or_else(|error| {
                fault = Some(error);
                crate::index::Key::from_u64(0)
            });
            PointRead { txn: self, point: Point::new(table, key, Intent::Read) }
        });
        match fault {
            Some(fault) => Err(self.doom(fault).into()),
            None => Ok(reads),
        }
    }

    /// Holds the epoch that the transaction's operations begin in from now on, although they are in
    /// no slot.
    pub(crate) fn hold_epoch(&self) -> HeldEpoch<'_, C> {
        HeldEpoch { txn: self, place: self.hold() }
    }

    /// An operation has waited as long as one does in place: the transaction gives way.
    #[cold]
    pub(crate) fn waited_too_long(&self) -> Error {
        self.doom(Fault::Abort(Abort::WaitTimeout)).into()
    }

    /// Has the worker poll the transaction again when its turn comes.
    pub(crate) fn post_visit(&self) {
        self.post_step_aside(1, Activity::Scheduling);
    }
}

/// See [`Txn::hold_epoch`](crate::Txn::hold_epoch).
pub(crate) struct HeldEpoch<'t, C: ConcurrencyControl> {
    txn: &'t TxnState<C>,
    place: Option<u8>,
}

impl<C: ConcurrencyControl> HeldEpoch<'_, C> {
    /// False: there was no place for it.
    pub(crate) fn is_held(&self) -> bool {
        self.place.is_some()
    }
}

impl<C: ConcurrencyControl> Drop for HeldEpoch<'_, C> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.txn.release(place);
        }
    }
}
