//! Scans of columns, batch by batch.

use super::block::{Changed, KEYS_AT_ONCE, Rows};
use super::columns::Columns;
use super::generation::{Generation, begins_within};
use super::keys::Keys;
use super::refresh::{fill, successor};
use super::{Inner, Projection};
use crate::cc::{ConcurrencyControl, Scanned, Serializable};
use crate::error::{Error, Result};
use crate::memory::OutOfMemory;
use crate::sync::Arc;
use crate::table::{AsKey, Key, Table, Value, decode_whole, encode_sought};
use crate::txn::{RawTable, Txn};
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::{Range, RangeBounds};

impl<K: Key, V: Value + ?Sized, R: Columns, C: ConcurrencyControl> Projection<K, V, R, C> {
    /// Scans the columns of the rows whose keys are in a range, in the order of keys, as the transaction sees them.
    ///
    /// Under [`Serializable`](crate::Serializable) the transaction then depends on all rows of the range, even if the
    /// scan does not reach its end. If another transaction writes one of them, this transaction may have to run
    /// again. A transaction that was declared [read-only](Txn::declare_read_only) before it read anything depends on
    /// nothing, and its commit costs nothing. Under a scheme that has no snapshots, or whose transactions write at
    /// their snapshots ([`MultiVersion`](crate::MultiVersion)), the table must be [frozen](crate::Database::freeze).
    /// Otherwise the call returns [`Error::NoSnapshot`](crate::Error::NoSnapshot).
    ///
    /// A worker's other transactions run between batches, after some thousand rows.
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 1, ..Options::default() })?;
    /// let accounts: Table<u64, i64> = db.table("accounts")?;
    /// let totals: Table<u64, i64> = db.table("totals")?;
    /// let balances = db.projection(accounts, "balances", |_, balance| Some((balance,)))?;
    /// db.transact(|tx| (0..9).try_for_each(|id| tx.put(accounts, id, 100)))?;
    /// balances.refresh()?;
    /// // Adds up what there is, and writes it down, as if nothing else ran meanwhile:
    /// let sum = db.run(async move |tx| {
    ///     let (mut scan, mut sum) = (balances.scan_async::<u64>(tx, ..)?, 0);
    ///     while let Some(batch) = scan.next().await? {
    ///         sum += batch.columns().0.iter().sum::<i64>();
    ///     }
    ///     tx.put(totals, 0, sum).await?;
    ///     Ok(sum)
    /// });
    /// assert_eq!(sum.wait()?, 900);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn scan_async<'t, A: AsKey<K>>(
        &self,
        transaction: &'t Txn<C>,
        range: impl RangeBounds<A>,
    ) -> Result<AsyncProjectionScan<'t, K, V, R, C>> {
        let txn = transaction.state();
        let (table, inner) = (self.table.inner(txn.database)?, self.inner()?);
        let (from, to) = (encode(range.start_bound())?, encode(range.end_bound())?);
        let mut generation = inner.generations.present();
        if txn.snapshot_timestamp() < generation.readable_from {
            // The rows are later than those that the transaction sees.
            generation = Arc::new(Generation::unread(&inner.memory));
        }
        let bounds = (as_slice(&from), as_slice(&to));
        if !table.is_frozen() {
            let (from, to) = bounds;
            let scanned =
                Scanned { index: &table.index, from, to, is_reverse: false, marks: &[], rows: 0, known: 0 };
            if !txn.read_copies(&scanned, generation.clone()) {
                return Err(Error::NoSnapshot { table: table.name() });
            }
        }
        let at = generation.first_of(bounds.0);
        Ok(AsyncProjectionScan {
            transaction,
            table: self.table,
            merged: Rows::new(&inner.memory, table.kind.fixed8),
            inner,
            generation,
            at,
            rows_at_once: 0,
            rest: None,
            patch: None,
            from,
            to,
        })
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Returns a bound as the bytes of its key.
fn encode<K: Key, A: AsKey<K>>(bound: Bound<&A>) -> Result<Bound<Vec<u8>>> {
    let bytes = |key: &A| {
        let mut bytes = Vec::new();
        encode_sought(key, &mut bytes).map(|()| bytes)
    };
    Ok(match bound {
        Included(key) => Included(bytes(key)?),
        Excluded(key) => Excluded(bytes(key)?),
        Unbounded => Unbounded,
    })
}

