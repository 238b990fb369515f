//! A scan as a stream, for the combinators of the crate `futures`.

use super::scan::Rows;
use crate::cc::{ConcurrencyControl, Serializable};
use crate::error::Result;
use crate::table::{Key, Value};
use futures_core::stream::{FusedStream, Stream};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A scan's rows as a [`Stream`], made by [`Rows::stream`]. It ends after the last row, or after the first error.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct RowStream<'t, K, V: Value + ?Sized, C: ConcurrencyControl = Serializable> {
    rows: Rows<'t, K, V, C>,
    has_ended: bool,
}

impl<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl> Rows<'t, K, V, C> {
    /// Returns the remaining rows as a stream of results.
    ///
    /// ```
    /// use braiddb::{Database, Options, Table};
    /// use futures::stream::{StreamExt, TryStreamExt};
    ///
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let prices: Table<u64, u64> = db.table("prices")?;
    /// let dear = db.worker().run(async |tx| {
    ///     tx.put(prices, 1, 100).await?;
    ///     tx.put(prices, 2, 900).await?;
    ///     tx.put(prices, 3, 700).await?;
    ///     let dear = tx.scan_all(prices).stream().try_filter(|(_, price)| std::future::ready(*price > 600));
    ///     dear.take(10).try_collect::<Vec<_>>().await
    /// })?;
    /// assert_eq!(dear, [(2, 900), (3, 700)]);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn stream(self) -> RowStream<'t, K, V, C> {
        RowStream { rows: self, has_ended: false }
    }
}

impl<'t, K: Key, V: Value + ?Sized, C: ConcurrencyControl> Stream for RowStream<'t, K, V, C> {
    type Item = Result<(K, V::View<'t>)>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let next = ready!(self.rows.poll_pair(context)).transpose();
        self.has_ended = !matches!(next, Some(Ok(_)));
        Poll::Ready(next)
    }
}

impl<K: Key, V: Value + ?Sized, C: ConcurrencyControl> FusedStream for RowStream<'_, K, V, C> {
    fn is_terminated(&self) -> bool {
        self.has_ended
    }
}
