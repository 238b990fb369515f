//! Reads blocks again in which something has been written.
//!
//! 1. Make the blocks that take their places. Writes are noted there too from now on.
//! 2. Wait until every transaction that was open then has ended, because it may have noted a key only in the old
//!    block.
//! 3. Open a snapshot, and read the rows of the new blocks by it. Later writes are noted in them.
//! 4. Transactions that begin now read by the new blocks.

use super::block::{Block, Rows};
use super::columns::Columns;
use super::generation::Generation;
use super::{Inner, Projection, check_snapshot};
use crate::cc::ConcurrencyControl;
use crate::error::{Error, Result};
use crate::events::{event, ms, text};
use crate::kernel::{Engine, pause};
use crate::memory::OutOfMemory;
use crate::sync::Arc;
use crate::sync::unmodelled::{lock, try_lock};
use crate::table::{Key, TableInner, Value};
use crate::txn::{Transaction, Txn, for_each_between};
use std::ops::Bound;

impl<K: Key, V: Value + ?Sized, R: Columns, C: ConcurrencyControl> Projection<K, V, R, C> {
    /// Reads again the blocks with rows that were written since the blocks were read, and returns the number of rows
    /// in these blocks. The first call reads all rows. Without a refresh, scans are still right, but get slower with
    /// each row that is written.
    ///
    /// This works on the calling thread, in one snapshot, while other transactions continue. It waits up to a minute
    /// for open transactions to end, and for a commit that is under way when its row is read. Under a scheme without
    /// snapshots, the table must be [frozen](crate::Database::freeze).
    ///
    /// # Errors
    /// After an error, scans are as they were before.
    ///
    /// - [`Error::TableInUse`](crate::Error::TableInUse) if the open transactions do not end.
    /// - [`Error::WouldDeadlock`](crate::Error::WouldDeadlock), at once, if the calling thread has a transaction
    ///   open, or runs this in a closure as a worker.
    /// - [`Error::NoSnapshot`](crate::Error::NoSnapshot) if the scheme has no snapshots and the table is not frozen.
    /// - [`Error::OutOfMemory`](crate::Error::OutOfMemory) if the columns do not fit.
    /// - [`Error::Panicked`](crate::Error::Panicked) if the function of the projection panics.
    pub fn refresh(&self) -> Result<u64> {
        let engine = Engine::of_open(&self.engine)?;
        let (table, began_ns) = (self.table.inner(engine.id)?, engine.clock.now_ns());
        let rows = self.read_changed(&engine, table)?;
        event!(
            DEBUG,
            TABLE,
            "projection refreshed",
            database = engine.id,
            table = text(table.name()),
            rows = rows,
            duration_ms = ms(engine.clock.now_ns().saturating_sub(began_ns))
        );
        Ok(rows)
    }

    fn read_changed(&self, engine: &Arc<Engine<C>>, table: &TableInner) -> Result<u64> {
        let inner = &*self.inner()?;
        let free = try_lock(&inner.refreshing);
        let _one_at_a_time = engine.lock_or_refuse(free, || lock(&inner.refreshing))?;
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
        engine.check_may_wait()?;
        inner.generations.prepare(Some(next.clone()));
        let _unless_published = GiveUp(inner);
        engine.await_users(table)?;
        for conflicts in 0..CONFLICTS_MAX {
            let mut build = Build { engine, table, inner, snapshot: None, blocks: Vec::new(), rows: 0 };
            match build.read_all(&present, &next) {
                // A commit stays under way for as long as an operation waits for it.
                Err(Error::Conflict) => pause(conflicts),
                Err(error) => return Err(error),
                Ok(readable_from) => {
                    let rows = build.rows;
                    inner.generations.publish(&present, Generation::new(build.blocks, readable_from));
                    return Ok(rows);
                }
            }
        }
        Err(Error::TableInUse { table: table.name() })
    }
}

/// The most snapshots to try. Each waits for at least a second before it meets a conflict, a minute in all.
const CONFLICTS_MAX: u32 = 60;

/// On drop, notes writes in the present generation alone, unless another generation has become the present one.
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
    /// The snapshot that rows are read by.
    snapshot: Option<Transaction<C>>,
    blocks: Vec<Arc<Block<R>>>,
    /// The rows read so far.
    rows: u64,
}

