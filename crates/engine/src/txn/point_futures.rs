//! The futures of the operations on one key. Plain data but for a place in the mailbox: safe to
//! drop at any time, and to leak.

use super::fault::Fault;
use super::handle::Txn;
use super::mailbox::NOWHERE;
use super::point::Point;
use super::table::TableInner;
use super::value::Value;
use crate::cc::{Abort, Change, ConcurrencyControl, Intent, Refused, Serializable, Written};
use crate::error::{Error, Result};
use crate::index::Key;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};

/// Finds a record: common to all. Posts its operation, or runs it in place if no place is free.
///
/// It lives in the user's future: few bytes make few instructions at every poll. So a fault that was
/// found when it was made takes the key's place.
pub(super) struct Locate<'t, C: ConcurrencyControl> {
    pub(super) txn: &'t Txn<C>,
    /// Null: there is a fault.
    pub(super) table: *const TableInner,
    /// The key, in parts: copied whole, it would be loaded in wider words than it was stored in just
    /// before, for which the processor has to wait.
    pub(super) slice: u64,
    /// With an upkeep, that: the key is there.
    pub(super) bytes: *const u8,
    pub(super) len: u32,
    pub(super) place: u8,
    pub(super) intent: Intent,
    /// It is a write of a table that has indexes, under way.
    pub(super) has_upkeep: bool,
}

/// In place of a key's length, where the key is a fault about it.
const TOO_LONG: u32 = 1;
const NOT_OF_EIGHT: u32 = 2;
const OUT_OF_MEMORY: u32 = 3;

/// In place of the key, the fault that there is; see `Locate::fault`.
#[cold]
fn no_key(fault: Fault) -> Key {
    let (slice, len) = match fault {
        Fault::KeyTooLong { bytes } => (bytes as u64, TOO_LONG),
        Fault::KeyNotOfEight { bytes } => (bytes as u64, NOT_OF_EIGHT),
        Fault::OutOfMemory { .. } => (0, OUT_OF_MEMORY),
        _ => (0, 0),
    };
    Key { slice, len, bytes: ptr::null() }
}

impl<'t, C: ConcurrencyControl> Locate<'t, C> {
    #[inline(always)]
    pub(super) fn new(txn: &'t Txn<C>, found: Result<(*const TableInner, Key), Fault>) -> Self {
        let (table, Key { slice, len, bytes }) = found.unwrap_or_else(|fault| (ptr::null(), no_key(fault)));
        Locate { txn, table, slice, bytes, len, place: NOWHERE, intent: Intent::Write, has_upkeep: false }
    }