/// The rows of a projection, batch by batch. Made by [`Projection::scan_async`](crate::Projection::scan_async).
pub struct AsyncProjectionScan<'t, K, V: ?Sized, R: Columns, C: ConcurrencyControl = Serializable> {
    transaction: &'t Txn<C>,
    table: Table<K, V>,
    inner: Arc<Inner<R>>,
    generation: Arc<Generation<R>>,
    /// The next block.
    at: usize,
    /// The rows in batches since other transactions could run.
    rows_at_once: usize,
    /// The begin of the rest of a range that is read from the table. The range ends where the next block begins.
    rest: Option<Vec<u8>>,
    /// The rest of a block in which rows were written.
    patch: Option<Patch<'t>>,
    /// The rows of a batch that are not in a block.
    merged: Rows<R>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
}

impl<K, V: ?Sized, R: Columns, C: ConcurrencyControl> fmt::Debug for AsyncProjectionScan<'_, K, V, R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncProjectionScan").field("block", &self.at).finish_non_exhaustive()
    }
}

/// A block in which rows were written.
struct Patch<'t> {
    at: usize,
    /// The rest of the wanted rows of the block.
    rows: Range<usize>,
    /// The next keys that were written, in order.
    found: VecDeque<Written<'t>>,
    /// The begin of the written keys that are not yet looked up. At first, the begin of the scan.
    from: Bound<Vec<u8>>,
    /// True if there may be such keys.
    has_more: bool,
}

/// A key that was written.
struct Written<'t> {
    key: Box<[u8]>,
    /// How many keys of the block are less.
    place: usize,
    /// The value under the key in the table.
    value: Option<&'t [u8]>,
}

/// After so many rows, some microseconds, other transactions can run. A batch that is read from the table has at most
/// as many.
const ROWS_AT_ONCE: usize = 8192;

/// Where the rows of a batch are.
enum Place {
    /// In this block.
    Block(usize, Range<usize>),
    Merged,
}

