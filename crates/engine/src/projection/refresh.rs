//! Reading blocks again in which something has been written.
//!
//! 1. Blocks are made that take their places, and writes are noted there too from now on.
//! 2. Wait until every transaction that was open then has ended: it may have noted a key in the old block alone.
//! 3. Open a snapshot, and read the rows of the new blocks by it. What is written later is noted in them.
//! 4. Transactions that begin now read by the new blocks.

use super::block::{Block, Rows};
use super::columns::Columns;
use super::generation::Generation;
use super::{Inner, Projection, check_snapshot};
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::kernel::Engine;
use crate::memory::OutOfMemory;
use crate::sync::Arc;
use crate::sync::unmodelled::lock;
use crate::table::{Key, TableInner, Value};
use crate::txn::{RawRows, Transaction};
use std::ops::Bound;

impl<K: Key, V: Value + ?Sized, R: Columns, C: ConcurrencyControl> Projection<K, V, R, C> {
    /// Reads again the blocks that have rows which were written since they were read, and returns the number of rows in these. The first time
    /// that is all rows. Without it scans are right, too, and slower with each row that is written.
    ///
    /// Works on the calling thread, in one snapshot, while other transactions go on. Those that are open when it is called have to end first, which is
    /// waited for up to a minute; else it is [`Error::TableInUse`]. So do not call it while the calling thread has a
    /// transaction open. Under a scheme that has no snapshots the table has to be [frozen](crate::Database::freeze), else it is
    /// [`Error::NoSnapshot`]. [`Error::OutOfMemory`] if the columns do not fit. After an error, scans are as they were before.
    pub fn refresh(&self) -> Result<u64> {
        let engine = self.engine.upgrade().ok_or(Error::Closed)?;
        let table = self.table.inner(engine.id)?;
        let inner = &*self.inner;
        let _one_at_a_time = lock(&inner.refreshing);
        let present = inner.generations.present();
        let awaited = |block: &Arc<Block<R>>| match block.changes.is_empty() {
            true => block.clone(),
            false => {
                let changes_max = inner.options.changes_max();
                Arc::new(Block::awaited(&engine.memory, block.first.clone(), changes_max))
            }
        };
        let next = Arc::new(Generation::new(present.blocks.iter().map(awaited).collect(), 0));
        if present.blocks.iter().zip(&next.blocks).all(|(one, other)| Arc::ptr_eq(one, other)) {
            return Ok(0);
        }
        inner.generations.prepare(Some(next.clone()));
        let _unless_published = GiveUp(inner);
        if !engine.await_older() {
            return Err(Error::TableInUse { table: table.name() });
        }
        let mut build = Build { engine: &engine, table, inner, snapshot: None, blocks: Vec::new(), rows: 0 };
        let snapshot = build.snapshot()?;
        let readable_from = snapshot.txn().state().snapshot_timestamp();
        build.snapshot = Some(snapshot);
        build.read(&present, &next)?;
        let rows = build.rows;
        inner.generations.publish(Generation::new(build.blocks, readable_from));
        Ok(rows)
    }
}

/// Writes are noted in the present generation alone, if no other has become it.
struct GiveUp<'i, R: Columns>(&'i Inner<R>);

impl<R: Columns> Drop for GiveUp<'_, R> {
    fn drop(&mut self) {
        self.0.generations.prepare(None);
    }
}

struct Build<'b, R: Columns, C: ConcurrencyControl> {
    engine: &'b Arc<Engine<C>>,
    table: &'b TableInner,
    inner: &'b Inner<R>,
    /// What rows are read by.
    snapshot: Option<Transaction<C>>,
    blocks: Vec<Arc<Block<R>>>,
    /// Read so far.
    rows: u64,
}

impl<R: Columns, C: ConcurrencyControl> Build<'_, R, C> {
    /// What rows are read by now: one snapshot, or where no row changes meanwhile, a transaction for each block, as it may have copies
    /// of what it has read.
    fn snapshot(&mut self) -> Result<Transaction<C>> {
        if let Some(snapshot) = self.snapshot.take_if(|snapshot| snapshot.txn().state().reads_freely()) {
            return Ok(snapshot);
        }
        self.snapshot = None;
        let snapshot = Transaction::begin(self.engine)?;
        snapshot.declare_read_only();
        check_snapshot(&snapshot, self.table)?;
        Ok(snapshot)
    }

    /// Makes the blocks of which those of `next` that are not in `present` hold the places.
    fn read(&mut self, present: &Generation<R>, next: &Generation<R>) -> Result<()> {
        let is_same = |at: usize| Arc::ptr_eq(&present.blocks[at], &next.blocks[at]);
        let mut at = 0;
        while at < next.blocks.len() {
            let begin = at;
            at += 1;
            if is_same(begin) {
                self.blocks.push(next.blocks[begin].clone());
                continue;
            }
            while at < next.blocks.len() && !is_same(at) {
                at += 1; // neighbours become one range: their rows may be few by now
            }
            let end = next.blocks.get(at).map(|block| &*block.first);
            self.read_range(&next.blocks[begin].first, end)?;
        }
        Ok(())
    }

    /// Reads the rows of a range into as many blocks as they need, and one at least.
    fn read_range(&mut self, first: &[u8], end: Option<&[u8]>) -> Result<()> {
        let to = end.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut first, mut from) = (Box::from(first), Bound::Included(first.to_vec()));
        loop {
            let snapshot = self.snapshot()?;
            let mut rows = Rows::new(&self.engine.memory, self.table.kind.fixed8);
            let from_here = from.as_ref().map(Vec::as_slice);
            let mut range = RawRows::between(&snapshot, self.table, from_here, to);
            let next = fill(&mut rows, &mut range, self.inner, self.table)?;
            drop(range);
            self.snapshot = Some(snapshot);
            self.rows += rows.keys.len() as u64;
            let changes_max = self.inner.options.changes_max();
            let block = Block::of_rows(&self.engine.memory, first, rows, changes_max);
            self.blocks.push(Arc::new(block.map_err(|OutOfMemory| self.inner.out_of_memory())?));
            let Some(key) = next else { return Ok(()) };
            first = key.as_slice().into();
            from = Bound::Included(key);
        }
    }
}

/// Takes rows until the block is full; returns the key of the first that is not in it, if there is one.
pub(super) fn fill<R: Columns, C: ConcurrencyControl>(
    rows: &mut Rows<R>,
    from: &mut RawRows<'_, C>,
    inner: &Inner<R>,
    table: &TableInner,
) -> Result<Option<Vec<u8>>> {
    while let Some((key, value)) = from.next()? {
        let Some(row) = inner.row(table, &key, value)? else { continue };
        if rows.keys.len() == inner.options.block_rows {
            return Ok(Some(key));
        }
        rows.push(&key, row).map_err(|OutOfMemory| inner.out_of_memory())?;
    }
    Ok(None)
}
