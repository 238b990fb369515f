//! A point read that its caller steps. The schedules of this folder are made of it.

use crate::cc::{Abort, ConcurrencyControl, Intent};
use crate::error::{Error, Result};
use crate::ops::{NO_SLOT, Op, Point, ROUNDS_BUSY, TxnState};
use crate::record::RecordId;
use crate::suspend::OnMiss;
use crate::sync::Backoff;
use crate::table::{AsKey, Fault, Key, Table, Value};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A read of one key. The caller steps it to its end within the poll that made it, or has the worker come back for it.
pub(super) struct PointRead<'t, C: ConcurrencyControl> {
    txn: &'t TxnState<C>,
    point: Point<C>,
}

impl<'t, C: ConcurrencyControl> PointRead<'t, C> {
    /// Advances to the next probable miss. Returns true when the read is done.
    #[inline(always)]
    pub(super) fn step(&mut self) -> bool {
        self.txn.step_point(&mut self.point, &mut OnMiss)
    }

    /// Returns true while the read is looking for the record, and has not reached its versions.
    pub(super) fn is_descending(&self) -> bool {
        self.point.record.is_null()
    }

    /// Returns the value found. The read is done.
    #[inline(always)]
    pub(super) fn value(&self) -> Result<Option<&'t [u8]>> {
        Ok(self.txn.found(&self.point)?)
    }
}

/// How many rounds reads wait. Each round may yield the core.
const ROUNDS_WAITING: u32 = 100;

/// Counts the rounds over reads that are stepped within one poll. The reads get as many rounds as they need while they
/// make progress. If a read waits for another transaction's commit, it gets only a few more, because that transaction
/// may be open on the same worker.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    rounds: u32,
    patience: Backoff,
}

impl Rounds {
    /// Counts another round. Returns false after the last round.
    pub(super) fn go_on(&mut self) -> bool {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds > ROUNDS_BUSY {
            self.patience.wait();
        }
        self.rounds <= ROUNDS_BUSY + ROUNDS_WAITING
    }
}

/// The future of [`probe`](super::probe).
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

// Nothing in the future is ever pinned.
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

/// Searches the index alone.
#[inline(always)]
pub(super) fn probe_of<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl>(
    txn: &'t TxnState<C>,
    table: Table<K, V>,
    key: &impl AsKey<K>,
) -> Probe<'t, C> {
    let read = table
        .inner(txn.database)
        .and_then(|table| Ok(PointRead { txn, point: Point::new(table, txn.index_key(key)?, Intent::Read) }));
    Probe { read: read.map_err(|fault| txn.doom(fault)), place: NO_SLOT }
}

/// Prepares reads of these keys, and does not begin them.
#[inline(always)]
pub(super) fn point_reads<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl, const N: usize>(
    txn: &'t TxnState<C>,
    table: Table<K, V>,
    keys: &[impl AsKey<K>; N],
) -> Result<[PointRead<'t, C>; N]> {
    let table = table.inner(txn.database).map_err(|fault| txn.doom(fault))?;
    let mut fault = None;
    let reads = std::array::from_fn(|i| {
        let key = txn.index_key(&keys[i]).unwrap_or_else(|error| {
            fault = Some(error);
            crate::index::Key::from_u64(0)
        });
        PointRead { txn, point: Point::new(table, key, Intent::Read) }
    });
    match fault {
        Some(fault) => Err(txn.doom(fault).into()),
        None => Ok(reads),
    }
}

/// Dooms the transaction, because an operation has waited as long as one may in place. Returns the error.
#[cold]
pub(super) fn waited_too_long<C: ConcurrencyControl>(txn: &TxnState<C>) -> Error {
    txn.doom(Fault::Abort(Abort::WaitTimeout)).into()
}

/// Holds the epoch in which the transaction's operations begin from now on, although they are in no slot.
pub(super) fn hold_epoch<C: ConcurrencyControl>(txn: &TxnState<C>) -> HeldEpoch<'_, C> {
    HeldEpoch { txn, place: txn.has_free_slot().then(|| txn.hold()).flatten() }
}

/// See [`hold_epoch`].
pub(super) struct HeldEpoch<'t, C: ConcurrencyControl> {
    txn: &'t TxnState<C>,
    place: Option<u8>,
}

impl<C: ConcurrencyControl> HeldEpoch<'_, C> {
    /// Returns false if no slot was free for it.
    pub(super) fn is_held(&self) -> bool {
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