    pub(super) fn txn(&self) -> &'t Txn<C> {
        self.txn
    }

    #[inline]
    pub(super) fn untrack(&mut self) {
        self.intent = Intent::Untracked;
        self.txn.desk.reads_untracked.set(true);
    }

    /// After `poll` has been ready.
    pub(super) fn forget(&mut self) {
        self.place = NOWHERE;
    }

    #[inline(always)]
    pub(super) fn key(&self) -> Key {
        Key { slice: self.slice, len: self.len, bytes: self.bytes }
    }

    #[cold]
    fn fault(&self) -> Fault {
        let bytes = self.slice as usize;
        let fault = match self.len {
            TOO_LONG => Fault::KeyTooLong { bytes },
            NOT_OF_EIGHT => Fault::KeyNotOfEight { bytes },
            OUT_OF_MEMORY => return self.txn.refuse(Refused::OutOfMemory),
            _ => Fault::WrongDatabase,
        };
        self.txn.doom(fault)
    }

    /// Gives the operation to `end` when it is done, and then releases its place, which the caller forgets.
    #[inline(always)]
    pub(super) fn poll<R>(
        &mut self,
        context: &Context<'_>,
        end: impl FnOnce(&'t Txn<C>, &Point<C>) -> Result<R, Fault>,
    ) -> Poll<Result<R, Fault>> {
        let txn = self.txn;
        if self.place != NOWHERE {
            if !txn.desk.is_done(self.place) {
                return txn.desk.pend(context);
            }
            let result = end(txn, txn.desk.point(self.place));
            txn.desk.release(self.place);
            return Poll::Ready(result);
        }
        if self.table.is_null() {
            return Poll::Ready(Err(self.fault()));
        }
        // SAFETY: tables live as long as their database, which the transaction's worker holds.
        let table = unsafe { &*self.table };
        if let Some(place) = txn.desk.post_point(table, self.key(), self.intent) {
            self.place = place;
            return txn.desk.pend(context);
        }
        let mut point = Point::new(table, self.key(), self.intent);
        if !txn.desk.run_point(&mut point) {
            return Poll::Ready(Err(txn.doom(Fault::Abort(Abort::Waited))));
        }
        Poll::Ready(end(txn, &point))
    }

    /// Nothing but reads is made of it.
    #[inline(always)]
    pub(super) fn for_reading(mut self) -> Self {
        self.intent = Intent::Read;
        self
    }

    /// The row is locked, and then read.
    pub(super) fn for_locking(mut self) -> Self {
        self.intent = Intent::Lock;
        self
    }

    /// Whether a write of the row maintains indexes as well.
    #[inline(always)]
    fn is_indexed(&self) -> bool {
        // SAFETY: tables live as long as their database.
        !self.table.is_null() && !unsafe { &*self.table }.indexes.is_empty()
    }

    #[inline(always)]
    pub(super) fn poll_found(&mut self, context: &Context<'_>) -> Poll<Result<Option<&'t [u8]>, Fault>> {
        let result = self.poll(context, |txn, point| {
            let found = txn.found(point)?;
            if found.is_some() {
                txn.desk.recent.note(point);
            }
            Ok(found)
        });
        if result.is_ready() {
            self.place = NOWHERE;
        }
        result
    }

    /// Makes the change when the record is found; as often as it turns out to be gone meanwhile.
    #[inline(always)]
    fn poll_change(&mut self, context: &Context<'_>, change: Change<'_>) -> Poll<Result<Written>> {
        if self.has_upkeep || self.place == NOWHERE && self.is_indexed() {
            return self.poll_indexed(context, change);
        }
        if self.place == NOWHERE
            && !self.table.is_null()
            && let Some(point) = self.txn.desk.recent_point(self.table, self.key(), Intent::Write)
        {
            match self.txn.change(&point, change)? {
                Written::Gone => {}
                written => return Poll::Ready(Ok(written)),
            }
        }
        loop {
            let result = self.poll(context, |txn, point| txn.change(point, change));
            if result.is_ready() {
                self.place = NOWHERE;
            }
            match result {
                Poll::Ready(Ok(Written::Gone)) => {}
                Poll::Ready(result) => return Poll::Ready(Ok(result?)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<C: ConcurrencyControl> Drop for Locate<'_, C> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.place != NOWHERE {
            if self.has_upkeep {
                return self.end_upkeep();
            }
            self.txn.desk.release(self.place);
        }
        // With a read the copy of its key goes.
        if matches!(self.intent, Intent::Read | Intent::Untracked) && self.len > 8 {
            // (By value: a reference would keep the future in memory.)
            self.txn.release_key(self.bytes, self.len);
        }
    }
}

impl<C: ConcurrencyControl> std::fmt::Debug for Locate<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locate").field("key", &self.key()).finish_non_exhaustive()
    }
}

/// Future of [`Txn::get`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Get<'t, V: ?Sized, C: ConcurrencyControl = Serializable>(Locate<'t, C>, PhantomData<fn(&V)>);

impl<'t, V: ?Sized, C: ConcurrencyControl> Get<'t, V, C> {
    #[inline(always)]
    pub(super) fn new(locate: Locate<'t, C>) -> Self {
        Get(locate.for_reading(), PhantomData)
    }

    /// Reads without being tracked: see [`Txn::get`].
    pub fn untracked(mut self) -> Self {
        self.0.untrack();
        self
    }
}

impl<'t, V: Value + ?Sized, C: ConcurrencyControl> Future for Get<'t, V, C> {
    type Output = Result<Option<V::View<'t>>>;
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_found(context).map(|bytes| bytes?.map(V::view).transpose())
    }
}