impl<K: Key, V: Value + ?Sized, R: Columns, C: ConcurrencyControl> AsyncProjectionScan<'_, K, V, R, C> {
    /// Returns the next batch, with at least one row, or `None` at the end. After an error, or if the future was
    /// dropped, the next call tries the same batch again.
    pub async fn next(&mut self) -> Result<Option<ColumnBatch<'_, K, R>>> {
        self.next_where(|_| true).await
    }

    /// Returns the next batch like [`next`](Self::next), without the blocks for which `can_match`, given the least
    /// and greatest values of their columns, returns false: see
    /// [`ProjectionScan::next_where`](super::ProjectionScan::next_where).
    pub async fn next_where(
        &mut self,
        mut can_match: impl FnMut(&R::Zones) -> bool,
    ) -> Result<Option<ColumnBatch<'_, K, R>>> {
        if self.rows_at_once >= ROWS_AT_ONCE {
            self.rows_at_once = 0;
            self.transaction.state().let_others_run().await;
        }
        loop {
            let Some(place) = self.step(&mut can_match).await? else { return Ok(None) };
            let (rows, all) = self.rows(&place);
            let range = within(&rows.keys, &self.from, &self.to);
            let range = range.start.max(all.start)..range.end.min(all.end);
            if !range.is_empty() {
                self.rows_at_once += range.len();
                return Ok(Some(ColumnBatch { rows: self.rows(&place).0, range, keys: PhantomData }));
            }
        }
    }

    fn rows(&self, place: &Place) -> (&Rows<R>, Range<usize>) {
        match place {
            Place::Block(at, range) => (&self.generation.blocks[*at].rows, range.clone()),
            Place::Merged => (&self.merged, 0..self.merged.keys.len()),
        }
    }

    /// Prepares the next rows. There may be none, or they may reach beyond the bounds.
    async fn step(&mut self, can_match: &mut impl FnMut(&R::Zones) -> bool) -> Result<Option<Place>> {
        if self.patch.is_none() && self.rest.is_none() {
            let at = self.at;
            let Some(block) = self.generation.blocks.get(at) else { return Ok(None) };
            if !begins_within(&block.first, as_slice(&self.to)) {
                return Ok(None);
            }
            if block.changes.is_empty() {
                // If `can_match` panics, the block is still to be read.
                let rows = if can_match(&block.zones) { 0..block.rows.keys.len() } else { 0..0 };
                self.at += 1;
                return Ok(Some(Place::Block(at, rows)));
            }
            let (rows, from) = (within(&block.rows.keys, &self.from, &self.to), self.from.clone());
            self.patch = Some(Patch { at, rows, found: VecDeque::new(), from, has_more: true });
            self.at += 1;
        }
        if self.patch.as_ref().is_some_and(|patch| patch.found.is_empty() && patch.has_more) {
            self.look_for_written().await?;
        }
        if self.patch.is_some() {
            return self.patch().map(Some);
        }
        self.merged.clear();
        if self.rest.is_some() {
            self.read_rest().await?;
        }
        Ok(Some(Place::Merged))
    }

    /// Reads the next written rows of a block from the table.
    async fn look_for_written(&mut self) -> Result<()> {
        let AsyncProjectionScan { transaction, table, generation, patch, rest, .. } = self;
        let database = transaction.state().database;
        let table = table.inner(database)?;
        let patched = patch.as_mut().expect("there is one");
        let block = &generation.blocks[patched.at];
        let keys = match block.changes.next((as_slice(&patched.from), as_slice(&self.to))) {
            Changed::Nothing => Vec::new(),
            Changed::Some(keys) => keys,
            Changed::All => {
                // Perhaps only since the last keys. The rest is then read from the table.
                *rest = match patch.take().map(|patch| patch.from).filter(|from| *from != self.from) {
                    Some(Excluded(last)) => successor(last, table.kind.fixed8),
                    Some(Included(key)) => Some(key),
                    Some(Unbounded) | None => Some(block.first.to_vec()),
                };
                return Ok(());
            }
        };
        let mut values = [None; KEYS_AT_ONCE];
        RawTable::new(table, database).get_into(transaction, &keys, &mut values).await?;
        patched.has_more = keys.len() == KEYS_AT_ONCE;
        if let Some(last) = keys.last() {
            patched.from = Excluded(last.to_vec());
        }
        // All places first, so that their cache misses overlap.
        let places: Vec<usize> = keys.iter().map(|key| block.rows.keys.below(key)).collect();
        let found = keys.into_iter().zip(places).zip(values);
        patched.found.extend(found.map(|((key, place), value)| Written { key, place, value }));
        Ok(())
    }

    /// Prepares the next rows of a block in which some rows were written. These are either unwritten rows in place,
    /// up to the next written row, or all written rows in succession, as they are in the table.
    fn patch(&mut self) -> Result<Place> {
        let AsyncProjectionScan { transaction, table, inner, generation, merged, patch, .. } = self;
        let patched = patch.as_mut().expect("there is one");
        merged.clear();
        let table = table.inner(transaction.state().database)?;
        let keys = &generation.blocks[patched.at].rows.keys;
        let (mut rows, mut used, mut place) = (patched.rows.clone(), 0, Place::Merged);
        loop {
            let next = patched.found.get(used);
            if next.is_none() && patched.has_more {
                break;
            }
            let stop = next.map_or(rows.end, |next| next.place);
            debug_assert!((rows.start..=rows.end).contains(&stop));
            if stop > rows.start {
                if merged.keys.len() == 0 {
                    place = Place::Block(patched.at, rows.start..stop);
                    rows.start = stop;
                }
                break;
            }
            let Some(Written { key, value, .. }) = next else { break };
            let row = value.and_then(|value| inner.row(table, key, value).transpose());
            let pushed =
                row.map_or(Ok(()), |row| merged.push(key, row?).map_err(|OutOfMemory| inner.out_of_memory()));
            match pushed {
                Ok(()) => {}
                Err(_) if used > 0 => break, // it is tried again by itself
                Err(error) => {
                    patched.from = Included(key.to_vec());
                    patched.has_more = true;
                    patched.found.clear();
                    return Err(error);
                }
            }
            rows.start += usize::from(keys.is(stop, key));
            used += 1;
        }
        // Only now: after a failure the next call begins at the same place.
        patched.found.drain(..used);
        let is_over = rows.is_empty() && patched.found.is_empty() && !patched.has_more;
        patched.rows = rows;
        if is_over {
            *patch = None;
        }
        Ok(place)
    }

    /// Prepares the next rows of a range that is read from the table.
    async fn read_rest(&mut self) -> Result<()> {
        let handle = self.table;
        let table = handle.inner(self.transaction.state().database)?;
        let rest = self.rest.as_ref().expect("there is one");
        let bounds = (as_slice(&self.from), as_slice(&self.to));
        let bounds = self.generation.clip(self.at - 1, rest, bounds);
        let rows_max = self.inner.options.block_rows.min(ROWS_AT_ONCE);
        self.rest = fill(&mut self.merged, rows_max, (self.transaction, table), bounds, &self.inner).await?;
        Ok(())
    }
}

