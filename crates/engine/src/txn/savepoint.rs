//! Rolling a part of a transaction back.

use super::{Transaction, Txn};
use crate::cc::ConcurrencyControl;
use crate::error::Result;
use crate::ops::Savepoint;

impl<C: ConcurrencyControl> Txn<C> {
    /// A point that the transaction can be rolled back to by [`rollback_to`](Self::rollback_to), as often as it likes.
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

    /// Undoes all that the transaction has written since `savepoint` was made: rows, with their entries of indexes, and updates that
    /// were left for the commit. The transaction goes on from there. The savepoint stays, and those before it; those made later,
    /// behind changes that are undone now, do not.
    ///
    /// What the transaction has read since then it still has read: it commits only if that fits together with the rest. That
    /// includes what writes have told it, as that there was no row where one was inserted. Values that it has been given stay what they are,
    /// also those that it had written itself: once it has read any of its own, what is undone takes memory until it ends. (Under the schemes
    /// with one value for each row an insert that is undone takes about a hundred bytes as long.)
    ///
    /// Rows that it has written or locked since then, it may keep locked until it ends: under the schemes with versions
    /// ([`Serializable`](crate::Serializable), [`Snapshot`](crate::Snapshot), [`MultiVersion`](crate::MultiVersion)) they are free again, the others keep
    /// them. So a row that is to stay locked is locked before the savepoint, or once more afterwards.
    ///
    /// A transaction that can only be undone, as after a conflict, is not saved by this: it is answered the same error again.
    ///
    /// # Errors
    /// [`Error::NoSavepoint`](crate::Error::NoSavepoint): it is of another transaction, or of an earlier run of the closure; or the
    /// transaction was rolled back to an earlier one.
    /// [`Error::OperationsInFlight`](crate::Error::OperationsInFlight): a future of the transaction has been polled and has not ended (or was
    /// leaked); or a scan has rows to return that it has found since the savepoint was made, which are then undone in part: drop it
    /// first, or make the savepoint when it has returned a row. (A scan that goes on sees what there is when it comes there.)
    /// After either of them nothing has changed, and the transaction can go on.
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory): for what has to be kept. Then the transaction can only be undone.
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        self.state().rollback_to(savepoint)
    }
}

impl<C: ConcurrencyControl> Transaction<C> {
    /// As [`Txn::savepoint`](crate::Txn::savepoint).
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

    /// As [`Txn::rollback_to`](crate::Txn::rollback_to).
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        self.lend(|txn| txn.rollback_to(savepoint))
    }
}
