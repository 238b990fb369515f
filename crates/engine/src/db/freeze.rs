//! Tables that are read-only for a while.

use super::Database;
use crate::cc::ConcurrencyControl;
use crate::error::Result;
use crate::table::{Allowed, Key, Table, TableInner, Value};
use std::sync::PoisonError;

impl<C: ConcurrencyControl> Database<C> {
    /// Freezes a table. Until [`thaw`](Self::thaw), its rows are read without any concurrency control, and writes of
    /// them fail with [`Error::Frozen`](crate::Error::Frozen). A transaction that reads a row of a frozen table, or
    /// of its secondary indexes, neither locks nor notes the row, and does not validate it at the commit. This pays
    /// for tables that are loaded once and read by every transaction: items, prices, configuration.
    ///
    /// The call waits up to a minute for open transactions to end. Writes of the table are refused meanwhile. If
    /// transactions stay open, it returns [`Error::TableInUse`](crate::Error::TableInUse). If the calling thread has
    /// one of them open, or runs this in a closure as a worker, it returns
    /// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock) at once. After either error nothing has changed. The
    /// freeze exists only in memory: when the database is opened again, the table can be written.
    ///
    /// ```
    /// # use braiddb::{Database, Error, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let prices: Table<u64, u64> = db.table("prices")?;
    /// db.worker().run(async |tx| tx.put(prices, 1, 250).await)?;
    /// db.freeze(prices)?;
    /// let written = db.worker().run(async |tx| tx.put(prices, 1, 260).await);
    /// assert!(matches!(written, Err(Error::Frozen { .. })));
    /// assert_eq!(db.worker().run(async |tx| tx.get(prices, 1).await)?, Some(250));
    /// db.thaw(prices)?;
    /// db.worker().run(async |tx| tx.put(prices, 1, 260).await)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn freeze<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> Result<()> {
        self.change_allowed(table.of_database(self.engine().id)?, Allowed::FrozenReads)
    }

    /// Allows writes of a frozen table's rows again. Open transactions have to end first, as for
    /// [`freeze`](Self::freeze). Otherwise the call returns [`Error::TableInUse`](crate::Error::TableInUse), and the
    /// table stays frozen.
    pub fn thaw<K: Key, V: Value + ?Sized>(&self, table: Table<K, V>) -> Result<()> {
        self.change_allowed(table.of_database(self.engine().id)?, Allowed::Writes)
    }

    /// Changes what is allowed, by way of a phase with tracked reads alone. When a transaction reads a row untracked,
    /// every transaction that has written the row has ended, and the other way round.
    fn change_allowed(&self, table: &TableInner, allowed: Allowed) -> Result<()> {
        let engine = self.engine();
        engine.check_open()?;
        engine.check_may_wait()?;
        let _one_at_a_time = engine.freezing.lock().unwrap_or_else(PoisonError::into_inner);
        table.check_usable()?; // (Clearing it has been waited for.)
        let before = table.allowed();
        if before == allowed {
            return Ok(());
        }
        table.allow(Allowed::Reads);
        let ended = engine.await_users(table);
        table.allow(if ended.is_ok() { allowed } else { before });
        ended
    }
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use crate::db::Database;
    use crate::error::Error;
    use crate::options::Options;
    use crate::table::Table;
    use crate::txn::Transaction;

    /// Moves the transaction to another thread.
    fn elsewhere(tx: Transaction) -> Transaction {
        std::thread::scope(|scope| {
            scope.spawn(|| tx.with(async |_| Ok(())).map(|()| tx)).join().unwrap().unwrap()
        })
    }

    /// Proves that a transaction that stays open keeps a table from being frozen and from being thawed, and that the
    /// table is unchanged.
    #[test]
    fn open_transactions_are_waited_for() {
        let db = Database::in_memory(Options { workers: 0, ..Options::default() }).unwrap();
        let t: Table<u64, u64> = db.table("t").unwrap();
        let writer = db.begin().unwrap();
        writer.put(t, 1, 1).unwrap();
        let writer = elsewhere(writer);
        assert!(matches!(db.freeze(t), Err(Error::TableInUse { table }) if table == "t"));
        writer.put(t, 2, 2).unwrap();
        writer.commit().unwrap();
        db.freeze(t).unwrap();
        let reader = db.begin().unwrap();
        assert_eq!(reader.get(t, 2).unwrap(), Some(2));
        let reader = elsewhere(reader);
        assert!(matches!(db.thaw(t), Err(Error::TableInUse { .. })));
        assert!(matches!(reader.put(t, 1, 2), Err(Error::Frozen { .. })));
        reader.commit().unwrap();
        db.thaw(t).unwrap();
        db.begin().unwrap().put(t, 1, 2).unwrap();
    }
}
