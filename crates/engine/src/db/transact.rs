//! Closures of plain calls, run by the calling thread until they commit.

use super::Database;
use crate::cc::ConcurrencyControl;
use crate::error::Result;
use crate::txn::{Transaction, run_calls};

impl<C: ConcurrencyControl> Database<C> {
    /// Runs a transaction of plain calls on the calling thread, and commits it. After a conflict the closure runs
    /// again, up to [`Options::retries_max`](crate::Options::retries_max) times. Any other error of the closure
    /// undoes the transaction and is returned.
    ///
    /// Before the closure runs again, the call waits for the conflicting transaction, if that stays open. After
    /// [`Options::lock_wait_ms`](crate::Options::lock_wait_ms) it returns
    /// [`Error::LockTimeout`](crate::Error::LockTimeout), which names the row and its holder. The closure must
    /// therefore not write a row that a transaction of the calling thread holds.
    ///
    /// [`run`](Self::run) interleaves transactions, and is faster if there are several. This call needs no worker
    /// threads and no `async`.
    ///
    /// ```
    /// # use braiddb::{Database, Error, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let stock: Table<String, u64> = db.table("stock")?;
    /// db.transact(|tx| tx.put(stock, "apples", 12))?;
    /// let left = db.transact(|tx| {
    ///     let count = tx.get(stock, "apples")?.unwrap_or(0);
    ///     let left = count.checked_sub(5).ok_or(Error::user("too few apples"))?;
    ///     tx.put(stock, "apples", left)?;
    ///     Ok(left)
    /// })?;
    /// assert_eq!(left, 7);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn transact<R>(&self, closure: impl FnMut(&Transaction<C>) -> Result<R>) -> Result<R> {
        self.0.engine.check_open()?;
        run_calls(self.engine(), closure, self.engine().options.retries_max)
    }
}