/// Returns the rows whose keys are within these bounds.
fn within(keys: &Keys, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Range<usize> {
    let behind = |key: &[u8]| {
        let at = keys.below(key);
        at + usize::from(keys.is(at, key))
    };
    let begin = match from {
        Included(from) => keys.below(from),
        Excluded(from) => behind(from),
        Unbounded => 0,
    };
    let end = match to {
        Included(to) => behind(to),
        Excluded(to) => keys.below(to),
        Unbounded => keys.len(),
    };
    begin..end.max(begin)
}

/// Rows with neighboring keys, column by column. Lent by [`AsyncProjectionScan::next`] and
/// [`ProjectionScan::next`](super::ProjectionScan::next).
pub struct ColumnBatch<'b, K, R: Columns> {
    rows: &'b Rows<R>,
    range: Range<usize>,
    keys: PhantomData<fn() -> K>,
}

impl<K, R: Columns> fmt::Debug for ColumnBatch<'_, K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnBatch").field("rows", &self.range.len()).finish_non_exhaustive()
    }
}

impl<'b, K: Key, R: Columns> ColumnBatch<'b, K, R> {
    /// Returns the number of rows, at least one.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns the columns: slices of this length.
    pub fn columns(&self) -> R::Slices<'b> {
        R::slices(&self.rows.columns, self.range.clone())
    }

    /// Returns the key of a row, by which the rest of the row can be read in the table.
    ///
    /// # Panics
    /// Panics if there is no such row.
    pub fn key(&self, row: usize) -> Result<K> {
        assert!(row < self.range.len(), "a batch of {} rows has no row {row}", self.range.len());
        decode_whole(self.rows.keys.get(self.range.start + row, &mut [0; 8]))
    }
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::super::block::Block;
    use super::*;
    use crate::{Database, Options};

    /// Proves that a transaction reads the table instead of columns that are later than its snapshot.
    #[test]
    fn columns_that_are_later() {
        let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
        let table: Table<u64, u64> = db.table("t").unwrap();
        let projection = db.projection(table, "p", |_, value| Some((value,))).unwrap();
        db.transact(|tx| tx.put(table, 1, 10)).unwrap();
        let inner = projection.inner().unwrap();
        let memory = &inner.memory;
        let sum_of = |readable_from| {
            let mut rows = Rows::new(memory, true);
            rows.push(&1u64.to_be_bytes(), (99,)).unwrap();
            let block = Block::of_rows(memory, Box::default(), rows, 8).unwrap();
            inner
                .generations
                .publish(&inner.generations.present(), Generation::new(vec![Arc::new(block)], readable_from));
            let tx = db.begin().unwrap();
            tx.declare_read_only();
            let mut scan = projection.scan_all(&tx).unwrap();
            let batch = scan.next().unwrap().unwrap();
            batch.columns().0.iter().sum::<u64>()
        };
        assert_eq!(sum_of(u64::MAX), 10);
        assert_eq!(sum_of(0), 99);
    }
}
