//! Scans of columns by plain calls.

use super::Projection;
use super::columns::Columns;
use super::scan::{AsyncProjectionScan, ColumnBatch};
use crate::cc::{ConcurrencyControl, Serializable};
use crate::error::Result;
use crate::table::{AsKey, Key, Value};
use crate::txn::Transaction;
use std::fmt;
use std::ops::RangeBounds;

impl<K: Key, V: Value + ?Sized, R: Columns, C: ConcurrencyControl> Projection<K, V, R, C> {
    /// Scans a range like [`scan_async`](Self::scan_async), with calls that run on the thread.
    pub fn scan<'t, A: AsKey<K>>(
        &self,
        transaction: &'t Transaction<C>,
        range: impl RangeBounds<A>,
    ) -> Result<ProjectionScan<'t, K, V, R, C>> {
        Ok(ProjectionScan { scan: self.scan_async(transaction.txn(), range)?, of: transaction })
    }

    /// Scans all rows like [`scan`](Self::scan).
    pub fn scan_all<'t>(&self, transaction: &'t Transaction<C>) -> Result<ProjectionScan<'t, K, V, R, C>> {
        self.scan::<&K>(transaction, ..)
    }
}

/// The rows of a projection, batch by batch. Made by [`Projection::scan`](crate::Projection::scan).
pub struct ProjectionScan<'t, K, V: ?Sized, R: Columns, C: ConcurrencyControl = Serializable> {
    scan: AsyncProjectionScan<'t, K, V, R, C>,
    of: &'t Transaction<C>,
}

impl<K, V: ?Sized, R: Columns, C: ConcurrencyControl> fmt::Debug for ProjectionScan<'_, K, V, R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scan.fmt(f)
    }
}

impl<K: Key, V: Value + ?Sized, R: Columns, C: ConcurrencyControl> ProjectionScan<'_, K, V, R, C> {
    /// Returns the next batch, like [`AsyncProjectionScan::next`].
    #[allow(clippy::should_implement_trait, reason = "a batch is lent from the scan")]
    pub fn next(&mut self) -> Result<Option<ColumnBatch<'_, K, R>>> {
        self.next_where(|_| true)
    }

    /// Returns the next batch like [`next`](Self::next), but skips blocks. `can_match` gets the least and greatest
    /// values of a block's columns, and returns false if no row of the block is wanted. A batch may still have
    /// unwanted rows, because blocks are skipped as a whole.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let readings: Table<u64, (u32, i32)> = db.table("readings")?; // by time: the sensor, and degrees
    /// let degrees = db.projection(readings, "degrees by column", |_, (_, degrees)| Some((degrees,)))?;
    /// db.transact(|tx| (0..9).try_for_each(|time| tx.put(readings, time, (1, time as i32))))?;
    /// degrees.refresh()?;
    /// let tx = db.begin()?;
    /// tx.declare_read_only();
    /// let (mut scan, mut hot) = (degrees.scan_all(&tx)?, 0);
    /// while let Some(batch) = scan.next_where(|(degrees,)| degrees.meets(5..))? {
    ///     let (degrees,) = batch.columns();
    ///     hot += degrees.iter().filter(|&&degrees| degrees >= 5).count();
    /// }
    /// assert_eq!(hot, 4);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn next_where(
        &mut self,
        can_match: impl FnMut(&R::Zones) -> bool,
    ) -> Result<Option<ColumnBatch<'_, K, R>>> {
        let scan = &mut self.scan;
        self.of.now(move |_| scan.next_where(can_match))
    }
}
