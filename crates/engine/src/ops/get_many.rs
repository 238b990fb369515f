//! Reads of several keys of one table at once.

use super::NO_SLOT;
use super::late::SLOTS;
use super::malformed::{in_row, in_row_as};
use super::point::Point;
use super::state::{HANDS_OUT, Op, TxnState};
use crate::cc::{ConcurrencyControl, Intent, Serializable};
use crate::error::Result;
use crate::exec::Execution;
use crate::index::Key;
use crate::table::{AsKey, Fault, Key as KeyType, Table, TableInner, Value};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The number of operations in one window of rounds in place.
const WINDOW: usize = 16;

const NO_KEY: Key = Key { slice: 0, len: 0, bytes: std::ptr::null() };

/// Held while foreign code gets, one by one, the values that operations in no place have found. Nothing of these may be
/// undone meanwhile.
struct HandsOut<'t, C: ConcurrencyControl>(&'t TxnState<C>, u32);

impl<'t, C: ConcurrencyControl> HandsOut<'t, C> {
    #[inline(always)]
    fn new(txn: &'t TxnState<C>) -> Self {
        let before = txn.used.get();
        txn.used.set(before | HANDS_OUT);
        HandsOut(txn, before)
    }
}

impl<C: ConcurrencyControl> Drop for HandsOut<'_, C> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.used.set(self.0.used.get() & !HANDS_OUT | self.1 & HANDS_OUT);
    }
}

/// Reads of several keys: a window of operations over the free slots of the transaction. If none is free, or in a
/// sequential transaction, they are run in rounds over an array. If an operation of the array has to wait, the array's
/// operations begin again in places for operations that wait.
struct MultiGet<'t, C: ConcurrencyControl> {
    txn: &'t TxnState<C>,
    table: Result<*const TableInner, Fault>,
    /// The number of keys answered. The operations of the following keys are in `places`, in order.
    next: usize,
    places: [u8; SLOTS],
    intent: Intent,
    /// An operation in the array had to wait. From now on operations are posted.
    waits: bool,
}

impl<'t, C: ConcurrencyControl> MultiGet<'t, C> {
    #[inline(always)]
    fn new(txn: &'t TxnState<C>, table: Result<&TableInner, Fault>) -> Self {
        let intent = Intent::of_read(!table.is_ok_and(TableInner::is_frozen));
        let table = table.map(std::ptr::from_ref);
        MultiGet { txn, table, next: 0, places: [NO_SLOT; SLOTS], intent, waits: false }
    }

    fn untrack(&mut self) {
        self.intent = Intent::Untracked;
        self.txn.reads_untracked.set(true);
    }

    /// Returns what the next operation, which is done, has found.
    #[inline(always)]
    fn read(&self, point: &Point<C>) -> Result<Option<&'t [u8]>, Fault> {
        let recent = &self.txn.recent;
        if self.next == 0 {
            recent.note_many(point.table);
        }
        let found = self.txn.found(point)?;
        if found.is_some() {
            recent.note_one_of_many(point);
        }
        Ok(found)
    }

    /// Reads the keys in rounds over an array, a window of keys at a time. Returns false if an operation has to wait.
    /// The keys of its array have not been read then.
    fn run(
        &mut self,
        table: &TableInner,
        count: usize,
        key: impl Fn(usize) -> Result<Key, Fault>,
        mut found: impl FnMut(usize, Option<&'t [u8]>) -> Result<()>,
    ) -> Result<bool> {
        while self.next < count {
            let end = count.min(self.next + WINDOW);
            let mut points = [const { None }; WINDOW];
            let window = &mut points[..end - self.next];
            for (i, point) in window.iter_mut().enumerate() {
                let key = key(self.next + i).map_err(|fault| self.txn.doom(fault))?;
                *point = Some(Point::new(table, key, self.intent));
            }
            if !self.txn.run_points(window) {
                return Ok(false);
            }
            self.txn.count_operations(window.len() as u32);
            let _what_they_have_found_stays = HandsOut::new(self.txn);
            for point in window.iter().flatten() {
                found(self.next, self.read(point)?)?;
                self.next += 1;
            }
        }
        Ok(true)
    }

    /// Takes finished operations out, in order, and posts more. Returns false if no place was free for the next key.
    #[inline(always)]
    fn advance(
        &mut self,
        table: &TableInner,
        count: usize,
        key: impl Fn(usize) -> Result<Key, Fault>,
        mut found: impl FnMut(usize, Option<&'t [u8]>) -> Result<()>,
    ) -> Result<bool> {
        let txn = self.txn;
        let mut flying = self.places.iter().take_while(|&&place| place != NO_SLOT).count();
        while flying > 0 && txn.is_done(self.places[0]) {
            let place = self.places[0];
            self.places.rotate_left(1);
            self.places[SLOTS - 1] = NO_SLOT;
            flying -= 1;
            let bytes = self.read(txn.point(place));
            txn.release(place);
            found(self.next, bytes?)?;
            self.next += 1;
        }
        while flying < SLOTS && self.next + flying < count {
            let key = key(self.next + flying).map_err(|fault| self.txn.doom(fault))?;
            self.places[flying] = match txn.post_point(table, key, self.intent) {
                Some(posted) => posted.place,
                None if self.waits => txn.post_waiting(Op::Point(Point::new(table, key, self.intent)))?,
                None => return Ok(flying > 0),
            };
            flying += 1;
        }
        Ok(true)
    }

    /// Reads `count` keys, and passes what each has to `found`, in order.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn poll(
        &mut self,
        context: &Context<'_>,
        count: usize,
        key: impl Fn(usize) -> Result<Key, Fault>,
        mut found: impl FnMut(usize, Option<&'t [u8]>) -> Result<()>,
    ) -> Poll<Result<()>> {
        let table = match self.table {
            // SAFETY: tables live as long as their database, which the transaction's worker holds.
            Ok(table) => unsafe { &*table },
            Err(fault) => return Poll::Ready(Err(self.txn.doom(fault).into())),
        };
        let is_posted = self.waits || self.txn.execution.get() == Execution::Interleaved;
        // If no slot is free, nothing is posted, and the operations run here.
        let has_advanced = is_posted && self.advance(table, count, &key, &mut found)?;
        if !has_advanced && !self.run(table, count, &key, &mut found)? {
            self.waits = true;
            self.advance(table, count, &key, &mut found)?;
        }
        if self.next < count { self.txn.pend(context) } else { Poll::Ready(Ok(())) }
    }
}

impl<C: ConcurrencyControl> Drop for MultiGet<'_, C> {
    fn drop(&mut self) {
        for &place in self.places.iter().take_while(|&&place| place != NO_SLOT) {
            self.txn.release(place);
        }
    }
}

