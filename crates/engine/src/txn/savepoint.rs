//! Rolling back a part of a transaction.

use super::{Transaction, Txn};
use crate::cc::ConcurrencyControl;
use crate::error::Result;
use crate::ops::Savepoint;

impl<C: ConcurrencyControl> Txn<C> {
    /// Returns a point that [`rollback_to`](Self::rollback_to) can roll the transaction back to, any number of times.
    ///
    /// ```
    /// # use braiddb::{Database, Error, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let orders: Table<u64, str> = db.table("orders")?;
    /// let lines: Table<(u64, u32), str> = db.table("lines")?;
    /// let mut worker = db.worker();
    /// worker.run(async |tx| {
    ///     tx.insert(orders, 7, "new").await?;
    ///     let before = tx.savepoint();
    ///     tx.insert(lines, (7, 1), "apples").await?;
    ///     if let Err(Error::KeyExists) = tx.insert(lines, (7, 1), "pears").await {
    ///         tx.rollback_to(&before)?;
    ///         tx.put(orders, 7, "without lines").await?;
    ///     }
    ///     Ok(())
    /// })?;
    /// let tx = db.begin()?;
    /// assert_eq!(tx.get(orders, 7)?, Some("without lines"));
    /// assert_eq!(tx.get(lines, (7, 1))?, None);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn savepoint(&self) -> Savepoint {
        self.state().savepoint()
    }

    /// Undoes everything that the transaction has written since `savepoint` was made: rows, their entries of indexes,
    /// and updates left for the commit. The transaction continues from there. The savepoint and earlier ones remain.
    /// Savepoints made after changes that are now undone do not.
    ///
    /// Reads since the savepoint still count: the transaction commits only if they fit together with the rest. This
    /// includes what writes have learned, for example that an inserted row did not exist before. Values that were
    /// returned stay valid, including values that the transaction had written itself. Therefore, once it has read any
    /// of its own writes, undone changes take memory until it ends. Under the schemes with one value per row, an
    /// undone insert takes about a hundred bytes until then.
    ///
    /// Rows that were written or locked since the savepoint may stay locked until the transaction ends. Under the
    /// schemes with versions ([`Serializable`](crate::Serializable), [`Snapshot`](crate::Snapshot),
    /// [`MultiVersion`](crate::MultiVersion)) they become free again. Under the others they stay locked. To keep a
    /// row locked, lock it before the savepoint, or again after the rollback.
    ///
    /// A transaction that can only be undone, as after a conflict, is not saved by this: it gets the same error
    /// again.
    ///
    /// # Errors
    /// - [`Error::NoSavepoint`](crate::Error::NoSavepoint): the savepoint is of another transaction or an earlier run
    ///   of the closure, or the transaction was rolled back to an earlier savepoint.
    /// - [`Error::OperationsInFlight`](crate::Error::OperationsInFlight): a future of the transaction was polled and
    ///   has not ended, or was leaked. Also returned if a scan has found rows since the savepoint and not returned
    ///   them yet, because these rows would be partly undone. Drop the scan first, or make the savepoint after it has
    ///   returned a row. A scan that continues sees what is there when it arrives. The error is also returned when
    ///   the transaction has begun to apply its updates at the commit.
    /// - [`Error::OutOfMemory`](crate::Error::OutOfMemory): there is no room for what has to be kept. The transaction
    ///   can then only be undone.
    ///
    /// After the first two errors nothing has changed, and the transaction can continue.
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        self.state().rollback_to(savepoint)
    }
}

impl<C: ConcurrencyControl> Transaction<C> {
    /// Returns a savepoint, like [`Txn::savepoint`](crate::Txn::savepoint).
    ///
    /// ```
    /// # use braiddb::{Database, Options, Table};
    /// # let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// let stock: Table<String, u64> = db.table("stock")?;
    /// let tx = db.begin()?;
    /// tx.put(stock, "apples", 12)?;
    /// let before = tx.savepoint();
    /// tx.delete(stock, "apples")?;
    /// tx.put(stock, "pears", 3)?;
    /// tx.rollback_to(&before)?;
    /// assert_eq!(tx.get(stock, "apples")?, Some(12));
    /// assert_eq!(tx.get(stock, "pears")?, None);
    /// tx.commit()?;
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn savepoint(&self) -> Savepoint {
        self.txn().savepoint()
    }

    /// Rolls back to a savepoint, like [`Txn::rollback_to`](crate::Txn::rollback_to).
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        self.lend(|txn| txn.rollback_to(savepoint))
    }
}
