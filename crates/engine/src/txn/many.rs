//! Several keys of one table at once.

use super::fault::Fault;
use super::handle::Txn;
use super::key::{AsKey, Key as KeyType};
use super::mailbox::{InPlace, NOWHERE, PLACES};
use super::point::Point;
use super::table::{Table, TableInner};
use super::value::Value;
use crate::cc::{Abort, ConcurrencyControl, Serializable};
use crate::error::Result;
use crate::index::Key;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Operations that one window of in-place rounds holds.
const WINDOW: usize = 16;

const NO_KEY: Key = Key { slice: 0, len: 0, bytes: std::ptr::null() };

/// Future of [`Txn::get_many`]: a window of operations over the free places of the transaction's
/// slot; with none free, or in a sequential transaction, rounds over an array.
#[must_use = "futures do nothing unless awaited"]
pub struct GetMany<'t, V: Value + ?Sized, const N: usize, C: ConcurrencyControl = Serializable> {
    txn: &'t Txn<C>,
    table: Result<*const TableInner, Fault>,
    keys: [Key; N],
    out: [Option<V::View<'t>>; N],
    /// Keys answered; the operations of the following ones are in `places`, in order.
    next: usize,
    places: [u8; PLACES],
    is_untracked: bool,
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
    pub(super) fn new<K: KeyType, A: AsKey<K>>(txn: &'t Txn<C>, table: Table<K, V>, keys: &[A; N]) -> Self {
        let mut many = GetMany {
            txn,
            table: table.inner(txn.desk.database).map(std::ptr::from_ref),
            keys: [NO_KEY; N],
            out: [const { None }; N],
            next: 0,
            places: [NOWHERE; PLACES],
            is_untracked: false,
        };
        for (to, key) in many.keys.iter_mut().zip(keys) {
            match txn.index_key(key) {
                Ok(key) => *to = key,
                Err(fault) => many.table = Err(fault),
            }
        }
        many
    }

    /// Reads without being tracked: see [`Txn::get`].
    pub fn untracked(mut self) -> Self {
        self.is_untracked = true;
        self.txn.desk.reads_untracked.set(true);
        self
    }

    /// In rounds over an array, a window of keys after the other.
    fn run(&mut self, table: &TableInner) -> Result<()> {
        while self.next < N {
            let end = N.min(self.next + WINDOW);
            let mut points = [const { None }; WINDOW];
            let window = &mut points[..end - self.next];
            for (point, key) in window.iter_mut().zip(&self.keys[self.next..end]) {
                *point = Some(Point::new(table, *key));
            }
            if !self.txn.desk.run_points(window) {
                return Err(self.txn.doom(Fault::Abort(Abort::Waited)).into());
            }
            for point in window.iter().flatten() {
                self.out[self.next] = self.txn.found(point, !self.is_untracked)?.map(V::view).transpose()?;
                self.next += 1;
            }
        }
        Ok(())
    }

    /// Takes finished operations out, in order, and posts more. False: no place was free for the next key.
    fn advance(&mut self, table: &TableInner) -> Result<bool> {
        let desk = &self.txn.desk;
        let mut flying = self.places.iter().take_while(|&&place| place != NOWHERE).count();
        while flying > 0 && desk.is_done(self.places[0]) {
            let place = self.places[0];
            self.places.rotate_left(1);
            self.places[PLACES - 1] = NOWHERE;
            flying -= 1;
            let found = self.txn.found(desk.point(place), !self.is_untracked);
            desk.release(place);
            self.out[self.next] = found?.map(V::view).transpose()?;
            self.next += 1;
        }
        while flying < PLACES && self.next + flying < N {
            let Some(place) = desk.post_point(table, self.keys[self.next + flying]) else {
                return Ok(flying > 0);
            };
            self.places[flying] = place;
            flying += 1;
        }
        Ok(true)
    }
}

impl<'t, V: Value + ?Sized, const N: usize, C: ConcurrencyControl> Future for GetMany<'t, V, N, C> {
    type Output = Result<[Option<V::View<'t>>; N]>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let me = &mut *self;
        let table = match me.table {
            // SAFETY: tables live as long as their database, which the transaction's worker holds.
            Ok(table) => unsafe { &*table },
            Err(fault) => return Poll::Ready(Err(me.txn.doom(fault).into())),
        };
        if me.txn.desk.in_place != InPlace::Not || !me.advance(table)? {
            me.run(table)?;
        }
        if me.next < N {
            return Poll::Pending;
        }
        Poll::Ready(Ok(std::mem::replace(&mut me.out, [const { None }; N])))
    }
}

impl<'t, V: Value + ?Sized, const N: usize, C: ConcurrencyControl> Drop for GetMany<'t, V, N, C> {
    fn drop(&mut self) {
        for &place in self.places.iter().take_while(|&&place| place != NOWHERE) {
            self.txn.desk.release(place);
        }
    }
}