/// Future of [`Txn::contains`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Contains<'t, C: ConcurrencyControl = Serializable>(Locate<'t, C>);

impl<'t, C: ConcurrencyControl> Contains<'t, C> {
    pub(super) fn new(locate: Locate<'t, C>) -> Self {
        Contains(locate.for_reading())
    }

    /// Reads without being tracked: see [`Txn::get`].
    pub fn untracked(mut self) -> Self {
        self.0.untrack();
        self
    }
}

impl<C: ConcurrencyControl> Future for Contains<'_, C> {
    type Output = Result<bool>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<bool>> {
        self.0.poll_found(context).map(|bytes| Ok(bytes?.is_some()))
    }
}

/// Future of [`Txn::delete`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Delete<'t, C: ConcurrencyControl = Serializable>(Locate<'t, C>);

impl<'t, C: ConcurrencyControl> Delete<'t, C> {
    pub(super) fn new(locate: Locate<'t, C>) -> Self {
        Delete(locate)
    }
}

impl<C: ConcurrencyControl> Future for Delete<'_, C> {
    type Output = Result<bool>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<bool>> {
        self.0.poll_change(context, Change::Delete).map(|written| Ok(written? == Written::Done))
    }
}

/// What a write with a value waits for and with.
struct Write<'t, 'v, V: Value + ?Sized, C: ConcurrencyControl> {
    locate: Locate<'t, C>,
    value: Result<V::Encoded<'v>, Option<Error>>,
}

impl<'t, 'v, V: Value + ?Sized, C: ConcurrencyControl> Write<'t, 'v, V, C> {
    #[inline(always)]
    fn poll(
        &mut self,
        context: &Context<'_>,
        change: impl for<'s> FnOnce(&'s [u8]) -> Change<'s>,
    ) -> Poll<Result<Written>> {
        match &mut self.value {
            Ok(value) => self.locate.poll_change(context, change(value.as_ref())),
            Err(error) => Poll::Ready(Err(error.take().expect("polled after the end"))),
        }
    }
}

macro_rules! write_futures {
    ($($(#[$doc:meta])* $name:ident, $change:ident, $output:ty, |$written:ident| $result:expr;)*) => {$(
        $(#[$doc])*
        #[must_use = "futures do nothing unless awaited"]
        pub struct $name<'t, 'v, V: Value + ?Sized, C: ConcurrencyControl = Serializable>(Write<'t, 'v, V, C>);

        impl<'t, 'v, V: Value + ?Sized, C: ConcurrencyControl> $name<'t, 'v, V, C> {
            #[inline(always)]
            pub(super) fn new(locate: Locate<'t, C>, value: Result<V::Encoded<'v>>) -> Self {
                $name(Write { locate, value: value.map_err(Some) })
            }
        }

        impl<'t, 'v, V: Value + ?Sized, C: ConcurrencyControl> std::fmt::Debug for $name<'t, 'v, V, C> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.0.locate).finish()
            }
        }

        // The encoded value is never pinned: only borrowed.
        impl<'t, 'v, V: Value + ?Sized, C: ConcurrencyControl> Unpin for $name<'t, 'v, V, C> {}

        impl<'t, 'v, V: Value + ?Sized, C: ConcurrencyControl> Future for $name<'t, 'v, V, C> {
            type Output = Result<$output>;
            #[inline(always)]
            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<$output>> {
                self.0.poll(context, |value| Change::$change(value)).map(|written| { let $written = written?; $result })
            }
        }
    )*};
}

write_futures! {
    /// Future of [`Txn::put`].
    Put, Put, (), |written| { debug_assert_eq!(written, Written::Done); Ok(()) };
    /// Future of [`Txn::insert`].
    Insert, Insert, (), |written| if written == Written::Done { Ok(()) } else { Err(Error::KeyExists) };
    /// Future of [`Txn::update`].
    Update, Update, bool, |written| Ok(written == Written::Done);
}
