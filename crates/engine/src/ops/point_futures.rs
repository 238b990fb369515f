//! The futures of the operations on one key. Apart from an operation slot they are plain data, so they may be dropped
//! at any time, and leaked.

use super::point_lookup::PointLookup;
use crate::cc::{Change, ConcurrencyControl, Serializable, Written};
use crate::error::{Error, Result};
use crate::table::Value;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of [`Txn::get`](crate::Txn::get).
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Get<'t, V: ?Sized, C: ConcurrencyControl = Serializable>(PointLookup<'t, C>, PhantomData<fn(&V)>);

impl<'t, V: ?Sized, C: ConcurrencyControl> Get<'t, V, C> {
    #[inline(always)]
    pub(crate) fn new(locate: PointLookup<'t, C>) -> Self {
        Get(locate.for_reading(), PhantomData)
    }

    /// Reads without tracking: see [`Txn::get`](crate::Txn::get).
    pub fn untracked(mut self) -> Self {
        self.0.untrack();
        self
    }

    /// Says that the transaction will write the row. A scheme that locks rows, like [`NoWait`](crate::NoWait), then
    /// takes the lock for writing at once, instead of a lock for reading that it would have to exchange later. Two
    /// transactions that read and then write the same row therefore do not meet half-way.
    ///
    /// This is only a hint. The read is tracked like any other, and the transaction may leave the row as it is.
    /// [`Txn::get_for_update`](crate::Txn::get_for_update) locks the row under every scheme.
    #[inline(always)]
    pub fn for_write(mut self) -> Self {
        self.0.for_write();
        self
    }
}

impl<'t, V: Value + ?Sized, C: ConcurrencyControl> Future for Get<'t, V, C> {
    type Output = Result<Option<V::View<'t>>>;
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_found(context).map(|found| match found? {
            Some(found) => Ok(Some(self.0.view::<V>(found)?)),
            None => Ok(None),
        })
    }
}

/// The future of [`Txn::contains`](crate::Txn::contains).
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Contains<'t, C: ConcurrencyControl = Serializable>(PointLookup<'t, C>);

impl<'t, C: ConcurrencyControl> Contains<'t, C> {
    pub(crate) fn new(locate: PointLookup<'t, C>) -> Self {
        Contains(locate.for_reading())
    }

    /// Reads without tracking: see [`Txn::get`](crate::Txn::get).
    pub fn untracked(mut self) -> Self {
        self.0.untrack();
        self
    }
}

impl<C: ConcurrencyControl> Future for Contains<'_, C> {
    type Output = Result<bool>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<bool>> {
        self.0.poll_found(context).map(|found| Ok(found?.is_some()))
    }
}

/// The future of [`Txn::delete`](crate::Txn::delete).
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Delete<'t, C: ConcurrencyControl = Serializable>(PointLookup<'t, C>);

impl<'t, C: ConcurrencyControl> Delete<'t, C> {
    pub(crate) fn new(locate: PointLookup<'t, C>) -> Self {
        Delete(locate)
    }
}

impl<C: ConcurrencyControl> Future for Delete<'_, C> {
    type Output = Result<bool>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<bool>> {
        self.0.poll_change(context, Change::Delete).map(|written| Ok(written? == Written::Done))
    }
}

/// The common part of the futures of writes with a value.
struct Write<'t, 'v, V: Value + ?Sized, C: ConcurrencyControl> {
    locate: PointLookup<'t, C>,
    value: Result<V::Encoded<'v>, Option<Error>>,
}

impl<'t, 'v, V: Value + ?Sized, C: ConcurrencyControl> Write<'t, 'v, V, C> {
    #[cfg_attr(not(debug_assertions), inline(always))]
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
            pub(crate) fn new(locate: PointLookup<'t, C>, value: Result<V::Encoded<'v>>) -> Self {
                $name(Write { locate, value: value.map_err(Some) })
            }
        }

        impl<'t, 'v, V: Value + ?Sized, C: ConcurrencyControl> std::fmt::Debug for $name<'t, 'v, V, C> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.0.locate).finish()
            }
        }

        // The encoded value is only borrowed, never pinned.
        impl<'t, 'v, V: Value + ?Sized, C: ConcurrencyControl> Unpin for $name<'t, 'v, V, C> {}

        impl<'t, 'v, V: Value + ?Sized, C: ConcurrencyControl> Future for $name<'t, 'v, V, C> {
            type Output = Result<$output>;
            #[cfg_attr(not(debug_assertions), inline(always))]
            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<$output>> {
                self.0.poll(context, |value| Change::$change(value)).map(|written| { let $written = written?; $result })
            }
        }
    )*};
}

write_futures! {
    /// The future of [`Txn::put`](crate::Txn::put).
    Put, Put, (), |written| { debug_assert_eq!(written, Written::Done); Ok(()) };
    /// The future of [`Txn::insert`](crate::Txn::insert).
    Insert, Insert, (), |written| if written == Written::Done { Ok(()) } else { Err(Error::KeyExists) };
    /// The future of [`Txn::update`](crate::Txn::update).
    Update, Update, bool, |written| Ok(written == Written::Done);
}
