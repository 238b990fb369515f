//! Declaring projections.

use super::Database;
use crate::cc::ConcurrencyControl;
use crate::error::Result;
use crate::projection::{Columns, Projection, ProjectionOptions, open_projection};
use crate::table::{Key, Table, Value};

impl<C: ConcurrencyControl> Database<C> {
    /// Declares a projection of a table: some columns of its rows, kept column by column beside the table, for scans
    /// of many rows that read little of each. `make` returns a row's columns, or `None` to leave the row out. It must
    /// look only at the row.
    ///
    /// [`Projection::refresh`] reads the columns from the table. From the declaration on, every write of a row marks
    /// the row's columns as changed, and a scan reads these rows from the table. A scan therefore always sees what
    /// its transaction sees. It gets slower the more has been written since the last refresh.
    ///
    /// Like an [index](Self::index), a projection is not stored. Declare it each time that the database is opened,
    /// while the calling thread has no transaction open (otherwise
    /// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock)). A second declaration with the same columns and options
    /// returns the existing projection. It lasts as long as the database. A table has up to 32 indexes and
    /// projections together, each with a name of its own. Returns [`Error::NoOrder`](crate::Error::NoOrder) if the
    /// table has no order of keys. Other errors are those of `index`.
    ///
    /// ```
    /// use braiddb::{Database, Options, Selection, Table};
    ///
    /// let db = Database::in_memory(Options { workers: 0, ..Options::default() })?;
    /// // By number: the customer, the sum, whether it is paid, and what else there is.
    /// let orders: Table<u64, (String, u32, bool, Vec<u8>)> = db.table("orders")?;
    /// let sums = db.projection(orders, "sums", |_, (_, sum, is_paid, _)| Some((sum, is_paid)))?;
    ///
    /// db.transact(|tx| {
    ///     tx.put(orders, 1, ("Ada", 30, true, b"..."))?;
    ///     tx.put(orders, 2, ("Eve", 40, false, b"..."))?;
    ///     tx.put(orders, 3, ("Ada", 50, false, b"..."))
    /// })?;
    /// sums.refresh()?;
    ///
    /// let tx = db.begin()?;
    /// tx.declare_read_only();
    /// let (mut scan, mut selection, mut unpaid) = (sums.scan_all(&tx)?, Selection::default(), 0);
    /// while let Some(batch) = scan.next()? {
    ///     let (sum, is_paid) = batch.columns();
    ///     selection.select(is_paid, |is_paid| !is_paid);
    ///     unpaid += selection.iter().map(|&row| sum[row as usize]).sum::<u32>();
    /// }
    /// assert_eq!(unpaid, 90);
    /// # Ok::<(), braiddb::Error>(())
    /// ```
    pub fn projection<K: Key, V: Value + ?Sized, R: Columns>(
        &self,
        table: Table<K, V>,
        name: &str,
        make: impl for<'v> Fn(&K, V::View<'v>) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Projection<K, V, R, C>> {
        self.projection_with(table, name, ProjectionOptions::default(), make)
    }

    /// Declares a projection like [`projection`](Self::projection), with a choice of how it is kept.
    pub fn projection_with<K: Key, V: Value + ?Sized, R: Columns>(
        &self,
        table: Table<K, V>,
        name: &str,
        options: ProjectionOptions,
        make: impl for<'v> Fn(&K, V::View<'v>) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Projection<K, V, R, C>> {
        open_projection(self.engine(), table, name, options, make)
    }
}