impl<R: Columns, C: ConcurrencyControl> Build<'_, R, C> {
    /// Makes all blocks, and returns the first snapshot that can read them.
    fn read_all(&mut self, present: &Generation<R>, next: &Generation<R>) -> Result<u64> {
        let snapshot = self.snapshot()?;
        let readable_from = snapshot.txn().state().snapshot_timestamp();
        self.snapshot = Some(snapshot);
        self.read(present, next)?;
        Ok(readable_from)
    }

    /// Returns the transaction that reads rows now: one snapshot, or, if no row changes meanwhile, one transaction
    /// for each block, because it may have copies of what it has read.
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

    /// Makes the blocks for the places of those in `next` that are not in `present`.
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
                at += 1; // neighbors become one range: they may have few rows by now
            }
            let end = next.blocks.get(at).map(|block| &*block.first);
            self.read_range(&next.blocks[begin].first, end)?;
        }
        Ok(())
    }

    /// Reads the rows of a range into as many blocks as they need, at least one.
    fn read_range(&mut self, first: &[u8], end: Option<&[u8]>) -> Result<()> {
        let to = end.map_or(Bound::Unbounded, Bound::Excluded);
        let (memory, is_first) = (self.engine.memory.clone(), self.blocks.len());
        let mut next = Some(first.to_vec());
        while let Some(first) = next {
            let snapshot = self.snapshot()?;
            let mut rows = Rows::new(&memory, self.table.kind.fixed8);
            let from = Bound::Included(&*first);
            let rows_max = self.inner.options.block_rows;
            next =
                snapshot.now(|txn| fill(&mut rows, rows_max, (txn, self.table), (from, to), self.inner))?;
            self.snapshot = Some(snapshot);
            if rows.keys.len() == 0 && self.blocks.len() > is_first {
                return Ok(()); // the block before has the rest of the range
            }
            self.rows += rows.keys.len() as u64;
            let block = Block::of_rows(&memory, first.into(), rows, self.inner.options.changes_max());
            self.blocks.push(Arc::new(block.map_err(|OutOfMemory| self.inner.out_of_memory())?));
        }
        Ok(())
    }
}

/// Reads rows of a table between two bounds until there are `rows_max`. Returns where the rows after them begin, if
/// there may be more.
pub(super) async fn fill<R: Columns, C: ConcurrencyControl>(
    rows: &mut Rows<R>,
    rows_max: usize,
    (transaction, table): (&Txn<C>, &TableInner),
    (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    inner: &Inner<R>,
) -> Result<Option<Vec<u8>>> {
    let mut next: Option<Vec<u8>> = None;
    loop {
        let from = next.as_deref().map_or(from, Bound::Included);
        let (limit, mut count) = (rows_max - rows.keys.len(), 0);
        let mut last = Vec::new();
        for_each_between(transaction, table, (from, to), limit, |key, value| {
            count += 1;
            if count == limit {
                last.extend_from_slice(key);
            }
            match inner.row(table, key, value)? {
                Some(row) => rows.push(key, row).map_err(|OutOfMemory| inner.out_of_memory()),
                None => Ok(()),
            }
        })
        .await?;
        next = if count < limit { None } else { successor(last, table.kind.fixed8) };
        if next.is_none() || rows.keys.len() == rows_max {
            return Ok(next);
        }
    }
}

/// Returns the least key that is greater, if there is one.
pub(super) fn successor(mut key: Vec<u8>, is_fixed8: bool) -> Option<Vec<u8>> {
    if !is_fixed8 {
        key.push(0);
        return Some(key);
    }
    let word = u64::from_be_bytes(key.try_into().expect("eight bytes"));
    word.checked_add(1).map(|next| next.to_be_bytes().to_vec())
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use crate::{Database, Error, Options, Table};
    use std::sync::Arc;

    /// Proves that a projection that was left does not keep the database's memory.
    #[test]
    fn left_behind() {
        let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
        let table: Table<u64, u64> = db.table("t").unwrap();
        let projection = db.projection(table, "p", |_, value| Some((value,))).unwrap();
        db.transact(|tx| tx.put(table, 1, 10)).unwrap();
        projection.refresh().unwrap();
        let memory = Arc::downgrade(&projection.inner().unwrap().memory);
        drop(db);
        assert!(memory.upgrade().is_none());
        assert!(matches!(projection.refresh(), Err(Error::Closed)));
        projection.discard();
    }

    /// Proves that a transaction that stays open keeps columns from being read, that scans are right meanwhile, and
    /// that the next refresh reads the columns.
    #[test]
    fn transactions_that_stay_open() {
        let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
        let table: Table<u64, u64> = db.table("t").unwrap();
        let projection = db.projection(table, "p", |_, value| Some((value,))).unwrap();
        let sum = || {
            let tx = db.begin().unwrap();
            tx.declare_read_only();
            let (mut scan, mut sum) = (projection.scan_all(&tx).unwrap(), 0);
            while let Some(batch) = scan.next().unwrap() {
                sum += batch.columns().0.iter().sum::<u64>();
            }
            sum
        };
        db.transact(|tx| tx.put(table, 1, 10)).unwrap();
        let open = db.begin().unwrap();
        let open = std::thread::spawn(move || open.put(table, 2, 20).map(|()| open)).join().unwrap().unwrap();
        assert!(matches!(projection.refresh(), Err(Error::TableInUse { table }) if table == "t"));
        assert_eq!(sum(), 10);
        open.commit().unwrap();
        assert_eq!(sum(), 30);
        assert_eq!(projection.refresh().unwrap(), 2);
        assert_eq!(sum(), 30);
    }
}