/// The future of [`Txn::get_many`](crate::Txn::get_many).
#[must_use = "futures do nothing unless awaited"]
pub struct GetMany<'t, V: Value + ?Sized, const N: usize, C: ConcurrencyControl = Serializable> {
    window: MultiGet<'t, C>,
    keys: [Key; N],
    out: [Option<V::View<'t>>; N],
}

impl<'t, V: Value + ?Sized, const N: usize, C: ConcurrencyControl> fmt::Debug for GetMany<'t, V, N, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetMany").field("keys", &self.keys).finish_non_exhaustive()
    }
}

// Nothing in it is ever pinned.
impl<'t, V: Value + ?Sized, const N: usize, C: ConcurrencyControl> Unpin for GetMany<'t, V, N, C> {}

impl<'t, V: Value + ?Sized, const N: usize, C: ConcurrencyControl> GetMany<'t, V, N, C> {
    #[inline(always)]
    pub(crate) fn new<K: KeyType, A: AsKey<K>>(
        txn: &'t TxnState<C>,
        table: Table<K, V>,
        keys: &[A; N],
    ) -> Self {
        let window = MultiGet::new(txn, table.inner(txn.database));
        let mut many = GetMany { window, keys: [NO_KEY; N], out: [const { None }; N] };
        for (to, key) in many.keys.iter_mut().zip(keys) {
            match txn.sought_key(key) {
                Ok(key) => *to = key,
                Err(fault) => many.window.table = Err(fault),
            }
        }
        many
    }

    /// Reads without tracking: see [`Txn::get`](crate::Txn::get).
    pub fn untracked(mut self) -> Self {
        self.window.untrack();
        self
    }
}

impl<'t, V: Value + ?Sized, const N: usize, C: ConcurrencyControl> Future for GetMany<'t, V, N, C> {
    type Output = Result<[Option<V::View<'t>>; N]>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let GetMany { window, keys, out } = &mut *self;
        let table = window.table.unwrap_or(std::ptr::null());
        let found = |at: usize, bytes: Option<&'t [u8]>| {
            out[at] = bytes.map(V::view).transpose().map_err(|error| in_row(error, table, keys[at]))?;
            Ok(())
        };
        match window.poll(context, N, |at| Ok(keys[at]), found) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => Poll::Ready(Ok(std::mem::replace(out, [const { None }; N]))),
        }
    }
}

/// The future of [`Txn::get_into`](crate::Txn::get_into).
#[must_use = "futures do nothing unless awaited"]
pub struct GetInto<'t, 'k, K, V: Value + ?Sized, A, C: ConcurrencyControl = Serializable> {
    window: MultiGet<'t, C>,
    keys: &'k [A],
    out: &'k mut [Option<V::View<'t>>],
    types: PhantomData<fn(K)>,
}

impl<K, V: Value + ?Sized, A, C: ConcurrencyControl> fmt::Debug for GetInto<'_, '_, K, V, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetInto").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

// Nothing in it is ever pinned.
impl<K, V: Value + ?Sized, A, C: ConcurrencyControl> Unpin for GetInto<'_, '_, K, V, A, C> {}

impl<'t, 'k, K: KeyType, V: Value + ?Sized, A: AsKey<K>, C: ConcurrencyControl> GetInto<'t, 'k, K, V, A, C> {
    pub(crate) fn new(
        txn: &'t TxnState<C>,
        table: Table<K, V>,
        keys: &'k [A],
        out: &'k mut [Option<V::View<'t>>],
    ) -> Self {
        let count = keys.len().min(out.len());
        for beyond in &mut out[count..] {
            *beyond = None;
        }
        let window = MultiGet::new(txn, table.inner(txn.database));
        GetInto { window, keys: &keys[..count], out, types: PhantomData }
    }

    /// Reads without tracking: see [`Txn::get`](crate::Txn::get).
    pub fn untracked(mut self) -> Self {
        self.window.untrack();
        self
    }
}

impl<'t, K: KeyType, V: Value + ?Sized, A: AsKey<K>, C: ConcurrencyControl> Future
    for GetInto<'t, '_, K, V, A, C>
{
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let GetInto { window, keys, out, .. } = &mut *self;
        let (txn, keys) = (window.txn, *keys);
        let table = window.table.unwrap_or(std::ptr::null());
        let found = |at: usize, bytes: Option<&'t [u8]>| {
            out[at] = bytes.map(V::view).transpose().map_err(|error| in_row_as(error, table, &keys[at]))?;
            Ok(())
        };
        window.poll(context, keys.len(), |at| txn.sought_key(&keys[at]), found)
    }
}
