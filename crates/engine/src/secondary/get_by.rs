//! Reading one row by its key in a unique index.

use crate::cc::{ConcurrencyControl, Serializable};
use crate::error::{Error, Result};
use crate::ops::{NO_SLOT, Op, Point, PointLookup, in_row};
use crate::suspend::{PrefetchOnly, Suspend};
use crate::table::{AsKey, Fault, Index, IndexInner, Key, Value, decode_whole, index_key, split_entry};
use crate::txn::Txn;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of [`Txn::get_by`](crate::Txn::get_by).
#[must_use = "futures do nothing unless awaited"]
pub struct GetBy<'t, K, V: ?Sized, C: ConcurrencyControl = Serializable> {
    index: Result<&'t IndexInner, Fault>,
    /// Finds the entry.
    locate: PointLookup<'t, C>,
    /// After the entry has been read: the row's key, and the place of the visit to its record.
    row: Option<(&'t [u8], u8)>,
    types: PhantomData<fn(K, &V)>,
}

impl<K, V: ?Sized, C: ConcurrencyControl> fmt::Debug for GetBy<'_, K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetBy").field("locate", &self.locate).finish_non_exhaustive()
    }
}

impl<C: ConcurrencyControl> Txn<C> {
    /// Returns the row with this key in a unique index ([`Database::unique_index`]), if there is one: its own key and
    /// its value.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let people: Table<u64, str> = db.table("people")?;
    /// let by_name = db.unique_index(people, "by name", |_, name: &str| Some(name.to_string()))?;
    /// let tx = db.begin()?;
    /// tx.put(people, 7, "Ada")?;
    /// assert_eq!(tx.get_by(by_name, "Ada")?, Some((7, "Ada")));
    /// assert!(tx.put(people, 8, "Ada").is_err());
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    ///
    /// [`Database::unique_index`]: crate::Database::unique_index
    pub fn get_by<I: Key, K: Key, V: Value + ?Sized>(
        &self,
        index: Index<I, K, V>,
        key: impl AsKey<I>,
    ) -> GetBy<'_, K, V, C> {
        let inner = index.inner(self.state().database).map(|inner| {
            // SAFETY: indexes live as long as their database, which the transaction's worker holds.
            unsafe { &*std::ptr::from_ref::<IndexInner>(inner) }
        });
        let locate = match (inner, self.state().sought_key(&key)) {
            (Ok(inner), Ok(key)) => PointLookup::new(self.state(), &raw const inner.entries, key),
            (Err(fault), _) | (_, Err(fault)) => PointLookup::of_fault(self.state(), fault),
        };
        GetBy { index: inner, locate: locate.for_reading(), row: None, types: PhantomData }
    }
}

impl<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl> GetBy<'t, K, V, C> {
    /// Reads without tracking: see [`Txn::get`](crate::Txn::get).
    pub fn untracked(mut self) -> Self {
        self.locate.untrack();
        self
    }

    /// Checks that the transaction may look for rows by the index.
    fn check(&self) -> Result<&'t IndexInner> {
        let txn = self.locate.txn();
        let index = self.index.map_err(|fault| txn.doom(fault))?;
        if !index.is_unique {
            return Err(Error::IndexNotUnique { index: index.name.clone() });
        }
        index.check_snapshot(txn.snapshot_timestamp()).map_err(|fault| txn.doom(fault))?;
        Ok(index)
    }

    /// Begins the visit to the row that an entry names.
    fn follow(&mut self, index: &IndexInner, entry: &'t [u8]) -> Point<C> {
        let (id, key) = split_entry(entry);
        // SAFETY: the table holds the index.
        let base = unsafe { &*index.base };
        // The transaction has found the entry, so its row's record stays what it is.
        let point = Point::at(base, index_key(key), base.record(id), self.locate.intent);
        let _ = PrefetchOnly.miss::<1>(point.record.cast());
        self.row = Some((key, NO_SLOT));
        point
    }

    fn row(&self, key: &[u8], point: &Point<C>) -> Result<Option<(K, V::View<'t>)>> {
        let Some(value) = self.locate.txn().found(point)? else { return Ok(None) };
        let in_base = |error| in_row(error, point.table, index_key(key));
        Ok(Some((decode_whole(key).map_err(in_base)?, V::view(value).map_err(in_base)?)))
    }
}

impl<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl> Future for GetBy<'t, K, V, C> {
    type Output = Result<Option<(K, V::View<'t>)>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let me = &mut *self;
        let txn = me.locate.txn();
        if let Some((key, place)) = me.row {
            if !txn.is_done(place) {
                return txn.pend(context);
            }
            let row = me.row(key, txn.point(place));
            me.row = None;
            txn.release(place);
            return Poll::Ready(row);
        }
        let index = me.check()?;
        let entry = match me.locate.poll_found(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(entry) => entry?,
        };
        let Some(entry) = entry else { return Poll::Ready(Ok(None)) };
        let mut point = me.follow(index, entry);
        let key = me.row.take().expect("set by `follow`").0;
        let place = match txn.post(Op::Point(point)) {
            Some(posted) => posted,
            None if txn.run_point(&mut point) => return Poll::Ready(me.row(key, &point)),
            None => txn.post_waiting(Op::Point(point))?,
        };
        me.row = Some((key, place));
        txn.pend(context)
    }
}

impl<K, V: ?Sized, C: ConcurrencyControl> Drop for GetBy<'_, K, V, C> {
    fn drop(&mut self) {
        if let Some((_, place)) = self.row
            && place != NO_SLOT
        {
            self.locate.txn().release(place);
        }
    }
}

// Nothing in it is ever pinned.
impl<K, V: ?Sized, C: ConcurrencyControl> Unpin for GetBy<'_, K, V, C> {}
